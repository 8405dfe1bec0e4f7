"""Gaps between promised and observed frequency of simulated perfect models."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from calibrant.metrics._counts import Floats, simulated_gaps
from calibrant.metrics.miscalibration import area_between

__all__ = ["ReducedGaps", "reduced_gaps"]


class ReducedGaps(NamedTuple):
    """What is left of simulated gaps, each of shape ``(draws,)``."""

    sum_of_squares: Floats
    mean_square: Floats
    mean_absolute: Floats
    area: Floats

    def times(self, factor: float) -> "ReducedGaps":
        """Return what is left of gaps that are multiplied by ``factor``."""
        return ReducedGaps(
            factor**2 * self.sum_of_squares,
            factor**2 * self.mean_square,
            factor * self.mean_absolute,
            factor * self.area,
        )


@lru_cache(maxsize=64)
def reduced_gaps(n: int, levels: int, draws: int, seed: int) -> ReducedGaps:
    """All metrics of gaps on ``n`` rows, from one simulation."""
    reduced = simulated_gaps(
        np.array([n]), levels=levels, draws=draws, seed=seed, reduce=_reductions
    )
    return ReducedGaps(*reduced[:, 0].T)


def _reductions(gaps: Floats) -> Floats:
    squares = np.square(gaps)
    return np.stack(
        [squares.sum(-1), squares.mean(-1), np.abs(gaps).mean(-1), _area(gaps)], -1
    )


def _area(gaps: Floats) -> Floats:
    """Area under the line through the gaps, which starts in 0."""
    at = torch.linspace(0, 1, gaps.shape[-1] + 1, dtype=torch.float64)
    from_zero = torch.nn.functional.pad(torch.from_numpy(gaps), (1, 0))
    area: Floats = area_between(at, from_zero).numpy()
    return area
