"""Derivatives that are not known, refused in words rather than wrong."""

from typing import Any, NoReturn

import torch
from torch import Tensor

from calibrant._checks import UnsupportedError

__all__ = ["first_derivative_only", "refuse_gradient"]


class _Refused(torch.autograd.Function):
    """A value that depends on parameters by which it cannot be differentiated."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        value: Tensor,
        text: str,
        *parameters: Tensor,  # noqa: ARG004
    ) -> Tensor:
        ctx.text = text
        return value.clone()

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        *gradients: Tensor,  # noqa: ARG004
    ) -> NoReturn:
        raise UnsupportedError(ctx.text)


def refuse_gradient(value: Tensor, parameters: list[Tensor], text: str) -> Tensor:
    """Return ``value``, whose backward pass raises if a parameter asks for it.

    The forward pass must work: most predictions are measured, not trained, with their
    graph still attached.
    """
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    if not learned or not torch.is_grad_enabled():
        return value
    result: Tensor = _Refused.apply(  # type: ignore[no-untyped-call]
        value, text, *learned
    )
    return result


def first_derivative_only(slope: Tensor, arguments: list[Tensor]) -> Tensor:
    """Return a slope, a number inside a backward pass, that depends on ``arguments``.

    torch's ``once_differentiable`` is not enough: it takes the slope for a constant if
    the gradient that comes in is one, and a second derivative lacks a term.
    """
    return refuse_gradient(
        slope,
        arguments,
        "only first derivatives are known here: of the tails and the crps of StudentT, "
        "and of quantiles that are roots of a cdf. Use create_graph=False, or a law "
        "whose formulas torch differentiates twice, as Gaussian.",
    )
