"""The law of one unit inside the graph: members, transforms, recalibrator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.contracts import PitValues
from calibrant.estimator.onnx._cut import Cut
from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._maps import Correction
from calibrant.estimator.onnx._members import Components
from calibrant.estimator.onnx._transforms import Curve

__all__ = ["Part", "UnitLaw"]

Array = npt.NDArray[np.float64]
Tails = tuple[Value, Value]

# Tail probability at which a law that is cut ends for sure.
_FARTHEST = 1e-290


@dataclass(frozen=True)
class Part:
    """Members that share a transform of the target, and their share of the unit."""

    components: Components
    curve: Curve | None
    share: float

    def tails(self, y: Value) -> Tails:
        """Its share of cdf and survival at values ``(a, n)``."""
        law, graph = self.components, y.graph
        place = y if self.curve is None else self.curve.forward(y)
        z = (place.expand(1) - law.location) / law.scale
        weights = law.weights * self.share
        far = law.family.tail(z.abs()) * weights
        near = -(far - weights)
        below = z < 0.0
        cdf = graph.where(below, far, near).sum(1)
        return cdf, graph.where(below, near, far).sum(1)

    def values(self, standard: Array) -> Value:
        """Targets ``(a, J, n)`` of standard ones, numbers ``(a, J or 1, 1)``."""
        law = self.components
        place = law.scale * standard + law.location
        return place if self.curve is None else self.curve.inverse(place)

    def moments(self, center: Value) -> tuple[Value, Value]:
        """First and second moment around ``center`` ``(n,)``."""
        law, curve = self.components, self.curve
        if curve is None:
            return law.mean - center, law.second(center)

        def step(
            state: list[Value], node: list[Value]
        ) -> tuple[list[Value], list[Value]]:
            place, weight = node
            distance = curve.inverse(law.scale * place + law.location) - center
            first = (distance * law.weights).sum(0) * weight
            second = (distance * distance * law.weights).sum(0) * weight
            return [state[0] + first, state[1] + second], []

        start = [center * 0.0] * 2
        rule = [law.family.nodes, law.family.weights]
        first, second = center.graph.scan(start, rule, step, axes=1)
        return first, second


@dataclass(frozen=True)
class UnitLaw:
    """Members whose mixture is one law, with its recalibrator.

    Attributes
    ----------
    graph
        Where it is.
    parts
        The members, by their transforms.
    correction
        What the recalibrator does.
    weight
        Share in the predicted mixture.
    cut
        The bounds at which it is cut before the correction, or None.
    mean
        Mean of the unit before the correction ``(n,)``, if it is stretched around it
        and cannot be within its family.
    """

    graph: Graph
    parts: tuple[Part, ...]
    correction: Correction
    weight: float
    cut: Cut | None = None
    mean: Value | None = None

    @property
    def has_map(self) -> bool:
        """Whether there is a map of levels."""
        return self.correction.level_map is not None

    @property
    def has_kinks(self) -> bool:
        """Whether it has kinks."""
        level_map = self.correction.level_map
        return level_map is not None and level_map.with_areas is not None

    @property
    def center(self) -> Value:
        """A value in the middle of the law, ``(n,)``."""
        middles = []
        for part in self.parts:
            middle = part.components.mean
            if part.curve is not None:
                middle = part.curve.inverse(middle)
            middles.append(middle * part.share)
        center = self.graph.total(middles)
        return center if self.cut is None else center.clip(*self.cut.bounds)

    def uncut_tails(self, y: Value) -> Tails:
        """Cdf and survival of the members' mixture, at values ``(a, n)``."""
        pairs = [part.tails(y) for part in self.parts]
        cdf, survival = (self.graph.total(each) for each in zip(*pairs, strict=True))
        return cdf, survival

    def tails(self, y: Value) -> Tails:
        """Cdf and survival before a map of levels, at values ``(a, n)``."""
        if self.mean is not None:
            y = (y - self.mean) / self.correction.factor + self.mean
        return self.uncut_tails(y) if self.cut is None else self.cut.tails(y)

    def mapped_tails(self, y: Value) -> Tails:
        """Cdf and survival at values ``(a, n)``."""
        tails = self.tails(y)
        level_map = self.correction.level_map
        return tails if level_map is None else level_map.forward(*tails)

    def gain(self, y: Value) -> list[Value]:
        """What the map adds to the cdf at values ``(a, n)``, precise in both tails.

        If it has kinks, then also the cdf and what its ``with_areas`` gives.
        """
        cdf, survival = self.tails(y)
        level_map = self.correction.level_map
        if level_map is None:
            return [cdf * 0.0]
        after, rest = level_map.forward(cdf, survival)
        gain = self.graph.where(cdf < 0.5, after - cdf, survival - rest)
        if level_map.with_areas is None:
            return [gain]
        return [gain, cdf, *level_map.with_areas(cdf, survival)]

    def component_quantiles(self, levels: PitValues) -> Iterator[Value]:
        """Values around the quantiles at levels before the map, each ``(k, J, n)``.

        They are those of the components, of a unit that is cut just the widest ones.
        """
        if self.cut is not None:
            low, high = Correction().ends(_FARTHEST)
            for each in (low, high):
                yield from self._values_at(each)
            return
        yield from self._values_at(levels)

    def _values_at(self, levels: PitValues) -> Iterator[Value]:
        for part in self.parts:
            standard = part.components.family.at(levels)
            yield self._outside(part.values(standard[:, None, None]))

    def nodes(self, tail: float, shares: Callable[[int], Array]) -> Iterator[Value]:
        """Values between the quantiles of ``tail`` at both ends, each ``(m, n)``.

        Parameters
        ----------
        tail
            Probability beyond them after the map.
        shares
            Number of components to places between 0 and 1, ``(rows, components)``.
        """
        low, high = self.correction.ends(tail)
        for part in self.parts:
            family, count = part.components.family, part.components.count
            start, end = float(family.at(low)[0]), float(family.at(high)[0])
            bent = np.sinh(family.crowding * (2 * shares(count) - 1))
            bent = bent / np.sinh(family.crowding)
            standard = (start + end) / 2 + (end - start) / 2 * bent
            values = self._outside(part.values(standard[:, :, None]))
            yield values.reshape(standard.size, -1)

    def moments(self, center: Value) -> tuple[Value, Value]:
        """First and second moment around ``center`` ``(n,)``, uncut, before a map."""
        pairs = [(part.moments(center), part.share) for part in self.parts]
        first = self.graph.total([each[0] * share for each, share in pairs])
        second = self.graph.total([each[1] * share for each, share in pairs])
        if self.mean is None:
            return first, second
        square = first * first
        return first, (second - square) * self.correction.factor**2 + square

    def _outside(self, values: Value) -> Value:
        """From a value of the members to one of the unit."""
        if self.cut is not None:
            values = values.clip(*self.cut.bounds)
        if self.mean is None:
            return values
        return (values - self.mean) * self.correction.factor + self.mean
