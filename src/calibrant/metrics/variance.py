"""Predicted variance against squared error, among rows that share the variance."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.metrics._rows import error_of_mean, rows, spread_of
from calibrant.scores import Prediction

__all__ = ["Binning", "ence", "uce"]

Binning = Literal["count", "width"]


class _Bins(NamedTuple):
    """Mean predicted variance and mean squared error of each bin that holds rows."""

    weight: Tensor
    variance: Tensor
    error: Tensor


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
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> ence(Gaussian([0.0, 0.0], [1.0, 4.0]), [1.0, 2.0], bins=2)
    0.25
    """
    variance, error = _variance_and_error(distribution, y)
    each = _binned(variance.sqrt(), variance, error, bins=bins, binning=binning)
    spread = each.variance.sqrt()
    if bool((spread == 0).any()):
        raise InputError(
            "ence divides by the predicted spread, which is 0 in a whole bin. Use uce, "
            "or predict a spread above 0."
        )
    return float(((each.error.sqrt() - spread).abs() / spread).mean())


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
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> uce(Gaussian([0.0, 0.0], [1.0, 4.0]), [1.0, 2.0], bins=2)
    6.0
    """
    variance, error = _variance_and_error(distribution, y)
    each = _binned(variance, variance, error, bins=bins, binning=binning)
    return float((each.weight * (each.error - each.variance).abs()).sum())


def _variance_and_error(
    distribution: Prediction, y: ArrayLike
) -> tuple[Tensor, Tensor]:
    """Return predicted variances and squared errors, each of shape ``(n,)``."""
    law, target = rows(distribution, y)
    error = error_of_mean(law, target).square()
    variance, _ = spread_of(law)
    return variance.expand_as(error).contiguous(), error


def _binned(
    by: Tensor, variance: Tensor, error: Tensor, *, bins: int, binning: Binning
) -> _Bins:
    """Average variance and error over bins of ``by``, each of shape ``(n,)``."""
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    index = torch.bucketize(by, _inner_edges(by, bins, binning), right=True)
    count = torch.bincount(index, minlength=bins)
    held = count > 0
    count = count[held]

    def average(values: Tensor) -> Tensor:
        total = torch.bincount(index, weights=values, minlength=bins)
        return total[held] / count

    # An integer tensor divided by a number takes the default float type.
    weight = count.to(by.dtype) / len(by)
    return _Bins(weight, average(variance), average(error))


def _inner_edges(by: Tensor, bins: int, binning: Binning) -> Tensor:
    """Smallest value of each bin but the first, shape ``(bins - 1,)``."""
    if binning == "count":
        # The first row of each bin; equal values then fall into one bin.
        first = torch.arange(1, bins, device=by.device) * len(by) // bins
        return by.sort().values[first]
    if binning == "width":
        low, high = by.aminmax()
        step = torch.arange(1, bins, dtype=by.dtype, device=by.device) / bins
        return low + step * (high - low)
    raise InputError(f"binning must be 'count' or 'width', got {binning!r}.")
