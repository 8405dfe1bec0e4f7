"""Values whose derivatives are computed on the way forward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions._refused_gradient import first_derivative_only

__all__ = ["attach_slopes", "with_slope"]


#: Rows whose steps are kept at a time.
_ROWS = 4096


def with_slope(
    function: Callable[[Tensor, Tensor], Tensor], fixed: Tensor, at: Tensor
) -> tuple[Tensor, Tensor]:
    """Return a function of each entry and its derivative by the second argument.

    The derivative is taken at once, in blocks of rows: an iteration of many steps
    would otherwise keep every step of all rows until the backward pass.

    Shape: both arguments of one shape, which both results have.
    """
    values, slopes = [], []
    blocks = (argument.reshape(-1).split(_ROWS) for argument in (fixed, at))
    for fixed_block, block in zip(*blocks, strict=True):
        with torch.enable_grad():
            moving = block.detach().requires_grad_()
            value = function(fixed_block.detach(), moving)
            slopes.extend(torch.autograd.grad(value.sum(), moving))
        values.append(value.detach())
    return torch.cat(values).reshape(at.shape), torch.cat(slopes).reshape(at.shape)


class _KnownSlopes(torch.autograd.Function):
    """A value of two arguments with known derivatives, all of one shape."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        value: Tensor,
        *arguments_and_slopes: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(*arguments_and_slopes)
        return value.clone()

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        *gradients: Tensor,
    ) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # once: checkpointing refuses a second look
        arguments, slopes = saved[:2], saved[2:]
        first, second = (
            gradients[0] * first_derivative_only(slope, arguments) for slope in slopes
        )
        return None, first, second, None, None


def attach_slopes(
    value: Tensor, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> Tensor:
    """Return ``value`` with derivatives, each given as (argument, slope)."""
    result: Tensor = _KnownSlopes.apply(  # type: ignore[no-untyped-call]
        value, first[0], second[0], first[1], second[1]
    )
    return result
