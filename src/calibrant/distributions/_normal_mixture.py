"""Tails, quantiles, crps and a middle of mixtures of normal laws, without gradients."""

import math

import torch
from torch import Tensor

from calibrant.distributions._location_scale import standardized
from calibrant.distributions._mixture import log_sum
from calibrant.distributions._normal import log_normal_cdf
from calibrant.distributions._outline import Around, Tails
from calibrant.distributions._rows import joint_shape

__all__ = [
    "central_value",
    "log_normal_tail",
    "normal_around",
    "normal_mixture_crps",
    "normal_tail",
    "normal_tails",
]

_SQRT_TWO = math.sqrt(2)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_PI = math.sqrt(math.pi)
#: What a tail holds at least, of which the other one is subtracted from 1.
_LEAST_SIDE = 1 / 8
#: Entries of a block of the crps for each thread: torch gives no thread fewer, and a
#: handful of tensors of them stay in the cache.
_ENTRIES = 2**15
#: Threads beyond which a block grows no further; its tensors are then of 4 MB.
_THREADS = 16


def central_value(means: Tensor, stddevs: Tensor, weights: Tensor) -> Tensor:
    """Value with an eighth of the mixture on both sides at least, shape ``batch``.

    That is the expectation in most rows, and a weighted median of the means, which
    takes a sort, in the others.
    """
    center = (weights * means).sum(0).double()
    cdf, survival, _ = normal_tails(
        center, (means, stddevs, weights), center, density=False
    )
    lopsided = ~(torch.minimum(cdf, survival) >= _LEAST_SIDE)
    if lopsided.any():
        median = _median_mean(means[:, lopsided], weights[:, lopsided])
        center[lopsided] = median.double()
    return center


def _median_mean(means: Tensor, weights: Tensor) -> Tensor:
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
    # Times this a score is the argument of erfc; stddev * sqrt(2) might overflow.
    sign = above.double().mul_(2 * _SQRT_HALF).sub_(_SQRT_HALF)
    far = torch.zeros_like(sign)
    height = torch.zeros_like(sign) if density else None
    # One member after the other: the values of all of them would leave the cache.
    for mean, stddev, weight in zip(*parameters, strict=True):
        stddev, half = stddev.double(), weight.double() / 2
        z = (value - mean).div_(stddev)
        if height is not None:
            peak = half * (_SQRT_TWO / _SQRT_PI) / stddev
            height.addcmul_(z.square().mul_(-0.5).exp_(), peak)
        far.addcmul_(z.mul_(sign).erfc_(), half)
    near = 1 - far
    return Tails(torch.where(above, near, far), torch.where(above, far, near), height)


def normal_tail(
    value: Tensor, parameters: tuple[Tensor, Tensor, Tensor], *, above: bool
) -> Tensor:
    """Probability above each value, or else below, to full relative precision.

    Shape: values ``(..., *batch)`` or the end of ``batch``; means, standard deviations
    and weights ``(members, *batch)``, with room for the axes of the values.
    """
    factor = -_SQRT_HALF if above else _SQRT_HALF
    means = parameters[0]
    at_once = _at_once(max(value.numel(), means[0].numel()))

    def part(first: int) -> Tensor:
        mean, stddev, weight = (each[first : first + at_once] for each in parameters)
        z = mean - value
        # Values may be of more precision than the law: no rounding before that.
        # Nor a product with the stddev, which might overflow.
        return z.div_(stddev.to(z)).mul_(factor).erfc_().mul_(weight).sum(0)

    total = part(0)
    for first in range(at_once, len(means), at_once):
        total += part(first)
    return total.div_(2)


def log_normal_tail(
    value: Tensor,
    parameters: tuple[Tensor, Tensor, Tensor],
    tails: tuple[Tensor, Tensor],
    *,
    above: bool,
) -> Tensor:
    """Logarithm of a tail, also where that is too small for a number.

    ``tails`` are that of :func:`normal_tail` and the other one; the other arguments
    are those of it. Only tails that underflow take logarithms of every member.
    """
    tail, other = tails
    # Near 1 the logarithm knows less than the other tail.
    log = torch.where(tail < 0.5, tail.log(), torch.log1p(-other.clamp_max(0.5)))
    lost = tail < torch.finfo(tail.dtype).tiny ** 0.9
    if lost.any():
        means, stddevs, weights = (
            each.expand(-1, *tail.shape)[:, lost] for each in parameters
        )
        z = standardized(value.expand(tail.shape)[lost] - means, stddevs)
        logs = log_sum(weights, log_normal_cdf(-z if above else z))
        log[lost] = logs.to(log.dtype)
    return log


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


def normal_mixture_crps(
    value: Tensor, parameters: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    r"""Crps of a mixture in closed form, without a gradient to go back.

    .. math:: \sum_i w_i A(y - \mu_i, \sigma_i) - \frac12 \sum_{i, j} w_i w_j
        A\Bigl(\mu_i - \mu_j, \sqrt{\sigma_i^2 + \sigma_j^2}\Bigr)

    with :math:`A` of :func:`_normal_distance`. Rows are taken in blocks, which bounds
    the memory and keeps a block in the cache.

    Parameters
    ----------
    value
        :math:`y`, shape ``(..., *batch)``, or the end of ``batch``.
    parameters
        Means, standard deviations and weights, ``(members, *batch)``.
    """
    means = parameters[0]
    members, batch = len(means), means.shape[1:]
    rows, shape = batch.numel(), joint_shape(value.shape, batch)
    values = value.to(torch.result_type(value, means)).expand(shape)
    values = values.reshape(shape[: len(shape) - len(batch)].numel(), rows)
    flat = [each.reshape(members, rows) for each in parameters]
    rows_at_once = _at_once(members)
    blocks = zip(
        *(each.split(rows_at_once, 1) for each in (values, *flat)), strict=True
    )
    found = [_crps_of_rows(*block) for block in blocks]
    return torch.cat(found, 1).reshape(shape)


def _at_once(size: int) -> int:
    """Count the parts of some size that make up a block."""
    entries = _ENTRIES * min(_THREADS, torch.get_num_threads())
    return max(1, entries // max(1, size))


def _crps_of_rows(
    value: Tensor, means: Tensor, stddevs: Tensor, weights: Tensor
) -> Tensor:
    """Crps of ``(k, rows)`` values for parameters of shape ``(members, rows)``."""
    spread = _half_pair_distance(means, stddevs * _SQRT_TWO, weights)
    scales = stddevs.to(value) * _SQRT_TWO  # values may be of more precision
    mean, scale, weight = (each[:, None] for each in (means, scales, weights))
    found = [
        _normal_distance(part - mean, scale).mul_(weight).sum(0) - spread
        for part in value.split(_at_once(means.numel()))
    ]
    return torch.cat(found)


def _half_pair_distance(means: Tensor, scales: Tensor, weights: Tensor) -> Tensor:
    """Half the mean distance of two independent draws from the mixture.

    All members meet those some places further in a circle at once. Shifts below half
    of the circle, and opposite members, bring each pair together once.

    Shape: all three ``(members, rows)``, the result ``rows``.
    """
    members = len(means)
    half = members // 2
    # A member and itself, whose distance is 2 stddev / sqrt(pi).
    total = (scales * weights).div_(_SQRT_TWO * _SQRT_PI)
    shifted = []
    for each in (means, scales, weights):
        circle = torch.cat([each, each[:half]]).unfold(0, members, 1).movedim(-1, 1)
        below_half = circle[1 : half + members % 2]
        shifted.append(below_half.split(_at_once(means.numel())))
    for mean, scale, weight in zip(*shifted, strict=True):
        distance = _normal_distance(mean - means, torch.hypot(scale, scales))
        total += distance.mul_(weight).sum(0)
    if members % 2 == 0:
        scale = torch.hypot(scales[:half], scales[half:])
        distance = _normal_distance(means[:half] - means[half:], scale)
        total[:half].addcmul_(weights[half:], distance)
    return total.mul_(weights).sum(0)


def _normal_distance(mean: Tensor, scale: Tensor) -> Tensor:
    r"""Mean absolute value of a normal variable.

    .. math:: A(\mu, \sigma) = \mu\,\mathrm{erf}(z) + \sqrt{2 / \pi}\,\sigma e^{-z^2},
        \qquad z = \frac{\mu}{\sqrt2 \sigma}

    ``scale`` is :math:`\sqrt2 \sigma`. Where :math:`z` overflows the value is
    :math:`|\mu|`.
    """
    z = mean / scale
    distance = torch.erf(z).mul_(mean)
    return distance.addcmul_(scale, z.square_().neg_().exp_(), value=1 / _SQRT_PI)
