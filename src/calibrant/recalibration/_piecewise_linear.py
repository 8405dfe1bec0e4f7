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
        knots, heights, slopes = self._tables(pit.cdf.device)
        return _follow(pit, self._index(pit), knots, heights, slopes)

    def inverse(self, levels: PitValues) -> PitValues:
        """Smallest PIT values that are mapped to these at least."""
        knots, heights, slopes = self._tables(levels.cdf.device)
        wanted = resolved_levels(levels).detach().contiguous()
        # Ends before the first height that reaches the level: no flat piece is met.
        index = (torch.searchsorted(heights, wanted) - 1).clamp(0, len(slopes) - 1)
        # A height may round to 1 before the end that a density reaches.
        at_end = (wanted >= 1) & (slopes[-1] > 0)
        index = torch.where(at_end, len(slopes) - 1, index)
        rates = torch.where(slopes > 0, 1 / slopes, 0.0)
        return _follow(levels, index, heights, knots, rates)

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


def _follow(
    pit: PitValues, index: Tensor, x: Tensor, y: Tensor, rates: Tensor
) -> PitValues:
    """Go along the segments ``index`` from ``x`` to ``y``, each from 0 to 1."""
    last, rate = len(rates) - 1, rates[index]
    low, high = y[index], y[index + 1]
    rise = low + rate * (resolved_levels(pit) - x[index])
    beyond = resolved_levels(pit.mirrored())
    fall = (1 - high) + rate * (beyond - (1 - x[index + 1]))
    # Rounding must neither leave a segment nor miss 0 and 1.
    rise = torch.minimum(torch.maximum(rise, low), high)
    fall = torch.minimum(torch.maximum(fall, 1 - high), 1 - low)
    first, end = index == 0, (index == last) & (index > 0)
    cdf = torch.where(end, 1 - fall, rise)
    survival = torch.where(first, 1 - rise, fall)
    tiny = torch.finfo(torch.float64).tiny
    log_rate = rate.clamp_min(tiny).log()
    # In the outer segments one tail is a multiple: true where its value underflows.
    log_cdf = torch.where(
        first, log_rate + pit.log_cdf.double(), cdf.clamp_min(tiny).log()
    )
    log_survival = torch.where(
        index == last,
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
