"""What the sorts share: the check of their input, and bounded memory."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from calibrant._checks import InputError, as_float_tensor

__all__ = ["BLOCK_ELEMENTS", "as_sortable", "in_blocks", "without_autocast"]

#: Largest number of entries of a relaxed permutation matrix held at once (64 MiB of
#: float32); above it the rows of the matrix are made, used and dropped in blocks.
BLOCK_ELEMENTS = 2**24


def as_sortable(values: Tensor, *, name: str = "values") -> Tensor:
    """Return ``values`` as a float tensor with at least one axis and one entry."""
    values = as_float_tensor(values, name=name)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise InputError(
            f"{name} must have shape (..., n) with n >= 1, got {tuple(values.shape)}."
        )
    return values


def without_autocast(values: Tensor) -> torch.autocast:
    """Context in which matrix products keep the precision of ``values``."""
    return torch.autocast(device_type=values.device.type, enabled=False)


def in_blocks(
    row_block: Callable[[Tensor], Tensor], rows: Tensor, elements_per_row: int
) -> Tensor:
    """Join ``row_block(rows[a:b])`` over blocks so that memory stays bounded.

    Parameters
    ----------
    row_block
        Turns a block of ``rows``, shape ``(..., b)``, into the block of results.
    rows
        What is cut along its last axis, shape ``(..., n)``.
    elements_per_row
        How many numbers ``row_block`` holds for one entry of the last axis.
    """
    count = rows.shape[-1]
    size = max(1, BLOCK_ELEMENTS // max(1, elements_per_row))
    if size >= count:
        return row_block(rows)
    # Each block is computed again in the backward pass instead of being kept.
    blocks = [
        checkpoint(row_block, block, use_reentrant=False, preserve_rng_state=False)
        for block in rows.split(size, dim=-1)
    ]
    return torch.cat(blocks, dim=-1)
