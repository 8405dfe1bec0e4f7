"""Tails, quantiles and a middle of mixtures of normal laws, without gradients."""

import math

import torch
from torch import Tensor

from calibrant.distributions._outline import Around, Tails

__all__ = ["central_mean", "normal_around", "normal_tails"]

_SQRT_TWO = math.sqrt(2)
_SQRT_PI = math.sqrt(math.pi)


def central_mean(means: Tensor, weights: Tensor) -> Tensor:
    """Weighted median of the means, shape ``batch``.

    At it, both tails of the mixture hold 1/4 at least.
    """
    order = means.argsort(0)
    heap = weights.gather(0, order).cumsum(0)
    place = (heap < 0.5).sum(0, keepdim=True).clamp_max(len(means) - 1)
    return means.gather(0, order.gather(0, place))[0]


def normal_tails(
    value: Tensor,
    parameters: tuple[Tensor, Tensor, Tensor],
    center: Tensor,
    *,
    density: bool,
) -> Tails:
    """Both tails of a mixture, each to full relative precision.

    Parameters
    ----------
    value
        Float64, shape ``(..., *batch)``.
    parameters
        Means, standard deviations and weights, ``(members, *batch)``.
    center
        A value with much of the law on both sides, ``batch``. Only the tail on the
        far side of it is summed up; the other is what is left, and not small.
    density
        Whether the density is wanted too.
    """
    above = value >= center
    sign = above.double().mul_(2).sub_(1)
    far = torch.zeros_like(sign)
    height = torch.zeros_like(sign) if density else None
    # One member after the other: the values of all of them would leave the cache.
    for mean, stddev, weight in zip(*parameters, strict=True):
        scale, half = stddev.double() * _SQRT_TWO, weight.double() / 2
        z = (value - mean).div_(scale)
        if height is not None:
            height.addcmul_(z.square().neg_().exp_(), half * (2 / _SQRT_PI) / scale)
        far.addcmul_(z.mul_(sign).erfc_(), half)
    near = 1 - far
    return Tails(torch.where(above, near, far), torch.where(above, far, near), height)


def normal_around(
    z: Tensor, parameters: tuple[Tensor, Tensor, Tensor], start: Tensor
) -> Around:
    """Bracket of the quantiles of a mixture: they lie between those of its members.

    Parameters
    ----------
    z
        Normal scores of the levels, float64, that broadcast against ``batch``.
    parameters
        Means, standard deviations and weights, ``(members, *batch)``.
    start
        First guess for the quantiles, of the shape of the result.
    """
    low, high = torch.full_like(start, torch.inf), torch.full_like(start, -torch.inf)
    for mean, stddev, weight in zip(*parameters, strict=True):
        each = mean + stddev * z
        used = weight > 0
        low = torch.where(used, torch.minimum(low, each), low)
        high = torch.where(used, torch.maximum(high, each), high)
    return Around(low, start, high)
