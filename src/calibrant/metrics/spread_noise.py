"""Noise floors of the metrics that compare predicted variance with squared error."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from calibrant.contracts import Distribution
from calibrant.distributions.empirical import Empirical
from calibrant.metrics._counts import Floats, check_draws, torch_generator
from calibrant.metrics._rows import spread_of
from calibrant.metrics.noise import NoiseFloor, floor_from_draws
from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.variance import (
    SpreadBins,
    ence_of,
    ence_of_means,
    spread_bins,
    uce_of,
    uce_of_means,
)

__all__ = ["spread_noise_floors"]

# Targets that are drawn at once.
_VALUES = 5000
#: Above this the mean squared errors of bins are drawn, where they are nearly normal,
#: from moments of this many targets at least.
_MANY_ROWS = 20_000
_MOMENT_VALUES = 200_000
#: A mean of a bin with more skewness is not taken as normal: heavy tails, or few rows
#: of a large variance.
_MOST_SKEWNESS = 0.1
#: By how much a bin's spread may depend on how its draws are pooled.
_MOST_DIFFERENCE = 0.2
#: Draws of bins cost next to nothing.
_BIN_DRAWS = 2000


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

    Above 20,000 rows without a grid, the mean squared errors of the bins are drawn
    instead of single targets, 2000 times or more: by the central limit theorem they are
    normal. Where their skewness is above 0.1 (heavy tails, or few rows of a far larger
    variance in a bin), where the laws of a bin differ much in shape, and for samples,
    targets are drawn for all rows as for fewer rows.

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
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian(torch.zeros(1000), 1.0)
    >>> floors = spread_noise_floors(law, torch.zeros(1000))
    >>> 0.01 < floors["ence"].expectation < 0.03
    True
    """
    generator = torch_generator(seed, target.device)
    draws = check_draws(draws)
    values = None
    if len(target) > _MANY_ROWS and grid is None and not isinstance(law, Empirical):
        values = _values_of_bins(law, max(draws, _BIN_DRAWS), generator)
    if values is None:
        values = _values_of_rows(law, target, grid, draws, generator)
    return {
        name: floor_from_draws(name, len(target), values[:, i])
        for i, name in enumerate(("ence", "uce"))
    }


def _values_of_rows(
    law: Distribution,
    target: Tensor,
    grid: TargetGrid | None,
    draws: int,
    generator: torch.Generator,
) -> Floats:
    """Both metrics of targets that are drawn for every row, ``(draws, 2)``."""
    if isinstance(law, Empirical):
        models = _exchanged(law, target, grid, generator)
    else:
        models = _drawn(law, grid, generator)
    return np.array(
        [
            (ence_of(by_stddev, error), uce_of(by_variance, error))
            for by_stddev, by_variance, error in islice(models, draws)
        ]
    )


def _values_of_bins(
    law: Distribution, draws: int, generator: torch.Generator
) -> Floats | None:
    """Both metrics where the bins' mean squared errors are drawn, ``(draws, 2)``.

    The mean of thousands of squared errors is normal, with the mean of the predicted
    variances as its mean; its spread comes from some draws of all rows. ``None`` where
    the mean is too skewed for that, or the shapes in a bin differ.
    """
    variance, stddev = spread_of(law)
    moments = _relative_moments(law, variance, generator)
    values = []
    for by, of_means in ((stddev, ence_of_means), (variance, uce_of_means)):
        bins = spread_bins(by, variance)
        rows = len(variance) * bins.weight
        square = _normal_square(bins, variance, *moments)
        if square is None:
            return None
        noise = torch.randn(
            (draws, len(rows)),
            generator=generator,
            dtype=rows.dtype,
            device=rows.device,
        )
        means = bins.variance + noise * (square / rows).sqrt()
        values.append(of_means(bins, means.clamp_min(0)))
    result: Floats = torch.stack(values, -1).cpu().numpy()
    return result


def _relative_moments(
    law: Distribution, variance: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Second and third moment of (squared error / variance - 1) from few draws a row.

    Both have shape ``(n,)``.
    """
    squares, cubes = torch.zeros_like(variance), torch.zeros_like(variance)
    times = -(-_MOMENT_VALUES // len(variance))
    # A row without spread has no error.
    scale = torch.where(variance > 0, variance, 1.0)
    for error in islice(_errors(law, None, generator), times):
        excess = (error - variance) / scale
        square = excess.square()
        squares += square / times
        cubes += square * excess / times
    return squares, cubes


def _normal_square(
    bins: SpreadBins, variance: Tensor, squares: Tensor, cubes: Tensor
) -> Tensor | None:
    """Mean square of (squared error - variance) in each bin; ``None`` if too skewed.

    The few draws of the rows with the largest variances, which have most to say, would
    show too little of their tails. So relative moments are pooled over a bin, which has
    thousands of draws, and multiplied by powers of the variances, which are known: for
    laws of one shape this is exact but for the noise of the pooled moments. Where the
    rows' own draws say something else, the shapes in a bin change with the variance.
    """
    power = variance.square()
    square = bins.average(squares) * bins.average(power)
    cube = bins.average(cubes) * bins.average(power * variance)
    rows = len(variance) * bins.weight
    skewness = cube.abs() / (square**1.5 * rows.sqrt())
    difference = (bins.average(squares * power) - square).abs()
    normal = skewness <= _MOST_SKEWNESS
    alike = difference <= _MOST_DIFFERENCE * square
    return square if bool((normal & alike).all()) else None


def _drawn(
    law: Distribution, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[tuple[SpreadBins, SpreadBins, Tensor]]:
    """Bins, and squared errors of targets that are drawn from the law."""
    variance, stddev = spread_of(law)
    bins = spread_bins(stddev, variance), spread_bins(variance, variance)
    for error in _errors(law, grid, generator):
        yield *bins, error


def _errors(
    law: Distribution, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[Tensor]:
    """Squared errors ``(n,)`` of targets that are drawn from the law, without end."""
    mean = law.mean.double()
    at_once = max(1, _VALUES // max(1, len(mean)))
    while True:
        # Many at once: where a draw is a search, it costs little more than one.
        for y in law.sample((at_once,), generator=generator).double():
            yield ((y if grid is None else grid.round(y)) - mean).square()


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
