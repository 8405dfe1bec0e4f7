"""The definition of the crps, to hold every closed form against."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant.distributions import AbstractDistribution

Score = Callable[..., Tensor]
LEVELS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
TAIL = (1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3)


@pytest.fixture
def crps_by_definition() -> Score:
    """Integral of F^2 below y plus that of (1 - F)^2 above it, between quantiles.

    Further ``levels`` are places where the density jumps.
    """

    def score(
        predictive: AbstractDistribution, y: Tensor, levels: Sequence[float] = ()
    ) -> Tensor:
        every = [*TAIL, *LEVELS, *levels, *(1 - level for level in TAIL)]
        knots = torch.stack([*(predictive.quantile(level) for level in every), y])
        knots = knots.sort(0).values
        nodes, weights = (
            torch.tensor(part)[:, None, None]
            for part in np.polynomial.legendre.leggauss(60)
        )
        width = knots.diff(dim=0) / 2
        points = knots[:-1] + width * (1 + nodes)
        tail = torch.where(
            points < y, predictive.cdf(points), predictive.survival(points)
        )
        return (weights * width * tail**2).sum((0, 1))

    return score


@pytest.fixture
def gaps_to_even_sample() -> Callable[..., tuple[float, float, float]]:
    """Gaps of mean, stddev and crps to those of a large, even sample, in its spread."""

    def gaps(
        predictive: AbstractDistribution, *places: Tensor, count: int = 100_000
    ) -> tuple[float, float, float]:
        levels = ((torch.arange(count, dtype=torch.float64) + 0.5) / count)[:, None]
        sample = predictive.quantile(levels.expand(-1, *predictive.batch_shape))
        spread, scores = sample.std(0), []
        for y in places:
            energy = (sample - y).abs().mean(0) - ((2 * levels - 1) * sample).mean(0)
            scores.append((predictive.crps(y) - energy) / spread)
        parts = (
            (predictive.mean - sample.mean(0)) / spread,
            predictive.stddev / spread - 1,
            torch.stack(scores),
        )
        mean, stddev, crps = (float(part.abs().max()) for part in parts)
        return mean, stddev, crps

    return gaps
