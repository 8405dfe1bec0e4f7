"""What a perfect model shows: ranges of coverage, of the curve and of the histogram."""

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.stats import binom, norm
from torch import Tensor

from calibrant._checks import check_between
from calibrant.metrics._counts import Floats, Integers, check_count, numpy_generator

__all__ = [
    "calibration_band",
    "coverage_range",
    "histogram_band",
    "rows_for_coverage",
]

_DRAWS = 10_000
_SEED = 0
#: Beyond so many rows the exact answer and the normal one agree to 1 %.
_EXACT_ROWS = 50_000


def coverage_range(
    coverage: float, n: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    r"""Observed coverage that a perfect model shows on ``n`` rows.

    The number of covered rows is :math:`\mathrm{Binomial}(n, c)`; this is its exact
    central range, divided by ``n``. It holds at least ``confidence`` of perfect models.

    Parameters
    ----------
    coverage
        :math:`c`, the promised probability of the interval, in (0, 1).
    n
        Number of test rows.
    confidence
        Share of perfect models inside the range.

    Examples
    --------
    >>> low, high = coverage_range(0.9, 62)
    >>> round(low, 3), round(high, 3)
    (0.823, 0.968)
    """
    check_between(coverage, 0, 1, name="coverage")
    check_between(confidence, 0, 1, name="confidence")
    check_count(n, name="n")
    tail = (1 - confidence) / 2
    low, high = binom.ppf(tail, n, coverage), binom.isf(tail, n, coverage)
    return float(low) / n, float(high) / n


def rows_for_coverage(
    coverage: float, tolerance: float, *, confidence: float = 0.95
) -> int:
    r"""How many rows pin the observed coverage to ``coverage`` +- ``tolerance``.

    The least :math:`n` from which on a perfect model's observed coverage stays within
    the tolerance with probability ``confidence``, by the exact binomial law; where
    that is above 50,000 rows, by the normal law,
    :math:`n = z^2 c (1 - c) / \tau^2`.

    Parameters
    ----------
    coverage
        :math:`c`, the promised probability, in (0, 1).
    tolerance
        :math:`\tau`, in (0, 1).
    confidence
        Probability of landing within the tolerance.

    Examples
    --------
    >>> rows_for_coverage(0.9, 0.05)
    147
    """
    check_between(coverage, 0, 1, name="coverage")
    check_between(tolerance, 0, 1, name="tolerance")
    check_between(confidence, 0, 1, name="confidence")
    z = float(norm.isf((1 - confidence) / 2))
    nearly = math.ceil(coverage * (1 - coverage) * (z / tolerance) ** 2)
    if nearly > _EXACT_ROWS:
        return nearly
    # Whole numbers make the probability a saw: look well beyond its first success.
    n = np.arange(1, 4 * nearly + 100)
    # A count exactly at the tolerance is within it, whatever its rounding.
    most = np.floor(n * (coverage + tolerance) + 1e-9)
    least = np.ceil(n * (coverage - tolerance) - 1e-9)
    within = binom.cdf(most, n, coverage) - binom.cdf(least - 1, n, coverage)
    failing = np.flatnonzero(within < confidence)
    return int(n[failing[-1]]) + 1 if failing.size else 1


def calibration_band(
    n: int,
    levels: int = 20,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Band that holds the calibration curve of a perfect model on ``n`` rows.

    At one level :math:`p` the observed count is :math:`\mathrm{Binomial}(n, p)`. The
    pointwise band is its exact central range. The simultaneous band holds the whole
    curve: the pointwise confidence is raised, the same at all levels, until
    ``confidence`` of 10,000 simulated curves of perfect models lie inside.

    Parameters
    ----------
    n
        Number of test rows.
    levels
        :math:`M`, for the probabilities :math:`j / M`.
    confidence
        Share of perfect models inside.
    simultaneous
        Hold the whole curve and not each point of it.

    Returns
    -------
    tuple[Tensor, Tensor, Tensor]
        Promised probabilities, low and high, each of shape ``(levels,)``.

    References
    ----------
    Säilynoja, Bürkner and Vehtari (2022), *Graphical test for discrete uniformity and
    its applications in goodness-of-fit evaluation and multiple sample comparison*,
    arXiv:2103.10522.

    Examples
    --------
    >>> promised, low, high = calibration_band(100, 2)
    >>> low.tolist(), high.tolist()
    ([0.4, 1.0], [0.6, 1.0])
    """
    check_count(n, name="n")
    check_count(levels, name="levels")
    check_between(confidence, 0, 1, name="confidence")
    promised = np.arange(1, levels + 1) / levels
    outside = 1 - confidence
    if simultaneous and levels > 1:
        outside = _outside_curve(n, levels, confidence)
    low = binom.ppf(outside / 2, n, promised) / n
    high = binom.isf(outside / 2, n, promised) / n
    return torch.tensor(promised), torch.tensor(low), torch.tensor(high)


def histogram_band(
    n: int,
    bins: int = 10,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> tuple[int, int]:
    """Fewest and most PIT values in one of ``bins`` equal bins, for a perfect model.

    Pointwise it is the exact central range of Binomial(n, 1 / bins); simultaneous, all
    bins lie inside at once for ``confidence`` of 10,000 simulated perfect models.

    Parameters
    ----------
    n
        Number of test rows.
    bins
        Number of equal bins of [0, 1].
    confidence
        Share of perfect models inside.
    simultaneous
        Hold all bins and not each of them.

    Examples
    --------
    >>> histogram_band(100, 10)
    (5, 16)
    """
    check_count(n, name="n")
    check_count(bins, name="bins")
    check_between(confidence, 0, 1, name="confidence")
    outside = _outside_bins(n, bins, confidence) if simultaneous else 1 - confidence
    low, high = binom.ppf(outside / 2, n, 1 / bins), binom.isf(outside / 2, n, 1 / bins)
    return int(low), int(high)


@lru_cache(maxsize=64)
def _outside_curve(n: int, levels: int, confidence: float) -> float:
    counts = _simulated_counts(n, levels).cumsum(-1)[:, :-1]
    return _outside_pointwise(counts, n, np.arange(1, levels) / levels, confidence)


@lru_cache(maxsize=64)
def _outside_bins(n: int, bins: int, confidence: float) -> float:
    share = np.full(bins, 1 / bins)
    return _outside_pointwise(_simulated_counts(n, bins), n, share, confidence)


def _simulated_counts(n: int, cells: int) -> Integers:
    """Counts of ``n`` uniform values in equal cells, shape ``(draws, cells)``."""
    rng = numpy_generator(_SEED)
    return rng.multinomial(n, np.full(cells, 1 / cells), size=_DRAWS)


def _outside_pointwise(
    counts: Integers, n: int, share: Floats, confidence: float
) -> float:
    """Two-sided pointwise probability whose band holds whole rows of ``counts``.

    Each simulated row is judged by its most unusual count; the answer is the value
    that at most ``1 - confidence`` of the rows fall below.
    """
    lower = binom.cdf(counts, n, share)
    upper = binom.sf(counts - 1, n, share)
    unusual = np.sort(2 * np.minimum(lower, upper).min(-1))
    limit = float(unusual[int((1 - confidence) * len(unusual))])
    # A count whose own probability is the limit must lie inside, despite rounding.
    return min(1.0, limit) * (1 - 1e-9)
