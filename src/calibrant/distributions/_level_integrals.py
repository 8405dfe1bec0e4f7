"""Moments and the crps of a law as integrals over its levels."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import UnsupportedError, as_levels
from calibrant.contracts import PitValues, UnitMap
from calibrant.distributions._level_rule import (
    LevelRule,
    panel_edges,
    pit_from_log_odds,
)
from calibrant.distributions._upper_rows import FAR, SMALLEST, quantiles_by_tails
from calibrant.distributions._value_integrals import crps_by_values, moments_by_values
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.quantile_table import QuantileTable

__all__ = [
    "LevelIntegrals",
    "even_rule",
    "quantiles_at",
    "refuse_endless_crps",
    "rule_for",
]

# Values of a quantile function that are held at once.
_BLOCK = 2**16


def quantiles_at(
    law: AbstractDistribution, pit: PitValues, *, smallest: float = SMALLEST
) -> Tensor:
    """Quantiles by :func:`quantiles_by_tails`; levels that are NaN are refused."""
    cdf = as_levels(pit.cdf, like=law._like)
    return quantiles_by_tails(law, cdf, pit.survival, smallest=smallest)


class _Identity:
    """The map of [0, 1] that changes nothing."""

    knots = torch.tensor([0.0, 1.0], dtype=torch.float64)

    def forward(self, pit: PitValues) -> PitValues:
        return pit

    def inverse(self, levels: PitValues) -> PitValues:
        return levels

    def log_density(self, pit: PitValues) -> Tensor:
        return torch.zeros_like(pit.cdf)


@cache
def even_rule() -> LevelRule:
    """Return the rule for a smooth quantile function and no map, made once."""
    with torch.inference_mode(False):
        return _gauss_rule(panel_edges())


def _gauss_rule(edges: Tensor) -> LevelRule:
    """Return the rule without a map, with weights above 0 by plain Gauss-Legendre.

    A polynomial through quantiles that grow like a power of 1/u, as those of targets
    behind a logarithm, swings between its nodes; times the density of u they are tame.
    """
    degree = 8
    rule = LevelRule(_Identity(), edges, degree=degree)
    shares = torch.from_numpy(np.polynomial.legendre.leggauss(degree)[1])
    pit = pit_from_log_odds(rule.nodes[1:-1])
    widths = (edges.diff()[:, None] / 2 * shares).flatten()
    inner = widths * pit.cdf * pit.survival
    rule.weights[1:-1] = inner
    rule.spread_weights[1:-1] = inner * (pit.cdf - pit.survival)
    return rule


def rule_for(law: AbstractDistribution, unit_map: UnitMap | None = None) -> LevelRule:
    """Return the rule that meets the kinks of a law's quantile function and a map's."""
    # In other units a quantile function has its kinks at the same levels.
    while (inner := getattr(law, "_level_law", law)) is not law:
        law = inner
    if isinstance(law, Empirical):
        m = len(law.samples)
        steps = torch.arange(m + 1, dtype=torch.float64) / m
        outer = panel_edges()[-1]
        edges = steps.logit().clamp(-outer, outer)
        return LevelRule(unit_map or _Identity(), edges, degree=1)
    breaks = law.levels if isinstance(law, QuantileTable) else None
    if unit_map is not None:
        return LevelRule(unit_map, panel_edges(breaks), degree=8)
    return even_rule() if breaks is None else _gauss_rule(panel_edges(breaks))


class LevelIntegrals:
    r"""Integrals :math:`\int f(Q(u)) \, dR(u)` for all rows of a law.

    Parameters
    ----------
    rule
        Nodes and weights for the map R.
    at
        The quantile function Q: PIT values of shape ``()``, ``batch_shape`` or with
        axes in front of it to values of that shape.
    batch_shape
        Shape of the batch of laws.
    device
        Where ``at`` wants its levels.
    searched
        The law itself, if its quantiles are dear: then the integrals run over values.
    """

    def __init__(
        self,
        rule: LevelRule,
        at: Callable[[PitValues], Tensor],
        batch_shape: torch.Size,
        device: torch.device,
        *,
        searched: AbstractDistribution | None = None,
    ) -> None:
        self._rule, self._at, self._searched = rule, at, searched
        self._batch_shape, self._device = batch_shape, device

    def around(self, center: Tensor) -> tuple[Tensor, Tensor]:
        """First and second moment around ``center``, in float64."""
        if self._searched is not None:
            mean, variance = moments_by_values(self._searched)
            return mean - center, variance + (mean - center).square()
        first, second = torch.zeros_like(center), torch.zeros_like(center)
        weights = self._rule.weights.tolist()
        for weight, quantile in zip(weights, self._quantiles(), strict=True):
            distance = quantile - center
            first = torch.add(first, distance, alpha=weight)
            second = torch.addcmul(second, distance, distance, value=weight)
        return first, second

    def mean_and_variance(
        self, center: Tensor, *, probe: Callable[[PitValues], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Both moments in float64, infinite or NaN as :meth:`endless` says.

        ``center`` is a value inside the law, as the median; ``probe`` as there.
        """
        first, second = self.around(center)
        mean, variance = center + first, (second - first.square()).clamp_min(0)
        low, high = self.endless(1, center, probe=probe)
        mean = torch.where(high, torch.inf, torch.where(low, -torch.inf, mean))
        mean = torch.where(low & high, torch.nan, mean)
        wide = torch.stack(self.endless(2, center, probe=probe)).any(0)
        variance = torch.where(wide, torch.inf, variance)
        return mean, torch.where(mean.isnan(), torch.nan, variance)

    def endless(
        self,
        power: int,
        center: Tensor,
        *,
        probe: Callable[[PitValues], Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Say in which rows a moment runs off, below and above, as booleans.

        At log odds s of a tail the integrand is :math:`|Q|^k e^{-s}`, which falls only
        while :math:`k \, d \log|Q| / ds < 1`. That is asked at the ends of the rule,
        beyond which nothing is integrated, and of ``probe`` at tails of 1e-300: the
        same quantiles, if their floats reach as far.
        """
        asked = [(self._at, 66.0, 87.0)]
        if probe is not None:
            asked.append((probe, 670.0, 690.0))
        with torch.no_grad():
            low, high = (
                torch.stack(
                    [_growth(at, center, sign * a, sign * b) for at, a, b in asked]
                )
                for sign in (-1, 1)
            )
        # A tail that falls like 1/y has a slope of 1 but for rounding.
        limit = (1 - 1e-9) / power
        return (low >= limit).any(0), (high >= limit).any(0)

    def crps(self, value: Tensor, pit: PitValues) -> Tensor:
        r"""Integrate the energy form over levels, in float64.

        .. math::
            \int Q \, dR - y - 2 \int_0^{F(y)} (Q - y) \, dR - \int Q (2R - 1) \, dR

        ``pit`` are the levels F(y) of ``value`` before the map.
        """
        if self._searched is not None:
            return crps_by_values(self._searched, value)
        rule, y = self._rule, value.double()
        with torch.no_grad():  # the integrand is 0 at F(y): the limit has no gradient
            panel, nodes, weights = rule.upto(pit)
        total, below = -y.expand(panel.shape), torch.zeros_like(y)
        whole, before = torch.zeros_like(y), 0.0
        for number, quantile in enumerate(self._quantiles()):
            weight, spread = rule.weights[number], rule.spread_weights[number]
            total = torch.add(total, quantile, alpha=float(weight - spread))
            whole = torch.add(whole, quantile, alpha=float(weight))
            before += float(weight)
            if rule.panels[number] not in rule.panels[number + 1 : number + 2]:
                passed = panel > rule.panels[number]
                below = torch.where(passed, whole - before * y, below)
        for node, weight in zip(nodes, weights, strict=True):
            below = below + weight * (self._at(pit_from_log_odds(node)) - y)
        return (total - 2 * below).clamp_min(0)

    def _quantiles(self) -> Iterator[Tensor]:
        """Quantiles of all rows at each node of the rule, one by one, in float64."""
        nodes = self._rule.nodes.to(self._device)
        size = max(1, _BLOCK // max(1, self._batch_shape.numel()))
        far = torch.sigmoid(-nodes) < FAR  # all or none of a block, which saves work
        for part in (nodes[~far], nodes[far]):
            for block in part.split(size):
                pit = pit_from_log_odds(block)
                if size == 1:  # a number is less work than a level for each row
                    yield self._at(pit.map(lambda tail: tail[0])).double()
                else:
                    yield from self._at(pit.map(self._for_each_row)).double()

    def _for_each_row(self, levels: Tensor) -> Tensor:
        """Bring ``(k,)`` to ``(k, *batch_shape)``."""
        shape = (len(levels), *[1] * len(self._batch_shape))
        return levels.reshape(shape).expand(-1, *self._batch_shape)


def refuse_endless_crps(endless: Tensor) -> None:
    """Refuse the crps of rows whose mean is not finite."""
    if endless.any():
        raise UnsupportedError(
            "crps needs a law with a finite mean, and the mean of some rows is "
            "not. Score with log_prob."
        )


def _growth(
    at: Callable[[PitValues], Tensor], center: Tensor, near: float, far: float
) -> Tensor:
    """Slope of the logarithm of the distance from the center, by log odds."""
    odds = torch.tensor([near, far], dtype=torch.float64, device=center.device)
    logs = [
        (at(pit_from_log_odds(each)).double() - center).abs().log() for each in odds
    ]
    slope = (logs[1] - logs[0]) / abs(far - near)
    return torch.where(logs[1] == torch.inf, torch.inf, slope)
