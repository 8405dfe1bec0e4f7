"""Calibration of the spread: predicted variance against squared error, in bins."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant.distributions.empirical import Empirical
from calibrant.metrics.floors import NoiseFloor, floor_from_draws
from calibrant.metrics.pit import (
    TargetGrid,
    check_count,
    error_of_mean,
    rows,
    torch_generator,
    variance_of,
)
from calibrant.protocols import Distribution
from calibrant.scores import Prediction
from calibrant.validation import ArrayLike, InputError

__all__ = ["ence", "uce"]

Binning = Literal["count", "width"]
#: Simulated models for the floors, up to so many rows.
_DRAWS = 200
_MANY_ROWS = 20_000
#: Of more rows 1.2 million targets are drawn, at least 12 for each. Parts of each bin
#: are then combined to so many models.
_TARGETS, _FEWEST_SETS = 1_200_000, 12
_PARTS, _COMBINATIONS = 20, 2000
#: Targets that are drawn at once.
_VALUES = 5000


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
    """Bin of each row ``(n,)``; rows and mean variance of each bin, none empty."""

    bin_of: Tensor
    size: Tensor
    variance: Tensor

    def average(self, values: Tensor) -> Tensor:
        """Mean of ``values`` ``(n,)`` in each bin."""
        return torch.bincount(self.bin_of, weights=values) / self.size


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
    weight = bins.size.to(bins.variance) / len(bins.bin_of)
    return (weight * (mean_squares - bins.variance).abs()).sum(-1)


def _variance_and_error(
    distribution: Prediction, y: ArrayLike
) -> tuple[Tensor, Tensor]:
    """Return predicted variances and squared errors, each of shape ``(n,)``."""
    predictive, target = rows(distribution, y)
    error = error_of_mean(predictive, target).square()
    return variance_of(predictive).expand_as(error).contiguous(), error


def _spread_bins(
    by: Tensor, variance: Tensor, *, bins: int = 10, binning: Binning = "count"
) -> _SpreadBins:
    """Cut rows into bins of ``by``; both arguments have shape ``(n,)``."""
    check_count(bins, name="bins")
    values, inner = by.detach().cpu().numpy(), np.arange(1, bins)
    if binning == "count":
        # The first row of each bin; equal values then fall into one bin.
        edges = np.sort(values)[inner * len(values) // bins]
    elif binning == "width":
        low, high = values.min(), values.max()
        edges = low + inner / bins * (high - low)
    else:
        raise InputError(f"binning must be 'count' or 'width', got {binning!r}.")
    index = torch.from_numpy(np.searchsorted(edges, values, side="right")).to(by.device)
    count = torch.bincount(index)
    filled = count > 0
    if not bool(filled.all()):
        index, count = (filled.cumsum(0) - 1)[index], count[filled]
    return _SpreadBins(index, count, torch.bincount(index, weights=variance) / count)


@torch.no_grad()
def spread_noise_floors(
    predictive: Distribution,
    target: Tensor,
    *,
    grid: TargetGrid | None = None,
    seed: int = 0,
) -> dict[str, NoiseFloor]:
    """What ``ence`` and ``uce`` show when the targets come from the predictions.

    As ``predictive_noise_floor(predictive, ence)``, but mean, variance and bins are
    computed once. A new target is not one of the samples that were drawn: target and
    samples are put together, and any of them in turn is the target of the others.

    Of more than 20,000 rows 12 to 60 sets of targets are drawn. Rows are independent,
    so that a part of them in one set goes with any other part in another set: each bin
    is cut into 20 parts, of which 2000 combinations are simulated models, too.
    """
    generator = torch_generator(seed, target.device)
    if isinstance(predictive, Empirical):
        models = islice(_exchanged(predictive, target, grid, generator), _DRAWS)
        pairs = [
            (_ence(bins, bins.average(error)), _uce(bins, bins.average(error)))
            for bins, error in models
        ]
        of_ence, of_uce = (torch.stack(values) for values in zip(*pairs, strict=True))
    else:
        variance = variance_of(predictive)
        bins = _spread_bins(variance, variance)
        errors = _errors(predictive, grid, generator)
        if len(target) <= _MANY_ROWS:
            found = torch.stack([bins.average(e) for e in islice(errors, _DRAWS)])
        else:
            found = _recombined(bins, errors, generator)
            if grid is None:  # their mean is known
                found = (found + bins.variance - found.mean(0)).clamp_min(0)
        of_ence, of_uce = _ence(bins, found), _uce(bins, found)
    return {
        name: floor_from_draws(name, len(target), values.cpu().numpy())
        for name, values in (("ence", of_ence), ("uce", of_uce))
    }


def _recombined(
    bins: _SpreadBins, errors: Iterator[Tensor], generator: torch.Generator
) -> Tensor:
    """Mean squared errors of the bins from parts of some sets of targets."""
    n, size = len(bins.bin_of), bins.size
    place = torch.arange(n, device=size.device) % _PARTS
    part, parts = bins.bin_of * _PARTS + place, len(size) * _PARTS
    sets = max(_FEWEST_SETS, _TARGETS // n)
    sums = torch.stack(
        [torch.bincount(part, weights=e, minlength=parts) for e in islice(errors, sets)]
    )
    chosen = torch.randint(
        sets, (_COMBINATIONS, parts), generator=generator, device=size.device
    )
    return sums.gather(0, chosen).reshape(_COMBINATIONS, -1, _PARTS).sum(-1) / size


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
) -> Iterator[tuple[_SpreadBins, Tensor]]:
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
        yield _spread_bins(variance, variance), miss.square()
