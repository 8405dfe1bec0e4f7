"""The strength of a regularizer: one number, or one for each member of a stack."""

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.contracts import Regularizer
from calibrant.regularizers import STRENGTHS

__all__ = ["checked_strength", "describe_strength", "name_of", "with_strength"]


def with_strength(value: Tensor, strength: float | Tensor) -> Tensor:
    """Return strength times the value; one per member meets the shape ``(...)``."""
    if not isinstance(strength, Tensor):
        return strength * value
    ends = value.shape[value.ndim - strength.ndim :]
    fits = strength.ndim <= value.ndim and all(
        size in (1, end) for size, end in zip(strength.shape, ends, strict=True)
    )
    if not fits:
        raise InputError(
            "strength must be a number, or one for each member of a stack of laws "
            f"(members, n): got the shape {tuple(strength.shape)} and a regularizer of "
            f"shape {tuple(value.shape)}."
        )
    return strength.to(value) * value


def describe_strength(strength: float | Tensor) -> str:
    """Text for the printed module."""
    if isinstance(strength, Tensor):
        low, high = float(strength.min()), float(strength.max())
        return f"strength={low:g} to {high:g} for {tuple(strength.shape)} members"
    return f"strength={strength:g}"


def name_of(regularizer: str | Regularizer) -> str:
    """Name of a regularizer for an error text."""
    if isinstance(regularizer, str):
        return repr(regularizer)
    return str(getattr(regularizer, "__name__", type(regularizer).__name__))


def checked_strength(
    regularizer: str | Regularizer, strength: ArrayLike | None
) -> float | Tensor:
    """Return the given strength, else the one that the table's entry is made for."""
    if strength is None:
        if not isinstance(regularizer, str):
            raise InputError(
                f"strength must be given with a regularizer of your own "
                f"({name_of(regularizer)}); only names have a default strength."
            )
        return STRENGTHS.get(regularizer, 1.0)
    if np.ndim(strength) == 0:
        number = float(strength)  # type: ignore[arg-type]
        if not 0 <= number < float("inf"):
            raise InputError(f"strength must be finite and at least 0, got {number}.")
        return number
    each = as_float_tensor(strength, name="strength").detach().clone()
    bad = ~(torch.isfinite(each) & (each >= 0))
    if each.numel() == 0 or bad.any():
        raise InputError(
            "strength must be finite and at least 0 for every member: "
            f"{int(bad.sum())} of {each.numel()} values break this."
        )
    return each
