"""Noise floors: what a metric shows for a perfectly calibrated model."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, pit_from_cdf
from calibrant.contracts import PitValues
from calibrant.metrics._counts import (
    Floats,
    check_count,
    check_draws,
    chunks,
    numpy_generator,
    settled_rows,
)
from calibrant.metrics._gap_noise import ReducedGaps, reduced_gaps
from calibrant.metrics._levels import pit_rows
from calibrant.metrics.bands import coverage_range
from calibrant.metrics.calibration import (
    Reduction,
    calibration_error,
    expected_calibration_error,
)
from calibrant.metrics.miscalibration import integrated_squares
from calibrant.regularizers.divergences import (
    cumulative_kl,
    expected_cramer_von_mises,
    expected_cumulative_kl,
)

__all__ = [
    "NoiseFloor",
    "PitMetric",
    "debiased_calibration_error",
    "floor_after_recalibration",
    "floor_from_draws",
    "metric_name",
    "noise_floor",
]

PitMetric = Callable[[Tensor], Tensor | float]


class _OfGaps(NamedTuple):
    """A metric of the gaps between promised and observed frequency."""

    levels: int  # unless told
    value: Callable[[ReducedGaps], Floats]
    factor: float | None  # of the calibration error; None: no closed form


class _OfRows(NamedTuple):
    """A metric of PIT values ``(..., n)`` whose expectation has a closed form."""

    function: Callable[[Floats], Floats]
    expectation: Callable[[int], float]


def _cumulative_kl(pit: Floats) -> Floats:
    # As PIT values: one row is meant where the last axis has length 1.
    values: Floats = cumulative_kl(pit_from_cdf(torch.from_numpy(pit))).numpy()
    return values


_OF_GAPS = {
    "calibration_error": _OfGaps(20, lambda of: of.sum_of_squares, 1.0),
    "paper_calibration_error": _OfGaps(20, lambda of: 100 * of.sum_of_squares, 100.0),
    "mean_absolute_calibration_error": _OfGaps(100, lambda of: of.mean_absolute, None),
    "root_mean_squared_calibration_error": _OfGaps(
        100, lambda of: np.sqrt(of.mean_square), None
    ),
    "miscalibration_area": _OfGaps(100, lambda of: of.area, None),
}
_OF_ROWS = {
    "cramer_von_mises": _OfRows(integrated_squares, expected_cramer_von_mises),
    "integrated_calibration_error": _OfRows(
        integrated_squares, expected_cramer_von_mises
    ),
    "cumulative_kl": _OfRows(_cumulative_kl, expected_cumulative_kl),
}
_OTHERS = ("debiased_calibration_error", "coverage")
#: From here on the law of ``n`` times a metric of rows no longer moves with ``n``: the
#: variance of Cramér-von Mises is within 0.2 % of its limit.
_SETTLED = 400


@dataclass(frozen=True)
class NoiseFloor:
    """What a perfectly calibrated model shows in one metric, because data are finite.

    Parameters
    ----------
    metric
        Name of the metric.
    n
        Number of test rows.
    expectation
        Mean over perfect models: the floor.
    low, high
        95 % of perfect models show a value in this range.
    method
        How the numbers were found.
    tail
        Share of perfect models that show at least a value; see :meth:`p_value`.

    Examples
    --------
    >>> floor = noise_floor("calibration_error", n=62)
    >>> round(100 * floor.expectation, 1)
    5.4
    >>> floor.p_value(0.05) > 0.3
    True
    >>> floor.p_value(0.5) < 0.01
    True
    """

    metric: str
    n: int
    expectation: float
    low: float
    high: float
    method: str
    tail: Callable[[float], float] = field(repr=False, compare=False)

    def p_value(self, observed: float) -> float:
        """Share of perfect models that show at least ``observed``; never 0.

        For coverage: at least as far from the promise, on either side. From ``k`` of
        ``draws`` simulated models it is ``(1 + k) / (1 + draws)``.
        """
        if math.isnan(observed):
            raise InputError(
                f"observed must be a number, got {observed}. NaN comes from a "
                "prediction that is not finite (a diverged model)."
            )
        return self.tail(float(observed))


def noise_floor(
    metric: str | PitMetric = "calibration_error",
    *,
    n: int,
    levels: int | None = None,
    reduction: Reduction = "sum",
    coverage: float = 0.9,
    draws: int = 5000,
    seed: int = 0,
) -> NoiseFloor:
    r"""What a metric of PIT values shows on ``n`` rows when they are truly uniform.

    .. math::
        \mathbb{E}\,\mathrm{cal}(u) = \frac{M^2 - 1}{6 M n}, \qquad
        \mathbb{E} \int_0^1 (F_n(p) - p)^2 \, dp = \frac{1}{6 n}

    and others are simulated, as is every range. A named metric costs the same for a
    million rows as for 400, and nothing when it is asked for again.

    Parameters
    ----------
    metric
        ``"calibration_error"``, ``"paper_calibration_error"``,
        ``"mean_absolute_calibration_error"``,
        ``"root_mean_squared_calibration_error"``, ``"miscalibration_area"``,
        ``"debiased_calibration_error"``, ``"integrated_calibration_error"`` (the same
        as ``"cramer_von_mises"``), ``"cumulative_kl"``, ``"coverage"`` (exact
        binomial), or a function of PIT values ``(n,)``, which is called ``draws``
        times.
    n
        Number of test rows.
    levels
        :math:`M`; by default the metric's own, 20 or 100.
    reduction
        Of ``"calibration_error"``: ``"sum"``, ``"mean"`` or ``"root_mean"``.
    coverage
        Promised probability of the interval, of ``"coverage"``.
    draws
        Simulated perfect models, at least 40.
    seed
        Of the simulation: the same seed gives the same numbers.

    Returns
    -------
    NoiseFloor
        Expectation, 95 % range and p-values.

    Examples
    --------
    >>> noise_floor("cramer_von_mises", n=100).expectation == 1 / 600
    True
    >>> floor = noise_floor(lambda u: (u - 0.5).abs().max(), n=10, draws=200)
    >>> floor.method
    '200 simulated models'
    """
    n, draws = check_count(n, name="n"), check_draws(draws)
    if not isinstance(metric, str):
        values = _simulate(metric, n, draws, seed)
        return floor_from_draws(metric_name(metric), n, values)
    if metric == "coverage":
        low, high = coverage_range(coverage, n)
        tail = partial(_coverage_tail, coverage, n)
        return NoiseFloor(metric, n, coverage, low, high, "exact binomial", tail)
    if metric == "debiased_calibration_error":
        return _debiased(noise_floor(n=n, levels=levels, draws=draws, seed=seed))
    if metric in _OF_ROWS:
        return _floor_of_rows(metric, n, draws, seed)
    if metric not in _OF_GAPS:
        names = ", ".join([*_OF_GAPS, *_OF_ROWS, *_OTHERS])
        raise InputError(
            f"metric must be one of {names} or a function of PIT values, "
            f"got {metric!r}."
        )
    at = check_count(
        _OF_GAPS[metric].levels if levels is None else levels, name="levels"
    )
    return _floor_of_gaps(metric, n, at, reduction, draws, seed)


def floor_after_recalibration(n: int, n_fit: int, *, levels: int = 20) -> float:
    r"""Expected calibration error of ``n`` rows after an empirical map of ``n_fit``.

    The map is noisy too, and all test rows share its noise:

    .. math::
        \sum_j \frac{p_j (1 - p_j)}{n} + \Bigl(1 - \frac1n\Bigr) \frac{1}{n_c + 2}
            \Bigl[p_j (1 - p_j) - \frac{t_j (1 - t_j)}{n_c + 1}\Bigr] ,

    for the map to :math:`k / (n_c + 1)` at the :math:`k`-th smallest of :math:`n_c`
    held-out PIT values, with :math:`t_j` what :math:`p_j (n_c + 1)` is above a whole
    number: between two values the map is a line, and a mean of both is less noisy.

    Examples
    --------
    >>> round(100 * floor_after_recalibration(62, 246), 1)
    6.7
    """
    n = check_count(n, name="n")
    n_fit = check_count(n_fit, name="n_fit")
    between = (np.arange(1, levels + 1) * (n_fit + 1) / levels) % 1
    steadier = float((between * (1 - between)).sum()) / (n_fit + 1)
    # The sum of p (1 - p) is n times the expected error of n rows.
    whole = expected_calibration_error(n, levels=levels)
    return whole + (n - 1) / (n_fit + 2) * (whole - steadier / n)


def debiased_calibration_error(
    pit: ArrayLike | PitValues, *, levels: int = 20
) -> float:
    """Calibration error (sum) minus what a perfect model shows on as many rows.

    Its mean is 0 for a perfect model, so it can be negative: "not worse than noise".

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    levels
        Number of probabilities.

    Examples
    --------
    >>> debiased_calibration_error([0.25, 0.5, 0.75, 1.0], levels=2)
    -0.0625
    """
    values = pit_rows(pit)
    expected = expected_calibration_error(len(values), levels=levels)
    return calibration_error(values, levels=levels) - expected


def metric_name(metric: object) -> str:
    """Name of a function, or of the class of a callable object."""
    return str(getattr(metric, "__name__", type(metric).__name__))


def floor_from_draws(
    name: str, n: int, values: Floats, expectation: float | None = None
) -> NoiseFloor:
    """Summarize simulated values; ``expectation`` where it is known exactly."""
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(
            f"{name} must be a finite number for every perfect model, but is not for "
            f"{bad} of {len(values)} simulated ones."
        )
    method = f"{len(values)} simulated models"
    if expectation is None:
        expectation = float(values.mean())
    else:
        method = f"closed form, range from {method}"
    low, high = np.quantile(values, (0.025, 0.975))
    tail = partial(_simulated_tail, np.sort(values))
    return NoiseFloor(name, n, expectation, float(low), float(high), method, tail)


@lru_cache(maxsize=256)
def _floor_of_gaps(
    metric: str, n: int, levels: int, reduction: Reduction, draws: int, seed: int
) -> NoiseFloor:
    _, value, factor = _OF_GAPS[metric]
    # Gaps of normal counts go with 1 / sqrt(n): one simulation serves all large n.
    rows = min(n, settled_rows(levels))
    gaps = reduced_gaps(rows, levels, draws, seed).times(math.sqrt(rows / n))
    values = value(gaps)
    if reduction not in ("sum", "mean", "root_mean"):
        raise InputError(
            f"reduction must be one of sum, mean, root_mean, got {reduction!r}."
        )
    if metric == "calibration_error" and reduction != "sum":
        values, factor = values / levels, 1 / levels
        if reduction == "root_mean":
            values, factor = np.sqrt(values), None
    expected = expected_calibration_error(n, levels=levels)
    return floor_from_draws(
        metric, n, values, None if factor is None else factor * expected
    )


@lru_cache(maxsize=256)
def _floor_of_rows(metric: str, n: int, draws: int, seed: int) -> NoiseFloor:
    function, expectation = _OF_ROWS[metric]
    rows = min(n, _SETTLED)
    values = _values_of_rows(function, rows, draws, seed)
    scaled = values * (expectation(n) / expectation(rows))
    return floor_from_draws(metric, n, scaled, expectation(n))


@lru_cache(maxsize=64)
def _values_of_rows(
    function: Callable[[Floats], Floats], rows: int, draws: int, seed: int
) -> Floats:
    """The metric of ``draws`` perfect models; one simulation serves all large n."""
    rng = numpy_generator(seed)
    return np.concatenate(
        [function(rng.random((size, rows))) for size in chunks(draws, rows)]
    )


def _debiased(floor: NoiseFloor) -> NoiseFloor:
    """Floor of the calibration error less its expectation."""
    expected = floor.expectation
    return replace(
        floor,
        metric="debiased_calibration_error",
        expectation=0.0,
        low=floor.low - expected,
        high=floor.high - expected,
        tail=partial(_shifted_tail, floor.tail, expected),
    )


def _simulate(metric: PitMetric, n: int, draws: int, seed: int) -> Floats:
    """The metric of ``draws`` sets of uniform values, one set in memory at a time."""
    rng = numpy_generator(seed)
    values = (float(metric(torch.from_numpy(rng.random(n)))) for _ in range(draws))
    return np.fromiter(values, dtype=np.float64)


def _simulated_tail(ordered: Floats, observed: float) -> float:
    # Equal values must count although they were summed in another order.
    slack = 1e-9 * abs(observed)
    at_least = len(ordered) - int(np.searchsorted(ordered, observed - slack))
    return (1 + at_least) / (1 + len(ordered))


def _shifted_tail(
    tail: Callable[[float], float], shift: float, observed: float
) -> float:
    return tail(observed + shift)


def _coverage_tail(coverage: float, n: int, observed: float) -> float:
    distance = n * abs(observed - coverage) - 1e-9
    below = float(binom.cdf(math.floor(n * coverage - distance), n, coverage))
    above = float(binom.sf(math.ceil(n * coverage + distance) - 1, n, coverage))
    return min(1.0, max(below + above, float(np.finfo(np.float64).tiny)))
