"""Parts of a mixture of normal laws: weights, sums of logs, expected distances."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.distributions._normal import log_normal_density, normal_cdf

__all__ = ["log_sum", "mean_pair_distance", "normal_distance", "weights_like"]


def weights_like(weights: ArrayLike | None, means: Tensor) -> Tensor:
    """Return checked weights in the shape of the means."""
    members = len(means)
    if weights is None:
        return torch.full_like(means, 1 / members)
    dtype = weights.dtype if isinstance(weights, Tensor) else means.dtype
    given = as_float_tensor(weights, name="weights", like=means).to(means.dtype)
    if given.shape not in (means.shape[:1], means.shape):
        raise InputError(
            f"weights must have shape ({members},) or that of the means, "
            f"{tuple(means.shape)}, got {tuple(given.shape)}."
        )
    total = given.sum(0)
    off = (total - 1).abs().max() if given.numel() else given.new_zeros(())
    rounding = max(torch.finfo(means.dtype).eps ** 0.5, 4 * torch.finfo(dtype).eps)
    if (given < 0).any() or off > rounding:
        raise InputError(
            "weights must be at least 0 and sum to 1 over the first axis, the smallest "
            f"is {given.min().item():.4g} and a sum is off by {off.item():.4g}. Use "
            "softmax(raw, dim=0), or weights / weights.sum(0)."
        )
    # What is left is rounding (half precision under autocast), not a wrong weight.
    given = given / total
    room = given.reshape(members, *[1] * (means.ndim - given.ndim), *given.shape[1:])
    return room.expand(means.shape)


def log_sum(weights: Tensor, logs: Tensor) -> Tensor:
    """Logarithm of the weighted sum of exponentials over the first axis."""
    positive = weights > 0
    # log(0) would turn the gradient of the other weights into NaN.
    log_weights = torch.where(positive, weights, 1.0).log()
    return torch.where(positive, log_weights + logs, -torch.inf).logsumexp(0)


def normal_distance(mean: Tensor, stddev: Tensor) -> Tensor:
    r"""Mean absolute value of a normal variable.

    .. math:: A(\mu, \sigma) = \mu\,(2\Phi(\mu/\sigma) - 1) + 2\sigma\varphi(\mu/\sigma)

    Shape: both of one shape, or such that broadcast.
    """
    z = mean / stddev
    central = normal_cdf(z) - normal_cdf(-z)
    return mean * central + 2 * stddev * log_normal_density(z).exp()


def _distance_to_later(
    means: Tensor, stddevs: Tensor, weights: Tensor, member: int
) -> Tensor:
    """Weighted distance of one member to itself and twice to those after it."""
    stddev = torch.hypot(stddevs[member], stddevs[member:])
    distance = normal_distance(means[member] - means[member:], stddev)
    pairs = (weights[member:] * distance).sum(0)
    return weights[member] * (2 * pairs - weights[member] * distance[0])


def mean_pair_distance(means: Tensor, stddevs: Tensor, weights: Tensor) -> Tensor:
    r"""Mean distance of two independent draws from the mixture.

    .. math:: \sum_{i, j} w_i w_j \,
        A\Bigl(\mu_i - \mu_j, \sqrt{\sigma_i^2 + \sigma_j^2}\Bigr)

    One member is compared with all others at a time, and the backward pass computes
    that again instead of keeping it: memory grows with the members, not their square.

    Shape: all three ``(members, *batch)``, the result ``batch``.
    """
    total = torch.zeros_like(means[0])
    for member in range(len(means)):
        total = total + checkpoint(
            _distance_to_later, means, stddevs, weights, member, use_reentrant=False
        )
    return total
