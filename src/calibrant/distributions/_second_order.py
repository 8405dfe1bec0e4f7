"""Derivatives of a fast form that can be differentiated again, from its plain form."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["gradients_again"]


def gradients_again(
    plain: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    wanted: Sequence[bool],
    gradient: Tensor,
) -> list[Tensor | None]:
    """Gradients of ``plain(*inputs)``, with a graph of their own.

    Parameters
    ----------
    plain
        The plain form.
    inputs
        What it is called with. They may depend on each other.
    wanted
        For each input whether its gradient is asked for.
    gradient
        Of the result.
    """
    with torch.enable_grad():
        # Aliases: a path from one input to another is not this function's to follow.
        aliases = [each.view_as(each) for each in inputs]
        value = plain(*aliases)
    learned = [each for each, want in zip(aliases, wanted, strict=True) if want]
    found = iter(torch.autograd.grad(value, learned, gradient, create_graph=True))
    return [next(found) if want else None for want in wanted]
