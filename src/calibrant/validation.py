"""Every check of input and its wording: the rule, what came, what to do."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant.errors import InputError, UnsupportedError
from calibrant.protocols import PitValues

__all__ = [
    "ArrayLike",
    "InputError",
    "UnsupportedError",
    "as_float_tensor",
    "as_levels",
    "as_pit",
    "as_target",
    "check_between",
    "check_positive",
    "check_rows_last",
    "check_shapes",
    "find_part",
    "pit_from_cdf",
    "widen",
]

ArrayLike = Tensor | npt.ArrayLike
Part = TypeVar("Part")


def widen(values: Tensor) -> Tensor:
    """Return half and bfloat16 values (autocast) as float32, others as they are.

    Eight bits of mantissa cannot tell the PIT values of a batch apart.
    """
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def as_float_tensor(
    values: ArrayLike, *, name: str, like: Tensor | None = None
) -> Tensor:
    """Return ``values`` as a float tensor, of ``like``'s device, float32 at least.

    An array is never cast below its own precision, and lists are arrays of float64.
    A number takes ``like``'s dtype, integers only if it holds each of them exactly;
    without ``like`` all are float64. An integer tensor is refused, because it can carry
    no gradient and is most often a mistake.
    """
    if isinstance(values, Tensor):
        if not values.is_floating_point():
            raise InputError(
                f"{name} must be a float tensor, got dtype {values.dtype}. "
                f"Convert it: {name}.float() or {name}.double()."
            )
        return widen(values)
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be numeric, got an array of dtype {array.dtype}. "
            "Drop or encode what is not a number first."
        )
    wide = torch.tensor(array, dtype=torch.float64)
    if like is None:
        return wide
    return wide.to(device=like.device, dtype=_kept_dtype(array, wide, like))


def _kept_dtype(array: npt.NDArray[Any], wide: Tensor, like: Tensor) -> torch.dtype:
    """Find the float type that loses nothing of an array, ``like``'s if that does."""
    if array.dtype.kind == "f":
        # A lone number has no precision of its own. Apple's GPUs have no float64.
        loses = array.ndim > 0 and array.itemsize > 4 and like.device.type != "mps"
    else:
        loses = not torch.equal(wide.to(like.dtype).double(), wide)
    return torch.float64 if loses else widen(like).dtype


def _first_bad(bad: Tensor, values: Tensor, name: str) -> str:
    """Say how many entries are bad and where the first one stands."""
    place = tuple(int(index) for index in bad.nonzero()[0])
    where = ", ".join(map(str, place))
    value = values[place].item()
    return (
        f"{int(bad.sum())} of {bad.numel()} values break this, "
        f"the first is {name}[{where}] = {value:.4g}"
    )


def pit_from_cdf(cdf: Tensor) -> PitValues:
    """Complete plain PIT values ``(..., n)`` to both tails.

    Logarithms are taken no lower than the smallest positive float, so that a value of
    exactly 0 or 1 keeps a finite gradient.
    """
    survival = 1 - cdf
    tiny = torch.finfo(cdf.dtype).tiny
    log_cdf = cdf.clamp_min(tiny).log()
    # log1p keeps small PIT values apart where 1 - cdf rounds to 1.
    log_survival = torch.where(
        cdf < 0.5, torch.log1p(-cdf.clamp_max(0.5)), survival.clamp_min(tiny).log()
    )
    return PitValues(cdf, survival, log_cdf, log_survival)


def as_pit(
    values: ArrayLike | PitValues,
    *,
    name: str = "pit",
    validate: bool = True,
    single_rows: bool = False,
) -> PitValues:
    """Return PIT values of shape ``(..., n)``, checked to lie in [0, 1].

    ``single_rows`` says that ``(members, 1)`` is meant: many batches of one row.
    """
    if isinstance(values, PitValues):
        return values
    pit = as_float_tensor(values, name=name)
    if pit.ndim == 0 or pit.numel() == 0:
        raise InputError(
            f"{name} must have shape (..., n) with n >= 1, got {tuple(pit.shape)}."
        )
    if not single_rows:
        check_rows_last(pit.shape, name=name)
    if validate:
        outside = ~((pit >= 0) & (pit <= 1))  # also true for NaN
        if outside.any():
            raise InputError(
                f"{name} must lie in [0, 1]: {_first_bad(outside, pit, name)}. "
                "PIT values are distribution.cdf(y), not y itself; NaN comes from a "
                "prediction that is not finite (a diverged model)."
            )
    return pit_from_cdf(pit)


def as_target(y: ArrayLike, *, like: Tensor | None = None, name: str = "y") -> Tensor:
    """Return targets as a float tensor of finite numbers."""
    target = as_float_tensor(y, name=name, like=like)
    bad = ~torch.isfinite(target)
    if bad.any():
        raise InputError(
            f"{name} must be finite: {_first_bad(bad, target, name)}. "
            "Drop or impute rows with a missing target."
        )
    return target


def as_levels(level: ArrayLike, *, like: Tensor, name: str = "level") -> Tensor:
    """Return probabilities as a tensor with entries in [0, 1]."""
    levels = as_float_tensor(level, name=name, like=like)
    outside = ~((levels >= 0) & (levels <= 1))
    if outside.any():
        hint = " Write 0.9 for 90 %." if bool((levels > 1).any()) else ""
        raise InputError(
            f"{name} must lie in [0, 1]: {_first_bad(outside, levels, name)}.{hint}"
        )
    return levels


def check_shapes(
    shape: Sequence[int], batch_shape: Sequence[int], *, name: str
) -> None:
    """Refuse shapes of which neither is the end of the other, as (n,) and (n, 1)."""
    shared = min(len(shape), len(batch_shape))
    if shared == 0 or tuple(shape)[-shared:] == tuple(batch_shape)[-shared:]:
        return
    hint = ""
    if tuple(shape) == (*batch_shape, 1):
        hint = f" Use {name}.squeeze(-1)."
    elif (*shape, 1) == tuple(batch_shape):
        hint = " The prediction has a last axis of 1: squeeze(-1) its parameters."
    raise InputError(
        f"{name} must have the distribution's batch shape {tuple(batch_shape)}, "
        f"possibly with more axes in front, got {tuple(shape)}. "
        f"Shapes are not broadcast, because (n,) against (n, 1) would silently make "
        f"n x n values.{hint}"
    )


def check_rows_last(shape: Sequence[int], *, name: str) -> None:
    """Refuse ``(n, 1)``, where the axis of rows is not the last one."""
    if len(shape) > 1 and shape[-1] == 1 and max(shape) > 1:
        raise InputError(
            f"{name} must have its n rows on the last axis, got {tuple(shape)}, which "
            f"is a batch of single values. Use squeeze(-1) on the model's output and "
            "the target (or pass dim= where it is offered)."
        )


def check_positive(value: float, *, name: str) -> float:
    """Return ``value`` if it is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise InputError(f"{name} must be a finite number above 0, got {value}.")
    return value


def check_between(value: float, low: float, high: float, *, name: str) -> float:
    """Return ``value`` if it lies strictly between ``low`` and ``high``."""
    if not low < value < high:
        raise InputError(
            f"{name} must lie strictly between {low} and {high}, got {value}."
        )
    return value


def find_part(part: str | Part, table: Mapping[str, Part], *, name: str) -> Part:
    """Return the table's entry for a name, or the object that was passed."""
    if not isinstance(part, str):
        return part
    try:
        return table[part]
    except KeyError as error:
        raise InputError(f"{name}: {error.args[0]}") from None
