"""The normal distribution and its functions, with tails that survive float32."""

import math
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions.base import (
    AbstractDistribution,
    Shape,
    Source,
    compact,
    joint_shape,
)
from calibrant.protocols import PitValues
from calibrant.validation import ArrayLike, InputError, as_float_tensor

_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Beyond this the square, or a derivative by the scale, would leave float32.
_FARTHEST = 1e15


def location_and_scale(
    location: ArrayLike, scale: ArrayLike, location_name: str, scale_name: str
) -> tuple[Tensor, Tensor]:
    """Return both as tensors of one shape and dtype, the scale above 0 or NaN."""
    scale_like = scale if isinstance(scale, Tensor) else None
    location = as_float_tensor(location, name=location_name, like=scale_like)
    scale = as_float_tensor(scale, name=scale_name, like=location)
    if scale.ndim == 0:
        scale = scale.expand(location.shape)
    elif location.ndim == 0:
        location = location.expand(scale.shape)
    if location.shape != scale.shape:
        raise InputError(
            f"{location_name} and {scale_name} must have one shape, "
            f"got {tuple(location.shape)} and {tuple(scale.shape)}."
        )
    if (scale <= 0).any():
        raise InputError(
            f"{scale_name} must be above 0, its smallest value is "
            f"{scale.min().item():.4g}. Let the network predict "
            "softplus(raw) + 1e-6, or exp(raw)."
        )
    dtype = torch.promote_types(location.dtype, scale.dtype)
    return location.to(dtype), scale.to(dtype)


def standardized(distance: Tensor, scale: Tensor) -> Tensor:
    """Return ``distance / scale``; beyond 1e15 a constant without gradient."""
    learned = distance.requires_grad or scale.requires_grad
    if not (learned and torch.is_grad_enabled()):
        return (distance / scale).clamp_(-_FARTHEST, _FARTHEST)
    far = distance.detach().abs() > _FARTHEST * scale.detach()
    # Both are replaced: the derivative of a quotient by 1e-30 is 0 times infinity.
    z = torch.where(far, 0.0, distance) / torch.where(far, 1.0, scale)
    return torch.where(far, _FARTHEST * distance.detach().sign(), z)


def scale_unless_far(z: Tensor, scale: Tensor) -> Tensor:
    """Return the scale, without gradient where :func:`standardized` has none."""
    far = z.detach().abs() >= _FARTHEST
    return torch.where(far, scale.detach(), scale)


def normal_cdf(z: Tensor) -> Tensor:
    """Probability below ``z``; where ``torch.special.ndtr`` loses the lower tail."""
    return 0.5 * torch.erfc(-math.sqrt(0.5) * z)


def normal_quantile(level: Tensor) -> Tensor:
    """Inverse of :func:`normal_cdf`."""
    result: Tensor = torch.special.ndtri(level)
    return result


def normal_score(cdf: Tensor, survival: Tensor) -> Tensor:
    """Normal quantile of a level, from the tail that is not rounded."""
    z = normal_quantile(torch.minimum(cdf, survival))
    return torch.where(cdf < survival, z, -z)


class _LogNormalCdf(torch.autograd.Function):
    """``log_ndtr`` whose derivative comes from ``erfcx``; torch's own cancels."""

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


def normal_pit(z: Tensor) -> PitValues:
    """Both tails of ``z`` and their logarithms."""
    return PitValues(
        normal_cdf(z), normal_cdf(-z), log_normal_cdf(z), log_normal_cdf(-z)
    )


def log_normal_density(z: Tensor) -> Tensor:
    """Logarithm of the standard normal density."""
    return -0.5 * z.square() - _LOG_SQRT_TWO_PI


def log_scaled_density(distance: Tensor, stddev: Tensor) -> Tensor:
    """Logarithm of the density at a distance from the mean; no gradient beyond 1e15."""
    z = standardized(distance, stddev)
    return log_normal_density(z) - scale_unless_far(z, stddev).log()


class Gaussian(AbstractDistribution):
    r"""Normal distribution :math:`\mathcal{N}(\mu, \sigma^2)` for each row.

    Parameters
    ----------
    mean
        :math:`\mu`, shape ``batch_shape``.
    stddev
        :math:`\sigma > 0`, a number or of the same shape.

    Examples
    --------
    >>> predictive = Gaussian([0.0, 10.0], [1.0, 2.0])
    >>> lower, upper = predictive.interval(0.9)
    >>> [round(bound, 3) for bound in upper.tolist()]
    [1.645, 13.29]
    """

    _parameters = ("_mean", "_stddev")
    _least_tail = 1e-300

    def __init__(self, mean: ArrayLike, stddev: ArrayLike) -> None:
        self._mean, self._stddev = location_and_scale(mean, stddev, "mean", "stddev")

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._mean

    def _moments(self) -> tuple[Tensor, Tensor]:
        return self._mean, self._stddev.square()

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each row, shape ``batch_shape``."""
        return self._stddev

    def _z(self, value: Tensor) -> Tensor:
        return standardized(value - self._mean, self._stddev)

    def _cdf(self, value: Tensor) -> Tensor:
        return normal_cdf(self._z(value))

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        z = self._z(value)
        return normal_cdf(z), normal_cdf(-z)

    def _pit(self, value: Tensor) -> PitValues:
        return normal_pit(self._z(value))

    def _log_prob(self, value: Tensor) -> Tensor:
        return log_scaled_density(value - self._mean, self._stddev)

    def _quantile(self, level: Tensor) -> Tensor:
        found = self._mean + self._stddev * normal_quantile(compact(level))
        return found.expand(joint_shape(level.shape, self.batch_shape))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        found = self._mean - self._stddev * normal_quantile(compact(survival))
        return found.expand(joint_shape(survival.shape, self.batch_shape))

    def _crps(self, value: Tensor) -> Tensor:
        # Gneiting and Raftery (2007), equation 21.
        z = self._z(value)
        density = log_normal_density(z).exp()
        # The distance itself, not stddev * z, which ends where z does.
        distance = (value - self._mean) * (2 * normal_cdf(z) - 1)
        return distance + self._stddev * (2 * density - 1 / math.sqrt(math.pi))

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        noise = torch.randn(
            shape, generator=generator, dtype=self.dtype, device=self._mean.device
        )
        return self._mean + self._stddev * noise
