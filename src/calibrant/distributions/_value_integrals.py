"""Moments and the crps of a law from its cdf alone, where quantiles are dear."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions._gradient_probe import carries_gradient
from calibrant.distributions._panels import DENSE, QUICK, Panels, Rule
from calibrant.distributions._rows import joint_shape
from calibrant.distributions.base import AbstractDistribution

__all__ = ["crps_by_values", "moments_by_values"]

#: Values of the cdf that are asked for at once.
_ENTRIES = 2**17
#: Last coefficients of an integrand that count as small, relative to the variance and
#: to the spread: what is left of the integral beyond them is far smaller.
_ROUGH_MOMENT, _ROUGH_SCORE = 1e-3, 1e-4

#: Law, values ``(*batch_shape)`` and rule to answers ``(m, *batch_shape)``, and to
#: the rows that are too rough for the rule.
Integral = Callable[[Any, Tensor, Rule], tuple[Tensor, Tensor]]


def moments_by_values(
    law: AbstractDistribution, *, first: Integral | None = None
) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of each row from the cdf F, in float64.

    .. math::
        \mathbb{E}[Y] - c &= \int_c^\infty (1 - F) \, dy - \int_{-\infty}^c F \, dy, \\
        \mathbb{E}[(Y - c)^2] &= 2 \int_c^\infty (y - c)(1 - F) \, dy
            + 2 \int_{-\infty}^c (c - y) F \, dy .

    Gauss-Legendre with 16 nodes on each of 4 panels, see :class:`Panels`. Where the
    integrand is not smooth enough for that, which its own values show, 4 nodes on each
    of 64 panels that follow the cdf.

    Parameters
    ----------
    law
        Of any batch shape; memory is proportional to its rows.
    first
        Another way that is tried first, in place of the 4 panels. It says which rows
        it is no good for; those get the 64.

    Returns
    -------
    tuple of Tensor
        Both of shape ``batch_shape``.
    """
    learned = carries_gradient(law)
    nowhere = law._like.new_zeros(()).expand(law.batch_shape)
    moments = partial(_moments, learned=learned)
    if learned:
        found = _in_blocks(law, nowhere, moments, DENSE)[0]
    else:
        found = _refined(law, nowhere, first or moments, moments)
    return found[0], found[1]


def crps_by_values(
    law: AbstractDistribution, value: Tensor, *, first: Integral | None = None
) -> Tensor:
    r"""CRPS of values of shape ``(..., *batch_shape)`` from the cdf, in float64.

    .. math:: \int_{-\infty}^y F(t)^2 \, dt + \int_y^\infty (1 - F(t))^2 \, dt ,

    by the panels of :func:`moments_by_values`, which end at :math:`y` too; ``first``
    as there.
    """
    shape = joint_shape(value.shape, law.batch_shape)
    learned = carries_gradient(law) or (torch.is_grad_enabled() and value.requires_grad)
    score = partial(_crps, learned=learned)
    rows = value.double().expand(shape).reshape(-1, *law.batch_shape)
    if learned:
        scores = [_in_blocks(law, y, score, DENSE)[0][0] for y in rows]
    else:
        scores = [_refined(law, y, first or score, score)[0] for y in rows]
    return torch.stack(scores).reshape(shape)


def _refined(
    law: AbstractDistribution, y: Tensor, first: Integral, integral: Integral
) -> Tensor:
    """Integrate quickly, and once more with many panels the rows that need them."""
    with torch.no_grad():
        found, rough = _in_blocks(law, y, first, QUICK)
        if not rough.any():
            return found
        if not law.batch_shape:
            return integral(law, y, DENSE)[0]
        rows = rough.reshape(len(law), -1).any(1).nonzero()[:, 0]
        found[:, rows] = _in_blocks(law[rows], y[rows], integral, DENSE)[0]
        return found


def _in_blocks(
    law: AbstractDistribution, y: Tensor, integral: Integral, rule: Rule
) -> tuple[Tensor, Tensor]:
    """Integrate for blocks of rows of the first axis, so that memory stays bounded."""
    if not law.batch_shape:
        return integral(law, y, rule)
    each = max(1, law.batch_shape[1:].numel())
    size = max(1, _ENTRIES // (rule.panels * rule.nodes * each))
    parts = []
    for start in range(0, len(law), size) or [0]:
        rows = slice(start, start + size)
        part = law if size >= len(law) else law[rows]
        parts.append(integral(part, y[rows], rule))
    answers, rough = zip(*parts, strict=True)
    return torch.cat(answers, 1), torch.cat(rough)


def _moments(
    law: AbstractDistribution, _: Tensor, rule: Rule, *, learned: bool
) -> tuple[Tensor, Tensor]:
    panels = Panels(law, rule)
    center, half = panels.middle(), rule.panels // 2
    y, width = panels.nodes()
    tails = panels.tails(y, learned=learned)
    outer = torch.cat([-tails.cdf[:, :half], tails.survival[:, half:]], 1) * width
    (first, _), (second, wild) = (
        _summed(each, rule) for each in (outer, 2 * outer * (y - center))
    )
    variance = (second - first.square()).clamp_min(0)
    return torch.stack([center + first, variance]), ~(wild <= _ROUGH_MOMENT * variance)


def _crps(
    law: AbstractDistribution, value: Tensor, rule: Rule, *, learned: bool
) -> tuple[Tensor, Tensor]:
    panels = Panels(law, rule)
    inside = value.clamp(panels.low, panels.high)
    y, width = panels.nodes(inside)
    tails = panels.tails(y, learned=learned)
    outer = torch.where(y > inside, tails.survival, tails.cdf).square()
    score, wild = _summed(outer * width, rule)
    spread, _ = _summed(tails.cdf * tails.survival * width, rule)
    # Between the value and the ends of the law the integrand is 1.
    score = score + (value - inside).abs()
    return score[None], ~(wild <= _ROUGH_SCORE * spread)


def _summed(integrand: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Integral over all panels, and the sum of the last coefficients of each."""
    weights = rule.weights(integrand.device)
    parts = (weights @ integrand.flatten(1)).view(3, *integrand.shape[1:])
    return parts[0].sum(0), parts[1:].abs().sum((0, 1))
