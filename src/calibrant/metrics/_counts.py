"""Counts of PIT values between levels, observed and simulated, and codes of groups."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._levels import pit_rows, promised_levels

__all__ = [
    "Floats",
    "Integers",
    "check_count",
    "check_draws",
    "chunks",
    "gaps_of_counts",
    "level_cells",
    "numpy_generator",
    "quantile_codes",
    "simulated_gaps",
    "squared_sum",
    "torch_generator",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
#: Numbers that one step of a simulation may hold: 32 MB.
_AT_ONCE = 4_000_000
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
    values = pit_rows(pit)
    # In the type of the values, as the calibration curve does it.
    promised = promised_levels(check_count(levels, name="levels")).to(values)
    cells: Integers = torch.searchsorted(promised, values.contiguous()).cpu().numpy()
    return cells


def gaps_of_counts(counts: Integers) -> Floats:
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

    How many of ``n`` uniform values fall between levels is multinomial, so neither
    time nor memory depends on the number of ``rows``.
    """
    rng = numpy_generator(seed)
    share = np.full(levels, 1 / levels)
    parts = []
    for size in chunks(draws, levels * len(rows)):
        counts = rng.multinomial(rows, share, size=(size, len(rows)))
        parts.append(reduce(gaps_of_counts(counts)))
    return np.concatenate(parts)


def quantile_codes(values: Floats, bins: int) -> Integers:
    """Codes 0, 1, ... of about equally many rows; equal values stay together."""
    inner = np.quantile(values, np.arange(1, bins) / bins, method="inverted_cdf")
    codes = np.searchsorted(inner, values, side="left")
    # Ties leave some codes empty: number the others anew.
    return np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
