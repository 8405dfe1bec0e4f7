"""Recalibrators inside the graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import UnsupportedError, pit_from_cdf
from calibrant.contracts import PitValues, UnitMap
from calibrant.distributions._level_rule import pit_from_log_odds
from calibrant.estimator.onnx._graph import Value
from calibrant.recalibration._piecewise_linear import PiecewiseLinearMap
from calibrant.recalibration.beta import BetaMap
from calibrant.recalibration.scale import ScaleRecalibrator

__all__ = ["Correction", "LevelMap", "correction_of"]

Array = npt.NDArray[np.float64]
Tails = tuple[Value, Value]

# Log odds that are tabulated for a map without a formula here, and their number.
_TABLE_END, _TABLE_SIZE = 45.0, 8192
_TINY = 1e-300


@dataclass(frozen=True)
class LevelMap:
    """An increasing map of levels.

    Attributes
    ----------
    forward
        Cdf and survival of the law before to both afterwards.
    inverse
        Levels ``(k,)`` to those before.
    with_areas
        Of a map with kinks, as a function of the logarithm of the cdf: that, and the
        integrals up to it of what the map adds, and of that times the logarithm; then
        the same three in the mirrored problem.
    """

    forward: Callable[[Value, Value], Tails]
    inverse: Callable[[PitValues], PitValues]
    with_areas: Callable[[Value, Value], list[Value]] | None = None


@dataclass(frozen=True)
class Correction:
    """What a recalibrator does: stretch a law, map its levels, or nothing.

    With ``spread`` the members are widened by it before anything else.
    """

    factor: float = 1.0
    level_map: LevelMap | None = None
    spread: float = 1.0

    def levels(self, levels: Array) -> PitValues:
        """Return the levels before the map, in both tails, of ``(k,)``."""
        pit = pit_from_cdf(torch.from_numpy(levels))
        return pit if self.level_map is None else self.level_map.inverse(pit)

    def ends(self, tail: float) -> tuple[PitValues, PitValues]:
        """Levels beyond which less than ``tail`` is left, before and after the map.

        Shape ``(1,)`` each.
        """
        low = pit_from_cdf(torch.tensor([tail], dtype=torch.float64))
        high = low.mirrored()
        if self.level_map is None:
            return low, high
        first, last = self.level_map.inverse(low), self.level_map.inverse(high)
        return (
            first if bool(first.log_cdf < low.log_cdf) else low,
            last if bool(last.log_survival < high.log_survival) else high,
        )


def correction_of(recalibrator: Any) -> Correction:  # noqa: ANN401  (a Recalibrator)
    """Return what a fitted recalibrator does, for the graph."""
    if recalibrator is None:
        return Correction()
    if isinstance(recalibrator, ScaleRecalibrator):
        return Correction(factor=recalibrator.factor)
    unit_map = getattr(recalibrator, "unit_map", None)
    if unit_map is None:
        raise UnsupportedError(
            "an ONNX file can hold recalibrators that map levels (with a unit_map) or "
            f"stretch laws ('scale'), got {recalibrator!r}. Use save() and "
            "calibrant.load."
        )
    if isinstance(unit_map, PiecewiseLinearMap):
        level_map = _piecewise_linear(unit_map)
    else:
        smooth = _beta if isinstance(unit_map, BetaMap) else _tabulated
        level_map = LevelMap(smooth(unit_map), unit_map.inverse)
    return Correction(level_map=level_map, spread=getattr(recalibrator, "spread", 1.0))


def _beta(unit_map: BetaMap) -> Callable[[Value, Value], Tails]:
    def forward(cdf: Value, survival: Value) -> Tails:
        lower, upper = cdf.clip(_TINY).log(), survival.clip(_TINY).log()
        return _both_tails(
            lower * unit_map.lower - upper * unit_map.upper + unit_map.shift
        )

    return forward


def _both_tails(odds: Value) -> Tails:
    graph = odds.graph
    return graph.add("Sigmoid", odds), graph.add("Sigmoid", -odds)


def _piecewise_linear(unit_map: PiecewiseLinearMap) -> LevelMap:
    state: Any = unit_map.state()
    knots, heights = np.array(state["knots"]), np.array(state["heights"])
    lower = _lines(knots, heights)
    upper = _lines(1 - knots[::-1], 1 - heights[::-1]).mirrored()
    last = np.array(len(knots) - 2)

    def forward(cdf: Value, survival: Value) -> Tails:
        place = _last_reached(cdf, lower.starts)
        risen = _along(cdf, place, (lower.starts, lower.bottoms, lower.slopes))
        left = _along(survival, place, (upper.starts, upper.bottoms, upper.slopes))
        # Next to 1 only the survival has digits left.
        at_end = cdf.graph.add("Equal", place, last)
        return cdf.graph.where(at_end, 1.0 - left, risen), left

    def with_areas(cdf: Value, survival: Value) -> list[Value]:
        place = _last_reached(cdf, lower.starts)
        below, above = lower.areas(cdf, place), upper.areas(survival, place)
        # In the mirrored problem the map takes away what it adds here.
        return [*below, above[0], -above[1], -above[2]]

    return LevelMap(forward, unit_map.inverse, with_areas)


@dataclass(frozen=True)
class _Lines:
    """Straight lines one after the other, each with a start, ``(m,)``."""

    starts: Array
    bottoms: Array
    slopes: Array
    #: Both integrals up to each start.
    sums: tuple[Array, Array]

    def mirrored(self) -> "_Lines":
        """Return the same lines in the opposite order."""
        first, second = self.sums
        return _Lines(
            self.starts[::-1],
            self.bottoms[::-1],
            self.slopes[::-1],
            (first[::-1], second[::-1]),
        )

    def areas(self, level: Value, place: Value) -> list[Value]:
        """Logarithm of levels on the lines ``place``, and both integrals up to it."""
        gains, log = self.bottoms - self.starts, level.clip(_TINY).log()
        tables = (self.starts, _logs(self.starts), gains, self.slopes - 1, *self.sums)
        start, log_start, gain, bend, first, second = (
            level.graph.add("Gather", table, place) for table in tables
        )
        more = _areas((start, log_start), (level, log), gain, bend)
        return [log, first + more[0], second + more[1]]


def _lines(knots: Array, heights: Array) -> _Lines:
    starts, bottoms, logs = knots[:-1], heights[:-1], _logs(knots)
    slopes = np.diff(heights) / np.diff(knots)
    pieces = _areas(
        (starts, logs[:-1]), (knots[1:], logs[1:]), bottoms - starts, slopes - 1
    )
    first, second = (np.append(0.0, np.cumsum(each)[:-1]) for each in pieces)
    return _Lines(starts, bottoms, slopes, (first, second))


def _logs(levels: Array) -> Array:
    """Logarithms, with 0 for that of 0, which is multiplied by 0."""
    logs: Array = np.log(np.where(levels > 0, levels, 1.0))
    return logs


def _areas(low: Any, high: Any, gain: Any, bend: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Integrate a line, and it times the logarithm, over the logarithm of the level.

    ``low`` and ``high`` are a level and its logarithm each; ``gain`` is the line at the
    lower one and ``bend`` its slope. All are arrays, or all values of a graph.
    """
    (start, log_start), (end, log_end) = low, high
    level = gain - bend * start
    first = level * (log_end - log_start) + bend * (end - start)
    squares = (log_end * log_end - log_start * log_start) * 0.5
    products = (end * log_end - end) - (start * log_start - start)
    return first, level * squares + bend * products


def _tabulated(unit_map: UnitMap) -> Callable[[Value, Value], Tails]:
    """Follow a map from log odds to log odds along a dense table."""
    even = torch.linspace(-_TABLE_END, _TABLE_END, _TABLE_SIZE, dtype=torch.float64)
    kinks = unit_map.knots.double().cpu().logit().clamp(-_TABLE_END, _TABLE_END)
    places = torch.cat([even, kinks]).unique()
    mapped = unit_map.forward(pit_from_log_odds(places))
    x, y = places.numpy(), (mapped.log_cdf - mapped.log_survival).numpy()
    slopes = np.diff(y) / np.diff(x)
    slopes = np.append(slopes, slopes[-1])

    def forward(cdf: Value, survival: Value) -> Tails:
        odds = cdf.clip(_TINY).log() - survival.clip(_TINY).log()
        return _both_tails(_along(odds, _last_reached(odds, x), (x, y, slopes)))

    return forward


def _last_reached(value: Value, places: Array) -> Value:
    """Find the last of ascending places that is not above a value, or the first.

    By halving: the memory that it takes does not grow with the table.
    """
    graph, steps = value.graph, len(places).bit_length()
    padded = np.full(2**steps, np.inf)
    padded[: len(places)] = places
    found = graph.add("Cast", value < value, to=_INT64)  # all 0, even for NaN
    for step in reversed(range(steps)):
        ahead = found + np.array(2**step)
        reached = value >= graph.add("Gather", padded, ahead)
        found = graph.where(reached, ahead, found)
    return found


def _along(value: Value, index: Value, tables: tuple[Array, Array, Array]) -> Value:
    """Go along straight lines, each with a place, a height there and a slope."""
    place, height, slope = (value.graph.add("Gather", t, index) for t in tables)
    return height + slope * (value - place)


# The number of ONNX for integers of 64 bits.
_INT64 = 7
