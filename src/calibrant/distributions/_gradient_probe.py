"""Whether anyone can ask for a derivative of what a law says."""

import torch

from calibrant.distributions.base import AbstractDistribution

__all__ = ["carries_gradient"]


def carries_gradient(law: AbstractDistribution) -> bool:
    """Tell whether the cdf of a law has a graph back to parameters.

    Without one a quantile or an integral need not be built so that it has one.
    """
    if not torch.is_grad_enabled():
        return False
    if law._like.requires_grad:
        return True
    row = law[:1] if law.batch_shape else law
    return row._cdf(row._like.new_zeros(row.batch_shape)).requires_grad
