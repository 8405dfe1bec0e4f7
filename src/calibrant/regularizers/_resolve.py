"""From names and predictions to what a regularizer computes with."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import (
    ArrayLike,
    InputError,
    as_pit,
    as_target,
    check_rows_last,
    check_shapes,
    find_part,
    pit_from_cdf,
)
from calibrant.contracts import PitValues, Regularizer, Sorter
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.regularizers import REGULARIZERS
from calibrant.regularizers._strength import name_of
from calibrant.sorting import SORTERS

__all__ = [
    "check_batch",
    "check_finite_pit",
    "device_of",
    "full_precision",
    "pit_of",
    "resolve_regularizer",
]


def device_of(prediction: object, y: ArrayLike | None) -> torch.device:
    """Device of the batch."""
    tensors = [each for each in (y, prediction) if isinstance(each, Tensor)]
    return tensors[0].device if tensors else torch.device("cpu")


def full_precision(
    prediction: object, y: ArrayLike | None
) -> AbstractContextManager[object]:
    """Context that switches autocast off on the device of the batch."""
    kind = device_of(prediction, y).type
    if not torch.is_autocast_enabled(kind):
        return nullcontext()  # to enter autocast costs as much as several operations
    return torch.autocast(device_type=kind, enabled=False)


def resolve_regularizer(
    regularizer: str | Regularizer, sort: str | Sorter | None
) -> Callable[[PitValues], Tensor]:
    """Return the regularizer as a function of PIT values, its sort bound to it."""
    function = find_part(regularizer, REGULARIZERS, name="regularizer")
    if sort is None:
        return function
    if "sort" not in inspect.signature(function).parameters:
        raise InputError(
            f"the regularizer {name_of(regularizer)} does not sort, so sort={sort!r} "
            "has no effect on it. Leave sort out."
        )
    sorter = find_part(sort, SORTERS, name="sort")
    bound: Callable[[PitValues], Tensor] = partial(function, sort=sorter)  # type: ignore[call-arg]
    return bound


def pit_of(
    prediction: Any,  # noqa: ANN401  (whatever as_distribution takes, or PIT values)
    y: ArrayLike | None,
    *,
    dim: int = -1,
    validate: bool = True,
    part: bool = False,
) -> tuple[PitValues, AbstractDistribution | None]:
    """Return PIT values with the rows on the last axis, and the law if there is one.

    ``part`` says that these are some rows of a larger batch, maybe one or none.
    """
    single_rows = dim != -1 or not validate or part
    if y is None:
        if not isinstance(prediction, Tensor | PitValues):
            raise InputError(
                f"with a distribution the target y is needed as well, got only a "
                f"{type(prediction).__name__}. Call regularizer(distribution, y), or "
                "regularizer(pit) with PIT values."
            )
        values = _rows_last(prediction, dim)
        if part and isinstance(values, Tensor) and values.numel() == 0:
            return pit_from_cdf(values), None
        pit = as_pit(values, validate=validate, single_rows=single_rows)
        return pit, None
    if isinstance(prediction, Tensor | PitValues):
        raise InputError(
            "with a target y the first argument must be a distribution, got a "
            f"{type(prediction).__name__}. A network's raw output is not one: wrap it, "
            "for instance torch.distributions.Normal(mean, std)."
        )
    law = as_distribution(prediction)
    target = as_target(y)
    check_shapes(target.shape, law.batch_shape, name="y")
    pit = law.pit(target)
    if not (part and pit.cdf.numel() == 0):
        check_batch(pit.cdf.shape, single_rows=single_rows)
    _check_gradient(law, pit)
    if validate:
        check_finite_pit(pit.cdf)
    return pit.map(lambda values: values.movedim(dim, -1)), law


def check_batch(shape: torch.Size, *, single_rows: bool) -> None:
    """Refuse a distribution and a target that make no batch of rows."""
    if not single_rows:
        check_rows_last(shape, name="the distribution's batch shape")
    if len(shape) == 0 or shape.numel() == 0:
        raise InputError(
            "a regularizer compares many rows, got a distribution and a target of "
            f"shape {tuple(shape)}. Give it the whole batch at once."
        )


def check_finite_pit(cdf: Tensor) -> None:
    """Refuse the PIT values of a model that diverged."""
    bad = torch.isnan(cdf)
    if bad.any():
        raise InputError(
            f"the predicted distribution must be finite: {int(bad.sum())} of "
            f"{cdf.numel()} PIT values are NaN. The model's mean or spread is NaN or "
            "infinite, most often because training diverged: lower the learning rate, "
            "clip gradients, or look for NaN in the inputs."
        )


def _check_gradient(law: AbstractDistribution, pit: PitValues) -> None:
    """Refuse a law whose parameters are trained but whose cdf has no gradient."""
    if law._trained and torch.is_grad_enabled() and not pit.cdf.requires_grad:
        raise InputError(
            f"a regularizer needs a law whose cdf has a gradient, and {law!r} has "
            "none: a step function of samples would silently train nothing. Predict "
            "means and spreads (GaussianMixture), or a QuantileTable."
        )


def _rows_last(values: Tensor | PitValues, dim: int) -> Tensor | PitValues:
    if isinstance(values, PitValues):
        return values.map(lambda each: each.movedim(dim, -1))
    return values.movedim(dim, -1) if values.ndim else values
