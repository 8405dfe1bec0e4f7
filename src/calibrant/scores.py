"""Scores of predicted laws, ``(distribution, y) -> (n,)``; smaller is better.

All in the table are proper: on average nothing scores better than the true law. They
carry gradients, so that each can be the loss of a training.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_levels, as_target, check_shapes
from calibrant.contracts import Distribution
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.registry import Table

__all__ = [
    "SCORES",
    "Prediction",
    "Score",
    "absolute_error",
    "beta_nll",
    "crps",
    "interval_score",
    "law_and_target",
    "mean_pinball",
    "nll",
    "pinball",
    "squared_error",
]

#: Whatever ``as_distribution`` takes: a law of ours or of torch, ``(mean, std)``, ...
Prediction: TypeAlias = object
Score: TypeAlias = Callable[[Prediction, ArrayLike], Tensor]

#: To add a score: one function here, one line in the table.
SCORES: Table[Score] = Table(
    "score",
    {
        "nll": f"{__name__}:nll",
        "crps": f"{__name__}:crps",
        "pinball": f"{__name__}:mean_pinball",
        "interval_score": f"{__name__}:interval_score",
        "squared_error": f"{__name__}:squared_error",
        "absolute_error": f"{__name__}:absolute_error",
    },
)

_DECILES = tuple(tenth / 10 for tenth in range(1, 10))


def law_and_target(
    distribution: Prediction, y: ArrayLike
) -> tuple[AbstractDistribution, Tensor]:
    """Return the law and its finite targets, whose shapes fit."""
    law = as_distribution(distribution)
    target = as_target(y, like=law._like)  # not its mean, which a law may lack
    check_shapes(target.shape, law.batch_shape, name="y")
    return law, target


def nll(distribution: Prediction, y: ArrayLike) -> Tensor:
    r"""Negative log-likelihood :math:`-\log p(y)`, in the units of the target.

    A target measured in other units, :math:`y' = c\,y`, adds :math:`\log c`: compare
    models on one scale only.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.

    Returns
    -------
    Tensor
        Shape ``(n,)``.

    References
    ----------
    Good (1952), *Rational Decisions*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> round(nll(Gaussian([0.0], [1.0]), [0.0]).item(), 4)  # log(2 pi) / 2
    0.9189
    """
    law, target = law_and_target(distribution, y)
    return -law.log_prob(target)


def beta_nll(distribution: Prediction, y: ArrayLike, *, beta: float = 0.5) -> Tensor:
    r"""Negative log-likelihood times the variance to the power :math:`\beta`.

    .. math:: -\sigma^{2\beta} \log p(y)

    The factor has no gradient. It gives back the weight that the likelihood takes from
    rows with a large predicted spread, and so keeps the mean from being neglected.
    Not a proper score: for training only.

    Parameters
    ----------
    distribution
        Of each row, or anything that ``as_distribution`` takes; shape ``(..., n)``.
    y
        Targets of the same shape.
    beta
        0 is the likelihood; with 1 the mean of a Gaussian learns as under the squared
        error.

    References
    ----------
    Seitzer, Tavakoli, Antic and Martius (2022), arXiv:2203.09168.
    """
    law = as_distribution(distribution)
    return -law.log_prob(y) * law.variance.detach() ** beta


def crps(distribution: Prediction, y: ArrayLike) -> Tensor:
    r"""Continuous ranked probability score, in the units of the target.

    .. math:: \mathrm{CRPS}(F, y) = \int (F(t) - 1[t \ge y])^2 \, dt .

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.

    Returns
    -------
    Tensor
        Shape ``(n,)``, at least 0.

    References
    ----------
    Gneiting and Raftery (2007), *Strictly Proper Scoring Rules, Prediction, and
    Estimation*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> round(crps(Gaussian([0.0], [1.0]), [0.0]).item(), 4)
    0.2337
    """
    law, target = law_and_target(distribution, y)
    return law.crps(target)


def pinball(distribution: Prediction, y: ArrayLike, *, level: ArrayLike) -> Tensor:
    r"""Score of the predicted quantile :math:`q` at level :math:`\alpha`.

    .. math:: (1[y < q] - \alpha)\,(q - y) .

    Its integral over all levels is half the CRPS.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    level
        :math:`\alpha`, strictly between 0 and 1: a number, or levels of shape ``(k,)``.

    Returns
    -------
    Tensor
        Shape ``(n,)`` for a number, ``(n, k)`` for ``k`` levels.

    References
    ----------
    Koenker and Bassett (1978), *Regression Quantiles*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> pinball(Gaussian([0.0, 0.0], 1.0), [2.0, -4.0], level=0.5).tolist()
    [1.0, 2.0]
    """
    law, target = law_and_target(distribution, y)
    levels = _open_levels(level, like=target)
    if levels.ndim == 0:
        return _pinball(law, target, levels)
    return torch.stack([_pinball(law, target, each) for each in levels], dim=-1)


def mean_pinball(
    distribution: Prediction, y: ArrayLike, *, levels: ArrayLike = _DECILES
) -> Tensor:
    """Mean of :func:`pinball` over levels, by default 0.1, 0.2, ..., 0.9.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    levels
        Shape ``(k,)``, strictly between 0 and 1. The 99 levels 0.01, ..., 0.99 give
        uncertainty-toolbox's check score.

    Returns
    -------
    Tensor
        Shape ``(n,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mean_pinball(Gaussian([0.0], [1.0]), [2.0], levels=[0.5]).tolist()
    [1.0]
    """
    law, target = law_and_target(distribution, y)
    each = _open_levels(levels, like=target).reshape(-1)
    # A running sum: no (n, k) table where no gradient is asked for.
    total = _pinball(law, target, each[0])
    for level in each[1:]:
        total = total + _pinball(law, target, level)
    return total / len(each)


def interval_score(
    distribution: Prediction, y: ArrayLike, *, coverage: float = 0.9
) -> Tensor:
    r"""Winkler's score of the central interval :math:`[l, u]`.

    Its width, and a fine for each target outside of it:

    .. math::
        (u - l) + \frac{2}{1 - c} \max(l - y, 0) + \frac{2}{1 - c} \max(y - u, 0) .

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    coverage
        :math:`c`, strictly between 0 and 1.

    Returns
    -------
    Tensor
        Shape ``(n,)``.

    References
    ----------
    Winkler (1972), *A Decision-Theoretic Approach to Interval Estimation*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian([0.0, 0.0], 1.0)
    >>> [round(value, 2) for value in interval_score(law, [0.0, 3.0]).tolist()]
    [3.29, 30.39]
    """
    law, target = law_and_target(distribution, y)
    lower, upper = law.interval(coverage)
    outside = (lower - target).clamp_min(0) + (target - upper).clamp_min(0)
    return (upper - lower) + 2 / (1 - coverage) * outside


def squared_error(distribution: Prediction, y: ArrayLike) -> Tensor:
    """Squared error of the mean, which is the point that it elicits.

    Shapes as in :func:`crps`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> squared_error(Gaussian([1.0], [1.0]), [3.0]).tolist()
    [4.0]
    """
    law, target = law_and_target(distribution, y)
    return (law.mean - target).square()


def absolute_error(distribution: Prediction, y: ArrayLike) -> Tensor:
    """Absolute error of the median, which is the point that it elicits.

    Shapes as in :func:`crps`. For a symmetric law the median is the mean.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> absolute_error(Gaussian([1.0], [1.0]), [3.0]).tolist()
    [2.0]
    """
    law, target = law_and_target(distribution, y)
    return (law.quantile(0.5) - target).abs()


def _pinball(law: Distribution, target: Tensor, level: Tensor) -> Tensor:
    ahead = law.quantile(level) - target
    return torch.maximum((1 - level) * ahead, -level * ahead)


def _open_levels(level: ArrayLike, *, like: Tensor) -> Tensor:
    """Return levels of shape () or (k,), none of which is 0 or 1."""
    levels = as_levels(level, like=like)
    if levels.ndim > 1 or levels.numel() == 0:
        raise InputError(
            f"level must be a number or have shape (k,), got {tuple(levels.shape)}."
        )
    if bool(((levels == 0) | (levels == 1)).any()):
        raise InputError(
            "level must lie strictly between 0 and 1: the quantiles at 0 and 1 of most "
            "laws are infinite. Leave them out."
        )
    return levels
