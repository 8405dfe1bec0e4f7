"""Geometry of a piecewise linear quantile function with exponential tails."""

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.distributions._rows import ask_rows

__all__ = ["Pieces", "Place", "mean_square"]


class Place(NamedTuple):
    """Where values ``(*batch, k)`` stand in the table, all of that shape.

    ``inside`` is the value moved into the table's range; ``cdf`` and ``survival`` are
    those of the segment ``segment`` there.
    """

    segment: Tensor
    inside: Tensor
    cdf: Tensor
    survival: Tensor


class Pieces:
    """Segments and tails between the levels ``(m,)`` and values ``(*batch, m)``.

    The scales of the tails, ``left`` and ``right``, are ``(*batch, 1)``. They are 0
    where the outer segment is an atom.
    """

    def __init__(self, levels: Tensor, values: Tensor) -> None:
        self.levels, self.values = levels, values
        self.above = 1 - levels
        self.weights = levels.diff()
        self.gaps = values.diff(dim=-1)
        self.first, self.last = values[..., :1], values[..., -1:]
        self.left = levels[0] * self.gaps[..., :1] / self.weights[0]
        self.right = self.above[-1] * self.gaps[..., -1:] / self.weights[-1]

    def place(self, asked: Tensor) -> Place:
        """Find the segment of each value; at an atom it is the one after it."""
        count = self.count(asked, right=True)
        index = (count - 1).clamp(0, len(self.weights) - 1)
        inside = asked.clamp(self.first, self.last)
        gap = ask_rows(self.gaps, index)
        wide = gap > 0
        share = (inside - ask_rows(self.values, index)) / torch.where(wide, gap, 1.0)
        part = torch.where(wide, share, 1.0) * self.weights[index]
        rest = torch.where(wide, 1 - share, 0.0) * self.weights[index]
        cdf = self.levels[index] + part
        return Place(index, inside, cdf, self.above[index + 1] + rest)

    def count(self, asked: Tensor, *, right: bool) -> Tensor:
        """Number of table values below each value, or at most it (``right``)."""
        dtype = torch.promote_types(asked.dtype, self.values.dtype)
        table = self.values.detach().to(dtype).contiguous()
        return torch.searchsorted(table, asked.detach().to(dtype), right=right)

    def log_decays(self, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Logs of the shares of the lower and upper tail that lie beyond the values.

        They are 0 on the inner side of the tail; a tail without width has nothing
        beyond its atom.
        """
        # relu and not clamp: at the ends of the table the tails have no slope yet.
        below = torch.relu(self.first - asked)
        above = torch.relu(asked - self.last)
        lower = self._decay(below, self.left, below > 0)
        return lower, self._decay(above, self.right, asked >= self.last)

    def areas(self) -> tuple[Tensor, Tensor]:
        """Integrals of F^2 below and of (1 - F)^2 above each table value."""
        below = self.gaps * mean_square(self.levels[:-1], self.levels[1:])
        above = self.gaps * mean_square(self.above[:-1], self.above[1:])
        outer_left = self.left * self.levels[0].square() / 2
        outer_right = self.right * self.above[-1].square() / 2
        lower = torch.cat([outer_left, below], -1).cumsum(-1)
        upper = torch.cat([above, outer_right], -1).flip(-1).cumsum(-1).flip(-1)
        return lower, upper

    @staticmethod
    def _decay(distance: Tensor, scale: Tensor, beyond: Tensor) -> Tensor:
        lowest = torch.finfo(distance.dtype).min
        wide = scale > 0
        decay = (-distance / torch.where(wide, scale, 1.0)).clamp_min(lowest)
        return torch.where(beyond & ~wide, lowest, decay)


def mean_square(start: Tensor, end: Tensor) -> Tensor:
    """Mean of the square of a function that goes linearly from start to end."""
    return (start.square() + start * end + end.square()) / 3
