"""What every location-scale law does with its parameters: checks, distances."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor

__all__ = ["FARTHEST", "location_and_scale", "scale_unless_far", "standardized"]

#: Beyond this the square, or a derivative by the scale, would leave float32.
FARTHEST = 1e15


def location_and_scale(
    location: ArrayLike, scale: ArrayLike, location_name: str, scale_name: str
) -> tuple[Tensor, Tensor]:
    """Return both as tensors of one shape and dtype, the scale above 0.

    NaN passes: a diverged model must reach the check of its PIT values, whose text
    says so, rather than fail here on a comparison.
    """
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
    # In a training step this runs for every batch: one operation instead of two.
    positive = scale.numel() == 0 or bool(scale.detach().min() > 0)
    if not positive and (scale <= 0).any():
        raise InputError(
            f"{scale_name} must be above 0, its smallest value is "
            f"{scale.min().item():.4g}. Let the network predict "
            "softplus(raw) + 1e-6, or exp(raw)."
        )
    if location.dtype == scale.dtype:
        return location, scale
    dtype = torch.promote_types(location.dtype, scale.dtype)
    return location.to(dtype), scale.to(dtype)


def standardized(distance: Tensor, scale: Tensor) -> Tensor:
    """Return ``distance / scale``; beyond 1e15 a constant without gradient."""
    learned = distance.requires_grad or scale.requires_grad
    if not (learned and torch.is_grad_enabled()):
        return (distance / scale).clamp_(-FARTHEST, FARTHEST)
    far = distance.detach().abs() > FARTHEST * scale.detach()
    # Both are replaced: the derivative of a quotient by 1e-30 is 0 times infinity.
    z = torch.where(far, 0.0, distance) / torch.where(far, 1.0, scale)
    return torch.where(far, FARTHEST * distance.detach().sign(), z)


def scale_unless_far(z: Tensor, scale: Tensor) -> Tensor:
    """Return the scale, without gradient where :func:`standardized` has none.

    The logarithm of the scale alone would shrink it further.
    """
    far = z.detach().abs() >= FARTHEST
    return torch.where(far, scale.detach(), scale)
