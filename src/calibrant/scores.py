"""Scores of predictive distributions, ``(distribution, y) -> (n,)``; smaller is better.

``distribution`` is one of batch shape ``(n,)``, or anything that ``as_distribution``
takes; ``y`` are targets ``(n,)``. All in the table are proper: on average nothing
scores better than the true distribution. They carry gradients, so that each can be the
loss of a training.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.protocols import Distribution
from calibrant.registry import Table
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_levels,
    as_target,
    check_shapes,
)

__all__ = [
    "SCORES",
    "absolute_error",
    "beta_nll",
    "crps",
    "interval_score",
    "mean_pinball",
    "nll",
    "pinball",
    "squared_error",
]

#: Whatever ``as_distribution`` takes: ours, of torch, ``(mean, stddev)``, ...
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


def distribution_and_target(
    distribution: Prediction, y: ArrayLike
) -> tuple[AbstractDistribution, Tensor]:
    """Return the distribution and its finite targets, whose shapes fit."""
    predicted = as_distribution(distribution)
    target = as_target(y, like=predicted._like)  # not its mean, which may be missing
    check_shapes(target.shape, predicted.batch_shape, name="y")
    return predicted, target


def nll(distribution: Prediction, y: ArrayLike) -> Tensor:
    r"""Negative log-likelihood :math:`-\log p(y)`, in the units of the target.

    A target measured in other units, :math:`y' = c\,y`, adds :math:`\log c`: compare
    models on one scale only. Shape: ``(n,)``.

    References
    ----------
    Good (1952), *Rational Decisions*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> round(nll(Gaussian([0.0], [1.0]), [0.0]).item(), 4)  # log(2 pi) / 2
    0.9189
    """
    predicted, target = distribution_and_target(distribution, y)
    return -predicted.log_prob(target)


def beta_nll(distribution: Prediction, y: ArrayLike, *, beta: float = 0.5) -> Tensor:
    r"""Negative log-likelihood times the variance to the power :math:`\beta`.

    .. math:: -\sigma^{2\beta} \log p(y)

    The factor has no gradient. It gives back the weight that the likelihood takes from
    rows with a large predicted spread, and so keeps the mean from being neglected.
    ``beta=0`` is the likelihood; with 1 the mean of a Gaussian learns as under the
    squared error. Not a proper score: for training only. Shape: ``(..., n)``.

    References
    ----------
    Seitzer, Tavakoli, Antic and Martius (2022), arXiv:2203.09168.
    """
    predicted = as_distribution(distribution)
    return -predicted.log_prob(y) * predicted.variance.detach() ** beta


def crps(distribution: Prediction, y: ArrayLike) -> Tensor:
    r"""Continuous ranked probability score, in the units of the target.

    .. math:: \mathrm{CRPS}(F, y) = \int (F(t) - 1[t \ge y])^2 \, dt .

    Shape: ``(n,)``, at least 0.

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
    predicted, target = distribution_and_target(distribution, y)
    return predicted.crps(target)


def pinball(distribution: Prediction, y: ArrayLike, *, level: ArrayLike) -> Tensor:
    r"""Score of the predicted quantile :math:`q` at level :math:`\alpha`.

    .. math:: (1[y < q] - \alpha)\,(q - y) .

    Its integral over all levels is half the CRPS. ``level`` lies strictly between 0 and
    1: a number gives ``(n,)``, levels ``(k,)`` give ``(n, k)``.

    References
    ----------
    Koenker and Bassett (1978), *Regression Quantiles*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> pinball(Gaussian([0.0, 0.0], 1.0), [2.0, -4.0], level=0.5).tolist()
    [1.0, 2.0]
    """
    predicted, target = distribution_and_target(distribution, y)
    levels = _open_levels(level, like=target)
    if levels.ndim == 0:
        return _pinball(predicted, target, levels)
    return torch.stack([_pinball(predicted, target, one) for one in levels], dim=-1)


def mean_pinball(
    distribution: Prediction, y: ArrayLike, *, levels: ArrayLike = _DECILES
) -> Tensor:
    """Mean of :func:`pinball` over levels ``(k,)``, by default 0.1, 0.2, ..., 0.9.

    The 99 levels 0.01, ..., 0.99 give uncertainty-toolbox's check score. Shape:
    ``(n,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> mean_pinball(Gaussian([0.0], [1.0]), [2.0], levels=[0.5]).tolist()
    [1.0]
    """
    predicted, target = distribution_and_target(distribution, y)
    wanted = _open_levels(levels, like=target).reshape(-1)
    # A running sum: no (n, k) table where no gradient is asked for.
    total = _pinball(predicted, target, wanted[0])
    for level in wanted[1:]:
        total = total + _pinball(predicted, target, level)
    return total / len(wanted)


def interval_score(
    distribution: Prediction, y: ArrayLike, *, coverage: float = 0.9
) -> Tensor:
    r"""Winkler's score of the central interval :math:`[l, u]` at coverage :math:`c`.

    Its width, and a fine for each target outside of it:

    .. math::
        (u - l) + \frac{2}{1 - c} \max(l - y, 0) + \frac{2}{1 - c} \max(y - u, 0) .

    Shape: ``(n,)``; :math:`c` lies strictly between 0 and 1.

    References
    ----------
    Winkler (1972), *A Decision-Theoretic Approach to Interval Estimation*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> predictive = Gaussian([0.0, 0.0], 1.0)
    >>> [round(value, 2) for value in interval_score(predictive, [0.0, 3.0]).tolist()]
    [3.29, 30.39]
    """
    predicted, target = distribution_and_target(distribution, y)
    lower, upper = predicted.interval(coverage)
    outside = (lower - target).clamp_min(0) + (target - upper).clamp_min(0)
    return (upper - lower) + 2 / (1 - coverage) * outside


def squared_error(distribution: Prediction, y: ArrayLike) -> Tensor:
    """Squared error of the mean, which is the point that it elicits; ``(n,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> squared_error(Gaussian([1.0], [1.0]), [3.0]).tolist()
    [4.0]
    """
    predicted, target = distribution_and_target(distribution, y)
    return (predicted.mean - target).square()


def absolute_error(distribution: Prediction, y: ArrayLike) -> Tensor:
    """Absolute error of the median, which is the point that it elicits; ``(n,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> absolute_error(Gaussian([1.0], [1.0]), [3.0]).tolist()
    [2.0]
    """
    predicted, target = distribution_and_target(distribution, y)
    return (predicted.quantile(0.5) - target).abs()


def _pinball(predicted: Distribution, target: Tensor, level: Tensor) -> Tensor:
    ahead = predicted.quantile(level) - target
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
            "level must lie strictly between 0 and 1, where quantiles are finite. "
            "Leave 0 and 1 out."
        )
    return levels
