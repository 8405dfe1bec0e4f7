"""Counts of PIT values between levels, observed and simulated, and codes of groups."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._levels import level_places, pit_rows, promised_levels

__all__ = [
    "Floats",
    "Integers",
    "cells_between",
    "check_count",
    "check_draws",
    "chunks",
    "gaps_of_counts",
    "level_cells",
    "numpy_generator",
    "quantile_codes",
    "quantile_edges",
    "renumbered",
    "settled_rows",
    "simulated_counts",
    "simulated_gaps",
    "squared_sum",
    "torch_generator",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
#: Numbers that one step of a simulation may hold: 32 MB.
_AT_ONCE = 4_000_000
#: From this many expected rows per cell on, counts are simulated as normal.
_MANY_PER_CELL = 200
#: Up to here a comparison with each edge is quicker than a binary search.
_FEW_EDGES = 16
#: Keeps our streams apart from those of a caller who made data with the same seed:
#: noise that repeats the caller's would be correlated with the predictions.
_OUR_STREAMS = 190_506_023


def check_count(value: int, *, name: str, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``."""
    if isinstance(value, bool) or value != int(value) or value < least:
        raise InputError(f"{name} must be a whole number >= {least}, got {value!r}.")
    return int(value)


def check_draws(draws: int) -> int:
    """Return the number of simulated models, which 2.5 % must be a model of."""
    return check_count(draws, name="draws", least=40)


def numpy_generator(seed: int) -> np.random.Generator:
    """A source of random numbers that repeats no stream of ``default_rng(seed)``."""
    return np.random.default_rng(
        [check_count(seed, name="seed", least=0), _OUR_STREAMS]
    )


def torch_generator(seed: int, device: torch.device) -> torch.Generator:
    """A source of random numbers that repeats no stream of ``manual_seed(seed)``."""
    mixed = numpy_generator(seed).integers(2**32)
    return torch.Generator(device).manual_seed(int(mixed))


def level_cells(pit: ArrayLike | PitValues, levels: int) -> Integers:
    """Index of the first level ``j / levels`` that each PIT value does not exceed."""
    promised = promised_levels(check_count(levels, name="levels"))
    cells: Integers = level_places(pit_rows(pit), promised).cpu().numpy()
    return cells


def gaps_of_counts(counts: Integers | Floats) -> Floats:
    """Observed minus promised frequency; counts and result are ``(..., levels)``."""
    levels = counts.shape[-1]
    observed = counts.cumsum(-1) / counts.sum(-1, keepdims=True)
    gaps: Floats = observed - np.arange(1, levels + 1) / levels
    return gaps


def squared_sum(gaps: Floats) -> Floats:
    """The calibration error of gaps, ``(..., levels) -> (...)``."""
    total: Floats = np.square(gaps).sum(-1)
    return total


def chunks(total: int, each: int) -> Iterator[int]:
    """Sizes that add up to ``total``, for draws of ``each`` numbers."""
    size = max(1, _AT_ONCE // each)
    for start in range(0, total, size):
        yield min(size, total - start)


def simulated_gaps(
    rows: Integers,
    *,
    levels: int,
    draws: int,
    seed: int,
    reduce: Callable[[Floats], Floats] = squared_sum,
) -> Floats:
    """Reduced gaps of perfect models in separate groups, shape ``(draws, groups)``.

    Neither time nor memory depends on the number of ``rows``.
    """
    rng = numpy_generator(seed)
    parts = [
        reduce(gaps_of_counts(simulated_counts(rng, rows, levels=levels, draws=size)))
        for size in chunks(draws, levels * len(rows))
    ]
    return np.concatenate(parts)


def settled_rows(levels: int) -> int:
    """From this many rows on, counts between levels are simulated as normal."""
    return _MANY_PER_CELL * levels


def simulated_counts(
    rng: np.random.Generator, rows: Integers, *, levels: int, draws: int
) -> Integers | Floats:
    """How many of ``rows`` uniform values fall between levels.

    Shape ``(draws, groups, levels)``. The counts are multinomial. Where every cell
    expects at least 200 rows, they are drawn from the normal law with the same mean and
    covariance: a few times quicker, and the same within the noise of 5000 draws.
    """
    shape = draws, len(rows)
    if rows.min() < settled_rows(levels):
        return rng.multinomial(rows, np.full(levels, 1 / levels), size=shape)
    expected = rows[:, None] / levels
    noise = rng.standard_normal((*shape, levels))
    noise -= noise.mean(-1, keepdims=True)  # a group's counts sum to its rows
    noise *= np.sqrt(expected)
    noise += expected
    return noise


def quantile_codes(values: Floats, bins: int) -> Integers:
    """Codes 0, 1, ... of about equally many rows; equal values stay together."""
    # Ties leave some codes empty.
    return renumbered(cells_between(values, quantile_edges(np.sort(values), bins)))


def quantile_edges(ordered: Floats, bins: int) -> Floats:
    """Largest value of each quantile group but the last, of ascending values."""
    last = np.ceil(len(ordered) * (np.arange(1, bins) / bins) - 1).astype(np.int64)
    edges: Floats = ordered[last.clip(0)]
    return edges


def cells_between(
    values: Floats, edges: Floats, *, edge_above: bool = False
) -> Integers:
    """How many of the ascending edges lie below each value.

    A value on an edge belongs to the cell below it, or above it with ``edge_above``.
    """
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, values, side="right" if edge_above else "left")
    exceeds = np.greater_equal if edge_above else np.greater
    below = np.zeros(len(values), dtype=np.int8)
    for edge in edges:
        below += exceeds(values, edge).view(np.int8)
    return below.astype(np.int64)


def renumbered(codes: Integers) -> Integers:
    """The same groups with the codes 0, 1, ..., none of them empty."""
    held = np.bincount(codes) > 0
    return codes if held.all() else (np.cumsum(held) - 1)[codes]
