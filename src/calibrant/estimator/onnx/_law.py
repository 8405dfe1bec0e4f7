"""The predicted law inside the graph, and its quantiles."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant._checks import UnsupportedError
from calibrant.estimator._fitting import Fitted
from calibrant.estimator.onnx._cells import edges_of, in_blocks, whole_moments
from calibrant.estimator.onnx._cut import Cut
from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._maps import correction_of
from calibrant.estimator.onnx._members import Components, outputs_of
from calibrant.estimator.onnx._transforms import curve_of
from calibrant.estimator.onnx._unit import Part, UnitLaw

__all__ = ["Law", "law_of"]

Array = npt.NDArray[np.float64]

# Halvings of the bracket of a quantile, of which a law that is cut has a wide one.
_STEPS, _STEPS_IF_CUT = 64, 110
# Cells for the mean of a unit that is cut.
_CELLS = 1024


@dataclass(frozen=True)
class Law:
    """The mixture of the units.

    Attributes
    ----------
    graph
        Where it is.
    units
        What it is a mixture of.
    """

    graph: Graph
    units: tuple[UnitLaw, ...]

    @property
    def is_cut(self) -> bool:
        """Whether there are bounds."""
        return any(unit.cut is not None for unit in self.units)

    def tails(self, y: Value) -> tuple[Value, Value]:
        """Cdf and survival at values ``(a, n)``."""
        pairs = [(unit.mapped_tails(y), unit.weight) for unit in self.units]
        cdf, survival = (
            self.graph.total([tails[side] * weight for tails, weight in pairs])
            for side in (0, 1)
        )
        return cdf, survival

    def quantiles(self, levels: Array) -> Value:
        """Smallest values whose cdf reaches the levels ``(k,)``, ``(k, n)``.

        The quantile of a mixture lies between those of its components.
        """
        low, high = self._extremes(levels)
        room = np.zeros((len(levels), 1))
        return self._halve(low + room, high + room, levels[:, None])

    def _extremes(self, levels: Array) -> tuple[Value, Value]:
        """Smallest and largest quantile of a component at levels ``(k,)``."""
        each = [
            values
            for unit in self.units
            for values in unit.component_quantiles(unit.correction.levels(levels))
        ]
        low, high = each[0].least(1), each[0].largest(1)
        for other in each[1:]:
            low = self.graph.add("Min", low, other.least(1))
            high = self.graph.add("Max", high, other.largest(1))
        return low, high

    def _halve(self, low: Value, high: Value, target: Array) -> Value:
        """Halve brackets ``(k, n)`` until only the values are left."""

        def step(state: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
            middle = state[0] * 0.5 + state[1] * 0.5
            reached = self.tails(middle)[0] >= target
            return [
                self.graph.where(reached, state[0], middle),
                self.graph.where(reached, middle, state[1]),
            ], []

        steps = np.zeros(_STEPS_IF_CUT if self.is_cut else _STEPS)
        return self.graph.scan([low, high], [steps], step, axes=2)[1]


def law_of(fitted: Fitted, features: Value) -> Law:
    """Write the whole model down.

    Parameters
    ----------
    fitted
        The model.
    features
        Raw features ``(n, d)``, float64, finite.
    """
    if fitted.bounds is not None:
        raise UnsupportedError(
            "a model whose targets stand on its bounds predicts mass there, which is "
            "not exported. Leave bounds out, or clip what the file predicts."
        )
    members = fitted.members
    outputs = outputs_of(features, members)
    units = []
    for unit, recalibrator in zip(fitted.units, fitted.recalibrators, strict=True):
        correction = correction_of(recalibrator)
        parts = [
            Part(
                _widened(outputs.components(group), correction.spread),
                curve_of(members.transforms[group[0]]),
                len(group) / len(unit.members),
            )
            for group, _ in members._by_transform(unit.members)
        ]
        law = UnitLaw(features.graph, tuple(parts), correction, unit.weight)
        units.append(_stretched(_cut(law, members.bounds)))
    return Law(features.graph, tuple(units))


def _widened(components: Components, spread: float) -> Components:
    return components if spread == 1 else components.stretched(spread)


def _zeros(unit: UnitLaw) -> Value:
    """Shape ``(1, n)``."""
    return unit.parts[0].components.mean.expand(0) * 0.0


def _cut(unit: UnitLaw, bounds: tuple[float, float] | None) -> UnitLaw:
    if bounds is None:
        return unit
    return replace(unit, cut=Cut(unit.uncut_tails, bounds, _zeros(unit)))


def _stretched(unit: UnitLaw) -> UnitLaw:
    """Apply the factor of a recalibrator within the family, or note the mean."""
    factor = unit.correction.factor
    if factor == 1:
        return unit
    (first, *others) = unit.parts
    if not others and first.curve is None and unit.cut is None:
        wider = replace(first, components=first.components.stretched(factor))
        return replace(unit, parts=(wider,))
    center = unit.center
    if unit.cut is None:
        return replace(unit, mean=unit.moments(center)[0] + center)
    edges = edges_of([unit], _CELLS)
    tails = in_blocks(edges, unit.tails, _CELLS + 1, [unit])
    mean = whole_moments(unit.graph, edges, tails, center)[0] + center
    return replace(unit, mean=mean)
