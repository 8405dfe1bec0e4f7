"""Values of many rows in the layout that ``searchsorted`` and ``gather`` want."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["ask_rows", "from_rows", "joint_shape", "to_rows"]


def joint_shape(shape: Sequence[int], batch_shape: Sequence[int]) -> torch.Size:
    """Return the longer of two shapes of which one is the end of the other."""
    return torch.Size(shape if len(shape) > len(batch_shape) else batch_shape)


def to_rows(value: Tensor, batch_shape: torch.Size) -> Tensor:
    """Bring ``(k, *batch_shape)`` to ``(*batch_shape, k)``, any axes in front as k."""
    shape = joint_shape(value.shape, batch_shape)
    asked = math.prod(shape[: len(shape) - len(batch_shape)])
    rows = value.expand(shape).reshape(asked, *batch_shape)
    return rows.movedim(0, -1).contiguous()


def from_rows(answer: Tensor, like: Tensor, batch_shape: torch.Size) -> Tensor:
    """Undo :func:`to_rows` for the answers to ``like``."""
    shape = joint_shape(like.shape, batch_shape)
    return answer.movedim(-1, 0).reshape(shape)


def ask_rows(table: Tensor, index: Tensor) -> Tensor:
    """Pick entries of ``(*batch, m)``, or of one ``(m,)`` for all rows, by index."""
    return table[index] if table.ndim == 1 else table.gather(-1, index)
