"""Calibration of PIT values: curve, errors, coverage and interval width.

Errors look at quantiles by default, because central intervals miss every bias that
cancels between the two tails. To get uncertainty-toolbox's numbers of the same names::

    mean_absolute_calibration_error(pit, levels=np.linspace(0, 1, 100), kind="interval")

Its ``prop_type="quantile"`` counts the other tail: pass ``1 - pit`` to equal it.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant.metrics.pit import (
    Floats,
    Integers,
    check_count,
    no_nan,
    row_distribution,
    rows,
)
from calibrant.protocols import Distribution, PitValues
from calibrant.scores import Prediction
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_float_tensor,
    as_levels,
    as_pit,
    widen,
)

__all__ = [
    "calibration_curve",
    "calibration_error",
    "coverage",
    "debiased_calibration_error",
    "expected_calibration_error",
    "integrated_calibration_error",
    "mean_absolute_calibration_error",
    "mean_width",
    "miscalibration_area",
    "paper_calibration_error",
    "root_mean_squared_calibration_error",
]

Pit = ArrayLike | PitValues
Kind = Literal["quantile", "interval"]
Levels = int | ArrayLike
Reduction = Literal["sum", "mean", "root_mean"]


def pit_rows(pit: Pit) -> Tensor:
    """Return PIT values of shape ``(n,)`` without gradient, float32 at least."""
    if isinstance(pit, PitValues):
        values = widen(pit.cdf.detach())
    else:
        values = as_float_tensor(pit, name="pit").detach()
        if values.numel() == 0 or not bool(((values >= 0) & (values <= 1)).all()):
            as_pit(values)  # says what is wrong
    if values.ndim != 1:
        raise InputError(f"pit must have shape (n,), got {tuple(values.shape)}.")
    return values


def nominal_levels(levels: Levels) -> Tensor:
    """Return ``j / M`` for a count ``M``, else the given levels, as float64."""
    if isinstance(levels, int | np.integer):
        count = check_count(int(levels), name="levels")
        return torch.arange(1, count + 1, dtype=torch.float64) / count
    nominal = as_levels(levels, like=torch.empty(0, dtype=torch.float64)).double()
    if nominal.ndim != 1 or nominal.numel() == 0:
        raise InputError(
            "levels must be a count or have shape (k,), got shape "
            f"{tuple(nominal.shape)}."
        )
    return nominal.detach().cpu()


def fold(pit: Tensor, kind: Kind) -> Tensor:
    """Return the smallest nominal level that covers each target.

    For ``"quantile"`` it is the PIT value itself, for ``"interval"`` the coverage of
    the smallest central interval around the target, ``|2 u - 1|``.
    """
    if kind not in ("quantile", "interval"):
        raise InputError(f"kind must be 'quantile' or 'interval', got {kind!r}.")
    return pit if kind == "quantile" else (2 * pit - 1).abs()


def count_at_most(values: Tensor, nominal: Tensor) -> Tensor:
    """Count the values that are at most each level: ``(n,), (k,) -> (k,)`` integers."""
    ordered = values.cpu().numpy()
    if not (ordered[1:] >= ordered[:-1]).all():  # ``evaluate`` sorts them once
        ordered = np.sort(ordered)
    # In the type of the values: a float32 PIT of 3/20 is at most 3/20.
    levels = nominal.to(values.dtype).numpy()
    return torch.from_numpy(np.searchsorted(ordered, levels, side="right"))


def level_cells(pit: Pit, levels: int) -> Integers:
    """Index of the first level ``j / levels`` that each PIT value does not exceed."""
    values = pit_rows(pit).cpu().contiguous()
    cells: Integers = torch.bucketize(values, nominal_levels(levels).to(values)).numpy()
    return cells


def calibration_curve(
    pit: Pit, *, levels: Levels = 20, kind: Kind = "quantile"
) -> tuple[Tensor, Tensor]:
    r"""Nominal probabilities and the observed share of PIT values at most that.

    Parameters
    ----------
    pit
        PIT values of shape ``(n,)``, or what ``distribution.pit(y)`` returns.
    levels
        :math:`M`, for the probabilities :math:`j / M`, or the probabilities
        themselves, shape ``(k,)``.
    kind
        ``"quantile"`` compares with quantiles, ``"interval"`` with central intervals:
        the share of targets inside each.

    Returns
    -------
    tuple[Tensor, Tensor]
        Nominal and observed frequencies, each of shape ``(k,)``, float64.

    Examples
    --------
    >>> nominal, observed = calibration_curve([0.1, 0.4, 0.6, 0.9], levels=4)
    >>> nominal.tolist(), observed.tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.25, 0.5, 0.75, 1.0])
    """
    values = fold(pit_rows(pit), kind)
    nominal = nominal_levels(levels)
    return nominal, count_at_most(values, nominal).double() / len(values)


def calibration_error(
    pit: Pit,
    *,
    levels: Levels = 20,
    reduction: Reduction = "sum",
    kind: Kind = "quantile",
) -> float:
    r"""Squared gap between nominal and observed frequency over levels.

    .. math::
        \mathrm{cal}(u) = \sum_{j=1}^{M} \bigl(p_j - \hat F_u(p_j)\bigr)^2,
        \qquad p_j = j / M ,

    where :math:`\hat F_u(p)` is the share of PIT values that are at most :math:`p`. Its
    mean under perfect calibration is :func:`expected_calibration_error`, not 0.

    Parameters
    ----------
    pit, levels, kind
        As in :func:`calibration_curve`.
    reduction
        ``"sum"`` as above (100 times it is the paper's percentage), ``"mean"`` over
        levels, or ``"root_mean"``, the square root of that.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), arXiv:1807.00263.

    Examples
    --------
    >>> calibration_error([0.5, 1.0], levels=2)
    0.0
    """
    nominal, observed = calibration_curve(pit, levels=levels, kind=kind)
    return float(reduce_gaps(nominal - observed, reduction))


def reduce_gaps(gaps: Tensor, reduction: Reduction) -> Tensor:
    """Reduce the gaps of a curve, ``(k,) -> ()``, as :func:`calibration_error` says."""
    if reduction not in ("sum", "mean", "root_mean"):
        raise InputError(
            f"reduction must be one of sum, mean, root_mean, got {reduction!r}."
        )
    squares = gaps.square()
    if reduction == "sum":
        return squares.sum()
    return squares.mean() if reduction == "mean" else squares.mean().sqrt()


def paper_calibration_error(pit: Pit) -> float:
    r"""Squared calibration error as the paper prints it: 100 times the sum, 20 levels.

    It is called a percentage there, and is 617.5 if all targets lie above (or all
    below) everything predicted. Its mean under perfect calibration is 332.5 / n.

    References
    ----------
    Utpala and Rai (2020), arXiv:2002.12860.

    Examples
    --------
    >>> round(paper_calibration_error([1.0, 1.0]), 6)
    617.5
    """
    return 100 * calibration_error(pit)


def expected_calibration_error(n: int, *, levels: int = 20) -> float:
    r"""Mean calibration error of ``n`` rows under perfect calibration: the noise floor.

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


def debiased_calibration_error(pit: Pit, *, levels: int = 20) -> float:
    """Calibration error (sum) minus its mean under perfect calibration.

    It can be negative: "not worse than noise".

    Examples
    --------
    >>> debiased_calibration_error([0.25, 0.5, 0.75, 1.0], levels=2)
    -0.0625
    """
    values = pit_rows(pit)
    expected = expected_calibration_error(len(values), levels=levels)
    return calibration_error(values, levels=levels) - expected


def mean_absolute_calibration_error(
    pit: Pit, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    r"""Mean absolute gap between nominal and observed frequency (MACE).

    .. math:: \frac1M \sum_{j=1}^{M} \bigl|p_j - \hat F_u(p_j)\bigr| .

    Parameters as in :func:`calibration_curve`.

    References
    ----------
    Chung, Char, Guo, Schneider and Neiswanger (2021), *Uncertainty Toolbox*,
    arXiv:2109.10254.

    Examples
    --------
    >>> mean_absolute_calibration_error([0.2, 0.2], levels=2)  # 1 instead of 0.5
    0.25
    """
    nominal, observed = calibration_curve(pit, levels=levels, kind=kind)
    return float((nominal - observed).abs().mean())


def root_mean_squared_calibration_error(
    pit: Pit, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    """Root mean squared gap between nominal and observed frequency (RMSCE).

    Parameters as in :func:`calibration_curve`.

    Examples
    --------
    >>> round(root_mean_squared_calibration_error([0.2, 0.2], levels=2), 4)
    0.3536
    """
    return calibration_error(pit, levels=levels, reduction="root_mean", kind=kind)


def miscalibration_area(
    pit: Pit, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    r"""Area between the calibration curve, drawn as a line, and the diagonal.

    Parameters as in :func:`calibration_curve`; a count :math:`M` of levels means the
    line through :math:`0, 1/M, \dots, 1`, and levels themselves must ascend.

    References
    ----------
    Tran, Neiswanger, Yoon, Zhang, Xing and Ulissi (2020), *Methods for Comparing
    Uncertainty Quantifications for Material Property Predictions*, arXiv:1912.10066.

    Examples
    --------
    >>> miscalibration_area([0.2, 0.2], levels=2)  # two triangles below (0.5, 1)
    0.25
    """
    at = nominal_levels(levels)
    if isinstance(levels, int | np.integer):
        at = torch.cat([at.new_zeros(1), at])
    if len(at) < 2 or bool((at.diff() < 0).any()):
        raise InputError(
            "levels must be a count or at least two ascending numbers, got "
            f"{at.tolist()[:5]}. Sort them."
        )
    nominal, observed = calibration_curve(pit, levels=at, kind=kind)
    return float(area_between(nominal, observed - nominal))


def area_between(at: Tensor, gaps: Tensor) -> Tensor:
    """Area between 0 and the line through the gaps, ``(k,), (..., k) -> (...)``."""
    size = gaps.abs()
    height = size[..., :-1] + size[..., 1:]
    # Where the line crosses 0, two triangles with bases left : right are left of it.
    product = (gaps[..., :-1] * gaps[..., 1:]).clamp_max(0)
    height = height + 2 * product / height.clamp_min(torch.finfo(gaps.dtype).tiny)
    return (at.diff() * height / 2).sum(-1)


def integrated_calibration_error(pit: Pit) -> float:
    r"""Squared calibration error integrated over all levels: no bins to choose.

    .. math::
        \int_0^1 \bigl(p - \hat F_u(p)\bigr)^2 dp
            = \frac{1}{12 n^2} + \frac1n \sum_{i=1}^n
              \Bigl(u_{(i)} - \frac{2i - 1}{2n}\Bigr)^2 .

    The limit of ``calibration_error(reduction="mean")`` with many levels, and the
    Cramér-von Mises statistic divided by n. Its mean under perfect calibration is
    1 / (6n).

    References
    ----------
    Anderson and Darling (1952), *Asymptotic Theory of Certain Goodness of Fit
    Criteria Based on Stochastic Processes*.

    Examples
    --------
    >>> round(integrated_calibration_error([1.0]), 4)  # the mean of p^2
    0.3333
    """
    return float(integrated_squares(pit_rows(pit).double().cpu().numpy()))


def integrated_squares(pit: Floats) -> Floats:
    """The integral of :func:`integrated_calibration_error`, ``(..., n) -> (...)``."""
    n = pit.shape[-1]
    gaps = np.sort(pit) - np.arange(1, 2 * n, 2) / (2 * n)
    total: Floats = np.square(gaps).mean(-1) + 1 / (12 * n**2)
    return total


#: Metrics of PIT values alone, in the order of a scorecard.
PIT_METRICS: dict[str, Callable[[Tensor], float]] = {
    "calibration_error": calibration_error,
    "paper_calibration_error": paper_calibration_error,
    "integrated_calibration_error": integrated_calibration_error,
    "mean_absolute_calibration_error": mean_absolute_calibration_error,
    "root_mean_squared_calibration_error": root_mean_squared_calibration_error,
    "miscalibration_area": miscalibration_area,
    "debiased_calibration_error": debiased_calibration_error,
}


@torch.no_grad()
def coverage(distribution: Prediction, y: ArrayLike, *, level: float = 0.9) -> float:
    r"""Share of targets inside the central interval of coverage ``level`` (PICP).

    Under perfect calibration it is ``level`` :math:`\pm \sqrt{c (1 - c) / n}`. It is
    the literal share: for rounded or capped targets and for few samples even a
    perfectly calibrated model shows another one, which the coverage of ``evaluate``,
    from :func:`~calibrant.metrics.pit.pit_values`, corrects.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``, or anything that ``as_distribution`` takes.
    y
        Targets, shape ``(n,)``.
    level
        :math:`c`, strictly between 0 and 1.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> coverage(Gaussian([0.0, 0.0], 1.0), [1.0, 2.0], level=0.9)
    0.5
    """
    predictive, target = rows(distribution, y)
    return float(covered(predictive, target, level).double().mean())


def covered(predictive: Distribution, target: Tensor, level: float) -> Tensor:
    """Tell for each row whether the central interval, ends included, covers it."""
    lower, upper = map(no_nan, predictive.interval(level))
    return (lower <= target) & (target <= upper)


@torch.no_grad()
def mean_width(distribution: Prediction, *, level: float = 0.9) -> float:
    """Mean width of the central interval of coverage ``level``, in the target's units.

    Of two models with the same coverage, the one with less width is more informative.
    Parameters as in :func:`coverage`.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> round(mean_width(Gaussian([0.0, 5.0], [1.0, 3.0]), level=0.9), 3)
    6.579
    """
    lower, upper = row_distribution(distribution).interval(level)
    return float(no_nan(upper - lower).double().mean())
