"""Promised probabilities, and how many PIT values stay below each."""

from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_levels, as_pit
from calibrant.contracts import PitValues

__all__ = [
    "Kind",
    "Levels",
    "count_at_most",
    "fold",
    "is_count",
    "pit_rows",
    "promised_levels",
]

Kind = Literal["quantile", "interval"]
Levels = int | ArrayLike


def pit_rows(pit: ArrayLike | PitValues) -> Tensor:
    """Return PIT values of shape ``(n,)`` without gradient."""
    values = as_pit(pit).cdf.detach()
    if values.ndim != 1:
        raise InputError(f"pit must have shape (n,), got {tuple(values.shape)}.")
    return values


def is_count(levels: Levels) -> TypeGuard[int]:
    """Tell a number of levels from the levels themselves."""
    return isinstance(levels, int | np.integer)


def promised_levels(levels: Levels) -> Tensor:
    """Return ``j / M`` for a count ``M``, else the levels handed in, as float64."""
    if is_count(levels):
        if levels < 1:
            raise InputError(f"levels must be at least 1, got {levels}.")
        return torch.arange(1, int(levels) + 1, dtype=torch.float64) / int(levels)
    promised = as_levels(levels, like=torch.empty(0, dtype=torch.float64)).double()
    if promised.ndim != 1 or promised.numel() == 0:
        raise InputError(
            "levels must be a count or have shape (k,), got shape "
            f"{tuple(promised.shape)}."
        )
    return promised.detach().cpu()


def fold(pit: Tensor, kind: Kind) -> Tensor:
    """Return the smallest promise that each target keeps.

    For ``"quantile"`` it is the PIT value itself, for ``"interval"`` the coverage of
    the smallest central interval that holds the target, ``|2 u - 1|``.
    """
    if kind == "quantile":
        return pit
    if kind == "interval":
        return (2 * pit - 1).abs()
    raise InputError(f"kind must be 'quantile' or 'interval', got {kind!r}.")


def count_at_most(values: Tensor, promised: Tensor) -> Tensor:
    """Count the values that are at most each level: ``(n,), (k,) -> (k,)`` integers.

    One binary search per value among the levels: O(n log k), no ``(n, k)`` table.
    """
    # In the type of the values: a float32 PIT of 3/20 is at most 3/20.
    ordered, order = promised.to(values).sort()
    cell = torch.bucketize(values.contiguous(), ordered)
    # The last cell holds what lies above all levels.
    up_to = torch.bincount(cell, minlength=len(ordered) + 1)[:-1].cumsum(0)
    return torch.empty_like(up_to).scatter_(0, order, up_to).cpu()
