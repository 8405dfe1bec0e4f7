"""Maps of [0, 1] that need no logarithms of tails, and those that do."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from calibrant.contracts import PitValues, UnitMap

__all__ = ["TailMap", "inverse_tails", "lower_tail", "tails", "with_logs"]


@runtime_checkable
class TailMap(Protocol):
    """What a map can offer beyond ``UnitMap``: float64 tails without logarithms.

    Float64 resolves a tail down to 1e-308: its logarithm tells a map nothing more.
    """

    def lower_tail(self, cdf: Tensor, survival: Tensor, /) -> Tensor:
        """Map tails to the lower one alone."""
        ...

    def tails(self, cdf: Tensor, survival: Tensor, /) -> tuple[Tensor, Tensor]:
        """Map both tails."""
        ...

    def inverse_tails(self, cdf: Tensor, survival: Tensor, /) -> tuple[Tensor, Tensor]:
        """Find both tails that are mapped to these."""
        ...


def lower_tail(unit_map: UnitMap, cdf: Tensor, survival: Tensor) -> Tensor:
    """Map float64 tails ``(..., n)`` to the lower one."""
    if isinstance(unit_map, TailMap):
        return unit_map.lower_tail(cdf, survival)
    return unit_map.forward(with_logs(cdf, survival)).cdf


def tails(unit_map: UnitMap, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
    """Map float64 tails ``(..., n)``."""
    if isinstance(unit_map, TailMap):
        return unit_map.tails(cdf, survival)
    mapped = unit_map.forward(with_logs(cdf, survival))
    return mapped.cdf, mapped.survival


def inverse_tails(
    unit_map: UnitMap, cdf: Tensor, survival: Tensor
) -> tuple[Tensor, Tensor]:
    """Tails ``(..., n)`` of the smallest PIT values that are mapped to these."""
    if isinstance(unit_map, TailMap):
        return unit_map.inverse_tails(cdf, survival)
    found = unit_map.inverse(with_logs(cdf, survival))
    return found.cdf, found.survival


def with_logs(cdf: Tensor, survival: Tensor) -> PitValues:
    """Complete both tails by their logarithms."""
    tiny = torch.finfo(cdf.dtype).tiny
    below = cdf < survival
    # Near 1 the other tail knows more.
    tail = torch.where(below, cdf, survival)
    log_tail, log_other = tail.clamp_min(tiny).log(), torch.log1p(-tail)
    return PitValues(
        cdf,
        survival,
        torch.where(below, log_tail, log_other),
        torch.where(below, log_other, log_tail),
    )
