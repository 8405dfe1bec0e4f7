"""Inverse of an increasing function, for many rows at once."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions._refused_gradient import first_derivative_only

__all__ = ["solve_increasing", "with_implicit_gradient"]

GapAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]


def solve_increasing(
    gap_and_slope: GapAndSlope,
    low: Tensor,
    high: Tensor,
    *,
    start: Tensor | None = None,
    steps: int = 120,
) -> Tensor:
    """Find where an increasing function crosses 0, between ``low`` and ``high``.

    A Newton step is taken where it stays inside the bracket and at least halves the
    step before; elsewhere the bracket is halved. So flat stretches (between far apart
    components) and wrong slopes cost steps, never the root.

    Parameters
    ----------
    gap_and_slope
        Maps points to the function, whose root is sought, and to its derivative. Its
        unit should be relative (a logarithm of a probability): what is near 0 is
        judged by it.
    low, high
        Finite bracket, both of the shape of the result. Where the function has one
        sign in all of it, the nearer end comes back.
    start
        First guess, the middle unless told; it is moved into the bracket.
    steps
        Upper bound of the work; about 10 are usual.

    Returns
    -------
    Tensor
        Roots without gradient, precise to a few units in the last place.
    """
    eps = torch.finfo(low.dtype).eps
    with torch.no_grad():
        x = low + (high - low) / 2 if start is None else start.clamp(low, high)
        last_step = high - low
        settled = torch.zeros_like(x, dtype=torch.bool)
        for _ in range(steps):
            gap, slope = gap_and_slope(x)
            low = torch.where(gap < 0, x, low)
            high = torch.where(gap < 0, high, x)
            newton = x - gap / slope  # NaN on a plateau, which fails all comparisons
            inside = (newton >= low) & (newton <= high)
            shrinks = 2 * (newton - x).abs() <= last_step
            # This near, one more Newton step is the last: its error is a square.
            near = gap.abs() <= eps**0.75
            halved = torch.where(near, x, low + (high - low) / 2)
            following = torch.where(inside & (shrinks | near), newton, halved)
            last_step = (following - x).abs()
            # A settled row must stand still: rounding would send it off again.
            x = torch.where(settled, x, following)
            width = torch.maximum(low.abs(), high.abs())
            settled |= near | (last_step <= 4 * eps * width)
            if settled.all():
                break
    return x


class _ImplicitGradient(torch.autograd.Function):
    """A root with the derivative of the implicit function theorem."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        root: Tensor,
        gap: Tensor,
        slope: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(gap, slope)
        return root.clone()

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        *gradients: Tensor,
    ) -> tuple[Tensor | None, ...]:
        gap, slope = ctx.saved_tensors
        slope = first_derivative_only(slope, [gap])
        return None, -gradients[0] / slope, None


def with_implicit_gradient(root: Tensor, gap: Tensor, slope: Tensor) -> Tensor:
    r"""Give a root the gradient that the implicit function theorem says it has.

    If :math:`g(x^*(\theta), \theta) = 0`, then
    :math:`dx^*/d\theta = -\partial_\theta g \,/\, \partial_x g`. The value is ``root``
    unchanged. A second derivative is refused (UnsupportedError).

    Parameters
    ----------
    root
        Solutions, without gradient.
    gap
        The function at ``root``, with its graph back to the parameters.
    slope
        Its derivative with respect to ``root``.
    """
    steep = slope.detach().clamp_min(torch.finfo(slope.dtype).tiny)
    result: Tensor = _ImplicitGradient.apply(  # type: ignore[no-untyped-call]
        root.detach(), gap, steep
    )
    return result
