"""Blocks of rows that stay in the cache, for laws of which a block costs nothing."""

from collections.abc import Callable

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.student_t import StudentT

__all__ = ["in_blocks", "is_plain"]

#: Values that are worked on at once.
_BLOCK = 2**16
#: Laws that are a few tensors with one entry for each row.
_PLAIN = (Gaussian, Laplace, StudentT)


def is_plain(law: AbstractDistribution) -> bool:
    """Whether some rows of a law, batch shape ``(n,)``, cost no more than an index."""
    return isinstance(law, _PLAIN) and len(law.batch_shape) == 1 and len(law) > 0


def in_blocks(
    function: Callable[[AbstractDistribution, Tensor], Tensor],
    law: AbstractDistribution,
    asked: Tensor,
) -> Tensor:
    """Ask a law about values or levels of shape ``()``, ``(n,)`` or ``(k, n)``.

    Every operation on a million rows by itself fetches them from memory, and asks for
    new memory. A plain law is asked block by block instead. With gradients it is not:
    the gradient of each block would be as large as that of all rows.

    Parameters
    ----------
    function
        Takes a law and what is asked of it, and gives an answer for each row.
    law
        Any law.
    asked
        Values or levels.
    """
    whole = not is_plain(law) or asked.ndim > 2 or _learned(law, asked)
    count = 1 if asked.ndim < 2 else len(asked)
    if whole or count * len(law) <= _BLOCK:
        return function(law, asked)
    together = max(1, _BLOCK // len(law))
    answers = []
    for start in range(0, len(law), _BLOCK):
        rows = slice(start, start + _BLOCK)
        some = law[rows] if len(law) > _BLOCK else law
        part = asked[..., rows] if asked.ndim else asked
        blocks = part.split(together) if asked.ndim > 1 else [part]
        found = [function(some, block) for block in blocks]
        answers.append(found[0] if len(found) == 1 else torch.cat(found))
    return answers[0] if len(answers) == 1 else torch.cat(answers, dim=-1)


def _learned(law: AbstractDistribution, asked: Tensor) -> bool:
    """Whether an answer would carry a gradient."""
    parameters = [getattr(law, name) for name in law._parameters]
    return torch.is_grad_enabled() and any(
        each.requires_grad for each in (asked, *parameters)
    )
