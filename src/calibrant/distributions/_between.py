"""Probabilities between two values, and values that are one up to rounding."""

import torch
from torch import Tensor

from calibrant.contracts import PitValues

__all__ = ["log_between", "on_atoms", "on_bounds", "same_value"]


def same_value(value: Tensor, place: Tensor) -> Tensor:
    """Tell which values are ``place`` up to the rounding of the coarser type."""
    eps = max(torch.finfo(part.dtype).eps for part in (value, place))
    return place.isfinite() & ((value - place).abs() <= 4 * eps * place.abs())


def on_atoms(
    value: Tensor, inner: Tensor, atoms: Tensor | None, inner_atoms: Tensor | None
) -> Tensor:
    """Images of values, where those of atoms are exactly the base's atoms.

    Atoms are the first axis. Without this rounding would move a value off its atom.
    """
    if atoms is None or inner_atoms is None:
        return inner
    for atom, inner_atom in zip(atoms, inner_atoms, strict=True):
        inner = torch.where(same_value(value, atom), inner_atom.to(inner.dtype), inner)
    return inner


def on_bounds(value: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    """Values in float64, where a bound in their type or in ``dtype`` is the bound.

    The bounds are float64: a float32 target of 0.1 is the bound 0.1, and not above it.
    """
    y = value.double()
    for bound in (low, high):
        same = (value == bound.to(value.dtype)) | (y == bound.to(dtype).double())
        y = torch.where(same, bound, y)
    return y


def log_between(low: PitValues, high: PitValues) -> Tensor:
    """Logarithm of the probability between two values; ``-inf`` if there is none.

    NaN, from a diverged model, gives NaN.

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
    answer = torch.where(high.cdf <= 0.5, lower, answer)
    return torch.where(outside.isnan(), torch.nan, answer)


def _log_difference(larger: Tensor, smaller: Tensor) -> Tensor:
    """Logarithm of the difference of two exponentials, with a finite gradient."""
    gap = smaller - larger
    some = gap < 0  # false for NaN, the difference of two that are 0
    safe = torch.where(some, gap, -1.0)
    start = torch.where(some, larger, 0.0)
    return torch.where(some, start + torch.log(-torch.expm1(safe)), -torch.inf)
