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
