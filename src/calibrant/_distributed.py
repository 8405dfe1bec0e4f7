"""Rows of all processes of a data-parallel training, with their gradients."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from calibrant._checks import InputError, UnsupportedError, check_rows_last
from calibrant.errors import LostRankError

__all__ = [
    "Group",
    "announced",
    "collective",
    "gather_rows",
    "gathers",
]

#: A process group of torch; None stands for the group of all.
Group = Any

# Gloo's errors are plain ones that name its source files.
_CONNECTION = ("gloo", "NCCL", "Connection", "TCPStore", "imed out", "timeout")
# What a rank that failed says instead of its number of rows.
_FAILED = -1


def gathers(wished: bool | None, *, training: bool, group: Group = None) -> bool:
    """Tell whether to look at the rows of all processes.

    Parameters
    ----------
    wished
        False for never. None: in training mode, with gradients, in a group of two or
        more. True: always in a group, and without one an error.
    training
        Whether the module is in training mode: what only some processes call, such as
        a look at validation rows, must not wait for the others.
    group
        The process group.
    """
    if wished is False:
        return False
    ready = distributed.is_available() and distributed.is_initialized()
    if not ready:
        if wished:
            raise InputError(
                "distributed=True needs a process group, and there is none. Start the "
                "script with torchrun and call "
                "torch.distributed.init_process_group() first."
            )
        return False
    size = distributed.get_world_size(group)
    if wished and size < 1:
        raise InputError("distributed=True in a process that is not of its group.")
    learns = training and torch.is_grad_enabled()
    return bool(wished or learns) and size > 1


@contextmanager
def collective(action: str) -> Iterator[None]:
    """Turn the faults of torch's collectives into one text that says what to do."""
    try:
        yield
    except RuntimeError as error:  # all of torch.distributed's are of this kind
        if not _speaks_of_others(error):
            raise
        raise LostRankError(
            f"the processes could not {action}: another one has ended, or has not come "
            "here within the timeout of the process group. All must call the same "
            "things equally often; the one that fell out says why in its own output. "
            f"({_first_line(error)})"
        ) from error


def _speaks_of_others(error: RuntimeError) -> bool:
    """Tell the faults of a connection from those of a network's own code."""
    if isinstance(error, distributed.DistError):
        return True
    return any(word in str(error) for word in _CONNECTION)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def announced(device: torch.device, group: Group = None) -> Iterator[None]:
    """Tell the others of an error in here: they would wait for the rows in vain.

    All processes come to ``gather_rows`` next.
    """
    try:
        yield
    except Exception:
        _headers(_FAILED, 0, device, group)
        raise


def gather_rows(
    values: Tensor, group: Group = None, *, single_rows: bool = True
) -> Tensor:
    r"""Join the rows of all processes, in the order of their ranks.

    Each process computes the same function of the joined rows, and its own rows get the
    gradient of that function times the number of processes. ``DistributedDataParallel``
    takes the mean over the processes, which makes it the gradient of the whole batch:

    .. math::
        \frac{1}{W} \sum_{r=1}^W W \sum_{i \in r}
        \frac{\partial R}{\partial u_i} \frac{\partial u_i}{\partial \theta}
        = \frac{\partial R}{\partial \theta} .

    Nothing is sent in the backward pass.

    Parameters
    ----------
    values
        Shape ``(..., n)``; n may differ between processes and be 0, but not everywhere.
    group
        The process group; None for all processes.
    single_rows
        Whether one row of each process makes sense. Without it ``(fields, n, 1)`` is
        refused everywhere: most likely the axis of rows is not the last one.

    Returns
    -------
    Tensor
        Shape ``(..., N)``, the same in each process.
    """
    kind = zlib.crc32(repr((tuple(values.shape[:-1]), values.dtype)).encode())
    headers = _headers(values.shape[-1], kind, values.device, group)
    sizes, kinds = headers.unbind(1)
    failed = [rank for rank, size in enumerate(sizes.tolist()) if size == _FAILED]
    if failed:
        raise LostRankError(
            f"rank {failed[0]} refused its batch, so there is no batch of all "
            "processes; its own output says why."
        )
    if len(kinds.unique()) > 1:
        raise InputError(
            "the batches of all processes must differ in their number of rows only, "
            f"and this one sends {values.dtype} of shape {tuple(values.shape)}, which "
            "does not fit those of others."
        )
    if int(sizes.sum()) == 0:
        raise InputError("a regularizer compares many rows, and no process has any.")
    if not single_rows and bool((sizes == 1).all()):
        check_rows_last(values.shape[1:], name="each process's batch")
    joined: Tensor = _Rows.apply(values, sizes.tolist(), group)  # type: ignore[no-untyped-call]
    return joined


def _headers(rows: int, kind: int, device: torch.device, group: Group) -> Tensor:
    """What each process is about to send, ``(processes, 2)``."""
    own = torch.tensor([rows, kind], device=device)
    found = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    with collective("tell each other their numbers of rows"):
        distributed.all_gather(found, own, group=group)
    return torch.stack(found)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, sizes: list[int], group: Group) -> Tensor:  # noqa: ANN401
        rank = distributed.get_rank(group)
        ctx.place = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        ctx.processes = len(sizes)
        # Collectives need tensors of one size.
        longest = values.new_zeros(*values.shape[:-1], max(sizes))
        longest[..., : values.shape[-1]] = values
        parts = [torch.empty_like(longest) for _ in sizes]
        with collective("gather the rows of a batch"):
            distributed.all_gather(parts, longest, group=group)
        cut = [part[..., :size] for part, size in zip(parts, sizes, strict=True)]
        return torch.cat(cut, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        if torch.is_grad_enabled() and gradient.requires_grad:
            raise UnsupportedError(
                "second derivatives need the rows of other processes, which have none "
                "here. Take them with distributed=False."
            )
        return gradient[..., ctx.place] * ctx.processes, None, None
