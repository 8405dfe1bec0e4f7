"""Both tails of a law from the smaller one, which is not rounded."""

import torch
from torch import Tensor

from calibrant.contracts import PitValues

__all__ = ["pit_from_far_tail", "pit_from_log_cdf"]


def pit_from_far_tail(below: Tensor, log_far: Tensor) -> PitValues:
    """Complete the tail on the far side of the median to both tails.

    Parameters
    ----------
    below
        Whether a value lies below the median, shape ``(..., n)``.
    log_far
        Logarithm of the probability beyond the value as seen from the median, hence
        at most log(1/2), same shape.
    """
    lower = pit_from_log_cdf(log_far)
    upper = lower.mirrored()
    pairs = zip(lower, upper, strict=True)
    return PitValues(*(torch.where(below, low, high) for low, high in pairs))


def pit_from_log_cdf(log_cdf: Tensor) -> PitValues:
    """Complete the logarithm of a cdf below 1 to both tails, shape ``(..., n)``."""
    cdf = log_cdf.exp()
    return PitValues(cdf, 1 - cdf, log_cdf, torch.log1p(-cdf))
