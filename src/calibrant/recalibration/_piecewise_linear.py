"""Maps of [0, 1] that are linear between knots, precise in both tails."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._segments import Segments, pick

__all__ = ["PiecewiseLinearMap"]

#: What a map makes of its points when it is first used, several times their size.
_MADE_AGAIN = ("_forward", "_backward")


class PiecewiseLinearMap:
    r"""The map through points :math:`(u_k, r_k)` from (0, 0) to (1, 1).

    Its density is :math:`(r_{k+1} - r_k) / (u_{k+1} - u_k)` between neighbors. The
    segment of a value is found in constant time: no array of values times knots.

    Parameters
    ----------
    knots
        :math:`u_k`, strictly ascending from 0 to 1, shape ``(m,)``, float64.
    heights
        :math:`r_k`, ascending from 0 to 1, same shape.
    floor
        The least density that the heights are meant to have. Next to 1, where heights
        round to 1, they cannot say it themselves.
    """

    def __init__(self, knots: Tensor, heights: Tensor, *, floor: float = 0.0) -> None:
        _check_points(knots, heights)
        self._knots, self._heights, self._floor = knots, heights, floor
        self._slopes = (heights.diff() / knots.diff()).clamp_min(floor)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what can be made again: copies and other processes do so."""
        held = self.__dict__.items()
        return {name: value for name, value in held if name not in _MADE_AGAIN}

    @classmethod
    def through(
        cls, levels: Tensor, heights: Tensor, *, floor: float = 0.0
    ) -> "PiecewiseLinearMap":
        """Connect inner points with the corners; the last of equal levels counts."""
        last = torch.ones_like(levels, dtype=torch.bool)
        last[:-1] = levels[1:] > levels[:-1]
        inner = last & (levels > 0) & (levels < 1)
        ends = torch.tensor([0.0, 1.0], dtype=levels.dtype)
        knots = torch.cat([ends[:1], levels[inner], ends[1:]])
        heights = torch.cat([ends[:1], heights[inner], ends[1:]])
        return cls(knots, heights, floor=floor)

    @property
    def knots(self) -> Tensor:
        """Levels between which the map is linear, shape ``(m,)``."""
        return self._knots

    def state(self) -> dict[str, object]:
        """Points of the map as lists."""
        return {
            "knots": self._knots.tolist(),
            "heights": self._heights.tolist(),
            "floor": self._floor,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "PiecewiseLinearMap":
        """Make the map from its state."""
        knots, heights = (
            torch.tensor(state[key], dtype=torch.float64)
            for key in ("knots", "heights")
        )
        floor = float(state["floor"])
        if not 0 <= floor < 1:
            raise InputError(f"floor must be at least 0 and below 1, got {floor}.")
        return cls(knots, heights, floor=floor)

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values; the tails keep the precision that they come with."""
        return _follow(pit, self._forward)

    def inverse(self, levels: PitValues) -> PitValues:
        """Smallest PIT values that are mapped to these at least."""
        return _follow(levels, self._backward)

    def lower_tail(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Map float64 tails to the lower one alone, which is faster."""
        return self._forward.lower_tail(cdf, survival)

    def tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Map float64 tails without their logarithms."""
        return self._forward.tails(cdf, survival)

    def inverse_tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Tails of :meth:`inverse`; the upper one is precise only below 0.002."""
        return self._backward.levels(cdf, survival)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the slope at PIT values, -inf on a flat piece."""
        place = self._forward.place(pit.cdf.double(), pit.survival.double())
        return pick(self._slopes.log(), place.segment).to(pit.cdf.dtype)

    @cached_property
    def _forward(self) -> Segments:
        return Segments(self._knots, self._heights, self._slopes, right=True)

    @cached_property
    def _backward(self) -> Segments:
        # Ends before the first height that reaches the level: no flat piece is met.
        rates = torch.where(self._slopes > 0, 1 / self._slopes, 0.0)
        return Segments(self._heights, self._knots, rates, right=False)


def _follow(pit: PitValues, segments: Segments) -> PitValues:
    """Go along segments, each from 0 to 1, with logarithms of both tails."""
    place = segments.place(pit.cdf.double(), pit.survival.double())
    cdf, survival = segments.follow(place)
    tiny = torch.finfo(torch.float64).tiny
    log_rate = pick(segments.rates.clamp_min(tiny).log(), place.segment)
    # In the outer segments one tail is a multiple: true where its value underflows.
    log_cdf = torch.where(
        place.segment == 0, log_rate + pit.log_cdf.double(), cdf.clamp_min(tiny).log()
    )
    log_survival = torch.where(
        place.segment == len(segments.rates) - 1,
        log_rate + pit.log_survival.double(),
        survival.clamp_min(tiny).log(),
    )
    result = PitValues(cdf, survival, log_cdf, log_survival)
    return result.map(lambda part: part.to(pit.cdf.dtype))


def _check_points(knots: Tensor, heights: Tensor) -> None:
    """Refuse points that are no increasing map; they can only come from a file."""
    if (
        knots.ndim != 1
        or knots.shape != heights.shape
        or len(knots) < 2
        or not bool((knots.diff() > 0).all() and (heights.diff() >= 0).all())
        or [knots[0], knots[-1], heights[0], heights[-1]] != [0, 1, 0, 1]
    ):
        raise InputError(
            "knots must increase strictly and heights must not decrease, both from 0 "
            f"to 1 and of one shape (m,); got {tuple(knots.shape)} and "
            f"{tuple(heights.shape)}"
        )
