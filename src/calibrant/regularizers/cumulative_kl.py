"""The paper's quantile regularizer: cumulative KL divergence to the uniform law."""

from typing import Any

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, as_pit
from calibrant.contracts import PitValues, Sorter
from calibrant.regularizers._order import ordered_survival
from calibrant.regularizers._rows import check_row_count
from calibrant.sorting import hard_sort

__all__ = ["cumulative_kl", "expected_cumulative_kl", "survival_factors"]


def cumulative_kl(
    pit: ArrayLike | PitValues,
    *,
    sort: Sorter = hard_sort,
    two_sided: bool = False,
) -> Tensor:
    r"""Cumulative KL divergence of PIT values from the uniform law.

    With :math:`S` the survival function of the PIT value :math:`u` (Proposition 2),

    .. math::
        \mathrm{CKL}(u) = \int_0^1 S \ln S \, dx
                          + \mathbb{E}[(1-u) \ln (1-u)] + \tfrac12 ,

    estimated from the sorted values :math:`u_{(1)} \le \dots \le u_{(n)}` by
    (Proposition 3)

    .. math::
        \mathrm{CKL}_n = \sum_{i=1}^{n-1} \frac{n-i}{n} \ln \frac{n-i}{n}
            \bigl(u_{(i+1)} - u_{(i)}\bigr)
            + \frac1n \sum_{i=1}^n (1-u_i) \ln (1-u_i) + \frac12 .

    That is exactly the divergence of the empirical law, so with the hard sort
    :math:`0 < \mathrm{CKL}_n \le 1/2`; all values equal to :math:`c` give
    :math:`(1-c)\ln(1-c) + 1/2`. At perfect calibration its mean is not 0 but
    :func:`expected_cumulative_kl`, about :math:`1 / (4(n+1))`: 0.00198 for n = 128.
    That is a constant of the gradient; subtract it from a value that you report.

    Default strength: 20, the paper's.

    Parameters
    ----------
    pit
        PIT values ``distribution.cdf(y)`` in [0, 1], shape ``(..., n)``, or
        ``distribution.pit(y)``, which keeps the tails precise.
    sort
        Ascending sort with gradients, ``(..., n) -> (..., n)``.
    two_sided
        Take the mean over :math:`u` and :math:`1-u`. The plain form treats the two
        tails differently and pulls small batches upward by about
        :math:`(1 - \mathbb{E}u) / (2n)`; the mean of both cancels that.

    Returns
    -------
    Tensor
        Shape ``(...)``; 0 is the uniform law.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.
    Baratpour and Habibi Rad (2012), *Testing Goodness-of-Fit for Exponential
    Distribution Based on Cumulative Residual Entropy*.

    Examples
    --------
    >>> import torch
    >>> evenly_spread = (torch.arange(100) + 0.5) / 100
    >>> round(cumulative_kl(evenly_spread).item(), 4)
    0.0
    >>> overconfident = torch.tensor([0.0, 0.0, 1.0, 1.0])
    >>> round(cumulative_kl(overconfident).item(), 4)
    0.1534
    """
    values = as_pit(pit)
    result = _one_sided(values, sort)
    if two_sided:
        result = (result + _one_sided(values.mirrored(), sort)) / 2
    return result


def expected_cumulative_kl(n: int) -> float:
    r"""Mean of :func:`cumulative_kl` over ``n`` independent uniform values.

    .. math::
        \mathbb{E}[\mathrm{CKL}_n]
            = \frac14 + \sum_{j=1}^{n-1} \frac{j \ln(j/n)}{n(n+1)} .

    Both the plain and the two-sided form have it, with the hard sort.

    Examples
    --------
    >>> round(expected_cumulative_kl(512), 5)
    0.00049
    """
    check_row_count(n)
    j = torch.arange(1, n, dtype=torch.float64)
    return 0.25 + float((j * (j / n).log()).sum()) / (n * (n + 1))


def _one_sided(pit: PitValues, sort: Sorter) -> Tensor:
    # With w_j = s_j ln s_j, s_j = (n - j) / n and c_k = w_{k-1} - w_k, summation by
    # parts turns the sum over gaps into -sum_k c_k S_(k): survival values only, whose
    # upper tail float32 resolves where PIT values round to 1.
    survival = ordered_survival(pit, sort)
    entropy: Tensor = _XLogX.apply(  # type: ignore[no-untyped-call]
        pit.survival, pit.log_survival
    )
    factors = survival_factors(survival.shape[-1], survival.device).to(survival.dtype)
    return 0.5 + entropy.mean(-1) - (factors * survival).sum(-1)


class _XLogX(torch.autograd.Function):
    """``x log x`` from ``x`` and an independently precise ``log x``.

    The derivative ``1 + log x`` is taken to ``x`` alone. It then meets the density as
    a factor, and the product is finite, and exactly 0 where the density underflows;
    plain ``xlogy`` gives NaN there.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_x: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(log_x)
        return x * log_x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (log_x,) = ctx.saved_tensors
        return gradient * (1 + log_x), None


def survival_factors(n: int, device: torch.device) -> Tensor:
    """The factors c_k of the sorted survival values, shape ``(n,)``; they sum to 0."""
    # Their differences are small: taken in float64 where the device has it.
    wide = torch.float32 if device.type == "mps" else torch.float64
    share = torch.arange(n, -1, -1, dtype=wide, device=device) / n
    weighted = torch.special.xlogy(share, share)
    differences: Tensor = weighted[:-1] - weighted[1:]
    return differences
