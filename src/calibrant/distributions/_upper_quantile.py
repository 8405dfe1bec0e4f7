"""Quantiles far above: by the probability beyond, which floats resolve."""

from torch import Tensor

from calibrant._checks import check_shapes
from calibrant.distributions.base import AbstractDistribution

__all__ = ["upper_quantile"]


def upper_quantile(law: AbstractDistribution, survival: Tensor) -> Tensor:
    """Value that is exceeded with probability ``survival``, above 0.

    A law without an upper tail of its own gives the quantile at the last level that
    it can tell from 1.

    Shape: as for ``law.quantile``.
    """
    check_shapes(survival.shape, law.batch_shape, name="survival")
    return law._upper_quantile(survival)
