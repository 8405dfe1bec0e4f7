"""The predicted law inside the graph, and its quantiles."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.estimator._fitting import Fitted
from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._maps import correction_of
from calibrant.estimator.onnx._members import outputs_of
from calibrant.estimator.onnx._transforms import curve_of
from calibrant.estimator.onnx._unit import Part, UnitLaw

__all__ = ["Law", "law_of"]

Array = npt.NDArray[np.float64]

# Halvings of the bracket of a quantile.
_STEPS = 64
# Tail probability of the brackets of a bounded law.
_TAIL = 1e-12
# A law with less within its bounds is put on the nearer one.
_LEAST_MASS = 1e-9


@dataclass(frozen=True)
class Law:
    """The mixture of the units, cut at the bounds.

    Attributes
    ----------
    graph
        Where it is.
    units
        What it is a mixture of.
    bounds
        Least and largest possible target, infinite for none.
    """

    graph: Graph
    units: tuple[UnitLaw, ...]
    bounds: tuple[float, float]

    @property
    def bounded(self) -> bool:
        """Whether there are bounds."""
        return bool(np.isfinite(self.bounds).any())

    def tails(self, y: Value) -> tuple[Value, Value]:
        """Cdf and survival without the bounds, at values ``(a, n)``."""
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
        if not self.bounded:
            low, high = self._extremes(levels)
            return self._halve(low, high, levels[:, None])
        low, high = (
            end.clip(*self.bounds) for end in self._extremes(np.array([_TAIL, 0.5]))
        )
        _, high = self._extremes(np.array([0.5, 1 - _TAIL]))
        below, mass = self.inside()
        target = mass * levels[:, None] + below
        start, end = low.rows(0, 1), high.clip(*self.bounds).rows(1, None)
        room = target * 0.0
        return self.or_bound(self._halve(start + room, end + room, target))

    def inside(self) -> tuple[Value, Value]:
        """Probability below the lower bound and within both, each ``(1, n)``."""
        some = self.units[0].parts[0].components.mean.expand(0) * 0.0
        low, high = self.bounds
        below = self.tails(some + low)[0] if np.isfinite(low) else some
        upto = self.tails(some + high)[0] if np.isfinite(high) else some + 1.0
        return below, upto - below

    def or_bound(self, value: Value, *, spread: bool = False) -> Value:
        """Put rows without mass within the bounds onto the nearer one, ``(a, n)``."""
        below, mass = self.inside()
        low, high = self.bounds
        ends = (0.0, 0.0) if spread else (low, high)
        point = self.graph.where((below + mass) < 0.5, ends[1], ends[0])
        return self.graph.where(mass < _LEAST_MASS, point, value)

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

    def _halve(self, low: Value, high: Value, target: Value | Array) -> Value:
        """Halve brackets ``(k, n)`` until only the values are left."""

        def step(
            state: list[Value], _: list[Value]
        ) -> tuple[list[Value], list[Value]]:
            middle = state[0] * 0.5 + state[1] * 0.5
            reached = self.tails(middle)[0] >= target
            return [
                self.graph.where(reached, state[0], middle),
                self.graph.where(reached, middle, state[1]),
            ], []

        return self.graph.scan([low, high], [np.zeros(_STEPS)], step)[1]


def law_of(fitted: Fitted, features: Value) -> Law:
    """Write the whole model down.

    Parameters
    ----------
    fitted
        The model.
    features
        Raw features ``(n, d)``, float64, finite.
    """
    members = fitted.members
    outputs = outputs_of(features, members)
    units = []
    for unit, recalibrator in zip(fitted.units, fitted.recalibrators, strict=True):
        parts = [
            Part(
                outputs.components(group),
                curve_of(members.transforms[group[0]]),
                len(group) / len(unit.members),
            )
            for group, _ in members._by_transform(unit.members)
        ]
        law = UnitLaw(
            features.graph, tuple(parts), correction_of(recalibrator), unit.weight
        )
        units.append(_stretched(law))
    return Law(features.graph, tuple(units), fitted.bounds or (-np.inf, np.inf))


def _stretched(unit: UnitLaw) -> UnitLaw:
    """Apply the factor of a recalibrator within the family, or note the mean."""
    factor = unit.correction.factor
    if factor == 1:
        return unit
    (first, *others) = unit.parts
    if not others and first.curve is None:
        wider = replace(first, components=first.components.stretched(factor))
        return replace(unit, parts=(wider,))
    centers = [part.components.mean * part.share for part in unit.parts]
    center = unit.graph.total(centers)
    return replace(unit, mean=unit.moments(center)[0] + center)
