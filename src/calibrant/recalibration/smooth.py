"""A map whose density is continuous."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._base import MapRecalibrator
from calibrant.recalibration._log_odds_spline import LogOddsSpline
from calibrant.recalibration._logit import bounded_log_odds

__all__ = ["SmoothRecalibrator"]


class SmoothRecalibrator(MapRecalibrator):
    r"""A spline through a few quantiles of the held-out PIT values.

    The map is :math:`\operatorname{logit} R(u) = T(\operatorname{logit} u)` with an
    increasing spline :math:`T` that has a continuous derivative, so the recalibrated
    law has a continuous density, above 0 everywhere. Its knots are about
    :math:`n^{1/3}` quantiles of the PIT values, each held by some
    :math:`n^{2/3}` rows, and more towards the ends when the rows suffice. Beyond them
    :math:`T` is linear, with Hill's estimate from the rows out there,

    .. math:: \beta = \frac{m + 1}{1 + \sum_i |\operatorname{logit} u_i - s|}

    for the :math:`m` values beyond the knot :math:`s`, at most 4 times the slope of the
    segment before. On the scale of log odds that continues a normal law that is too
    narrow or too wide as a normal law.

    Data: held-out rows, best 50 or more; a single one gives a shift. No finite-sample
    guarantee, but the best NLL of the maps here if there are enough rows.

    Parameters
    ----------
    knots
        Number of inner quantiles; by default the cube root of ``n``.

    References
    ----------
    Gregory and Delbourgo (1982), *Piecewise Rational Quadratic Interpolation to
    Monotonic Data*.
    Durkan, Bekasov, Murray and Papamakarios (2019), *Neural Spline Flows*,
    arXiv:1906.04032.
    Hill (1975), *A Simple General Approach to Inference About the Tail of a
    Distribution*.

    Examples
    --------
    >>> import torch
    >>> overconfident = torch.linspace(-4, 4, 200).sigmoid()
    >>> smooth = SmoothRecalibrator().fit_pit(overconfident)
    >>> [round(level, 2) for level in smooth.apply([0.05, 0.5, 0.95]).tolist()]
    [0.13, 0.5, 0.87]
    """

    name: ClassVar[str] = "smooth"

    def __init__(self, *, knots: int | None = None) -> None:
        if knots is not None and knots < 1:
            raise InputError(f"knots must be at least 1, got {knots}.")
        self.knots = knots

    def _options(self) -> dict[str, object]:
        return {"knots": self.knots}

    def _learn(self, pit: PitValues) -> LogOddsSpline:
        odds = bounded_log_odds(pit)
        levels = _knot_levels(len(odds), self.knots)
        places = _quantiles(odds, levels)
        # Knots at one place (ties) become one, at the middle of their levels.
        new = torch.cat([torch.ones(1, dtype=torch.bool), places.diff() > 1e-9])
        group = new.cumsum(0) - 1
        zeros = torch.zeros(int(group[-1]) + 1, dtype=torch.float64)
        middle = zeros.index_add(0, group, levels) / group.bincount()
        places, heights = places[new], middle.logit()
        return LogOddsSpline(places, heights, _slopes(odds, places, heights))

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> LogOddsSpline:
        return LogOddsSpline.restore(state)


def _knot_levels(n: int, knots: int | None) -> Tensor:
    """Probabilities of the knots: even ones, and finer ones in well-filled tails."""
    inner = min(n, round(n ** (1 / 3)) if knots is None else knots)
    even = torch.arange(1, inner + 1, dtype=torch.float64) / (inner + 1)
    tails = []
    tail = even[:1] / 4
    # Sixteen rows pin the probability beyond a knot down to a quarter of itself.
    while knots is None and n * tail >= 16:
        tails.append(tail)
        tail = tail / 4
    lower = torch.cat([*tails[::-1], even[:0]])
    return torch.cat([lower, even, 1 - lower.flip(0)])


def _quantiles(ordered: Tensor, levels: Tensor) -> Tensor:
    """Sorted values read at ranks ``level (n + 1)``, linear in between."""
    rank = levels * (len(ordered) + 1) - 1
    below = rank.floor().long().clamp(0, len(ordered) - 1)
    above = (below + 1).clamp_max(len(ordered) - 1)
    share = (rank - below).clamp(0, 1)
    return torch.lerp(ordered[below], ordered[above], share)


def _slopes(odds: Tensor, places: Tensor, heights: Tensor) -> Tensor:
    """Hill's estimate at the ends, geometric means of neighbors in between."""
    low, high = odds < places[0], odds > places[-1]
    excess_low = (places[0] - odds[low]).sum()
    excess_high = (odds[high] - places[-1]).sum()
    first = (low.sum() + 1) / (1 + excess_low)
    last = (high.sum() + 1) / (1 + excess_high)
    if len(places) == 1:  # one slope for both sides, or the density would jump
        return ((low.sum() + high.sum() + 1) / (1 + excess_low + excess_high)).reshape(
            1
        )
    secants = heights.diff() / places.diff()
    inner = (secants[:-1] * secants[1:]).sqrt()
    # A steeper end would take its rise from the rest of the outer segment.
    ends = torch.minimum(torch.stack([first, last]), 4 * secants[[0, -1]])
    return torch.cat([ends[:1], inner, ends[1:]])
