"""PIT values as log odds, where both tails are equally precise."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from calibrant.contracts import PitValues

__all__ = [
    "LIMIT",
    "bounded_log_odds",
    "from_log_odds",
    "log_jacobian",
    "log_odds",
    "log_odds_of_tails",
    "log_tail",
    "with_ends",
]

#: Log odds of a PIT value that float64 can just tell from 1.
LIMIT = -math.log(torch.finfo(torch.float64).eps)


def log_odds(pit: PitValues) -> Tensor:
    """Return ``log(u / (1 - u))`` in float64, finite for PIT values of 0 and 1."""
    return pit.log_cdf.double() - pit.log_survival.double()


def log_odds_of_tails(cdf: Tensor, survival: Tensor) -> Tensor:
    """Return log odds of float64 tails; they are precise without ``log1p``."""
    return log_tail(cdf) - log_tail(survival)


def log_tail(tail: Tensor) -> Tensor:
    """Return the logarithm of a float64 tail; 0 counts as the smallest other one."""
    return tail.clamp_min(torch.finfo(torch.float64).tiny).log()


def bounded_log_odds(pit: PitValues) -> Tensor:
    """Return log odds within ``LIMIT``: what a fit looks at.

    A plain PIT value of 0 or 1 only says "beyond what floats resolve"; taken at its
    word it would outweigh all other rows.
    """
    return log_odds(pit).clamp(-LIMIT, LIMIT)


def from_log_odds(odds: Tensor, dtype: torch.dtype) -> PitValues:
    """Return both tails of log odds."""
    tails = PitValues(
        torch.sigmoid(odds), torch.sigmoid(-odds), logsigmoid(odds), logsigmoid(-odds)
    )
    return tails.map(lambda part: part.to(dtype))


def log_jacobian(mapped: Tensor, pit: PitValues) -> Tensor:
    """Return ``log(du'/du)`` but for the derivative of the mapped log odds."""
    inner = pit.log_cdf.double() + pit.log_survival.double()
    return logsigmoid(mapped) + logsigmoid(-mapped) - inner


def with_ends(odds: Tensor, cdf: Tensor, survival: Tensor) -> Tensor:
    """Send levels of exactly 0 and 1 to infinite log odds."""
    odds = torch.where(cdf > 0, odds, -torch.inf)
    return torch.where(survival > 0, odds, torch.inf)
