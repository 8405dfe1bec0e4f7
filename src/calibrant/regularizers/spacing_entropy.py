"""Entropy of PIT values from the gaps between their order statistics."""

import math

from scipy.special import digamma
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_pit
from calibrant.contracts import PitValues, Sorter
from calibrant.regularizers._order import ordered_cdf
from calibrant.regularizers._rows import check_row_count
from calibrant.sorting import hard_sort

__all__ = ["expected_spacing_entropy", "spacing_entropy"]

#: Smaller gaps (ties, inversions of a soft sort) count as this one.
MINIMUM_GAP = 1e-9


def spacing_entropy(
    pit: ArrayLike | PitValues,
    *,
    spacing: int | None = None,
    sort: Sorter = hard_sort,
) -> Tensor:
    r"""Negative differential entropy of PIT values, the authors' later regularizer.

    With :math:`u_{(1)} \le \dots \le u_{(n)}` the sorted values and :math:`m` the
    spacing,

    .. math::
        R(u) = -\frac{1}{n - m} \sum_{i=1}^{n-m}
               \ln \frac{(n + 1)\,(u_{(i+m)} - u_{(i)})}{m} .

    It estimates :math:`\mathrm{KL}(p_u \,\|\, \mathcal{U}[0, 1])`. Evenly spread
    values give 0; at perfect calibration its mean is
    :math:`\psi(n + 1) - \psi(m) - \ln\frac{n + 1}{m}`
    (:func:`expected_spacing_entropy`), 0.02 for n = 512 and m = 22. Smaller gaps than
    1e-9 count as that: their cost is finite and they carry no gradient.

    Mind the spacing. Gaps count the middle of [0, 1] more often than its ends, so a
    large m rewards over-confidence: for Gaussian batches of n = 512 the authors'
    m = 64 is smallest when the predicted spread is about 0.75 of the true one
    (m = 22: about 0.9, m = 8: about 0.95).

    Default strength: 1 (the authors use 1 to 4).

    Parameters
    ----------
    pit
        PIT values in [0, 1], shape ``(..., n)``, or ``distribution.pit(y)``.
    spacing
        :math:`m \ge 1`; by default, and when the batch has no more rows than that,
        :math:`\lfloor\sqrt n\rfloor`. One row has no gap and gives 0.
    sort
        Ascending sort with gradients, ``(..., n) -> (..., n)``.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, in its released code.
    Vasicek (1976), *A Test for Normality Based on Sample Entropy*.

    Examples
    --------
    >>> import torch
    >>> n = 9
    >>> evenly_spread = torch.arange(1, n + 1, dtype=torch.float64) / (n + 1)
    >>> round(spacing_entropy(evenly_spread, spacing=3).abs().item(), 9)
    0.0
    """
    values = as_pit(pit)
    n = values.cdf.shape[-1]
    m = _effective_spacing(spacing, n)
    ordered = ordered_cdf(values, sort)
    if n == 1:
        return 0 * ordered.sum(-1)
    gaps = (ordered[..., m:] - ordered[..., :-m]).clamp_min(MINIMUM_GAP)
    return -(gaps * ((n + 1) / m)).log().mean(-1)


def expected_spacing_entropy(n: int, *, spacing: int | None = None) -> float:
    r"""Mean of :func:`spacing_entropy` over ``n`` independent uniform values.

    A gap of m order statistics is Beta(m, n + 1 - m), so the mean is
    :math:`\psi(n + 1) - \psi(m) - \ln\frac{n + 1}{m}`.

    Examples
    --------
    >>> round(expected_spacing_entropy(512), 4)
    0.0219
    """
    check_row_count(n)
    m = _effective_spacing(spacing, n)
    if n == 1:
        return 0.0
    return float(digamma(n + 1) - digamma(m)) - math.log((n + 1) / m)


def _effective_spacing(spacing: int | None, n: int) -> int:
    if spacing is None:
        return math.isqrt(n)
    if spacing < 1:
        raise InputError(f"spacing must be at least 1, got {spacing}.")
    return spacing if spacing < n else math.isqrt(n)
