"""Divergences of PIT values from the uniform distribution, ``(..., n) -> (...)``.

All take ``pit`` and, if they sort, ``sort`` as :func:`cumulative_kl` does. With their
default strengths the pull on the spread of an over-confident Gaussian batch (two thirds
of the true spread, n = 512) is about that of the cumulative KL at the paper's 20.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibrant.protocols import PitValues, Sorter
from calibrant.sorting import hard_sort
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_pit,
    as_target,
    check_positive,
)

#: Smaller gaps of the spacing entropy (ties, inversions of a soft sort) count as this.
_SMALLEST_GAP = 1e-9
#: Gauss-Legendre nodes and weights on [0, 1]: the beta kernel's density is smooth.
_LEGENDRE = np.array(np.polynomial.legendre.leggauss(64)) / 2 + [[0.5], [0.0]]


def cumulative_kl(
    pit: ArrayLike | PitValues,
    *,
    sort: Sorter = hard_sort,
    two_sided: bool = False,
) -> Tensor:
    r"""Cumulative KL divergence of PIT values from the uniform distribution.

    With :math:`S` the survival function of the PIT value :math:`u` (Proposition 2),

    .. math::
        \mathrm{CKL}(u) = \int_0^1 S \ln S \, dx
                          + \mathbb{E}[(1-u) \ln (1-u)] + \tfrac12 ,

    estimated from the sorted values :math:`u_{(i)}` by (Proposition 3)

    .. math::
        \mathrm{CKL}_n = \sum_{i=1}^{n-1} \frac{n-i}{n} \ln \frac{n-i}{n}
            \bigl(u_{(i+1)} - u_{(i)}\bigr)
            + \frac1n \sum_{i=1}^n (1-u_i) \ln (1-u_i) + \frac12 .

    That is exactly the divergence of the empirical distribution: with the hard sort
    :math:`0 < \mathrm{CKL}_n \le 1/2`. At perfect calibration its mean is not 0 but
    :func:`expected_cumulative_kl`, about :math:`1 / (4(n+1))`.

    Default strength: 20, the paper's.

    Parameters
    ----------
    pit
        PIT values ``distribution.cdf(y)`` in [0, 1], shape ``(..., n)``, or
        ``distribution.pit(y)``, which keeps the tails precise.
    sort
        Ascending sort with gradients, ``(..., n) -> (..., n)``.
    two_sided
        Take the mean over :math:`u` and :math:`1-u`. The plain form pulls small
        batches upward by about :math:`(1 - \mathbb{E}u) / (2n)`; the mean cancels that.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.
    Baratpour and Habibi Rad (2012), *Testing Goodness-of-Fit for Exponential
    Distribution Based on Cumulative Residual Entropy*.

    Examples
    --------
    >>> evenly_spread = (torch.arange(100) + 0.5) / 100
    >>> round(cumulative_kl(evenly_spread).item(), 4)
    0.0
    >>> round(cumulative_kl([0.0, 0.0, 1.0, 1.0]).item(), 4)  # over-confident
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
    if n < 1:
        raise InputError(f"n, the number of PIT values, must be at least 1, got {n}.")
    j = torch.arange(1, n, dtype=torch.float64)
    return 0.25 + float((j * (j / n).log()).sum()) / (n * (n + 1))


def _one_sided(pit: PitValues, sort: Sorter) -> Tensor:
    # Summation by parts turns the sum over gaps into -sum_k c_k S_(k): survival values
    # only, whose upper tail float32 resolves where PIT values round to 1.
    if sort is hard_sort:
        survival = hard_sort(pit.survival, key=pit.key)
    else:
        survival = sort(pit.survival).flip(-1)
    entropy: Tensor = _XLogX.apply(pit.survival, pit.log_survival)  # type: ignore[no-untyped-call]
    factors = survival_factors(survival.shape[-1]).to(survival)
    return 0.5 + entropy.mean(-1) - (factors * survival).sum(-1)


class _XLogX(torch.autograd.Function):
    """``x log x`` from ``x`` and an independently precise ``log x``.

    The derivative is taken to ``x`` alone: times the density it is finite, and exactly
    0 where the density underflows; plain ``xlogy`` gives NaN there.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_x: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(log_x)
        return x * log_x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (log_x,) = ctx.saved_tensors
        return gradient * (1 + log_x), None


def survival_factors(n: int) -> Tensor:
    """The factors c_k of the sorted survival values, float64 ``(n,)``."""
    share = torch.arange(n, -1, -1, dtype=torch.float64) / n
    weighted = torch.special.xlogy(share, share)
    differences: Tensor = weighted[:-1] - weighted[1:]
    return differences


def cramer_von_mises(pit: ArrayLike | PitValues, *, sort: Sorter = hard_sort) -> Tensor:
    r"""Integrated squared gap between the cdf of PIT values and the diagonal.

    The paper's l2 calibration error with no bins, in closed form:

    .. math::
        \int_0^1 (F_n(p) - p)^2 \, dp
            = \frac{1}{12 n^2} + \frac1n \sum_{i=1}^n
              \Bigl(u_{(i)} - \frac{2i - 1}{2n}\Bigr)^2 .

    At perfect calibration its mean is :math:`1 / (6n)`.

    Default strength: 40.

    References
    ----------
    Utpala and Rai (2020), section 4 (the error). Anderson and Darling (1952).

    Examples
    --------
    >>> round(48 * cramer_von_mises([0.25, 0.75]).item(), 6)
    1.0
    """
    ordered = _ordered(as_pit(pit), sort)
    n = ordered.shape[-1]
    middle = torch.arange(1, 2 * n, 2, dtype=ordered.dtype, device=ordered.device)
    return (ordered - middle / (2 * n)).square().mean(-1) + 1 / (12 * n**2)


def quantile_distance(
    pit: ArrayLike | PitValues, *, power: int = 1, sort: Sorter = hard_sort
) -> Tensor:
    r"""Mean distance of sorted PIT values from their expectations ("PCE-Sort").

    .. math::
        R(u) = \frac1n \sum_{i=1}^n
               \Bigl| u_{(i)} - \frac{i}{n + 1} \Bigr|^p , \qquad p \in \{1, 2\} .

    0 for values at :math:`i / (n + 1)`. At perfect calibration the mean is
    :math:`1 / (6 (n + 1))` for p = 2 and about :math:`0.31 / \sqrt n` for p = 1.

    Default strength: 6.

    References
    ----------
    Dheur and Ben Taieb (2023), arXiv:2306.02738.

    Examples
    --------
    >>> quantile_distance([0.75, 0.25, 0.5]).item()
    0.0
    """
    if power not in (1, 2):
        raise InputError(f"power must be 1 or 2, got {power}.")
    ordered = _ordered(as_pit(pit), sort)
    n = ordered.shape[-1]
    rank = torch.arange(1, n + 1, dtype=ordered.dtype, device=ordered.device)
    return (ordered - rank / (n + 1)).abs().pow(power).mean(-1)


def spacing_entropy(
    pit: ArrayLike | PitValues, *, spacing: int | None = None, sort: Sorter = hard_sort
) -> Tensor:
    r"""Negative differential entropy of PIT values, the authors' later regularizer.

    With the sorted values :math:`u_{(i)}` and the spacing :math:`m \ge 1`, by default
    and in shorter batches :math:`\lfloor\sqrt n\rfloor`,

    .. math::
        R(u) = -\frac{1}{n - m} \sum_{i=1}^{n-m}
               \ln \frac{(n + 1)\,(u_{(i+m)} - u_{(i)})}{m} .

    It estimates :math:`\mathrm{KL}(p_u \,\|\, \mathcal{U}[0, 1])`. Evenly spread
    values and a single one give 0; at perfect calibration the mean is
    :math:`\psi(n + 1) - \psi(m) - \ln\frac{n + 1}{m}`. Gaps below 1e-9 count as that,
    without a gradient. A large m rewards over-confidence: for n = 512 the authors'
    m = 64 is smallest at about 0.75 of the true spread.

    Default strength: 1 (the authors use 1 to 4).

    References
    ----------
    Utpala and Rai (2020), in its released code. Vasicek (1976), *A Test for Normality
    Based on Sample Entropy*.

    Examples
    --------
    >>> evenly_spread = torch.arange(1, 10, dtype=torch.float64) / 10
    >>> round(spacing_entropy(evenly_spread, spacing=3).abs().item(), 9)
    0.0
    """
    if spacing is not None and spacing < 1:
        raise InputError(f"spacing must be at least 1, got {spacing}.")
    ordered = _ordered(as_pit(pit), sort)
    n = ordered.shape[-1]
    if n == 1:
        return 0 * ordered.sum(-1)
    m = math.isqrt(n) if spacing is None or spacing >= n else spacing
    gaps = (ordered[..., m:] - ordered[..., :-m]).clamp_min(_SMALLEST_GAP)
    return -(gaps * ((n + 1) / m)).log().mean(-1)


def kernel_calibration(
    pit: ArrayLike | PitValues, *, bandwidth: float = 0.01, levels: int = 64
) -> Tensor:
    r"""Squared distance of a soft-indicator cdf from the uniform one ("PCE-KDE").

    With the levels :math:`t_j = (j - 1/2) / M`, the bandwidth :math:`h` and the
    logistic function :math:`\sigma`,

    .. math::
        R(u) = \frac1M \sum_{j=1}^M \bigl(\hat F_h(t_j) - U_h(t_j)\bigr)^2, \qquad
        \hat F_h(t) = \frac1n \sum_{i=1}^n \sigma\Bigl(\frac{t - u_i}{h}\Bigr) .

    :math:`U_h(t) = \mathbb{E}\,\sigma((t - U)/h)` is the uniform distribution seen
    through the same kernel; :math:`t` itself, as in the study, would push values away
    from the ends. At perfect calibration the mean is just below :math:`1 / (6n)`.

    Default strength: 40.

    References
    ----------
    Dheur and Ben Taieb (2023), arXiv:2306.02738.

    Examples
    --------
    >>> evenly_spread = (torch.arange(1000) + 0.5) / 1000
    >>> round(kernel_calibration(evenly_spread).item(), 6)
    0.0
    """
    check_positive(bandwidth, name="bandwidth")
    if levels < 1:
        raise InputError(f"levels must be at least 1, got {levels}.")
    values = as_pit(pit).cdf
    level = ((torch.arange(levels, dtype=torch.float64) + 0.5) / levels).to(values)
    distance = (level[:, None] - values[..., None, :]) / bandwidth
    inside = softplus(level / bandwidth) - softplus((level - 1) / bandwidth)
    return (torch.sigmoid(distance).mean(-1) - bandwidth * inside).square().mean(-1)


def beta_kernel_entropy(
    pit: ArrayLike | PitValues, *, bandwidth: float | None = None
) -> Tensor:
    r"""KL divergence to the uniform distribution, by a density without boundary bias.

    With the beta kernel of width b, by default :math:`0.25\, n^{-2/5}` (Chen's rate),

    .. math::
        \hat f(t) = \frac1n \sum_{i=1}^n
            \mathrm{Beta}\Bigl(u_i;\ \frac tb + 1,\ \frac{1-t}{b} + 1\Bigr), \qquad
        R(u) = \int_0^1 \bigl(\hat f \ln \hat f - \hat f + 1\bigr) \, dt .

    :math:`\hat f` need not integrate to 1, hence the last two terms. The mean at
    perfect calibration is 0.036 for n = 32, 0.013 for n = 128, 0.0048 for n = 512.

    Default strength: 3.

    References
    ----------
    Chen (1999), *Beta Kernel Estimators for Density Functions*.

    Examples
    --------
    >>> evenly_spread = (torch.arange(1000) + 0.5) / 1000
    >>> round(beta_kernel_entropy(evenly_spread).item(), 3)
    0.0
    """
    values = as_pit(pit)
    width = 0.25 * values.cdf.shape[-1] ** -0.4 if bandwidth is None else bandwidth
    check_positive(width, name="bandwidth")
    nodes, weights = torch.from_numpy(_LEGENDRE).to(values.cdf)
    # At 0 and 1 the kernel's slope is infinite; there the value moves but a little.
    smallest = torch.finfo(values.cdf.dtype).eps
    log_cdf = values.cdf.clamp(smallest, 1 - smallest).log()
    log_survival = values.survival.clamp(smallest, 1 - smallest).log()
    first, second = (nodes / width)[:, None], ((1 - nodes) / width)[:, None]
    log_beta = (
        torch.lgamma(first + 1)
        + torch.lgamma(second + 1)
        - torch.lgamma(torch.full_like(first, 1 / width + 2))
    )
    logs = first * log_cdf[..., None, :] + second * log_survival[..., None, :]
    density = (logs - log_beta).exp().mean(-1)
    # Where no value is near, the density underflows, and its logarithm has no slope.
    density = density.clamp_min(torch.finfo(density.dtype).tiny)
    value: Tensor = (weights * (density * density.log() - density + 1)).sum(-1)
    return value


def pit_entropy(pit: ArrayLike | PitValues, *, bandwidth: float = 0.1) -> Tensor:
    r"""KL divergence to the uniform distribution, by a reflected kernel density.

    With the logistic kernel :math:`k` of width :math:`h = b\, n^{-1/5}` and the density
    of the batch, reflected at 0 and 1,

    .. math::
        \varphi(a) = \frac1n \sum_{j=1}^n
            \bigl[k(a - u_j) + k(-a - u_j) + k(2 - a - u_j)\bigr] , \qquad
        R(u) = \frac1n \sum_{i=1}^n \ln \varphi(u_i) .

    NLL less R is the NLL after recalibration by the batch's own PIT values, so a
    strength of -1 is quantile recalibration training. The mean at perfect calibration
    is 0.098 for n = 32, 0.032 for n = 128, 0.011 for n = 512.

    Default strength: 1.5.

    Parameters
    ----------
    pit
        PIT values, shape ``(..., n)``; the cost grows with :math:`n^2`.
    bandwidth
        The factor :math:`b`; the authors' is 0.1.

    References
    ----------
    Dheur and Ben Taieb (2024), *Probabilistic Calibration by Design for Neural Network
    Regression*, AISTATS.

    Examples
    --------
    >>> evenly_spread = (torch.arange(1000) + 0.5) / 1000
    >>> round(pit_entropy(evenly_spread).abs().item(), 3)
    0.0
    """
    check_positive(bandwidth, name="bandwidth")
    values = as_pit(pit).cdf
    n = values.shape[-1]
    width = bandwidth * n**-0.2
    place, center = values.unsqueeze(-1) / width, values.unsqueeze(-2) / width
    # The kernel is even. A value's own kernel keeps its density above 0.
    distances = (place - center, place + center, 2 / width - place - center)
    kernels = torch.stack([_logistic_density(distance) for distance in distances])
    density: Tensor = kernels.sum((0, -1)) / (n * width)
    return density.log().mean(-1)


def _logistic_density(x: Tensor) -> Tensor:
    """Density of the standard logistic distribution."""
    below = torch.sigmoid(x)
    return below * (1 - below)


def cumulative_residual_entropy(
    values: ArrayLike, *, sort: Sorter = hard_sort
) -> Tensor:
    r"""Cumulative residual entropy of a non-negative sample (Definition 3).

    .. math::
        \varepsilon(S) = -\int_0^\infty \bar F(x) \ln \bar F(x) \, dx ,

    with the survival function of the sample ``(..., n)``; 0 for a constant, 1/4 for the
    uniform distribution and the mean for an exponential one (Rao et al. 2004).

    Examples
    --------
    >>> cumulative_residual_entropy([2.0, 2.0, 2.0]).item()
    0.0
    """
    ordered = sort(_as_sample(values, "values"))
    n = ordered.shape[-1]
    share = torch.arange(n - 1, 0, -1, dtype=ordered.dtype, device=ordered.device) / n
    return (-share * share.log() * ordered.diff(dim=-1)).sum(-1)


def cumulative_kl_divergence(first: ArrayLike, second: ArrayLike) -> Tensor:
    r"""Cumulative KL divergence CKL(S || T) of two samples (Definition 4).

    .. math::
        \mathrm{CKL}(S \,\|\, T) = \int_0^\infty \bar F(x)
            \ln \frac{\bar F(x)}{\bar G(x)} \, dx
            - \mathbb{E}[S] + \mathbb{E}[T] ,

    with the survival functions of two non-negative samples ``(..., n)`` and
    ``(..., m)``. It is at least 0, 0 for equal samples, and infinite where the first
    sample reaches beyond the largest value of the second.

    Examples
    --------
    >>> cumulative_kl_divergence([1.0, 2.0], [2.0, 1.0]).item()
    0.0
    >>> cumulative_kl_divergence([1.0, 3.0], [1.0, 2.0]).item()
    inf
    """
    first, second = _as_sample(first, "first"), _as_sample(second, "second")
    if first.shape[:-1] != second.shape[:-1]:
        raise InputError(
            "first and second must have the same leading shape, "
            f"got {tuple(first.shape)} and {tuple(second.shape)}."
        )
    n, m = first.shape[-1], second.shape[-1]
    points, order = torch.sort(torch.cat([first, second], dim=-1), dim=-1, stable=True)
    # Shares of each sample above a point, between it and the next one.
    above_first = (n - (order < n).cumsum(-1)[..., :-1]).to(points.dtype) / n
    above_second = (m - (order >= n).cumsum(-1)[..., :-1]).to(points.dtype) / m
    ratio = torch.where(above_first > 0, above_first / above_second, 1.0)
    gaps = points.diff(dim=-1)
    # Ties make gaps of 0, where an infinite integrand does not count.
    pieces = torch.where(gaps > 0, above_first * ratio.log() * gaps, 0.0)
    return pieces.sum(-1) - first.mean(-1) + second.mean(-1)


def _ordered(pit: PitValues, sort: Sorter) -> Tensor:
    """PIT values in ascending order, resolved in both tails by the hard sort."""
    return hard_sort(pit.cdf, key=pit.key) if sort is hard_sort else sort(pit.cdf)


def _as_sample(values: ArrayLike, name: str) -> Tensor:
    sample = as_target(values, name=name)
    if sample.ndim == 0 or sample.shape[-1] == 0 or bool((sample < 0).any()):
        raise InputError(
            f"{name} must have shape (..., n) with n >= 1, and numbers at least 0, got "
            f"{sample!r}."
        )
    return sample
