"""Functions of the standard normal law with exact tails, forward and backward."""

import math
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions._location_scale import (
    FARTHEST,
    scale_unless_far,
    standardized,
)
from calibrant.distributions._second_order import gradients_again

__all__ = [
    "log_normal_cdf",
    "log_normal_density",
    "log_scaled_density",
    "normal_cdf",
    "normal_quantile",
    "normal_score",
]

_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


def normal_cdf(z: Tensor) -> Tensor:
    """Probability below ``z``; relative precision holds far into the lower tail.

    ``torch.special.ndtr`` loses the float32 tail from z = -5.5 on; erfc keeps it.
    """
    return 0.5 * torch.erfc(-math.sqrt(0.5) * z)


def log_normal_density(z: Tensor) -> Tensor:
    """Logarithm of the density at ``z``."""
    return -0.5 * z.square() - _LOG_SQRT_TWO_PI


def log_scaled_density(distance: Tensor, stddev: Tensor) -> Tensor:
    """Logarithm of the density of a law with ``stddev`` at a distance from its mean.

    Beyond 1e15 standard deviations it has no gradient.
    """
    alike = distance.shape == stddev.shape and distance.dtype == stddev.dtype
    # Transforms as torch.func.grad take ordinary operations only.
    if not alike or torch._C._are_functorch_transforms_active():
        return _log_scaled_density(distance, stddev)
    result: Tensor = _LogScaledDensity.apply(  # type: ignore[no-untyped-call]
        distance, stddev, stddev
    )
    return result


def _log_scaled_density(
    distance: Tensor, stddev: Tensor, divisor: Tensor | None = None
) -> Tensor:
    z = standardized(distance, stddev if divisor is None else divisor)
    return log_normal_density(z) - scale_unless_far(z, stddev).log()


class _LogScaledDensity(torch.autograd.Function):
    """The same in a third of the operations, which a training step consists of.

    Values and gradients are those of the plain form bit for bit, up to 1e15 standard
    deviations. The spread comes twice, under the logarithm and as the divisor: where a
    regularizer adds a third part to its gradient, the order of the sum stays the same.
    Second derivatives are taken from the plain form.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        distance: Tensor,
        stddev: Tensor,
        divisor: Tensor,
    ) -> Tensor:
        z = (distance / divisor).clamp_(-FARTHEST, FARTHEST)
        ctx.save_for_backward(distance, stddev, divisor, z)
        ctx.save_for_forward(stddev, z)
        return z.square().mul_(-0.5).sub_(_LOG_SQRT_TWO_PI).sub_(stddev.log())

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        gradient: Tensor,
    ) -> tuple[Tensor | None, ...]:
        *inputs, z = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            wanted = ctx.needs_input_grad
            return tuple(gradients_again(_log_scaled_density, inputs, wanted, gradient))
        stddev, far = inputs[1], z.abs() >= FARTHEST
        moved = gradient * z
        by_distance, by_divisor = -(moved / stddev), (z / stddev) * moved
        parts = by_distance, -(gradient / stddev), by_divisor
        return tuple(part.masked_fill(far, 0.0) for part in parts)

    @staticmethod
    def jvp(
        ctx: Any,  # noqa: ANN401
        distance: Tensor | None,
        stddev: Tensor | None,
        _: Tensor | None,
    ) -> Tensor:
        scale, z = ctx.saved_tensors
        tangent = torch.zeros_like(z)
        if distance is not None:
            tangent = tangent - z * distance / scale
        if stddev is not None:  # both of them, which are one
            tangent = tangent + (z.square() - 1) * stddev / scale
        return tangent.masked_fill(z.abs() >= FARTHEST, 0.0)


class _LogNormalCdf(torch.autograd.Function):
    """``log_ndtr`` whose derivative, density / cdf, comes from ``erfcx``.

    torch's own derivative takes the difference of two large logarithms: in float32 it
    gives 956 for 1000 at z = -1e3 and 0 for 1e6 at z = -1e6.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(z)
        # Who looks at the value only, as the regularizers do, pays for no gradient.
        ctx.set_materialize_grads(False)
        result: Tensor = torch.special.log_ndtr(z)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Tensor | None:  # noqa: ANN401
        if gradient is None:
            return None
        (z,) = ctx.saved_tensors
        erfcx: Tensor = torch.special.erfcx(-math.sqrt(0.5) * z)
        return gradient * math.sqrt(2 / math.pi) / erfcx


def log_normal_cdf(z: Tensor) -> Tensor:
    """Logarithm of the probability below ``z``, finite for every finite ``z``."""
    result: Tensor = _LogNormalCdf.apply(z)  # type: ignore[no-untyped-call]
    return result.clamp_min(torch.finfo(z.dtype).min)


def normal_quantile(level: Tensor) -> Tensor:
    """Inverse of :func:`normal_cdf`."""
    result: Tensor = torch.special.ndtri(level)
    return result


def normal_score(cdf: Tensor, survival: Tensor) -> Tensor:
    """Normal quantile of a level, from the tail that is not rounded."""
    z = normal_quantile(torch.minimum(cdf, survival))
    return torch.where(cdf < survival, z, -z)
