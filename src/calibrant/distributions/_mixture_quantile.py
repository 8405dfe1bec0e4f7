"""Quantiles of a mixture of any laws: roots between those of its components."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.contracts import PitValues
from calibrant.distributions._outline import Around
from calibrant.distributions._refused_gradient import refuse_gradient
from calibrant.distributions._root import solve_increasing, with_implicit_gradient
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions.base import AbstractDistribution

__all__ = [
    "Components",
    "mixture_around",
    "mixture_ends",
    "mixture_quantile",
    "with_mixture_gradient",
]

#: Relative gap of a tail that counts as none: what a root reaches.
_SETTLED = 1e-11
#: Relative gap that only a jump of the cdf leaves.
_JUMP = 1e-9


class Components(NamedTuple):
    """What a mixture is made of, and what it can say of values.

    ``weights`` have shape ``(k, *batch_shape)``; ``log_density`` gives None if a
    component (samples) has none.
    """

    laws: Sequence[AbstractDistribution]
    weights: Tensor
    pit: Callable[[Tensor], PitValues]
    log_density: Callable[[Tensor], Tensor | None]


def mixture_around(each: Iterable[Around], weights: Tensor) -> Around:
    """Bracket of a mixture's quantiles: all that its components say is around theirs.

    Parameters
    ----------
    each
        What each component says.
    weights
        Shape ``(k, *batch_shape)``.
    """
    pairs = list(zip(weights, each, strict=True))
    low = [torch.where(weight > 0, around.low, torch.inf) for weight, around in pairs]
    high = [
        torch.where(weight > 0, around.high, -torch.inf) for weight, around in pairs
    ]
    shares = [
        torch.where(weight > 0, weight * around.start, 0.0) for weight, around in pairs
    ]
    return Around(
        reduce(torch.minimum, low),
        reduce(torch.add, shares),
        reduce(torch.maximum, high),
    )


def mixture_quantile(tail: Tensor, below: Tensor, mixture: Components) -> Tensor:
    """Smallest values with the given probability below them, or else above them.

    By logarithms, so that no tail is too small, and with care for jumps and plateaus.

    Parameters
    ----------
    tail
        Probabilities inside (0, 1/2], float64, of the shape of the result.
    below
        Whether each lies below the value that is sought, same shape.
    mixture
        Its parts.

    Returns
    -------
    Tensor
        Without gradient.
    """
    with torch.no_grad():
        each = (_quantile(law, tail, below) for law in mixture.laws)
        low, high = _extremes(each, mixture.weights, tail)
        finite = low.isfinite() & (high - low).isfinite()
        inner = [torch.where(finite, end, 0.0) for end in (low, high)]
        root = _search(tail, below, mixture, *inner)
        return torch.where(finite, root, low / 2 + high / 2)


def mixture_ends(like: Tensor, below: Tensor, mixture: Components) -> Tensor:
    """Ends of the support of each row, the lower one where ``below``."""
    level = torch.where(below, 0.0, 1.0).to(like.dtype)
    each = (law._quantile(level) for law in mixture.laws)
    low, high = _extremes(each, mixture.weights, like)
    return torch.where(below, low, high)


def _quantile(law: AbstractDistribution, tail: Tensor, below: Tensor) -> Tensor:
    """Quantiles of a component, each from the tail that is not rounded."""
    if below.all():
        return law._quantile(tail)
    upper = upper_quantile(law, torch.where(below, 0.5, tail))
    if not below.any():
        return upper
    return torch.where(below, law._quantile(torch.where(below, tail, 0.5)), upper)


def _extremes(
    values: Iterable[Tensor], weights: Tensor, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of the components that have a weight."""
    low, high = torch.full_like(like, torch.inf), torch.full_like(like, -torch.inf)
    for weight, value in zip(weights, values, strict=True):
        wide = value.to(like.dtype)
        low = torch.where(weight > 0, torch.minimum(low, wide), low)
        high = torch.where(weight > 0, torch.maximum(high, wide), high)
    return low, high


def _gap_and_log_tail(
    x: Tensor, tail: Tensor, below: Tensor, mixture: Components
) -> tuple[Tensor, Tensor]:
    """Logarithm of the tail over that which is sought, increasing in ``x``."""
    pit = mixture.pit(x)
    log_tail = torch.where(below, pit.log_cdf, pit.log_survival)
    gap = log_tail - tail.log()
    return torch.where(below, gap, -gap), log_tail


def _search(
    tail: Tensor, below: Tensor, mixture: Components, low: Tensor, high: Tensor
) -> Tensor:
    def gap_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
        gap, log_tail = _gap_and_log_tail(x, tail, below, mixture)
        density = mixture.log_density(x)
        if density is None:
            density = torch.full_like(gap, -torch.inf)
        # On a plateau at the level the smallest value is sought: go left.
        plateau = density.isneginf() & (gap > -_SETTLED)
        return torch.where(plateau, 1.0, gap), (density - log_tail).exp()

    root = solve_increasing(gap_and_slope, low, high)
    # A search ends on either side of a jump; the value is on the upper one.
    step = 16 * torch.finfo(root.dtype).eps * root.abs()
    step = torch.maximum(step, 2.0**-100 * (high - low))
    gap, _ = _gap_and_log_tail(root, tail, below, mixture)
    return torch.where(gap < -_JUMP, root + step, root)


def with_mixture_gradient(
    root: Tensor, tail: Tensor, below: Tensor, mixture: Components
) -> Tensor:
    """Give quantiles the derivative of a root, or refuse it where there is none."""
    gap, log_tail = _gap_and_log_tail(root, tail, below, mixture)
    density = mixture.log_density(root)
    if density is not None:
        return with_implicit_gradient(root, gap, (density - log_tail).exp())
    return refuse_gradient(
        root,
        [gap, *(law._like for law in mixture.laws)],
        "the quantile of a mixture has a derivative only if each component has a "
        "density, and samples have none. Put a normal law around each sample "
        "(GaussianMixture).",
    )
