"""Calibration of the spread: predicted variance against squared error, in bins."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import Distribution
from calibrant.distributions.empirical import Empirical
from calibrant.metrics.floors import NoiseFloor, floor_from_draws
from calibrant.metrics.pit import (
    Floats,
    TargetGrid,
    check_draws,
    error_of_mean,
    rows,
    spread_of,
    torch_generator,
)
from calibrant.scores import Prediction

__all__ = ["ence", "spread_noise_floors", "uce"]

Binning = Literal["count", "width"]
#: Targets that are drawn at once for the floors of ence and uce.
_VALUES = 5000
#: Above this many rows the mean squared errors of bins are drawn, where they are nearly
#: normal, from moments of this many targets at least, this many times.
_MANY_ROWS = 20_000
_MOMENT_VALUES = 200_000
_BIN_DRAWS = 2000
#: A bin's mean with more skewness is not taken as normal, and by how much its spread
#: may depend on how its draws are pooled.
_MOST_SKEWNESS = 0.1
_MOST_DIFFERENCE = 0.2


@torch.no_grad()
def ence(
    distribution: Prediction,
    y: ArrayLike,
    *,
    bins: int = 10,
    binning: Binning = "count",
) -> float:
    r"""Expected normalized calibration error of the standard deviation (ENCE).

    Rows are binned by their predicted standard deviation; in each bin its root mean
    square should be the root mean squared error of the mean:

    .. math::
        \mathrm{ENCE} = \frac1B \sum_{b=1}^{B}
            \frac{|\mathrm{RMSE}(b) - \mathrm{RMV}(b)|}{\mathrm{RMV}(b)} .

    A calibrated model shows about :math:`\sqrt{B / (\pi n)}`, not 0.

    Parameters
    ----------
    distribution, y
        Predictions and targets of shape ``(n,)``.
    bins
        :math:`B`. Bins without rows are left out.
    binning
        ``"count"`` puts the same number of rows into each bin (rows with equal spread
        stay together), ``"width"`` cuts the range of the spread into equal parts, as
        netcal does; one very uncertain row can then leave most bins empty.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2019), *Evaluating and Calibrating Uncertainty
    Prediction in Regression Tasks*, arXiv:1905.11659.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> ence(Gaussian([0.0, 0.0], [1.0, 4.0]), [1.0, 2.0], bins=2)
    0.25
    """
    variance, error = _variance_and_error(distribution, y)
    cut = _spread_bins(variance.sqrt(), variance, bins=bins, binning=binning)
    return float(_ence(cut, cut.average(error)))


@torch.no_grad()
def uce(
    distribution: Prediction,
    y: ArrayLike,
    *,
    bins: int = 10,
    binning: Binning = "count",
) -> float:
    r"""Uncertainty calibration error of the variance (UCE), in squared target units.

    Rows are binned by their predicted variance, whose mean in each bin should be the
    mean squared error:

    .. math::
        \mathrm{UCE} = \sum_{b=1}^{B} \frac{n_b}{n}
            |\mathrm{MSE}(b) - \mathrm{MV}(b)| .

    Parameters as in :func:`ence`.

    References
    ----------
    Laves, Ihler, Fast, Kahrs and Ortmaier (2020), *Well-Calibrated Regression
    Uncertainty in Medical Imaging with Deep Learning*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> uce(Gaussian([0.0, 0.0], [1.0, 4.0]), [1.0, 2.0], bins=2)
    6.0
    """
    variance, error = _variance_and_error(distribution, y)
    cut = _spread_bins(variance, variance, bins=bins, binning=binning)
    return float(_uce(cut, cut.average(error)))


class _SpreadBins(NamedTuple):
    """Bin of each row ``(n,)``; share and mean variance of each bin with rows."""

    bin_of: Tensor
    weight: Tensor
    variance: Tensor

    def average(self, values: Tensor) -> Tensor:
        """Mean of ``values`` ``(n,)`` in each bin."""
        return _averages(self.bin_of, values, len(self.weight))


def _ence(bins: _SpreadBins, mean_squares: Tensor) -> Tensor:
    """ENCE of mean squared errors of the bins, ``(..., bins) -> (...)``."""
    spread = bins.variance.sqrt()
    if bool((spread == 0).any()):
        raise InputError(
            "ence divides by the predicted spread, which is 0 in a whole bin. Use uce, "
            "or predict a spread above 0."
        )
    return ((mean_squares.sqrt() - spread).abs() / spread).mean(-1)


def _uce(bins: _SpreadBins, mean_squares: Tensor) -> Tensor:
    """UCE of mean squared errors of the bins, ``(..., bins) -> (...)``."""
    return (bins.weight * (mean_squares - bins.variance).abs()).sum(-1)


def _variance_and_error(
    distribution: Prediction, y: ArrayLike
) -> tuple[Tensor, Tensor]:
    """Return predicted variances and squared errors, each of shape ``(n,)``."""
    predictive, target = rows(distribution, y)
    error = error_of_mean(predictive, target).square()
    variance, _ = spread_of(predictive)
    return variance.expand_as(error).contiguous(), error


def _spread_bins(
    by: Tensor, variance: Tensor, *, bins: int = 10, binning: Binning = "count"
) -> _SpreadBins:
    """Cut rows into bins of ``by``; both arguments have shape ``(n,)``."""
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    values = by.detach().cpu().numpy()
    cells = np.searchsorted(_inner_edges(values, bins, binning), values, side="right")
    index = torch.from_numpy(cells).to(by.device)
    count = torch.bincount(index, minlength=bins)
    filled = count > 0
    if not bool(filled.all()):
        index, count = (filled.cumsum(0) - 1)[index], count[filled]
    # An integer tensor divided by a number takes the default float type.
    weight = count.to(by.dtype) / len(by)
    return _SpreadBins(index, weight, _averages(index, variance, len(weight)))


def _averages(index: Tensor, values: Tensor, bins: int) -> Tensor:
    """Mean of ``values`` in each of ``bins`` bins, none of them empty."""
    total = torch.bincount(index, weights=values, minlength=bins)
    return total / torch.bincount(index, minlength=bins)


def _inner_edges(values: Floats, bins: int, binning: Binning) -> Floats:
    """Smallest value of each bin but the first, shape ``(bins - 1,)``."""
    inner = np.arange(1, bins)
    if binning == "count":
        # The first row of each bin; equal values then fall into one bin.
        edges: Floats = np.sort(values)[inner * len(values) // bins]
    elif binning == "width":
        low, high = values.min(), values.max()
        edges = low + inner / bins * (high - low)
    else:
        raise InputError(f"binning must be 'count' or 'width', got {binning!r}.")
    return edges


@torch.no_grad()
def spread_noise_floors(
    predictive: Distribution,
    target: Tensor,
    *,
    grid: TargetGrid | None = None,
    draws: int = 200,
    seed: int = 0,
) -> dict[str, NoiseFloor]:
    """What ``ence`` and ``uce`` show when the targets come from the predictions.

    As ``predictive_noise_floor(predictive, ence)``, but mean, variance and bins are
    computed once. A new target is not one of the samples that were drawn: target and
    samples are put together, and any of them in turn is the target of the others.

    Above 20,000 rows without a grid, the mean squared errors of the bins are drawn
    instead of single targets, at least 2000 times: by the central limit theorem they
    are normal. Where their skewness is above 0.1 (heavy tails, or few rows of a far
    larger variance in a bin), where the distributions of a bin differ much in shape,
    and for samples, targets are drawn for all rows.

    Parameters
    ----------
    predictive
        Predictions of shape ``(n,)``, with a variance.
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
    >>> predictive = Gaussian(torch.zeros(1000), 1.0)
    >>> floors = spread_noise_floors(predictive, torch.zeros(1000))
    >>> 0.01 < floors["ence"].expectation < 0.03
    True
    """
    generator = torch_generator(seed, target.device)
    draws, samples = check_draws(draws), isinstance(predictive, Empirical)
    values = None
    if len(target) > _MANY_ROWS and grid is None and not samples:
        values = _values_of_bins(predictive, max(draws, _BIN_DRAWS), generator)
    if values is None:
        values = _values_of_rows(predictive, target, grid, draws, generator)
    return {
        name: floor_from_draws(name, len(target), values[:, i])
        for i, name in enumerate(("ence", "uce"))
    }


def _values_of_rows(
    predictive: Distribution,
    target: Tensor,
    grid: TargetGrid | None,
    draws: int,
    generator: torch.Generator,
) -> Floats:
    """Both metrics of targets that are drawn for every row, ``(draws, 2)``."""
    if isinstance(predictive, Empirical):
        models = _exchanged(predictive, target, grid, generator)
    else:
        models = _drawn(predictive, grid, generator)
    return np.array(
        [
            (
                float(_ence(by_stddev, by_stddev.average(error))),
                float(_uce(by_variance, by_variance.average(error))),
            )
            for by_stddev, by_variance, error in islice(models, draws)
        ]
    )


def _values_of_bins(
    predictive: Distribution, draws: int, generator: torch.Generator
) -> Floats | None:
    """Both metrics where the bins' mean squared errors are drawn, ``(draws, 2)``.

    The mean of thousands of squared errors is normal, with the mean of the predicted
    variances as its mean; its spread comes from some draws of all rows. ``None`` where
    the mean is too skewed for that, or the shapes in a bin differ.
    """
    variance, stddev = spread_of(predictive)
    moments = _relative_moments(predictive, variance, generator)
    values = []
    for by, of_means in ((stddev, _ence), (variance, _uce)):
        bins = _spread_bins(by, variance)
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
    predictive: Distribution, variance: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Second and third moment of (squared error / variance - 1), each ``(n,)``."""
    squares, cubes = torch.zeros_like(variance), torch.zeros_like(variance)
    times = -(-_MOMENT_VALUES // len(variance))
    # A row without spread has no error.
    scale = torch.where(variance > 0, variance, 1.0)
    for error in islice(_errors(predictive, None, generator), times):
        excess = (error - variance) / scale
        square = excess.square()
        squares += square / times
        cubes += square * excess / times
    return squares, cubes


def _normal_square(
    bins: _SpreadBins, variance: Tensor, squares: Tensor, cubes: Tensor
) -> Tensor | None:
    """Mean square of (squared error - variance) in each bin; ``None`` if too skewed.

    The few draws of the rows with the largest variances would show too little of their
    tails. So relative moments are pooled over a bin, which has thousands of draws, and
    multiplied by powers of the variances: for distributions of one shape this is exact
    but for the noise of the pooled moments. Where the rows' own draws say something
    else, the shapes in a bin change with the variance.
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
    predictive: Distribution, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[tuple[_SpreadBins, _SpreadBins, Tensor]]:
    """Bins, and squared errors of targets that are drawn from the predictions."""
    variance, stddev = spread_of(predictive)
    bins = _spread_bins(stddev, variance), _spread_bins(variance, variance)
    for error in _errors(predictive, grid, generator):
        yield *bins, error


def _errors(
    predictive: Distribution, grid: TargetGrid | None, generator: torch.Generator
) -> Iterator[Tensor]:
    """Squared errors ``(n,)`` of drawn targets, without end."""
    mean = predictive.mean.double()
    at_once = max(1, _VALUES // max(1, len(mean)))
    while True:
        # Many at once: where a draw is a search, it costs little more than one.
        for y in predictive.sample((at_once,), generator=generator).double():
            yield ((y if grid is None else grid.round(y)) - mean).square()


def _exchanged(
    predictive: Empirical,
    target: Tensor,
    grid: TargetGrid | None,
    generator: torch.Generator,
) -> Iterator[tuple[_SpreadBins, _SpreadBins, Tensor]]:
    """Bins and squared errors where target and samples change places."""
    together = torch.cat([predictive.samples.double(), target[None].double()])
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
        by_stddev = _spread_bins(variance.sqrt(), variance)
        yield by_stddev, _spread_bins(variance, variance), miss.square()
