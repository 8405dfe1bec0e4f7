"""Predicted variance against squared error, among rows that share the variance."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.metrics._counts import cells_between
from calibrant.metrics._levels import ascending
from calibrant.metrics._rows import error_of_mean, rows, spread_of
from calibrant.scores import Prediction

__all__ = [
    "Binning",
    "SpreadBins",
    "ence",
    "ence_of",
    "ence_of_means",
    "spread_bins",
    "uce",
    "uce_of",
    "uce_of_means",
]

Binning = Literal["count", "width"]


class SpreadBins(NamedTuple):
    """Bin of each row ``(n,)``; share and mean variance of each bin that holds rows."""

    bin_of: Tensor
    weight: Tensor
    variance: Tensor

    def average(self, values: Tensor) -> Tensor:
        """Mean of ``values`` ``(n,)`` in each bin."""
        return _averages(self.bin_of, values, len(self.weight))


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

    A calibrated model shows about :math:`\sqrt{B / (\pi n)}`, not 0: few rows per bin
    look bad.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    bins
        :math:`B`. Bins without rows are left out.
    binning
        ``"count"`` puts the same number of rows into each bin (rows with equal spread
        stay together), ``"width"`` cuts the range of the spread into equal parts, as
        netcal does; one very uncertain row can then leave most bins empty.

    Returns
    -------
    float
        0 is best; it has no unit.

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
    by = variance.sqrt()
    return ence_of(spread_bins(by, variance, bins=bins, binning=binning), error)


def ence_of(bins: SpreadBins, error: Tensor) -> float:
    """ENCE of squared errors ``(n,)`` in given bins."""
    return float(ence_of_means(bins, bins.average(error)))


def ence_of_means(bins: SpreadBins, mean_squares: Tensor) -> Tensor:
    """ENCE of mean squared errors of the bins, ``(..., bins) -> (...)``."""
    spread = bins.variance.sqrt()
    if bool((spread == 0).any()):
        raise InputError(
            "ence divides by the predicted spread, which is 0 in a whole bin. Use uce, "
            "or predict a spread above 0."
        )
    return ((mean_squares.sqrt() - spread).abs() / spread).mean(-1)


@torch.no_grad()
def uce(
    distribution: Prediction,
    y: ArrayLike,
    *,
    bins: int = 10,
    binning: Binning = "count",
) -> float:
    r"""Uncertainty calibration error of the variance (UCE).

    Rows are binned by their predicted variance, whose mean in each bin should be the
    mean squared error:

    .. math::
        \mathrm{UCE} = \sum_{b=1}^{B} \frac{n_b}{n}
            |\mathrm{MSE}(b) - \mathrm{MV}(b)| .

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    bins
        :math:`B`.
    binning
        As in :func:`ence`; ``"width"`` gives netcal's number.

    Returns
    -------
    float
        0 is best; it has the target's unit squared.

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
    return uce_of(spread_bins(variance, variance, bins=bins, binning=binning), error)


def uce_of(bins: SpreadBins, error: Tensor) -> float:
    """UCE of squared errors ``(n,)`` in given bins."""
    return float(uce_of_means(bins, bins.average(error)))


def uce_of_means(bins: SpreadBins, mean_squares: Tensor) -> Tensor:
    """UCE of mean squared errors of the bins, ``(..., bins) -> (...)``."""
    return (bins.weight * (mean_squares - bins.variance).abs()).sum(-1)


def _variance_and_error(
    distribution: Prediction, y: ArrayLike
) -> tuple[Tensor, Tensor]:
    """Return predicted variances and squared errors, each of shape ``(n,)``."""
    law, target = rows(distribution, y)
    error = error_of_mean(law, target).square()
    variance, _ = spread_of(law)
    return variance.expand_as(error).contiguous(), error


def spread_bins(
    by: Tensor, variance: Tensor, *, bins: int = 10, binning: Binning = "count"
) -> SpreadBins:
    """Cut rows into bins of ``by``; both arguments have shape ``(n,)``."""
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    index = _bin_of(by, _inner_edges(by, bins, binning))
    count = torch.bincount(index, minlength=bins)
    held = count > 0
    if not bool(held.all()):
        index, count = (held.cumsum(0) - 1)[index], count[held]
    # An integer tensor divided by a number takes the default float type.
    weight = count.to(by.dtype) / len(by)
    return SpreadBins(index, weight, _averages(index, variance, len(weight)))


def _bin_of(by: Tensor, edges: Tensor) -> Tensor:
    """How many of the ascending edges each value reaches."""
    values, lowest = by.detach().cpu().numpy(), edges.detach().cpu().numpy()
    cells = cells_between(values, lowest, edge_above=True)
    return torch.from_numpy(cells).to(by.device)


def _averages(index: Tensor, values: Tensor, bins: int) -> Tensor:
    """Mean of ``values`` in each of ``bins`` bins, none of them empty."""
    total = torch.bincount(index, weights=values, minlength=bins)
    return total / torch.bincount(index, minlength=bins)


def _inner_edges(by: Tensor, bins: int, binning: Binning) -> Tensor:
    """Smallest value of each bin but the first, shape ``(bins - 1,)``."""
    if binning == "count":
        # The first row of each bin; equal values then fall into one bin.
        first = torch.arange(1, bins, device=by.device) * len(by) // bins
        return ascending(by)[first]
    if binning == "width":
        low, high = by.aminmax()
        step = torch.arange(1, bins, dtype=by.dtype, device=by.device) / bins
        return low + step * (high - low)
    raise InputError(f"binning must be 'count' or 'width', got {binning!r}.")
