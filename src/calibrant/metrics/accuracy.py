"""Accuracy of point predictions, and sharpness."""

import torch

from calibrant.metrics.pit import (
    error_of_mean,
    no_nan,
    row_distribution,
    rows,
    variance_of,
)
from calibrant.scores import Prediction, absolute_error
from calibrant.validation import ArrayLike, InputError

__all__ = ["bias", "dispersion", "mae", "mean_stddev", "r2", "rmse", "sharpness"]


@torch.no_grad()
def rmse(distribution: Prediction, y: ArrayLike) -> float:
    r"""Root mean squared error of the mean, :math:`\sqrt{\sum (\mu_i - y_i)^2 / n}`.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``, or anything that ``as_distribution`` takes.
    y
        Targets, shape ``(n,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> rmse(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    5.0
    """
    return float(error_of_mean(*rows(distribution, y)).square().mean().sqrt())


@torch.no_grad()
def mae(distribution: Prediction, y: ArrayLike) -> float:
    """Mean absolute error of the median, which is the point that minimizes it.

    Parameters as in :func:`rmse`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mae(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    4.0
    """
    return float(no_nan(absolute_error(*rows(distribution, y))).double().mean())


@torch.no_grad()
def r2(distribution: Prediction, y: ArrayLike) -> float:
    r"""Share of the targets' variance that the mean explains.

    .. math:: R^2 = 1 - \frac{\sum (\mu_i - y_i)^2}{\sum (y_i - \bar y)^2} ,

    with :math:`\bar y` the mean of these targets: 1 is perfect, 0 is what a constant
    reaches, and less is possible. Parameters as in :func:`rmse`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> r2(Gaussian([1.0, 3.0], 1.0), [0.0, 4.0])
    0.75
    """
    predictive, target = rows(distribution, y)
    values = target.double()
    total = (values - values.mean()).square().sum()
    if total == 0:
        raise InputError(
            f"r2 needs targets that differ, got {len(values)} equal ones. "
            "Use rmse, or more rows."
        )
    return float(1 - error_of_mean(predictive, target).square().sum() / total)


@torch.no_grad()
def bias(distribution: Prediction, y: ArrayLike) -> float:
    r"""Mean of prediction minus target, :math:`\frac1n \sum (\mu_i - y_i)`.

    Above 0 the predictions are too high. Parameters as in :func:`rmse`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> bias(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    -4.0
    """
    return float(error_of_mean(*rows(distribution, y)).mean())


@torch.no_grad()
def sharpness(distribution: Prediction) -> float:
    r"""Root mean predicted variance, :math:`\sqrt{\frac1n \sum_i \sigma_i^2}`.

    Small is good only for a calibrated model, whose sharpness is its root mean squared
    error. It is uncertainty-toolbox's sharpness.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> sharpness(Gaussian([0.0, 0.0], [1.0, 7.0]))
    5.0
    """
    return float(variance_of(row_distribution(distribution)).mean().sqrt())


@torch.no_grad()
def mean_stddev(distribution: Prediction) -> float:
    """Mean predicted standard deviation, in the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mean_stddev(Gaussian([0.0, 0.0], [1.0, 7.0]))
    4.0
    """
    return float(variance_of(row_distribution(distribution)).sqrt().mean())


@torch.no_grad()
def dispersion(distribution: Prediction) -> float:
    r"""Coefficient of variation of the predicted standard deviation.

    .. math::
        c_v = \frac{1}{\bar\sigma} \sqrt{\frac1n \sum_i (\sigma_i - \bar\sigma)^2} .

    Near 0 (below 0.05, say) the model predicts the same spread for every row: it may be
    calibrated on average, but cannot tell a safe prediction from an unsafe one.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2019), arXiv:1905.11659 (there with n - 1).

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> dispersion(Gaussian([0.0, 0.0], [1.0, 7.0]))
    0.75
    """
    stddev = variance_of(row_distribution(distribution)).sqrt()
    if bool((stddev == stddev[0]).all()):
        return 0.0  # exactly, with no rounding of the mean
    return float(stddev.std(correction=0) / stddev.mean())
