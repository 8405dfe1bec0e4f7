"""Promised probabilities, and how many PIT values stay below each."""

from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import (
    ArrayLike,
    InputError,
    as_float_tensor,
    as_levels,
    as_pit,
    widen,
)
from calibrant.contracts import PitValues

__all__ = [
    "Kind",
    "Levels",
    "ascending",
    "count_at_most",
    "fold",
    "is_count",
    "level_places",
    "pit_rows",
    "promised_levels",
]

Kind = Literal["quantile", "interval"]
Levels = int | ArrayLike
#: Up to here a product with the count is off by less than one level, in float32 too.
_MOST_EVEN = 10_000


def pit_rows(pit: ArrayLike | PitValues) -> Tensor:
    """Return PIT values of shape ``(n,)`` without gradient, float32 at least."""
    if isinstance(pit, PitValues):
        values = widen(pit.cdf.detach())
    else:
        values = as_float_tensor(pit, name="pit").detach()
        if values.ndim != 1 or not _in_unit_interval(values):
            values = as_pit(values).cdf  # says what is wrong
    if values.ndim != 1:
        raise InputError(f"pit must have shape (n,), got {tuple(values.shape)}.")
    return values


def _in_unit_interval(values: Tensor) -> bool:
    """Tell whether there are values, all in [0, 1] and none of them NaN."""
    if values.numel() == 0:
        return False
    low, high = values.aminmax()
    return bool((low >= 0) & (high <= 1))


def ascending(values: Tensor) -> Tensor:
    """Sort ``(n,)`` values without gradient; numpy's sort is several times torch's."""
    ordered = np.sort(values.detach().cpu().numpy())
    return torch.from_numpy(ordered).to(values.device)


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

    No ``(n, k)`` table, but one search per value among the levels, O(n log k), which is
    a multiplication where the levels are ``j / k``.
    """
    if len(promised) > 1 and promised[0] == 0:  # the rest may be even
        at_zero = (values <= 0).sum().cpu()
        return torch.cat([at_zero[None], count_at_most(values, promised[1:])])
    ordered, order = promised.sort()
    cell = level_places(values, ordered)
    # The last cell holds what lies above all levels.
    up_to = torch.bincount(cell, minlength=len(ordered) + 1)[:-1].cumsum(0).cpu()
    return torch.empty_like(up_to).scatter_(0, order, up_to)


def level_places(values: Tensor, ordered: Tensor) -> Tensor:
    """Place of the first of ascending levels that each value does not exceed.

    Shapes ``(n,), (k,) -> (n,)``; the place is ``k`` above all levels.
    """
    # In the type of the values: a float32 PIT of 3/20 is at most 3/20.
    levels = ordered.to(values)
    even = _are_even(ordered) and _in_unit_interval(values)
    if not even or values.device.type != "cpu":
        return torch.bucketize(values.contiguous(), levels)
    array = values.detach().numpy()
    edges = np.concatenate([[-np.inf], levels.numpy()], dtype=array.dtype)
    number = np.ceil(array * array.dtype.type(len(levels))).astype(np.int64)
    np.maximum(number, 1, out=number)
    # The product is rounded: next to a level it can be one too few or too many.
    number += array > edges.take(number)
    number -= array <= edges.take(number - 1)
    return torch.from_numpy(number - 1)


def _are_even(ordered: Tensor) -> bool:
    """Tell whether the levels are ``j / k`` up to rounding."""
    count = len(ordered)
    if count > _MOST_EVEN:
        return False
    return bool((ordered - promised_levels(count).to(ordered)).abs().max() < 1e-9)
