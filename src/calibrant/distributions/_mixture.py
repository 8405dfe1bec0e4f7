"""Parts of a mixture of normal laws: weights, sums of logs, expected distances."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.distributions._location_scale import standardized
from calibrant.distributions._normal import log_normal_density, normal_cdf

__all__ = ["log_sum", "mean_distance", "mean_pair_distance", "weights_like"]


#: Entries of a block of the crps: some ten tensors of 4 MB.
_ENTRIES = 500_000


def weights_like(weights: ArrayLike | None, means: Tensor) -> Tensor:
    """Return checked weights in the shape of the means."""
    members = len(means)
    if weights is None:
        return torch.full_like(means, 1 / members)
    given = as_float_tensor(weights, name="weights", like=means).to(means.dtype)
    if given.shape not in (means.shape[:1], means.shape):
        raise InputError(
            f"weights must have shape ({members},) or that of the means, "
            f"{tuple(means.shape)}, got {tuple(given.shape)}."
        )
    total = given.sum(0)
    off = (total - 1).abs().max() if given.numel() else given.new_zeros(())
    rounding = max(torch.finfo(means.dtype).eps ** 0.5, 4 * _precision(weights))
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


def _precision(weights: ArrayLike) -> float:
    """Distance of 1 to the next number in the type that weights came in."""
    if isinstance(weights, Tensor):
        return torch.finfo(weights.dtype).eps
    given = np.asarray(weights).dtype
    return float(np.finfo(given).eps) if given.kind == "f" else 0.0


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
    z = standardized(mean, stddev)
    central = normal_cdf(z) - normal_cdf(-z)
    return mean * central + 2 * stddev * log_normal_density(z).exp()


def _distance_to_value(
    value: Tensor, means: Tensor, stddevs: Tensor, weights: Tensor
) -> Tensor:
    return (weights * normal_distance(value - means, stddevs)).sum(0)


def mean_distance(
    value: Tensor, means: Tensor, stddevs: Tensor, weights: Tensor
) -> Tensor:
    """Mean distance of a draw from the mixture to each value.

    Shape: the last three ``(members, *batch)``, with room for the axes of ``value``.
    """
    parameters = (means, stddevs, weights)
    at_once = max(1, _ENTRIES // max(1, value.numel(), means[0].numel()))
    compute = _computed_again_if(_distance_to_value, len(means) > at_once)
    blocks = zip(*(each.split(at_once) for each in parameters), strict=True)
    return torch.stack([compute(value, *block) for block in blocks]).sum(0)


def _distance_of_pairs(
    means: Tensor, stddevs: Tensor, weights: Tensor, first: Tensor, second: Tensor
) -> Tensor:
    stddev = torch.hypot(stddevs[first], stddevs[second])
    distance = normal_distance(means[first] - means[second], stddev)
    count = torch.where(first == second, 1, 2)  # (i, j) stands for (j, i) too
    return (count[:, None] * weights[first] * weights[second] * distance).sum(0)


def mean_pair_distance(means: Tensor, stddevs: Tensor, weights: Tensor) -> Tensor:
    r"""Mean distance of two independent draws from the mixture.

    .. math:: \sum_{i, j} w_i w_j \,
        A\Bigl(\mu_i - \mu_j, \sqrt{\sigma_i^2 + \sigma_j^2}\Bigr)

    Pairs and rows are taken in blocks of bounded size.

    Shape: all three ``(members, *batch)``, the result ``batch``.
    """
    members, batch_shape = len(means), means.shape[1:]
    flat = [each.reshape(members, -1) for each in (means, stddevs, weights)]
    pairs = torch.triu_indices(members, members, device=means.device)
    pairs_at_once = min(pairs.shape[1], _ENTRIES)
    rows_at_once = _ENTRIES // pairs_at_once
    many = pairs.shape[1] * flat[0].shape[1] > _ENTRIES
    compute = _computed_again_if(_distance_of_pairs, many)
    blocks = pairs.split(pairs_at_once, dim=1)
    result = [
        torch.stack([compute(*rows, *block) for block in blocks]).sum(0)
        for rows in zip(*(each.split(rows_at_once, 1) for each in flat), strict=True)
    ]
    return torch.cat(result).reshape(batch_shape)


def _computed_again_if(
    function: Callable[..., Tensor], many: bool
) -> Callable[..., Tensor]:
    """Let the backward pass compute a block again, instead of keeping many of them."""
    return partial(checkpoint, function, use_reentrant=False) if many else function
