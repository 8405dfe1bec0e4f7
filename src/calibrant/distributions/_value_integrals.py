"""Moments and the crps of a law from its cdf alone, where quantiles are dear."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from calibrant.distributions._rows import joint_shape
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions.base import AbstractDistribution

__all__ = ["crps_by_values", "moments_by_values"]

_PANELS = 48
_NODES = 4
#: The integrals end where less than this is left; for normal tails at 11 spreads.
_TAIL = 1e-30
#: Rounds in which the panels move to where the cdf rises.
_ROUNDS = 2
#: Values of the cdf that are asked for at once.
_ENTRIES = 100_000


def moments_by_values(law: AbstractDistribution) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of each row from the cdf F, in float64.

    .. math::
        \mathbb{E}[Y] - c &= \int_c^\infty (1 - F) \, dy - \int_{-\infty}^c F \, dy, \\
        \mathbb{E}[(Y - c)^2] &= 2 \int_c^\infty (y - c)(1 - F) \, dy
            + 2 \int_{-\infty}^c (c - y) F \, dy .

    Gauss-Legendre with 4 nodes on each of 48 panels of :math:`t`, where
    :math:`y = c + s \sinh t` shortens the tails. The panels are placed in two rounds
    so that the cdf rises about equally over each: some 300 values of the cdf in all,
    where an integral over levels asks for as many quantiles, each found by a search.

    Parameters
    ----------
    law
        Of any batch shape; memory is proportional to its rows.

    Returns
    -------
    tuple of Tensor
        Both of shape ``batch_shape``.
    """
    parts = [_moments(part) for part in _blocks(law)]
    means, variances = zip(*parts, strict=True)
    shape = law.batch_shape
    return torch.cat(means).reshape(shape), torch.cat(variances).reshape(shape)


def crps_by_values(law: AbstractDistribution, value: Tensor) -> Tensor:
    r"""CRPS of values of shape ``(..., *batch_shape)`` from the cdf, in float64.

    .. math:: \int_{-\infty}^y F(t)^2 \, dt + \int_y^\infty (1 - F(t))^2 \, dt ,

    by the panels of :func:`moments_by_values`, which end at :math:`y` too.
    """
    shape = joint_shape(value.shape, law.batch_shape)
    rows = value.double().expand(shape).reshape(-1, *law.batch_shape)
    scores = []
    for y in rows:
        each = y.reshape(-1) if y.ndim < 2 else y.flatten(1)
        parts, start = [], 0
        for part in _blocks(law):
            size = len(part) if part.batch_shape else 1
            parts.append(_crps(part, each[start : start + size]))
            start += size
        scores.append(torch.cat(parts).reshape(law.batch_shape))
    return torch.stack(scores).reshape(shape)


def _blocks(law: AbstractDistribution) -> list[AbstractDistribution]:
    """Cut a law into blocks of rows of its first axis."""
    if not law.batch_shape:
        return [law]
    each = max(1, law.batch_shape[1:].numel())
    size = max(1, _ENTRIES // (_PANELS * _NODES * each))
    return [law[start : start + size] for start in range(0, len(law), size)]


def _moments(law: AbstractDistribution) -> tuple[Tensor, Tensor]:
    panels = _Panels(law)
    center = panels.center
    y, width, cdf = panels.nodes(torch.zeros_like(center))
    distance = y - center
    tail = torch.where(distance > 0, 1 - cdf, -cdf) * width
    first, second = tail.sum(0), 2 * (tail * distance).sum(0)
    mean = center + first
    variance = (second - first.square()).clamp_min(0)
    return _with_axis(mean), _with_axis(variance)


def _crps(law: AbstractDistribution, value: Tensor) -> Tensor:
    panels = _Panels(law)
    value = value.reshape(panels.center.shape)
    inside = value.clamp(panels.low, panels.high)
    y, width, cdf = panels.nodes(panels.place(inside))
    tail = torch.where(y > inside, 1 - cdf, cdf)
    # Between the value and the ends of the law the integrand is 1.
    score: Tensor = (tail.square() * width).sum(0) + (value - inside).abs()
    return _with_axis(score)


def _with_axis(values: Tensor) -> Tensor:
    """Give a single law's value an axis, to be joined with others."""
    return values.reshape(1) if values.ndim == 0 else values


class _Panels:
    """Panels of each row between which its cdf rises about equally."""

    def __init__(self, law: AbstractDistribution) -> None:
        self._law = law
        like = law._like.detach()
        with torch.no_grad():
            tail = like.new_tensor(_TAIL, dtype=torch.float64).expand(law.batch_shape)
            # A float32 law cannot tell 1e-30 from its smallest numbers in all steps.
            lower, middle, upper = (
                law._quantile(like.new_tensor(level)).double()
                for level in (0.25, 0.5, 0.75)
            )
            self.low = law._quantile(tail).double()
            self.high = upper_quantile(law, tail).double()
            self.center = middle
            spread = (upper - lower) / 2
            least = (self.high - self.low) * 1e-12 + torch.finfo(torch.float64).tiny
            self._scale = torch.maximum(spread, least)
            self._edges = self._placed()

    def place(self, value: Tensor) -> Tensor:
        """Coordinate t of values."""
        return ((value - self.center) / self._scale).asinh()

    def nodes(self, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values, weights and cdf ``(nodes, *batch)``; one of the panels ends at t."""
        edges = torch.cat([self._edges, end[None]]).sort(0).values
        x, w = _gauss(edges.device)
        shape = (-1, *[1] * edges.ndim)
        half, middle = edges.diff(dim=0) / 2, (edges[1:] + edges[:-1]) / 2
        t = (middle + half * x.view(shape)).flatten(0, 1)
        width = (half * w.view(shape)).flatten(0, 1) * self._scale * t.cosh()
        y = self.center + self._scale * t.sinh()
        return y, width, self._cdf(y)

    def _cdf(self, y: Tensor) -> Tensor:
        return self._law._cdf(y.to(self._law.dtype)).double()

    def _placed(self) -> Tensor:
        """Edges in t, ``(panels + 1, *batch)``, moved to where the cdf rises."""
        first, last = self.place(self.low), self.place(self.high)
        share = torch.linspace(0, 1, _PANELS + 1, dtype=torch.float64)
        share = share.to(first.device).view(-1, *[1] * first.ndim)
        t = first + (last - first) * share
        length = (last - first).clamp_min(torch.finfo(torch.float64).tiny)
        for _ in range(_ROUNDS):
            cdf = self._cdf(self.center + self._scale * t.sinh())
            # Half of the panels follow the cdf, half cover the tails evenly.
            progress = (cdf - cdf[:1]) / (cdf[-1:] - cdf[:1]).clamp_min(1e-12)
            progress = ((progress + (t - first) / length) / 2).cummax(0).values
            t = _interpolated(share.expand_as(t), progress, t)
            t = torch.cat([first[None], t[1:-1], last[None]])
        return t


def _interpolated(wanted: Tensor, given: Tensor, values: Tensor) -> Tensor:
    """Linear interpolation along the first axis, of ascending ``given``."""
    wanted, given = (each.movedim(0, -1).contiguous() for each in (wanted, given))
    right = torch.searchsorted(given, wanted).clamp(1, given.shape[-1] - 1)
    low, high = given.gather(-1, right - 1), given.gather(-1, right)
    values = values.movedim(0, -1)
    start, end = values.gather(-1, right - 1), values.gather(-1, right)
    share = ((wanted - low) / (high - low).clamp_min(1e-300)).clamp(0, 1)
    return (start + share * (end - start)).movedim(-1, 0)


@cache
def _rule() -> tuple[Tensor, Tensor]:
    x, w = np.polynomial.legendre.leggauss(_NODES)
    return torch.from_numpy(x), torch.from_numpy(w)


def _gauss(device: torch.device) -> tuple[Tensor, Tensor]:
    x, w = _rule()
    return x.to(device), w.to(device)
