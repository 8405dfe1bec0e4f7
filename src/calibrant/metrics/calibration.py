"""Calibration of PIT values: curve, errors, coverage and interval width.

The mean absolute and root mean squared error and the area carry the names of
uncertainty-toolbox, which looks at central intervals and ``numpy.linspace(0, 1, 100)``.
Ours look at quantiles by default, because central intervals miss every bias that
cancels between the two tails. To get the toolbox's numbers::

    mean_absolute_calibration_error(pit, levels=np.linspace(0, 1, 100), kind="interval")

Its ``prop_type="quantile"`` counts the other tail: pass ``1 - pit`` to equal it.
"""

from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import (
    ArrayLike,
    InputError,
    as_float_tensor,
    as_levels,
    as_pit,
    widen,
)
from calibrant.contracts import Distribution, PitValues
from calibrant.metrics.pit import (
    Floats,
    Integers,
    check_count,
    no_nan,
    row_distribution,
    rows,
)
from calibrant.scores import Prediction

__all__ = [
    "Kind",
    "Levels",
    "Reduction",
    "area_between",
    "calibration_curve",
    "calibration_error",
    "count_at_most",
    "coverage",
    "covered",
    "debiased_calibration_error",
    "expected_calibration_error",
    "fold",
    "integrated_calibration_error",
    "integrated_squares",
    "level_cells",
    "mean_absolute_calibration_error",
    "mean_width",
    "miscalibration_area",
    "nominal_levels",
    "paper_calibration_error",
    "pit_rows",
    "reduce_gaps",
    "root_mean_squared_calibration_error",
]

Kind = Literal["quantile", "interval"]
Levels = int | ArrayLike
Reduction = Literal["sum", "mean", "root_mean"]
#: Up to here a product with the count is off by less than one level, in float32 too.
_MOST_EVEN = 10_000


def pit_rows(pit: ArrayLike | PitValues) -> Tensor:
    """Return PIT values of shape ``(n,)`` without gradient, float32 at least."""
    if isinstance(pit, PitValues):
        values = widen(pit.cdf.detach())
    else:
        values = as_float_tensor(pit, name="pit").detach()
        if values.ndim != 1 or not _in_unit_interval(values):
            values = as_pit(values).cdf  # says what is wrong
    if values.ndim != 1:
        raise InputError(f"pit must have shape (n,), got {tuple(values.shape)}.")
    return values


def _in_unit_interval(values: Tensor) -> bool:
    """Tell whether there are values, all in [0, 1] and none of them NaN."""
    if values.numel() == 0:
        return False
    low, high = values.aminmax()
    return bool((low >= 0) & (high <= 1))


def _is_count(levels: Levels) -> TypeGuard[int]:
    return isinstance(levels, int | np.integer)


def nominal_levels(levels: Levels) -> Tensor:
    """Return ``j / M`` for a count ``M``, else the given levels, as float64."""
    if _is_count(levels):
        count = check_count(levels, name="levels")
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
    if kind == "quantile":
        return pit
    if kind == "interval":
        return (2 * pit - 1).abs()
    raise InputError(f"kind must be 'quantile' or 'interval', got {kind!r}.")


def count_at_most(values: Tensor, nominal: Tensor) -> Tensor:
    """Count the values that are at most each level: ``(n,), (k,) -> (k,)`` integers."""
    ordered, order = nominal.sort()
    cell = _level_places(values, ordered)
    # The last cell has what lies above all levels.
    up_to = torch.bincount(cell, minlength=len(ordered) + 1)[:-1].cumsum(0).cpu()
    return torch.empty_like(up_to).scatter_(0, order, up_to)


def level_cells(pit: ArrayLike | PitValues, levels: int) -> Integers:
    """Index of the first level ``j / levels`` that each PIT value does not exceed."""
    cells: Integers = _level_places(pit_rows(pit), nominal_levels(levels)).cpu().numpy()
    return cells


def _level_places(values: Tensor, ordered: Tensor) -> Tensor:
    """Index of the first of ascending levels that each value does not exceed.

    Shapes ``(n,), (k,) -> (n,)``; the index is ``k`` above all levels. A search per
    value, or a multiplication where the levels are ``j / k``.
    """
    # In the type of the values: a float32 PIT of 3/20 is at most 3/20.
    levels = ordered.to(values)
    count = len(ordered)
    even = (
        values.device.type == "cpu"
        and count <= _MOST_EVEN
        and bool((ordered - nominal_levels(count)).abs().max() < 1e-9)
        and _in_unit_interval(values)
    )
    if not even:
        return torch.bucketize(values.contiguous(), levels)
    array = values.detach().numpy()
    edges = np.concatenate([[-np.inf], levels.numpy()], dtype=array.dtype)
    number = np.ceil(array * array.dtype.type(count)).astype(np.int64)
    np.maximum(number, 1, out=number)
    # The product is rounded: next to a level it can be one too few or too many.
    number += array > edges.take(number)
    number -= array <= edges.take(number - 1)
    return torch.from_numpy(number - 1)


def calibration_curve(
    pit: ArrayLike | PitValues, *, levels: Levels = 20, kind: Kind = "quantile"
) -> tuple[Tensor, Tensor]:
    r"""Nominal probabilities and the observed share of PIT values at most that.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        :math:`M`, for the probabilities :math:`j / M`, or the probabilities
        themselves, shape ``(k,)``.
    kind
        ``"quantile"``: the target lies below the quantile at that level.
        ``"interval"``: it lies in the central interval of that coverage, which misses
        predictions that are too high as often as too low.

    Returns
    -------
    tuple[Tensor, Tensor]
        Nominal and observed, each of shape ``(k,)``; equal up to noise under perfect
        calibration.

    Examples
    --------
    >>> nominal, observed = calibration_curve([0.2, 0.4, 0.9, 0.95], levels=2)
    >>> nominal.tolist(), observed.tolist()
    ([0.5, 1.0], [0.5, 1.0])
    """
    values = fold(pit_rows(pit), kind)
    nominal = nominal_levels(levels)
    return nominal, count_at_most(values, nominal).double() / len(values)


def calibration_error(
    pit: ArrayLike | PitValues,
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
    below) everything predicted. Its mean under perfect calibration is 332.5 / n.

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


def debiased_calibration_error(
    pit: ArrayLike | PitValues, *, levels: int = 20
) -> float:
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
    pit: ArrayLike | PitValues, *, levels: Levels = 100, kind: Kind = "quantile"
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
    pit: ArrayLike | PitValues, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    """Root mean squared gap between nominal and observed frequency (RMSCE).

    ``calibration_error(reduction="root_mean")`` at these levels. Parameters as in
    :func:`calibration_curve`.

    Examples
    --------
    >>> round(root_mean_squared_calibration_error([0.2, 0.2], levels=2), 4)
    0.3536
    """
    return calibration_error(pit, levels=levels, reduction="root_mean", kind=kind)


def miscalibration_area(
    pit: ArrayLike | PitValues, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    r"""Area between the calibration curve, drawn as a line, and the diagonal.

    Parameters
    ----------
    pit, kind
        As in :func:`calibration_curve`.
    levels
        :math:`M`, for the line through :math:`0, 1/M, \dots, 1`, or the ascending
        levels themselves, shape ``(k,)`` with k >= 2.

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
    if _is_count(levels):
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
    left, right = gaps[..., :-1].abs(), gaps[..., 1:].abs()
    height = left + right
    crosses = gaps[..., :-1] * gaps[..., 1:] < 0
    # Where the line crosses 0, the two triangles have bases left : right.
    triangles = (left.square() + right.square()) / height.where(crosses, height + 1)
    return (at.diff() * torch.where(crosses, triangles, height) / 2).sum(-1)


def integrated_calibration_error(pit: ArrayLike | PitValues) -> float:
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
    middle = np.arange(1, 2 * n, 2) / (2 * n)
    gaps = np.sort(pit) - middle
    total: Floats = np.square(gaps).mean(-1) + 1 / (12 * n**2)
    return total


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
