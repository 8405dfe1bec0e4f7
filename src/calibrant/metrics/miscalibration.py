"""Mean gap, root mean square gap and area of the calibration curve, and its integral.

These carry the names of uncertainty-toolbox, which looks at central intervals and at
``numpy.linspace(0, 1, 100)``. Ours look at quantiles, because central intervals miss
every bias that cancels between the two tails, and at 1/100, 2/100, ..., 1. To get the
toolbox's numbers::

    mean_absolute_calibration_error(pit, levels=np.linspace(0, 1, 100), kind="interval")

Its ``prop_type="quantile"`` counts the other tail (it takes prediction minus target):
hand in ``1 - pit`` to equal it.
"""

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._counts import Floats
from calibrant.metrics._levels import (
    Kind,
    Levels,
    is_count,
    pit_rows,
    promised_levels,
)
from calibrant.metrics.calibration import calibration_curve, calibration_error

__all__ = [
    "area_between",
    "integrated_calibration_error",
    "integrated_squares",
    "mean_absolute_calibration_error",
    "miscalibration_area",
    "root_mean_squared_calibration_error",
]


def mean_absolute_calibration_error(
    pit: ArrayLike | PitValues, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    r"""Mean absolute gap between promised and observed frequency (MACE).

    .. math:: \frac1M \sum_{j=1}^{M} \bigl|p_j - \hat F_u(p_j)\bigr| .

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        :math:`M`, for the levels :math:`j / M`, or the levels, shape ``(k,)``.
    kind
        ``"quantile"`` or ``"interval"``; with the latter and
        ``levels=numpy.linspace(0, 1, 100)`` it is uncertainty-toolbox's.

    Returns
    -------
    float
        Between 0 and 1/2.

    References
    ----------
    Chung, Char, Guo, Schneider and Neiswanger (2021), *Uncertainty Toolbox*,
    arXiv:2109.10254.

    Examples
    --------
    >>> mean_absolute_calibration_error([0.2, 0.2], levels=2)  # 1 instead of 0.5
    0.25
    """
    promised, observed = calibration_curve(pit, levels=levels, kind=kind)
    return float((promised - observed).abs().mean())


def root_mean_squared_calibration_error(
    pit: ArrayLike | PitValues, *, levels: Levels = 100, kind: Kind = "quantile"
) -> float:
    r"""Root mean squared gap between promised and observed frequency (RMSCE).

    .. math:: \sqrt{\frac1M \sum_{j=1}^{M} \bigl(p_j - \hat F_u(p_j)\bigr)^2} .

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        As in :func:`mean_absolute_calibration_error`.
    kind
        As in :func:`mean_absolute_calibration_error`.

    Returns
    -------
    float
        ``calibration_error(reduction="root_mean")`` at these levels.

    References
    ----------
    Chung et al. (2021), *Uncertainty Toolbox*, arXiv:2109.10254.

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

    It comes close to the mean absolute calibration error as the levels become many.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        :math:`M`, for the line through :math:`0, 1/M, \dots, 1`, or the ascending
        levels themselves, shape ``(k,)`` with k >= 2.
    kind
        As in :func:`mean_absolute_calibration_error`.

    Returns
    -------
    float
        Between 0 and 1/2.

    References
    ----------
    Tran, Neiswanger, Yoon, Zhang, Xing and Ulissi (2020), *Methods for Comparing
    Uncertainty Quantifications for Material Property Predictions*, arXiv:1912.10066.

    Examples
    --------
    >>> miscalibration_area([0.2, 0.2], levels=2)  # two triangles below (0.5, 1)
    0.25
    """
    at = promised_levels(levels)
    if is_count(levels):
        at = torch.cat([at.new_zeros(1), at])
    if len(at) < 2 or bool((at.diff() < 0).any()):
        raise InputError(
            "levels must be a count or at least two ascending numbers, got "
            f"{at.tolist()[:5]}. Sort them."
        )
    promised, observed = calibration_curve(pit, levels=at, kind=kind)
    return float(area_between(promised, observed - promised))


def area_between(at: Tensor, gaps: Tensor) -> Tensor:
    """Area between 0 and the line through the gaps, ``(k,), (..., k) -> (...)``.

    It is made of trapezes, and of two triangles where the line crosses 0.
    """
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
    Cramér-von Mises statistic divided by n. A perfectly calibrated model shows
    1 / (6n) on average.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].

    Returns
    -------
    float
        Between 1 / (12 n^2) and 1/3.

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
    """The integral above of PIT values, ``(..., n) -> (...)``.

    As the regularizer ``cramer_von_mises``, without its gradient.
    """
    n = pit.shape[-1]
    middle = np.arange(1, 2 * n, 2) / (2 * n)
    gaps = np.sort(pit) - middle
    total: Floats = np.square(gaps).mean(-1) + 1 / (12 * n**2)
    return total
