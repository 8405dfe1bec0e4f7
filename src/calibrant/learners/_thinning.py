"""Dropout whose random numbers are cheap."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calibrant._checks import InputError

__all__ = ["drop_threshold", "keep_masks", "kept_scale", "relu", "relu_and_drop"]

# One random byte for each unit: probabilities are multiples of this.
_STEP = 1 / 256


def drop_threshold(probability: float) -> int:
    """Return the byte below which a unit is dropped, for a probability in [0, 1).

    It is rounded to the next multiple of 1/256, but never to all or nothing.
    """
    if not 0 <= probability < 1:
        raise InputError(
            f"dropout must lie in [0, 1), got {probability}. It is the share of hidden "
            "units that is left out; the paper's is 0.25."
        )
    if probability == 0:
        return 0
    return min(255, max(1, round(probability / _STEP)))


def kept_scale(threshold: int) -> float:
    """Return what makes up for dropped units: one over the share that is kept."""
    return 256 / (256 - threshold)


def _random_bytes(
    shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device
) -> Tensor:
    """Uniform bytes, eight from each 64-bit number: an eighth of the draws."""
    count = math.prod(shape)
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=device)
    # Without bounds the sign bit, and so every eighth byte's highest, would be 0.
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:count].view(shape)


def keep_masks(
    shape: tuple[int, ...], threshold: int, generator: torch.Generator | None
) -> Tensor:
    """Draw masks on the CPU, true with probability ``1 - threshold / 256``."""
    return _random_bytes(shape, generator, torch.device("cpu")) >= threshold


def relu(values: Tensor) -> Tensor:
    """Overwrite hidden values by their positive parts."""
    result: Tensor = _Relu.apply(values, None, 1.0)  # type: ignore[no-untyped-call]
    return result


def relu_and_drop(
    values: Tensor, threshold: int, generator: torch.Generator | None
) -> Tensor:
    """Overwrite hidden values by their positive parts, some dropped, others scaled up.

    The scale is one over the share that is kept, as that of ``nn.Dropout``.
    """
    kept = _random_bytes(tuple(values.shape), generator, values.device) >= threshold
    scale = kept_scale(threshold)
    result: Tensor = _Relu.apply(values, kept, scale)  # type: ignore[no-untyped-call]
    return result


class _Relu(torch.autograd.Function):
    """In place in both directions; a positive result marks a unit that lives.

    Hidden values are the largest tensors of a training, and fresh memory costs more
    than the arithmetic. Both the values and their gradient must therefore belong to
    nobody else, as the results of the matrix products on either side do.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, kept: Tensor | None, scale: float) -> Tensor:  # noqa: ANN401
        values.relu_()
        if kept is not None:
            values.mul_(kept).mul_(scale)  # masked_fill_ takes three times as long
        ctx.mark_dirty(values)
        ctx.save_for_backward(values)
        ctx.scale = scale
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (values,) = ctx.saved_tensors
        torch.ops.aten.threshold_backward.grad_input(
            gradient, values, 0, grad_input=gradient
        )
        if ctx.scale != 1:
            gradient.mul_(ctx.scale)
        return gradient, None, None
