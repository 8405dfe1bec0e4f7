"""Maps of [0, 1] that are linear between knots, precise in both tails."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._held_out import resolved_levels

__all__ = ["PiecewiseLinearMap"]


class PiecewiseLinearMap:
    r"""The map through points :math:`(u_k, r_k)` from (0, 0) to (1, 1).

    Its density is :math:`(r_{k+1} - r_k) / (u_{k+1} - u_k)` between neighbors. Every
    call is one binary search per value: no array of values times knots.

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

    @property
    def heights(self) -> Tensor:
        """Values of the map at the knots, shape ``(m,)``."""
        return self._heights

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
        return cls(knots, heights, floor=float(state["floor"]))

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values; the tails keep the precision that they come with."""
        index = self._index(pit)
        knots, heights, slopes = self._tables(pit.cdf.device)
        last = len(slopes) - 1
        slope = slopes[index]
        low, high = heights[index], heights[index + 1]
        rise = low + slope * (resolved_levels(pit) - knots[index])
        beyond = resolved_levels(pit.mirrored())
        fall = (1 - high) + slope * (beyond - (1 - knots[index + 1]))
        # Rounding must neither leave a segment nor miss 0 and 1.
        rise = torch.minimum(torch.maximum(rise, low), high)
        fall = torch.minimum(torch.maximum(fall, 1 - high), 1 - low)
        first, end = index == 0, (index == last) & (index > 0)
        cdf = torch.where(end, 1 - fall, rise)
        survival = torch.where(first, 1 - rise, fall)
        tiny = torch.finfo(torch.float64).tiny
        log_slope = slope.clamp_min(tiny).log()
        log_cdf = torch.where(
            first, log_slope + pit.log_cdf.double(), cdf.clamp_min(tiny).log()
        )
        log_survival = torch.where(
            index == last,
            log_slope + pit.log_survival.double(),
            survival.clamp_min(tiny).log(),
        )
        mapped = PitValues(cdf, survival, log_cdf, log_survival)
        return mapped.map(lambda part: part.to(pit.cdf.dtype))

    def inverse(self, level: Tensor) -> Tensor:
        """Smallest PIT value that is mapped to ``level`` at least, in float64."""
        knots, heights, slopes = self._tables(level.device)
        wide = level.double()
        # Ends before the first height that reaches the level: no flat piece is met.
        index = torch.searchsorted(heights, wide.detach().contiguous()) - 1
        index = index.clamp(0, len(heights) - 2)
        low, high = heights[index], heights[index + 1]
        share = ((wide - low) / (high - low).clamp_min(1e-300)).clamp(0, 1)
        found = torch.lerp(knots[index], knots[index + 1], share)
        # A height may round to 1 before the end that a density reaches.
        return torch.where((wide >= 1) & (slopes[-1] > 0), 1.0, found)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the slope at PIT values, -inf on a flat piece."""
        slopes = self._tables(pit.cdf.device)[2]
        return slopes.log()[self._index(pit)].to(pit.cdf.dtype)

    def _index(self, pit: PitValues) -> Tensor:
        levels = resolved_levels(pit).detach().contiguous()
        knots = self._tables(levels.device)[0]
        index = torch.searchsorted(knots, levels, right=True) - 1
        return index.clamp(0, len(knots) - 2)

    def _tables(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        return (
            self._knots.to(device),
            self._heights.to(device),
            self._slopes.to(device),
        )


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
