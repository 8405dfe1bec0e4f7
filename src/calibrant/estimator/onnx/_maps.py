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
    with_area
        Of a map with kinks: as ``forward``, and the integral of what it adds to levels
        up to the cdf.
    """

    forward: Callable[[Value, Value], Tails]
    inverse: Callable[[PitValues], PitValues]
    with_area: Callable[[Value, Value], tuple[Value, Value, Value]] | None = None


@dataclass(frozen=True)
class Correction:
    """What a recalibrator does: stretch a law, map its levels, or nothing."""

    factor: float = 1.0
    level_map: LevelMap | None = None

    def levels(self, levels: Array) -> PitValues:
        """Return the levels before the map, in both tails, of ``(k,)``."""
        pit = pit_from_cdf(torch.from_numpy(levels))
        return pit if self.level_map is None else self.level_map.inverse(pit)

    def ends(self, tail: float) -> tuple[PitValues, PitValues]:
        """Levels before the map with this probability below, and above, ``(1,)``."""
        low = pit_from_cdf(torch.tensor([tail], dtype=torch.float64))
        if self.level_map is None:
            return low, low.mirrored()
        return self.level_map.inverse(low), self.level_map.inverse(low.mirrored())


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
        return Correction(level_map=_piecewise_linear(unit_map))
    smooth = _beta if isinstance(unit_map, BetaMap) else _tabulated
    return Correction(level_map=LevelMap(smooth(unit_map), unit_map.inverse))


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
    slopes = np.append(np.diff(heights) / np.diff(knots), 0.0)
    # The same lines, counted from the upper end.
    ends = [np.append(1 - each[1:], 0.0) for each in (knots, heights)]

    gains = heights - knots
    areas = np.append(0.0, np.cumsum(np.diff(knots) * (gains[1:] + gains[:-1]) / 2))

    def with_area(cdf: Value, survival: Value) -> tuple[Value, Value, Value]:
        place = _last_reached(cdf, knots)
        risen = _along(cdf, place, (knots, heights, slopes))
        left = _along(survival, place, (*ends, slopes)).clip(0.0)
        knot, gain, area = (
            cdf.graph.add("Gather", table, place) for table in (knots, gains, areas)
        )
        return risen, left, area + (cdf - knot) * (risen - cdf + gain) * 0.5

    return LevelMap(
        lambda cdf, survival: with_area(cdf, survival)[:2], unit_map.inverse, with_area
    )


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
