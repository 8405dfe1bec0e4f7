"""Probabilities between two values, from tails that are not rounded."""

import torch
from torch import Tensor

from calibrant.contracts import PitValues

__all__ = ["log_between"]


def log_between(low: PitValues, high: PitValues) -> Tensor:
    """Logarithm of the probability between two values; ``-inf`` if there is none.

    Shape: both ``(..., n)``, or such that broadcast. Below the median it is a
    difference of cdfs, above it of survivals, around it what both tails leave.
    """
    lower = _log_difference(high.log_cdf, low.log_cdf)
    upper = _log_difference(low.log_survival, high.log_survival)
    outside = low.cdf + high.survival
    some = outside < 1
    middle = torch.where(
        some, torch.log1p(-torch.where(some, outside, 0.5)), -torch.inf
    )
    answer = torch.where(low.survival <= 0.5, upper, middle)
    return torch.where(high.cdf <= 0.5, lower, answer)


def _log_difference(larger: Tensor, smaller: Tensor) -> Tensor:
    """Logarithm of the difference of two exponentials, with a finite gradient."""
    gap = smaller - larger
    some = gap < 0  # false for NaN, the difference of two that are 0
    safe = torch.where(some, gap, -1.0)
    start = torch.where(some, larger, 0.0)
    return torch.where(some, start + torch.log(-torch.expm1(safe)), -torch.inf)
