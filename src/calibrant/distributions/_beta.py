"""The continued fraction of the incomplete beta function, which torch lacks."""

import torch
from torch import Tensor

__all__ = ["beta_fraction"]

_STEPS = 300


def _nonzero(values: Tensor) -> Tensor:
    """Lentz's guard: a denominator of 0 becomes the smallest float."""
    tiny = torch.finfo(values.dtype).tiny
    return torch.where(values.abs() < tiny, tiny, values)


def beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    r"""Evaluate the fraction K in the regularized incomplete beta function.

    .. math::
        I_x(a, b) = \frac{x^a (1 - x)^b}{a\, \mathrm{B}(a, b)} \, K(a, b, x) .

    Modified Lentz algorithm, as in Press et al. (2007), *Numerical Recipes*, section
    6.4. It needs some sqrt(max(a, b)) steps where x < (a + 1) / (a + b + 2); the
    caller swaps the arguments elsewhere. It ends when every row has converged.

    Shape: all three of one shape, which the result has.
    """
    tolerance = 2 * torch.finfo(x.dtype).eps
    denominator = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    numerator = torch.ones_like(x)
    result = change = denominator
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / _nonzero(1 + term * denominator)
            numerator = _nonzero(1 + term / numerator)
            change = denominator * numerator
            result = result * change
        # Not "all below": NaN, from a diverged model, must end the loop too.
        if not ((change.detach() - 1).abs() > tolerance).any():
            break
    return result
