"""The crps of a mixture of any laws, from its cdf and its components' quantiles."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from calibrant._checks import UnsupportedError, pit_from_cdf
from calibrant.distributions._refused_gradient import refuse_gradient
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.recalibrated import Recalibrated

__all__ = ["check_finite_means", "crps_between_quantiles"]

_NODES = 8
#: Panels end at these tails of each component: a cdf is smooth between two of them.
_TAILS = (1e-8, 1e-5, 1e-3, 0.02, 0.16)
#: Kinks of a component where panels end too; of more, each is small.
_BREAKS = 16
#: Panels of a row; those of many components lie close to each other.
_PANELS = 48
#: Values that are held at once.
_ENTRIES = 2**16


def check_finite_means(laws: Sequence[AbstractDistribution], weights: Tensor) -> None:
    """Refuse components whose mean is not finite where they have a weight."""
    for law, weight in zip(laws, weights, strict=True):
        # A map does not take a mean away, and the mean behind it costs nothing.
        inner = law.base if isinstance(law, Recalibrated) else law
        try:
            missing = ~inner.mean.isfinite() & (weight > 0)
        except UnsupportedError:
            continue
        if missing.any():
            raise UnsupportedError(
                "crps needs components with a finite mean, and that of "
                f"{int(missing.sum())} rows of a {type(inner).__name__} is not. Score "
                "with log_prob."
            )


def crps_between_quantiles(
    laws: Sequence[AbstractDistribution], weights: Tensor, value: Tensor
) -> Tensor:
    r"""Integrate the definition over values, from quantile to quantile.

    .. math:: \int_{-\infty}^y F(t)^2 \, dt + \int_y^\infty (1 - F(t))^2 \, dt ,

    Gauss-Legendre with 8 nodes on each panel. The panels end at quantiles of each
    component and at :math:`y`. Their places carry no gradient, except :math:`y`.

    Parameters
    ----------
    laws, weights
        The components, and their weights of shape ``(k, *batch_shape)``.
    value
        :math:`y`, shape ``(..., *batch_shape)``.
    """
    stepped = [law._like for law in laws if _has_lost_gradient(law, value)]
    found = _integral_by_rows(laws, weights, value)
    return refuse_gradient(
        found,
        stepped,
        "the crps of a mixture is an integral of cdfs, and that of samples is a step "
        "function without a gradient. Put a normal law around each sample "
        "(GaussianMixture), or train on the crps of Empirical itself.",
    )


def _has_lost_gradient(law: AbstractDistribution, value: Tensor) -> bool:
    """Tell whether the cdf forgets that its law is trained."""
    if not (law._like.requires_grad and torch.is_grad_enabled()):
        return False
    return not law._cdf(value.detach()).requires_grad


def _integral_by_rows(
    laws: Sequence[AbstractDistribution], weights: Tensor, value: Tensor
) -> Tensor:
    """Integrate for blocks of rows, so that memory stays bounded."""
    batch = weights.ndim - 1
    if not batch or not value.numel():
        return _integral(laws, weights, value)
    axis = value.ndim - batch
    length = value.shape[axis]
    at_once = max(1, _ENTRIES * length // (_PANELS * value.numel()))
    parts = []
    for start in range(0, length, at_once):
        rows = slice(start, start + at_once)
        y = value.narrow(axis, start, min(at_once, length - start))
        parts.append(_integral([law[rows] for law in laws], weights[:, rows], y))
    return torch.cat(parts, axis)


def _integral(
    laws: Sequence[AbstractDistribution], weights: Tensor, value: Tensor
) -> Tensor:
    """Integrate for a block of rows, a few panels at a time."""
    ends = _panels(laws, value)
    dtype = torch.promote_types(weights.dtype, value.dtype)

    def part(low: Tensor, high: Tensor, y: Tensor) -> Tensor:
        x, w = np.polynomial.legendre.leggauss(_NODES)
        nodes, shares = (low.new_tensor(v).view(-1, *[1] * low.ndim) for v in (x, w))
        half, middle = (high - low) / 2, (high + low) / 2
        points = (middle + half * nodes).to(dtype)
        below = low.new_zeros(())
        for law, weight in zip(laws, weights, strict=True):
            below = below + weight * law._cdf(points)
        tail = torch.where(high <= y, below, 1 - below)
        return (shares * half * tail.square()).sum((0, 1))

    at_once = max(1, _ENTRIES // max(1, _NODES * value.numel()))
    if len(ends) > at_once + 1:
        # The backward pass computes a block again, instead of keeping all of them.
        part = partial(checkpoint, part, use_reentrant=False, preserve_rng_state=False)
    blocks = zip(ends[:-1].split(at_once), ends[1:].split(at_once), strict=True)
    total = torch.zeros_like(ends[0])
    for low, high in blocks:
        total = total + part(low, high, value)
    return total


def _panels(laws: Sequence[AbstractDistribution], value: Tensor) -> Tensor:
    """Ends of the panels in ascending order, ``(panels + 1, *value.shape)``."""
    with torch.no_grad():
        places = torch.cat([_edges(law).double() for law in laws]).sort(0).values
        if len(places) > _PANELS:
            kept = torch.linspace(0, len(places) - 1, _PANELS, device=places.device)
            places = places[kept.round().long()]
        extra = (1,) * (value.ndim - places.ndim + 1)
        places = places.reshape(len(places), *extra, *places.shape[1:])
    joined = [places.expand(-1, *value.shape), value.double()[None]]
    return torch.cat(joined).sort(0).values


def _edges(law: AbstractDistribution) -> Tensor:
    """Quantiles of a component between which its cdf is smooth, ``(m, *batch)``."""
    tails = torch.tensor(_TAILS, dtype=torch.float64)
    levels = torch.cat([tails, tails.new_tensor([0.5]), _breaks(law).to(tails)])
    lower, upper = (
        each.to(law._like.device)
        .view(-1, *[1] * len(law.batch_shape))
        .expand(-1, *law.batch_shape)
        for each in (levels, tails)
    )
    return torch.cat([law._quantile(lower), upper_quantile(law, upper)])


def _breaks(law: AbstractDistribution) -> Tensor:
    """Levels where the cdf or its slope jumps, as far as that is known."""
    levels = torch.empty(0, dtype=torch.float64)
    if isinstance(law, Empirical):
        m = len(law.samples)
        levels = (torch.arange(m, dtype=torch.float64) + 0.5) / m
    elif isinstance(law, QuantileTable):
        levels = law.levels.detach()
    elif isinstance(law, Recalibrated):
        inner = law.unit_map.knots[1:-1].double()
        levels = law.unit_map.forward(pit_from_cdf(inner)).cdf
    step = -(-len(levels) // _BREAKS)
    return levels[:: max(1, step)]
