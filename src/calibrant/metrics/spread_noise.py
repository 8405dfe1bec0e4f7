"""Noise floors of the metrics that compare predicted variance with squared error."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from calibrant.contracts import Distribution
from calibrant.distributions.empirical import Empirical
from calibrant.metrics._counts import check_draws, torch_generator
from calibrant.metrics._rows import spread_of
from calibrant.metrics.noise import NoiseFloor, floor_from_draws
from calibrant.metrics.target_grid import TargetGrid
from calibrant.metrics.variance import SpreadBins, ence_of, spread_bins, uce_of

__all__ = ["spread_noise_floors"]

# Targets that are drawn at once.
_VALUES = 5000


@torch.no_grad()
def spread_noise_floors(
    law: Distribution,
    target: Tensor,
    *,
    grid: TargetGrid | None = None,
    draws: int = 200,
    seed: int = 0,
) -> dict[str, NoiseFloor]:
    """What ``ence`` and ``uce`` show when the targets come from the predicted laws.

    As ``predictive_noise_floor(law, ence)``, but mean, variance and bins are computed
    once. Samples are draws from a law and not the law itself, so a new target is not
    one of them: target and samples are put together, and any of them in turn is the
    target of the others.

    Parameters
    ----------
    law
        Predicted laws of shape ``(n,)``, with a variance.
    target
        Shape ``(n,)``; used for samples only.
    grid
        How targets are recorded.
    draws
        Simulated sets of targets, at least 40.
    seed
        Of the simulation.

    Returns
    -------
    dict[str, NoiseFloor]
        Of ``"ence"`` and ``"uce"``, with 10 bins of equally many rows.

    Examples
    --------
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> law = Gaussian(torch.zeros(1000), 1.0)
    >>> floors = spread_noise_floors(law, torch.zeros(1000))
    >>> 0.01 < floors["ence"].expectation < 0.03
    True
    """
    generator = torch_generator(seed, target.device)
    if isinstance(law, Empirical):
        models = _exchanged(law, target, grid, generator)
    else:
        models = _drawn(law, grid, generator)
    values = np.array(
        [
            (ence_of(by_stddev, error), uce_of(by_variance, error))
            for by_stddev, by_variance, error in islice(models, check_draws(draws))
        ]
    )
    return {
        name: floor_from_draws(name, len(target), values[:, i])
        for i, name in enumerate(("ence", "uce"))
    }


def _drawn(
    law: Distribution, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[tuple[SpreadBins, SpreadBins, Tensor]]:
    """Bins, and squared errors of targets that are drawn from the law."""
    variance, stddev = spread_of(law)
    mean = law.mean.double()
    bins = spread_bins(stddev, variance), spread_bins(variance, variance)
    at_once = max(1, _VALUES // max(1, len(mean)))
    while True:
        # Many at once: where a draw is a search, it costs little more than one.
        for y in law.sample((at_once,), generator=generator).double():
            yield *bins, ((y if grid is None else grid.round(y)) - mean).square()


def _exchanged(
    law: Empirical, target: Tensor, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[tuple[SpreadBins, SpreadBins, Tensor]]:
    """Bins and squared errors where target and samples change places."""
    together = torch.cat([law.samples.double(), target[None].double()])
    m = len(together) - 1
    # Sums of centered values lose fewer digits.
    center = together.mean(0)
    together = together - center
    squares = together.square().sum(0)
    while True:
        place = torch.randint(
            m + 1, target.shape, generator=generator, device=target.device
        )
        y = together.gather(0, place[None])[0]
        mean = -y / m  # of the others: all together sum to 0
        variance = ((squares - y.square()) / m - mean.square()).clamp_min(0)
        miss = (y if grid is None else grid.round(y + center) - center) - mean
        by_stddev = spread_bins(variance.sqrt(), variance)
        yield by_stddev, spread_bins(variance, variance), miss.square()
