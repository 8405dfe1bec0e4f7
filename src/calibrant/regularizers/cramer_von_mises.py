"""The paper's own squared calibration error, integrated over all levels."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, as_pit
from calibrant.contracts import PitValues, Sorter
from calibrant.regularizers._order import ordered_cdf
from calibrant.regularizers._rows import check_row_count
from calibrant.sorting import hard_sort

__all__ = ["cramer_von_mises", "expected_cramer_von_mises"]


def cramer_von_mises(pit: ArrayLike | PitValues, *, sort: Sorter = hard_sort) -> Tensor:
    r"""Integrated squared gap between the law of PIT values and the uniform law.

    The paper's l2 calibration error with no bins, in closed form:

    .. math::
        \int_0^1 (F_n(p) - p)^2 \, dp
            = \frac{1}{12 n^2} + \frac1n \sum_{i=1}^n
              \Bigl(u_{(i)} - \frac{2i - 1}{2n}\Bigr)^2 .

    At least :math:`1 / (12 n^2)`, at most 1/3. At perfect calibration its mean is
    :math:`1 / (6n)`.

    Default strength: 40, where its pull on the spread of an over-confident Gaussian
    batch (two thirds of the true spread, n = 512) is about that of the cumulative KL
    at 20.

    Parameters
    ----------
    pit
        PIT values in [0, 1], shape ``(..., n)``, or ``distribution.pit(y)``.
    sort
        Ascending sort with gradients, ``(..., n) -> (..., n)``.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Utpala and Rai (2020), arXiv:2002.12860, section 4 (the error).
    Anderson and Darling (1952), *Asymptotic Theory of Certain Goodness of Fit
    Criteria Based on Stochastic Processes*.

    Examples
    --------
    >>> import torch
    >>> round(48 * cramer_von_mises(torch.tensor([0.25, 0.75])).item(), 6)
    1.0
    """
    values = as_pit(pit)
    ordered = ordered_cdf(values, sort)
    n = ordered.shape[-1]
    middle = torch.arange(1, 2 * n, 2, dtype=ordered.dtype, device=ordered.device)
    return (ordered - middle / (2 * n)).square().mean(-1) + 1 / (12 * n**2)


def expected_cramer_von_mises(n: int) -> float:
    """Mean of :func:`cramer_von_mises` over ``n`` uniform values: 1 / (6 n).

    Examples
    --------
    >>> expected_cramer_von_mises(100) == 1 / 600
    True
    """
    check_row_count(n)
    return 1 / (6 * n)
