"""Recalibrated predictions and mixtures, against netcal, bisection and scoringrules."""

import math
from collections.abc import Callable

import numpy as np
import scoringrules
import torch
from netcal.regression import IsotonicRegression
from torch import Tensor
from torch.distributions import Normal

from bench.contest import Contest, at_least, at_most
from bench.contests.metrics import predictions
from calibrant import GaussianMixture
from calibrant.recalibration import IsotonicRecalibrator

__all__ = ["CONTESTS", "mixture"]


def _isotonic() -> Contest:
    mean, spread, y = predictions(1_000)

    def theirs() -> tuple[np.ndarray, ...]:
        recalibrator = IsotonicRegression()
        recalibrator.fit((mean, spread), y)
        found: tuple[np.ndarray, ...] = recalibrator.transform((mean, spread))
        return found

    points, _, expected = (part.squeeze(-1) for part in theirs())
    grid = torch.from_numpy(points)

    def ours() -> Tensor:
        recalibrator = IsotonicRecalibrator(floor=0).fit((mean, spread), y)
        return recalibrator.transform((mean, spread)).cdf(grid)

    return Contest(
        work="isotonic recalibration, fit + 512 cdf points x 1,000 rows",
        against="netcal",
        goal=at_least(5),
        ours=ours,
        other=theirs,
        difference=lambda: float(np.abs(ours().numpy() - expected).max()),
        tolerance=1e-3,
        rounds=(3, 100),
        note="netcal's answer has its grid and a density by differences as well",
    )


def _recalibrated() -> Contest:
    n = 1_000_000
    mean, spread, y = (torch.from_numpy(part) for part in predictions(n))
    few = slice(0, 10_000)
    recalibrator = IsotonicRecalibrator().fit((mean[few], spread[few]), y[few])
    pit = Normal(mean, spread).cdf(y)
    knots = recalibrator.unit_map.knots
    levels = torch.rand(n, dtype=torch.float64)

    def ours() -> tuple[Tensor, Tensor]:
        predictive = recalibrator.transform((mean, spread))
        return predictive.cdf(y), predictive.quantile(levels)

    return Contest(
        work="recalibrated cdf + quantile, 1,000,000 rows",
        against=f"one pass of a binary search over the map ({len(knots):,} knots)",
        goal=at_most(3),
        ours=ours,
        other=lambda: torch.searchsorted(knots, pit),
        note="both calls together against one search",
    )


def mixture(n: int, members: int = 20) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means, spreads and weights ``(members, n)``, and targets ``(n,)``."""
    random = np.random.default_rng(0)
    weights = random.uniform(size=(members, n))
    parts = (
        random.normal(size=(members, n)),
        random.uniform(0.5, 1.5, (members, n)),
        weights / weights.sum(0),
        random.normal(size=n),
    )
    first, second, third, last = (torch.from_numpy(part) for part in parts)
    return first, second, third, last


def _naive_crps(means: Tensor, spreads: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    """The closed form with all pairs at once, in parts that fit into memory."""

    def mean_distance(center: Tensor, spread: Tensor) -> Tensor:
        z = center / spread
        density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
        return center * torch.erf(z / math.sqrt(2)) + 2 * spread * density

    found = []
    for rows in torch.arange(len(y)).split(10_000):
        m, s, w = means[:, rows], spreads[:, rows], weights[:, rows]
        first = (w * mean_distance(y[rows] - m, s)).sum(0)
        root = (s.square().unsqueeze(0) + s.square().unsqueeze(1)).sqrt()
        pairs = mean_distance(m.unsqueeze(0) - m.unsqueeze(1), root)
        both = (w.unsqueeze(0) * w.unsqueeze(1) * pairs).sum((0, 1))
        found.append(first - both / 2)
    return torch.cat(found)


def _crps(name: str) -> Contest:
    means, spreads, weights, y = mixture(100_000)
    columns = [part.T.contiguous().numpy() for part in (means, spreads, weights)]

    def ours() -> Tensor:
        return GaussianMixture(means, spreads, weights).crps(y)

    def theirs() -> np.ndarray:
        if name != "scoringrules":
            return _naive_crps(means, spreads, weights, y).numpy()
        found: np.ndarray = scoringrules.crps_mixnorm(y.numpy(), *columns)
        return found

    return Contest(
        work="CRPS of a 20-member Gaussian mixture, 100,000 rows",
        against=name,
        goal=at_least(3),
        ours=ours,
        other=theirs,
        difference=lambda: float(np.abs(ours().numpy() - theirs()).max()),
        tolerance=1e-10,
        rounds=(3, 20),
    )


CONTESTS: dict[str, Callable[[], Contest]] = {
    "isotonic": _isotonic,
    "recalibrated": _recalibrated,
    "CRPS": lambda: _crps("scoringrules"),
    "CRPS naive": lambda: _crps("a naive closed form in torch"),
}
