"""How far the point predictions are off, in the units of the target."""

import torch

from calibrant._checks import ArrayLike, InputError
from calibrant.metrics._rows import error_of_mean, no_nan, rows
from calibrant.scores import Prediction, absolute_error

__all__ = ["bias", "mae", "r2", "rmse"]


@torch.no_grad()
def rmse(distribution: Prediction, y: ArrayLike) -> float:
    r"""Root mean squared error of the mean.

    .. math:: \sqrt{\frac1n \sum_i (\mu_i - y_i)^2}

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.

    Returns
    -------
    float
        In the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> rmse(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    5.0
    """
    law, target = rows(distribution, y)
    return float(error_of_mean(law, target).square().mean().sqrt())


@torch.no_grad()
def mae(distribution: Prediction, y: ArrayLike) -> float:
    """Mean absolute error of the median, which is the point that it rewards.

    Parameters as in :func:`rmse`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mae(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    4.0
    """
    law, target = rows(distribution, y)
    return float(no_nan(absolute_error(law, target)).double().mean())


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
    law, target = rows(distribution, y)
    values = target.double()
    total = (values - values.mean()).square().sum()
    if total == 0:
        raise InputError(
            f"r2 needs targets that differ, got {len(values)} equal ones. "
            "Use rmse, or more rows."
        )
    return float(1 - error_of_mean(law, target).square().sum() / total)


@torch.no_grad()
def bias(distribution: Prediction, y: ArrayLike) -> float:
    r"""Mean of prediction minus target, :math:`\frac1n \sum (\mu_i - y_i)`.

    Above 0 the model predicts too much. Parameters as in :func:`rmse`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> bias(Gaussian([0.0, 0.0], 1.0), [1.0, 7.0])
    -4.0
    """
    law, target = rows(distribution, y)
    return float(error_of_mean(law, target).mean())
