"""Data-parallel training: rows of all processes with gradients, common decisions."""

import atexit
import hashlib
import multiprocessing
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from calibrant.errors import LostRankError
from calibrant.validation import InputError, UnsupportedError, check_rows_last

__all__ = [
    "Group",
    "Team",
    "announced",
    "fingerprint_of",
    "gather_rows",
    "gathers",
    "join_team",
    "local_device",
    "plain",
]

#: A process group of torch; None stands for the group of all.
Group = Any

# Gloo's errors are plain ones that name its source files.
_CONNECTION = ("gloo", "NCCL", "Connection", "TCPStore", "imed out", "timeout")
# What a rank that failed says instead of its number of rows.
_FAILED = -1
#: For a group that is made here: how long one process waits for the others.
_TIMEOUT = timedelta(minutes=10)
# What torchrun tells each process.
_TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def gathers(wished: bool | None, *, training: bool, group: Group = None) -> bool:
    """Tell whether to look at the rows of all processes of a group.

    ``wished`` is False for never, and True for always, an error without a group. None:
    in training mode with gradients, as what only some processes call (a look at
    validation rows) must not wait for the others.
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
        lost = isinstance(error, distributed.DistError)
        if not lost and not any(word in str(error) for word in _CONNECTION):
            raise  # a network's own fault
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LostRankError(
            f"the processes could not {action}: another one has ended, or has not come "
            "here within the timeout of the process group. All must call the same "
            "things equally often; the one that fell out says why in its own output. "
            f"({first_line})"
        ) from error


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
    r"""Join rows ``(..., n)`` of all processes as ``(..., N)``, the same in each.

    Each process computes the same function of the joined rows, and its own rows get the
    gradient of that function times the number of processes. ``DistributedDataParallel``
    takes the mean over the processes, which makes it the gradient of the whole batch.
    Nothing is sent in the backward pass.

    n may differ between processes and be 0, but not everywhere. Without ``single_rows``
    one row of each is refused: most likely the axis of rows is not the last one.
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
    return torch.stack(_gathered(own, "tell each other their numbers of rows", group))


def _gathered(own: Tensor, action: str, group: Group = None) -> list[Tensor]:
    """Tensors of one size of all processes."""
    found = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    with collective(action):
        distributed.all_gather(found, own, group=group)
    return found


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, sizes: list[int], group: Group) -> Tensor:  # noqa: ANN401
        rank = distributed.get_rank(group)
        ctx.place = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        ctx.processes = len(sizes)
        # Collectives need tensors of one size.
        longest = values.new_zeros(*values.shape[:-1], max(sizes))
        longest[..., : values.shape[-1]] = values
        parts = _gathered(longest, "gather the rows of a batch", group)
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


class Team:
    """All processes of a training: each holds all rows and takes a part of every batch.

    A step's gradient is that of the whole batch.
    """

    def __init__(self) -> None:
        self.rank: int = distributed.get_rank()
        self.size: int = distributed.get_world_size()

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes the first one's numbers."""
        with torch.no_grad():
            for values in tensors:
                values.copy_(self.agreed(values))

    def average(self, parameters: Sequence[Tensor]) -> None:
        """Replace gradients by their means over the processes, in one message."""
        zeros = torch.zeros_like
        found = [zeros(part) if part.grad is None else part.grad for part in parameters]
        joined = self.mean(torch.cat([gradient.reshape(-1) for gradient in found]))
        pieces = joined.split([part.numel() for part in parameters])
        for part, mean in zip(parameters, pieces, strict=True):
            part.grad = mean.view_as(part)

    def part(self, rows: Tensor) -> Tensor:
        """Return this process's part of a batch ``(members, b)``; it may be empty."""
        return rows.tensor_split(self.size, dim=1)[self.rank]

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the processes, without a gradient."""
        total = values.detach().clone()
        with collective("join their losses and gradients"):
            distributed.all_reduce(total)
        return total / self.size

    def agreed(self, values: Tensor) -> Tensor:
        """Return what the first process has, so that all decide alike."""
        result = values.detach().clone().contiguous()
        with collective("agree on a decision"):
            distributed.broadcast(result, src=0)
        return result

    def check_alike(self, fingerprint: int, *, name: str, device: torch.device) -> None:
        """Refuse processes that hold different things, in all of them."""
        own = torch.tensor([fingerprint], device=device)
        found = _gathered(own, f"compare their {name}")
        others = [rank for rank, their in enumerate(found) if not their.equal(found[0])]
        if others:
            raise InputError(
                f"all processes must be given the same {name}: those of rank "
                f"{others[0]} are not those of rank 0. Give all of them everything; "
                "each takes its part of every batch by itself."
            )


def join_team(device: str = "cpu") -> Team:
    """Return the team of all processes; make its group as torchrun says if need be."""
    if not distributed.is_available():
        raise InputError("distributed=True needs a torch that is built with it.")
    if not distributed.is_initialized():
        worker = multiprocessing.current_process().name
        if worker != "MainProcess" or any(name not in os.environ for name in _TOLD):
            raise InputError(
                "distributed=True needs several processes, each started by torchrun, "
                f"and this one ({worker}) is not. Start it with torchrun "
                "--nproc-per-node 2 YOUR_SCRIPT.py and n_jobs=1, or call "
                "torch.distributed.init_process_group() first."
            )
        backend = "nccl" if device.startswith("cuda") else "gloo"
        with collective("find each other"):
            distributed.init_process_group(backend, timeout=_TIMEOUT)
        atexit.register(_leave)
    return Team()


def _leave() -> None:
    # At the end of a process that has lost the others, there is nothing to leave.
    with suppress(RuntimeError):
        if distributed.is_initialized():
            distributed.destroy_process_group()


def local_device(device: str) -> str:
    """Give each process of a machine a GPU of its own."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" else device


def fingerprint_of(*parts: Any) -> int:  # noqa: ANN401  (arrays, texts, numbers, None)
    """A number that differs when a part does."""
    digest = hashlib.blake2b(digest_size=7)  # fits into 63 bits
    for part in parts:
        given = part.cpu().numpy() if isinstance(part, Tensor) else part
        if isinstance(given, np.ndarray):
            digest.update(repr(given.shape).encode())
            numbers = given.dtype.kind in "biuf"
            given = np.ascontiguousarray(given).data if numbers else given.tolist()
        digest.update(given if isinstance(given, memoryview) else repr(given).encode())
    return int.from_bytes(digest.digest(), "big")


def plain(settings: Mapping[str, Any]) -> list[str]:
    """Settings as texts; of objects the type alone, as their addresses differ."""
    return [
        f"{name}={value!r}"
        if isinstance(value, bool | int | float | str | tuple | list | None)
        else f"{name}: {type(value).__name__}"
        for name, value in sorted(settings.items())
    ]
