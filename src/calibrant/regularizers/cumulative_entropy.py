"""Cumulative residual entropy, and the cumulative KL divergence of two samples."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.contracts import Sorter
from calibrant.sorting import hard_sort

__all__ = ["cumulative_kl_divergence", "cumulative_residual_entropy"]


def cumulative_residual_entropy(
    values: ArrayLike, *, sort: Sorter = hard_sort
) -> Tensor:
    r"""Cumulative residual entropy of a non-negative sample (Definition 3).

    .. math::
        \varepsilon(S) = -\int_0^\infty \bar F(x) \ln \bar F(x) \, dx ,

    with the survival function :math:`\bar F` of the empirical law. It is 0 for a
    constant, 1/4 for the uniform law on [0, 1] and the mean for an exponential law.

    Parameters
    ----------
    values
        A sample of numbers at least 0, shape ``(..., n)``.
    sort
        Ascending sort with gradients, ``(..., n) -> (..., n)``.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Rao, Chen, Vemuri and Wang (2004), *Cumulative Residual Entropy: A New Measure of
    Information*.

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

    with the survival functions :math:`\bar F, \bar G` of the two empirical laws. It is
    at least 0, and 0 for equal laws. Where the first sample reaches beyond the largest
    value of the second, :math:`\bar G` is 0 and the divergence infinite.

    Parameters
    ----------
    first
        Sample of :math:`S \ge 0`, shape ``(..., n)``.
    second
        Sample of :math:`T \ge 0`, shape ``(..., m)`` with the same leading shape.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Baratpour and Habibi Rad (2012), *Testing Goodness-of-Fit for Exponential
    Distribution Based on Cumulative Residual Entropy*.

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
    joined = torch.cat([first, second], dim=-1)
    points, order = torch.sort(joined, dim=-1, stable=True)
    # How many of each sample lie above a point, between it and the next one.
    passed_first = (order < n).cumsum(-1)[..., :-1]
    passed_second = (order >= n).cumsum(-1)[..., :-1]
    above_first = (n - passed_first).to(points.dtype) / n
    above_second = (m - passed_second).to(points.dtype) / m
    ratio = torch.where(above_first > 0, above_first / above_second, 1.0)
    integrand = above_first * ratio.log()
    gaps = points.diff(dim=-1)
    # Ties make gaps of 0, where an infinite integrand does not count.
    integral = torch.where(gaps > 0, integrand * gaps, 0.0).sum(-1)
    return integral - first.mean(-1) + second.mean(-1)


def _as_sample(values: ArrayLike, name: str) -> Tensor:
    sample = as_float_tensor(values, name=name)
    if sample.ndim == 0 or sample.shape[-1] == 0:
        raise InputError(
            f"{name} must have shape (..., n) with n >= 1, got {tuple(sample.shape)}."
        )
    if not bool((sample >= 0).all() and torch.isfinite(sample).all()):
        raise InputError(
            f"{name} must hold finite numbers at least 0, because cumulative residual "
            f"entropy is defined for those; its smallest is {sample.min().item():.4g}."
        )
    return sample
