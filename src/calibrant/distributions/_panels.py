"""Panels of each row between which its cdf is smooth, for integrals over values."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from calibrant.distributions._outline import Bumps, Tails, pit_of_tail
from calibrant.distributions.base import AbstractDistribution

__all__ = ["DENSE", "QUICK", "Panels", "Rule"]


class Rule:
    """How many panels and nodes a row gets.

    Parameters
    ----------
    panels
        Number of panels, even.
    nodes
        Gauss-Legendre nodes on each.
    places
        Values at which a row is looked at to place its panels.
    follow
        Whether the panels also follow the cdf itself, not only the law's bumps.
    tail
        The panels end where less than this is left; for normal tails 1e-30 is at 11
        spreads.
    """

    def __init__(
        self,
        panels: int,
        nodes: int,
        *,
        places: int,
        follow: bool,
        tail: float = 1e-30,
    ) -> None:
        self.panels, self.nodes = panels, nodes
        self.places, self.follow, self.tail = places, follow, tail

    def points(self, device: torch.device) -> Tensor:
        """Nodes of a panel from -1 to 1, shape ``(nodes,)``."""
        return _gauss(self.nodes)[0].to(device)

    def weights(self, device: torch.device) -> Tensor:
        """Weights of a panel, and two of its Legendre coefficients, ``(3, nodes)``.

        The last two coefficients of the polynomial through the nodes: they are small
        where the integrand is smooth, and the integral then far more precise still.
        """
        return _gauss(self.nodes)[1].to(device)


#: For smooth laws: below 1e-7 standard deviations off where the coefficients are small.
QUICK = Rule(4, 16, places=16, follow=False)
#: For kinks, and for narrow components far apart.
DENSE = Rule(64, 4, places=48, follow=True)


class Panels:
    r"""Panels of each row, even in a measure of how much its cdf has to tell.

    The measure is :math:`\sum_j \pm\log(1 + |y - c_j| / s_j)` over the bumps of the
    law: a panel is about as wide as the nearest bump, or as its distance. Within each,
    :math:`y = c + s \sinh t` shortens the tails.

    Parameters
    ----------
    law
        Of any batch shape.
    rule
        Number of panels and nodes.
    """

    def __init__(self, law: AbstractDistribution, rule: Rule) -> None:
        self._law, self.rule = law, rule
        with torch.no_grad():
            bumps = law._bumps()
            self.low, self.high = _reach(law, rule.tail)
            self._center = bumps.centers.mean(0).clamp(self.low, self.high)
            spread = (bumps.centers - self._center).abs().mean(0) + bumps.scales.mean(0)
            least = (self.high - self.low) * 1e-12 + torch.finfo(torch.float64).tiny
            self._scale = torch.maximum(spread, least)
            self._edges = self._placed(
                Bumps(bumps.centers, bumps.scales.clamp_min(least))
            )

    def edges(self) -> Tensor:
        """Values of the edges, shape ``(panels + 1, *batch_shape)``."""
        return self._value(self._edges)

    def middle(self) -> Tensor:
        """Value of the middle edge, shape ``batch_shape``."""
        return self._value(self._edges[self.rule.panels // 2])

    def nodes(self, end: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Values and widths ``(nodes, panels, *batch)``; one panel may end at a value.

        An integral over a panel is the weighted sum over its nodes of the integrand
        times these widths.
        """
        edges = self._edges
        if end is not None:
            place = ((end - self._center) / self._scale).asinh()
            edges = torch.cat([edges, place[None]]).sort(0).values
        half, middle = edges.diff(dim=0) / 2, (edges[1:] + edges[:-1]) / 2
        points = self.rule.points(edges.device).view(-1, *[1] * edges.ndim)
        grown = (middle + half * points).exp()
        shrunk = 1 / grown
        y = self._center + self._scale / 2 * (grown - shrunk)
        return y, (grown + shrunk) * (half * self._scale / 2)

    def tails(self, y: Tensor, *, learned: bool) -> Tails:
        """Both tails at nodes, with a graph if the law is ``learned``."""
        flat = y.flatten(0, 1)
        if learned:
            value = flat.to(self._law.dtype)
            found = self._law._cdf(value), self._law._survival(value)
        else:
            found = self._law._tails(flat)[:2]
        cdf, survival = (tail.double().view(y.shape) for tail in found)
        return Tails(cdf, survival, None)

    def _value(self, t: Tensor) -> Tensor:
        return self._center + self._scale * t.sinh()

    def _placed(self, bumps: Bumps) -> Tensor:
        """Edges in t, ``(panels + 1, *batch)``."""
        first, last = (
            ((end - self._center) / self._scale).asinh()
            for end in (self.low, self.high)
        )
        share = _shares(self.rule.places, first)
        t = first + (last - first) * share
        measure = _measured(self._value(t), bumps)
        wanted = _shares(self.rule.panels, first)
        if not self.rule.follow:
            return _even(wanted, measure, t)
        t = _even(share, measure, t)
        cdf = self._law._tails(self._value(t)).cdf
        # Half of the panels follow the cdf, half cover the tails.
        progress = (cdf - cdf[:1]) / (cdf[-1:] - cdf[:1]).clamp_min(1e-12)
        measure = _measured(self._value(t), bumps)
        measure = (measure - measure[:1]) / (measure[-1:] - measure[:1])
        return _even(wanted, ((progress + measure) / 2).cummax(0).values, t)


def _reach(law: AbstractDistribution, least: float) -> tuple[Tensor, Tensor]:
    """Values beyond which nearly nothing lies, both ``batch_shape``."""
    room = [1] * len(law.batch_shape)
    tail = law._like.new_tensor([least, least], dtype=torch.float64).view(-1, *room)
    below = torch.tensor([True, False], device=tail.device).view(-1, *room)
    around = law._around(pit_of_tail(tail, below))
    return around.low[0], around.high[1]


def _measured(y: Tensor, bumps: Bumps) -> Tensor:
    total = torch.zeros_like(y)
    for center, scale in zip(*bumps, strict=True):
        z = (y - center).div_(scale)
        total.add_(z.abs().log1p_().copysign_(z))
    return total


def _shares(count: int, like: Tensor) -> Tensor:
    """Even shares from 0 to 1, shape ``(count + 1, 1, ...)``."""
    shares = torch.linspace(0, 1, count + 1, dtype=torch.float64, device=like.device)
    return shares.view(-1, *[1] * like.ndim)


def _even(shares: Tensor, measure: Tensor, t: Tensor) -> Tensor:
    """Places with even shares of an ascending measure, from the first to the last."""
    wanted = measure[:1] + (measure[-1:] - measure[:1]) * shares
    inner = _interpolated(wanted[1:-1], measure, t)
    return torch.cat([t[:1], inner, t[-1:]])


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
def _gauss(nodes: int) -> tuple[Tensor, Tensor]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    order = np.arange(nodes)
    coefficients = np.polynomial.legendre.legvander(x, nodes - 1) * w[:, None]
    coefficients = coefficients * (order + 0.5)
    rows = np.stack([w, coefficients[:, -2], coefficients[:, -1]])
    return torch.from_numpy(x), torch.from_numpy(rows)
