"""What a metric accepts: one law and one target for each of n rows."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import Distribution
from calibrant.distributions.adapters import CdfDistribution
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.empirical import Empirical
from calibrant.scores import Prediction, law_and_target

__all__ = [
    "center_and_spread",
    "error_of_mean",
    "law_of_rows",
    "no_nan",
    "rows",
    "spread_of",
]


def law_of_rows(distribution: Prediction) -> AbstractDistribution:
    """Return the law, which must have batch shape ``(n,)`` with n >= 1."""
    law = as_distribution(distribution)
    if not law.batch_shape:
        raise InputError(
            "a metric takes one law for each row, batch shape (n,), got one law of "
            "shape (). Repeat it: (np.full(n, mean), np.full(n, std))."
        )
    if len(law.batch_shape) != 1 or law.batch_shape[0] == 0:
        raise InputError(
            "a metric takes one law for each row, batch shape (n,) with n >= 1, got "
            f"{tuple(law.batch_shape)}. Squeeze a last axis of 1; score the members of "
            "an ensemble one by one, or mix them into one law."
        )
    return law


def rows(distribution: Prediction, y: ArrayLike) -> tuple[AbstractDistribution, Tensor]:
    """Return the law and its targets, both of shape ``(n,)``.

    An object with nothing but a cdf passes, although it does not tell its shape.
    """
    law, target = law_and_target(distribution, y)
    if law.batch_shape or not isinstance(getattr(law, "base", law), CdfDistribution):
        law_of_rows(law)
    if target.ndim != 1 or target.numel() == 0:
        raise InputError(
            f"y must have shape (n,) with n >= 1, got {tuple(target.shape)}."
        )
    return law, target


def no_nan(values: Tensor) -> Tensor:
    """Return what a law answered for each row, none of it NaN."""
    missing = int(torch.isnan(values).sum())
    if missing:
        raise InputError(
            f"the predicted distribution must be finite: {missing} of {values.numel()} "
            "rows give NaN. The model's mean or spread is NaN or infinite, most often "
            "because training diverged."
        )
    return values


def error_of_mean(law: Distribution, target: Tensor) -> Tensor:
    """Return mean minus target in float64, checked to be finite, shape ``(n,)``."""
    error = law.mean.double() - target.double()
    infinite = int((~torch.isfinite(error)).sum())
    if infinite:
        raise InputError(
            f"the mean must be finite: it is not in {infinite} of {len(error)} rows (a "
            "Student's t with at most 1 degree of freedom has none). Look at mae, "
            "which takes the median."
        )
    return error


def spread_of(law: Distribution) -> tuple[Tensor, Tensor]:
    """Return variance and standard deviation in float64, checked to be finite."""
    variance = law.variance.double()
    infinite = int((~torch.isfinite(variance)).sum())
    if infinite:
        raise InputError(
            f"the variance must be finite: it is not in {infinite} of "
            f"{variance.numel()} rows (a Student's t with at most 2 degrees of freedom "
            "has none). Look at mean_width instead."
        )
    return variance, variance.sqrt()


@torch.no_grad()
def center_and_spread(law: Distribution, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation in float64, or median and quartile range.

    A heavy tail has no variance and a flow cannot give it, but both have quartiles.
    Samples are taken together with the target: groups of rows by their own spread are
    no fair ones, since few samples that happen to lie close hold the target too rarely
    even if all come from one law. What treats target and samples alike says nothing of
    the target's rank among them.
    """
    if isinstance(law, Empirical):
        law = Empirical(torch.cat([law.samples, target[None].to(law.samples)]))
    try:
        center, spread = law.mean.double(), law.stddev.double()
        if bool((center.isfinite() & spread.isfinite()).all()):
            return center, spread
    except InputError:
        pass
    lower, upper = law.interval(0.5)
    return law.quantile(0.5).double(), (upper - lower).double()
