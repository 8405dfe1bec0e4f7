"""Numbers by rank: each row gets the entry of its place, equal rows their mean."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["Ranks", "ranks_of"]


class Ranks(NamedTuple):
    """Places of values ``(..., n)`` in ascending order, without gradient.

    ``order`` counts through the flattened values, so that one index serves stacks.
    ``run`` numbers the runs of equal values in that order, None if there are none.
    NaN comes last, equals nothing, and is then the highest.
    """

    order: Tensor
    run: Tensor | None
    lowest: float
    highest: float

    def entries(self, table: Tensor) -> Tensor:
        """Give each value its entry of ``table``, ``(n,) -> (..., n)``."""
        order = self.order
        if self.run is not None:
            table = _mean_over_runs(table.expand(order.shape), self.run)
        if order.device.type != "cpu":
            return _placed(table, order)
        source = table.numpy()
        placed = np.empty(order.numel(), source.dtype)
        placed[order.numpy()] = source
        return torch.from_numpy(placed).view(order.shape)


def ranks_of(values: Tensor) -> Ranks:
    """Rank the last axis; on a GPU this waits for the device, as the hard sort does."""
    return (_ranks_on_cpu if values.device.type == "cpu" else _ranks)(values)


def _ranks(values: Tensor) -> Ranks:
    ordered, order = values.sort(dim=-1)
    lowest, highest = ordered[..., 0].min(), ordered[..., -1].max()
    starts = torch.arange(0, values.numel(), values.shape[-1], device=values.device)
    order = order + starts.view(*values.shape[:-1], 1)
    starts_anew = ordered[..., 1:] != ordered[..., :-1]
    run = None if bool(starts_anew.all()) else _runs(starts_anew)
    return Ranks(order, run, float(lowest), float(highest))


def _ranks_on_cpu(values: Tensor) -> Ranks:
    # numpy sorts with vector instructions, a stack in a third of torch's time. Which of
    # two equal values comes first is open there; the mean over them makes it no matter.
    array = values.numpy()
    order = array.argsort(-1)
    if array.ndim > 1:
        starts = np.arange(0, array.size, array.shape[-1])
        order += starts.reshape(*array.shape[:-1], 1)
    ordered = array.reshape(-1)[order]
    tied = ordered[..., 1:] == ordered[..., :-1]
    run = _runs(torch.from_numpy(~tied)) if np.count_nonzero(tied) else None
    lowest, highest = ordered[..., 0], ordered[..., -1]
    if array.ndim > 1:
        lowest, highest = lowest.min(), highest.max()
    return Ranks(torch.from_numpy(order), run, float(lowest), float(highest))


def _placed(table: Tensor, order: Tensor) -> Tensor:
    flat = torch.empty(order.numel(), dtype=table.dtype, device=table.device)
    flat[order] = table.expand(order.shape)
    return flat.view(order.shape)


def _runs(starts_anew: Tensor) -> Tensor:
    """Number the runs of equal neighbors from 0, ``(..., n - 1) -> (..., n)``."""
    return torch.nn.functional.pad(starts_anew.cumsum(-1), (1, 0))


def _mean_over_runs(entries: Tensor, run: Tensor) -> Tensor:
    zeros = torch.zeros_like(entries, memory_format=torch.contiguous_format)
    total = zeros.scatter_add(-1, run, entries)
    count = zeros.scatter_add(-1, run, torch.ones_like(zeros))
    return (total / count.clamp_min(1)).gather(-1, run)
