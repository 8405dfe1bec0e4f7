"""The processes of a data-parallel training, and what they do together."""

import atexit
import hashlib
import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from calibrant._checks import InputError
from calibrant._distributed import collective

#: For a group that is made here: how long one process waits for the others.
_TIMEOUT = timedelta(minutes=10)
# What torchrun tells each process.
_TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


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

    def average(self, parameters: Sequence[nn.Parameter]) -> None:
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
        found = [torch.empty_like(own) for _ in range(self.size)]
        with collective(f"compare their {name}"):
            distributed.all_gather(found, own)
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
        array = np.ascontiguousarray(part) if hasattr(part, "shape") else None
        digest.update(repr(part if array is None else array.shape).encode())
        if array is not None:
            numeric = array.dtype.kind in "biuf"
            digest.update(array.data if numeric else repr(array.tolist()).encode())
    return int.from_bytes(digest.digest(), "big")


def plain(settings: Mapping[str, Any]) -> list[str]:
    """Settings as texts; of objects the type alone, as their addresses differ."""
    return [
        f"{name}={value!r}"
        if isinstance(value, bool | int | float | str | tuple | list | None)
        else f"{name}: {type(value).__name__}"
        for name, value in sorted(settings.items())
    ]
