"""Calibration error and curve of PIT values, and what a perfect model shows."""

from typing import Literal

from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._levels import (
    Kind,
    Levels,
    count_at_most,
    fold,
    pit_rows,
    promised_levels,
)

__all__ = [
    "Reduction",
    "calibration_curve",
    "calibration_error",
    "expected_calibration_error",
    "paper_calibration_error",
    "reduce_gaps",
]

Reduction = Literal["sum", "mean", "root_mean"]


def calibration_curve(
    pit: ArrayLike | PitValues, *, levels: Levels = 20, kind: Kind = "quantile"
) -> tuple[Tensor, Tensor]:
    r"""Promised probabilities and the observed share of PIT values at most that.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        :math:`M`, for the probabilities :math:`j / M`, or the probabilities
        themselves, shape ``(k,)``.
    kind
        What is promised: ``"quantile"``, that the target lies below the quantile at
        that level, or ``"interval"``, that it lies in the central interval of that
        coverage. Intervals cannot see a law that is too high as often as too low.

    Returns
    -------
    tuple[Tensor, Tensor]
        Promised and observed, each of shape ``(levels,)``. A calibrated model's are
        equal up to noise.

    Examples
    --------
    >>> promised, observed = calibration_curve([0.2, 0.4, 0.9, 0.95], levels=2)
    >>> promised.tolist(), observed.tolist()
    ([0.5, 1.0], [0.5, 1.0])
    """
    values = fold(pit_rows(pit), kind)
    promised = promised_levels(levels)
    return promised, count_at_most(values, promised).double() / len(values)


def calibration_error(
    pit: ArrayLike | PitValues,
    *,
    levels: Levels = 20,
    reduction: Reduction = "sum",
    kind: Kind = "quantile",
) -> float:
    r"""Squared gap between promised and observed frequency over levels.

    .. math::
        \mathrm{cal}(u) = \sum_{j=1}^{M} \bigl(p_j - \hat F_u(p_j)\bigr)^2,
        \qquad p_j = j / M ,

    where :math:`\hat F_u(p)` is the share of PIT values that are at most :math:`p`. A
    perfectly calibrated model shows :func:`expected_calibration_error`, not 0.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        :math:`M`, or the levels themselves, shape ``(k,)``.
    reduction
        ``"sum"`` as above (100 times it is the paper's percentage), ``"mean"`` over
        levels, or ``"root_mean"``, the square root of that.
    kind
        ``"quantile"`` or ``"interval"``, see :func:`calibration_curve`.

    Returns
    -------
    float
        The error; 0 is best.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), arXiv:1807.00263.

    Examples
    --------
    >>> calibration_error([0.5, 1.0], levels=2)
    0.0
    """
    promised, observed = calibration_curve(pit, levels=levels, kind=kind)
    return float(reduce_gaps(promised - observed, reduction))


def reduce_gaps(gaps: Tensor, reduction: Reduction) -> Tensor:
    """Reduce the gaps of a curve, ``(k,) -> ()``, as :func:`calibration_error` says."""
    squares = gaps.square()
    if reduction == "sum":
        return squares.sum()
    if reduction == "mean":
        return squares.mean()
    if reduction == "root_mean":
        return squares.mean().sqrt()
    raise InputError(
        f"reduction must be one of sum, mean, root_mean, got {reduction!r}."
    )


def paper_calibration_error(pit: ArrayLike | PitValues) -> float:
    r"""Squared calibration error as the paper prints it: 100 times the sum, 20 levels.

    It is called a percentage there, and is 617.5 if all targets lie above (or all
    below) everything predicted. A calibrated model shows 332.5 / n on average.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].

    Returns
    -------
    float
        100 times :func:`calibration_error`.

    References
    ----------
    Utpala and Rai (2020), arXiv:2002.12860.

    Examples
    --------
    >>> round(paper_calibration_error([1.0, 1.0]), 6)
    617.5
    """
    return 100 * calibration_error(pit, levels=20, reduction="sum")


def expected_calibration_error(n: int, *, levels: int = 20) -> float:
    r"""What a perfectly calibrated model shows on ``n`` rows: the noise floor.

    .. math::
        \mathbb{E}\,\mathrm{cal}(u) = \sum_j \frac{p_j (1 - p_j)}{n}
            = \frac{M^2 - 1}{6 M n} ,

    for ``reduction="sum"``.

    Examples
    --------
    >>> round(100 * expected_calibration_error(62), 1)
    5.4
    """
    if n < 1 or levels < 1:
        raise InputError(
            f"n and levels must be at least 1, got n={n} and levels={levels}."
        )
    return (levels**2 - 1) / (6 * levels * n)
