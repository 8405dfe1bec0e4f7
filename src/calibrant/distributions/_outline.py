"""What searches and integrals over values ask of a law, without gradients."""

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.contracts import PitValues

__all__ = ["Around", "Bumps", "Tails", "pit_of_tail", "without_copies"]


class Tails(NamedTuple):
    """Both tails at values, each precise, and the density if it was asked for.

    All float64 of the shape of the values; ``density`` is None if the law has none.
    """

    cdf: Tensor
    survival: Tensor
    density: Tensor | None


class Around(NamedTuple):
    """Where quantiles lie: between two values, and where to look first.

    All float64 of one shape, ``(..., *batch_shape)``.
    """

    low: Tensor
    start: Tensor
    high: Tensor


class Bumps(NamedTuple):
    """Where the cdf of each row rises, and over which distance.

    Both float64, shape ``(n, *batch_shape)``: panels lie close to each other there.
    """

    centers: Tensor
    scales: Tensor


def pit_of_tail(tail: Tensor, below: Tensor) -> PitValues:
    """Complete tails from 0 to 1/2, below a value or else above it, to both."""
    other, log_tail, log_other = 1 - tail, tail.log(), torch.log1p(-tail)
    return PitValues(
        torch.where(below, tail, other),
        torch.where(below, other, tail),
        torch.where(below, log_tail, log_other),
        torch.where(below, log_other, log_tail),
    )


def without_copies(values: Tensor) -> Tensor:
    """Shrink the axes along which an expanded tensor only repeats itself to 1.

    The levels of ``quantiles`` are the same for all rows: what is made of them alone
    need not be made again for each row.
    """
    for axis, stride in enumerate(values.stride()):
        if stride == 0 and values.shape[axis] > 1:
            values = values.narrow(axis, 0, 1)
    return values
