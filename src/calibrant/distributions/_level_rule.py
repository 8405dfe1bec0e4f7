r"""Integrals of a quantile function against a map of its levels.

Moments of a recalibrated law are :math:`\int_0^1 f(Q(u)) \, dR(u)`. The map R may have
100,000 kinks, the quantile function Q is smooth and costly. So Q is replaced by
polynomials in the log odds of u, one on each of some 30 panels, and those are
integrated against R exactly, kink by kink, once for all rows (product integration).
The result is a set of nodes and weights that is as short for a rough map as for a
smooth one.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from calibrant.contracts import PitValues, UnitMap

__all__ = ["LevelRule", "panel_edges", "pit_from_log_odds"]

# Panels are even in u in the middle, where mixtures are steep, and grow outwards.
_MIDDLE = [j / 16 for j in range(1, 16)]
_TAIL = [3.4, 4.3, 5.5, 7.0, 9.0, 12.0, 16.0, 21.0, 28.0, 37.0, 50.0, 66.0, 87.0]
_GAUSS_POINTS = 12


def pit_from_log_odds(odds: Tensor) -> PitValues:
    """Return both tails of log odds."""
    return PitValues(
        torch.sigmoid(odds), torch.sigmoid(-odds), logsigmoid(odds), logsigmoid(-odds)
    )


def panel_edges(breaks: Tensor | None = None) -> Tensor:
    """Edges of the panels in log odds, out to probabilities of 2e-38 in both tails.

    ``breaks`` are levels where the quantile function has kinks.
    """
    outer = torch.tensor(_TAIL, dtype=torch.float64)
    middle = torch.tensor(_MIDDLE, dtype=torch.float64).logit()
    edges = [-outer, middle, outer]
    if breaks is not None:
        edges.append(breaks.double().cpu().logit())
    joined: Tensor = torch.cat(edges).unique()
    return joined


class LevelRule:
    """Nodes and weights for integrals over ``[0, level]`` and [0, 1] against a map.

    Parameters
    ----------
    unit_map
        The map R.
    edges
        Edges of the panels in log odds, shape ``(panels + 1,)``. What lies beyond the
        outer ones is put on them.
    degree
        Number of nodes in each panel; 1 is exact for a step function.
    """

    def __init__(self, unit_map: UnitMap, edges: Tensor, *, degree: int) -> None:
        self._map, self._edges = unit_map, edges
        points, weights = np.polynomial.legendre.leggauss(degree)
        x, w = torch.from_numpy(points), torch.from_numpy(weights)
        order = torch.arange(degree, dtype=torch.float64)
        # Values at the nodes -> Legendre coefficients of the polynomial through them.
        self._to_coefficients = (order + 0.5) * w[:, None] * _legendre(x, degree).T
        middle, half = (edges[1:] + edges[:-1]) / 2, edges.diff() / 2
        self._nodes = middle[:, None] + half[:, None] * x
        self._integrate_map(degree)

    def _integrate_map(self, degree: int) -> None:
        """Integrate Legendre polynomials against R from kink to kink."""
        edges = self._edges
        kinks = self._map.knots.double().cpu().logit()
        # The usual edges too: a panel of a step function may be too wide for Gauss.
        inner = torch.cat([kinks, panel_edges()])
        self._fine = torch.cat([edges, inner.clamp(edges[0], edges[-1])]).unique()
        panels = len(edges) - 1
        self._panel = (torch.searchsorted(edges, self._fine, right=True) - 1)[:-1]
        start, end = self._fine[:-1], self._fine[1:]
        moments = torch.zeros(len(start), degree, dtype=torch.float64)
        signed = torch.zeros_like(moments)
        for odds, share in self._gauss(start, end, self._gain(start, end)):
            basis = _legendre(self._within(odds, self._panel), degree).T
            rank = 2 * self._map.forward(pit_from_log_odds(odds)).cdf - 1
            moments += share[:, None] * basis
            signed += (share * rank)[:, None] * basis
        zeros = torch.zeros(panels, degree, dtype=torch.float64)
        total = zeros.index_add(0, self._panel, moments)
        total_signed = zeros.index_add(0, self._panel, signed)
        # Sums of a panel up to each of its kinks.
        running = torch.cat([zeros[:1], moments.cumsum(0)[:-1]])
        first = torch.searchsorted(self._panel, torch.arange(panels))
        self._running = running - running[first][self._panel]
        self._collect(total, total_signed)

    def _collect(self, total: Tensor, total_signed: Tensor) -> None:
        """Lay nodes and weights out in one row, with the two ends."""
        ends = self._map.forward(pit_from_log_odds(self._edges[[0, -1]]))
        outside = torch.stack([ends.cdf[0], ends.survival[1]])
        spread = ends.cdf * ends.survival * torch.tensor([-1.0, 1.0]).double()
        corner = self._edges[[0, -1]]
        to_nodes = self._to_coefficients.T
        count, degree = self._nodes.shape
        #: Log odds of the nodes, ascending, shape ``(k,)``.
        self.nodes = _between(corner, self._nodes.flatten())
        #: Weights of the integral against dR, shape ``(k,)``.
        self.weights = _between(outside, (total @ to_nodes).flatten())
        #: Weights of the integral against (2 R - 1) dR, shape ``(k,)``.
        self.spread_weights = _between(spread, (total_signed @ to_nodes).flatten())
        number = torch.arange(count).repeat_interleave(degree)
        #: Number of the panel of each node, -1 and ``panels`` for the ends, ``(k,)``.
        self.panels = _between(torch.tensor([-1, count]), number).tolist()

    def upto(self, pit: PitValues) -> tuple[Tensor, Tensor, Tensor]:
        """Rule for the integral against dR up to PIT values of any shape.

        Returns
        -------
        tuple[Tensor, Tensor, Tensor]
            The panel of each value, and nodes and weights, ``(degree, *shape)``: the
            integral is the sum over these and over all nodes of earlier panels.
        """
        odds = pit.log_cdf.double() - pit.log_survival.double()
        fine, edges = self._fine.to(odds), self._edges.to(odds)
        inside = odds.clamp(edges[0], edges[-1])
        index = torch.searchsorted(fine, inside.contiguous(), right=True) - 1
        index = index.clamp(0, len(fine) - 2)
        panel = self._panel.to(odds.device)[index]
        start = fine[index]
        sums = self._running.to(odds).T[:, index]
        for place, share in self._gauss(start, inside, self._gain(start, inside)):
            sums = sums + share * _legendre(self._within(place, panel), len(sums))
        weights = torch.tensordot(self._to_coefficients.to(odds), sums, 1)
        outside = (odds <= edges[0]) | (odds >= edges[-1])
        beyond = torch.where(odds <= edges[0], -1, len(edges))
        nodes = self._nodes.to(odds).T[:, panel]
        return (
            torch.where(outside, beyond, panel),
            nodes,
            torch.where(outside, 0.0, weights),
        )

    def _gain(self, start: Tensor, end: Tensor) -> Tensor:
        """Return R(end) - R(start), from the tail that is not rounded."""
        low = self._map.forward(pit_from_log_odds(start))
        high = self._map.forward(pit_from_log_odds(end))
        return torch.where(
            start < 0, high.cdf - low.cdf, low.survival - high.survival
        ).clamp_min(0)

    def _gauss(
        self, start: Tensor, end: Tensor, gain: Tensor
    ) -> Sequence[tuple[Tensor, Tensor]]:
        """Points between two log odds and their shares of dR, which sum to ``gain``."""
        points, weights = np.polynomial.legendre.leggauss(_GAUSS_POINTS)
        middle, half = (start + end) / 2, (end - start) / 2
        places = [middle + half * point for point in points]
        logs = []
        for place, weight in zip(places, weights, strict=True):
            pit = pit_from_log_odds(place)
            log_rate = self._map.log_density(pit) + pit.log_cdf + pit.log_survival
            logs.append(log_rate + np.log(weight))
        # In a segment of a few roundings the density may be a neighbor's. Only its
        # shape is used, and there it has none.
        shares = torch.stack(logs).softmax(0).nan_to_num()
        return list(zip(places, shares * gain, strict=True))

    def _within(self, odds: Tensor, panel: Tensor) -> Tensor:
        """Place in the panel, from -1 to 1."""
        edges = self._edges.to(odds)
        low, high = edges[panel], edges[panel + 1]
        return (2 * odds - low - high) / (high - low)


def _between(ends: Tensor, inner: Tensor) -> Tensor:
    return torch.cat([ends[:1], inner, ends[1:]])


def _legendre(x: Tensor, count: int) -> Tensor:
    """Return the first ``count`` Legendre polynomials, ``(count, *x.shape)``."""
    values = [torch.ones_like(x), x]
    for k in range(1, count - 1):
        values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
    return torch.stack(values[:count])
