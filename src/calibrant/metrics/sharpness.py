"""How certain the predictions are, whether rightly or not."""

import torch

from calibrant.metrics._rows import law_of_rows, spread_of
from calibrant.scores import Prediction

__all__ = ["dispersion", "has_constant_spread", "mean_stddev", "sharpness"]


@torch.no_grad()
def sharpness(distribution: Prediction) -> float:
    r"""Root mean predicted variance, :math:`\sqrt{\frac1n \sum_i \sigma_i^2}`.

    Small is good only for a calibrated model, whose sharpness is its root mean squared
    error. It is uncertainty-toolbox's sharpness.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.

    Returns
    -------
    float
        In the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> sharpness(Gaussian([0.0, 0.0], [1.0, 7.0]))
    5.0
    """
    variance, _ = spread_of(law_of_rows(distribution))
    return float(variance.mean().sqrt())


@torch.no_grad()
def mean_stddev(distribution: Prediction) -> float:
    """Mean predicted standard deviation, in the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mean_stddev(Gaussian([0.0, 0.0], [1.0, 7.0]))
    4.0
    """
    _, stddev = spread_of(law_of_rows(distribution))
    return float(stddev.mean())


@torch.no_grad()
def dispersion(distribution: Prediction) -> float:
    r"""Coefficient of variation of the predicted standard deviation.

    .. math::
        c_v = \frac{1}{\bar\sigma} \sqrt{\frac1n \sum_i (\sigma_i - \bar\sigma)^2} .

    Near 0 the model says the same of every row: it may be calibrated on average, but
    its spread cannot tell a safe prediction from an unsafe one.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.

    Returns
    -------
    float
        0 for a constant spread (also if it is 0); it has no unit.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2019), arXiv:1905.11659 (there with n - 1).

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> dispersion(Gaussian([0.0, 0.0], [1.0, 7.0]))
    0.75
    """
    _, stddev = spread_of(law_of_rows(distribution))
    if bool((stddev == stddev[0]).all()):
        return 0.0  # exactly, with no rounding of the mean
    return float(stddev.std(correction=0) / stddev.mean())


def has_constant_spread(
    distribution: Prediction,
    *,
    below: float = 0.05,
) -> bool:
    """Tell whether the predicted spread hardly differs between rows.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    below
        The :func:`dispersion` that counts as nearly constant: 5 % by default.

    Returns
    -------
    bool
        True for one row.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> has_constant_spread(Gaussian([0.0, 5.0], [1.0, 1.01]))
    True
    """
    return dispersion(distribution) < below
