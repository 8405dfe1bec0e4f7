"""Straight lines one after the other from (0, 0) to (1, 1), followed in both tails."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.recalibration._bucket_search import BucketSearch

__all__ = ["Place", "Segments", "pick", "resolved"]

#: Values that are followed at once: what is made of them stays in the cache.
_BLOCK = 2**16
#: Upper tails that are worked out by themselves if few are wanted.
_FAR = 2e-3


class Place(NamedTuple):
    """Levels from the tail that is not rounded, seen from both ends, and segments.

    All of the shape of the levels; ``level`` and ``beyond`` are float64.
    """

    level: Tensor
    beyond: Tensor
    segment: Tensor


class Segments:
    """An increasing map of [0, 1] as lines, each with its rate of growth.

    Parameters
    ----------
    x, y
        Points that the lines connect, ascending from 0 to 1, shape ``(m,)``, float64.
    rates
        Slopes of the lines, shape ``(m - 1,)``. They may be more precise than the
        points.
    right
        Whether a point belongs to the line that it starts, or to the one before.
    """

    def __init__(self, x: Tensor, y: Tensor, rates: Tensor, *, right: bool) -> None:
        self._last = len(rates) - 1
        # A height may round to 1 before the end that a density reaches.
        self._find = BucketSearch(x, right=right, whole=bool(rates[-1] > 0))
        self.rates = rates
        self._rise = x[:-1].contiguous(), y[:-1].contiguous(), y[1:].contiguous()
        self._fall = 1 - x[1:], 1 - y[1:], 1 - y[:-1]

    def place(self, cdf: Tensor, survival: Tensor) -> Place:
        """Find the segments of levels, given by both tails in float64."""
        level = resolved(cdf, survival)
        return Place(level, resolved(survival, cdf), self._find(level))

    def follow(self, place: Place) -> tuple[Tensor, Tensor]:
        """Both tails at the other end of the map."""
        rise = self._risen(place.level, place.segment)
        fall = self._fallen(place.beyond, place.segment)
        first, end = place.segment == 0, place.segment == (self._last or -1)
        return torch.where(end, 1 - fall, rise), torch.where(first, 1 - rise, fall)

    def tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Both tails of :meth:`follow`, for float64 tails ``(...)``."""
        lower, upper = _in_blocks(self._tails, cdf, survival)
        return lower, upper

    def lower_tail(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Only the first tail of :meth:`follow`, for float64 tails ``(...)``."""
        return _in_blocks(self._lower_tail, cdf, survival)[0]

    def levels(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Tails of :meth:`follow`, the second precise only where it is below 0.002."""
        lower, upper = _in_blocks(self._levels, cdf, survival)
        return lower, upper

    def _tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        return self.follow(self.place(cdf, survival))

    def _lower_tail(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor]:
        level = resolved(cdf, survival)
        segment = self._find(level)
        rise = self._risen(level, segment)
        # Next to 1 only the other tail has digits left.
        end = (segment == (self._last or -1)).nonzero()[:, 0]
        beyond = resolved(survival[end], cdf[end])
        return (rise.index_copy(0, end, 1 - self._fallen(beyond, segment[end])),)

    def _levels(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        (lower,) = self._lower_tail(cdf, survival)
        far = (lower > 1 - _FAR).nonzero()[:, 0]
        beyond = self._tails(cdf[far], survival[far])[1]
        return lower, (1 - lower).index_copy(0, far, beyond)

    def _risen(self, level: Tensor, segment: Tensor) -> Tensor:
        return _along(level, segment, self.rates, *self._rise)

    def _fallen(self, beyond: Tensor, segment: Tensor) -> Tensor:
        return _along(beyond, segment, self.rates, *self._fall)


def resolved(tail: Tensor, other: Tensor) -> Tensor:
    """Return a float64 tail, from the other one where that is not rounded."""
    return torch.where(tail < 0.5, tail, 1 - other)


def _along(
    value: Tensor,
    index: Tensor,
    rates: Tensor,
    starts: Tensor,
    bottoms: Tensor,
    tops: Tensor,
) -> Tensor:
    """Go along segments; rounding must not leave them, nor miss 0 and 1."""
    bottom = pick(bottoms, index)
    walked = value - pick(starts, index)
    reached = torch.addcmul(bottom, pick(rates, index), walked)
    return torch.minimum(torch.maximum(reached, bottom), pick(tops, index))


def pick(table: Tensor, index: Tensor) -> Tensor:
    """Entries of ``(m,)`` at places of any shape: the fast form of ``table[index]``."""
    table = table.to(index.device)
    if index.ndim == 1:
        return table.index_select(0, index)
    return table.index_select(0, index.flatten()).view(index.shape)


def _in_blocks(
    function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], cdf: Tensor, other: Tensor
) -> tuple[Tensor, ...]:
    """Results of a function of two tails ``(n,)``, block by block, for any shape."""
    if cdf.ndim == 1 and len(cdf) <= _BLOCK:
        return function(cdf, other)
    flat = (tail.reshape(-1).split(_BLOCK) for tail in (cdf, other))
    blocks = [function(*tails) for tails in zip(*flat, strict=True)]
    parts = zip(*blocks, strict=True)
    return tuple(torch.cat(part).view(cdf.shape) for part in parts)
