"""Noise floors: what metrics show under perfect calibration, because data are finite.

Ranges of coverage, bands of the calibration curve and the PIT histogram, and expected
values, ranges and p-values of metrics: in closed form where there is one, else from
simulation.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from scipy.stats import binom, norm
from torch import Tensor

from calibrant.metrics.calibration import (
    PIT_METRICS,
    area_between,
    expected_calibration_error,
    integrated_squares,
)
from calibrant.metrics.pit import (
    Floats,
    Integers,
    TargetGrid,
    check_count,
    check_draws,
    numpy_generator,
    row_distribution,
    torch_generator,
)
from calibrant.regularizers.divergences import cumulative_kl, expected_cumulative_kl
from calibrant.validation import InputError, check_between, pit_from_cdf

__all__ = [
    "NoiseFloor",
    "calibration_band",
    "coverage_range",
    "floor_after_recalibration",
    "histogram_band",
    "noise_floor",
    "predictive_noise_floor",
    "rows_for_coverage",
]

PitMetric = Callable[[Tensor], Tensor | float]
#: Simulated models behind a band.
_BAND_DRAWS = 10_000
#: Beyond so many rows the exact answer and the normal one agree to 1 %.
_EXACT_ROWS = 50_000
#: Numbers that one step of a simulation may hold: 32 MB.
_AT_ONCE = 4_000_000
#: From this many expected rows per cell on, counts are simulated as normal.
_MANY_PER_CELL = 200
#: From here on the distribution of ``n`` times a metric of rows no longer moves with
#: ``n``: the variance of Cramér-von Mises is within 0.2 % of its limit.
_SETTLED = 400


def coverage_range(
    coverage: float, n: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    r"""Range of the observed coverage of ``n`` rows under perfect calibration.

    The number of covered rows is :math:`\mathrm{Binomial}(n, c)`; this is its exact
    central range of at least ``confidence``, divided by ``n``.

    Parameters
    ----------
    coverage
        :math:`c`, the nominal coverage of the interval, in (0, 1).
    n
        Number of test rows.
    confidence
        Probability of the range.

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

    The least :math:`n` from which on the observed coverage of a perfectly calibrated
    model stays within the tolerance :math:`\tau` with probability ``confidence``, by
    the exact binomial distribution; above 50,000 rows by the normal one,
    :math:`n = z^2 c (1 - c) / \tau^2`. Parameters as in :func:`coverage_range`.

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
    r"""Band of the calibration curve of ``n`` rows under perfect calibration.

    At one level :math:`p` the observed count is :math:`\mathrm{Binomial}(n, p)`. The
    pointwise band is its exact central range. The simultaneous band covers the whole
    curve: the pointwise confidence is raised, the same at all levels, until
    ``confidence`` of 10,000 simulated curves lie inside.

    Parameters
    ----------
    n
        Number of test rows.
    levels
        :math:`M`, for the probabilities :math:`j / M`.
    confidence
        Probability of the band.
    simultaneous
        Cover the whole curve and not each point of it.

    Returns
    -------
    tuple[Tensor, Tensor, Tensor]
        Nominal probabilities, low and high, each of shape ``(levels,)``.

    References
    ----------
    Säilynoja, Bürkner and Vehtari (2022), arXiv:2103.10522.

    Examples
    --------
    >>> nominal, low, high = calibration_band(100, 2)
    >>> low.tolist(), high.tolist()
    ([0.4, 1.0], [0.6, 1.0])
    """
    check_count(n, name="n")
    check_count(levels, name="levels")
    check_between(confidence, 0, 1, name="confidence")
    nominal = np.arange(1, levels + 1) / levels
    outside = 1 - confidence
    if simultaneous and levels > 1:
        outside = _outside(n, levels, confidence, cumulative=True)
    low = binom.ppf(outside / 2, n, nominal) / n
    high = binom.isf(outside / 2, n, nominal) / n
    return torch.tensor(nominal), torch.tensor(low), torch.tensor(high)


def histogram_band(
    n: int,
    bins: int = 10,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> tuple[int, int]:
    """Fewest and most PIT values in one of ``bins`` equal bins, calibrated perfectly.

    Pointwise it is the exact central range of Binomial(n, 1 / bins); simultaneous, all
    bins lie inside at once in ``confidence`` of 10,000 simulations. Parameters as in
    :func:`calibration_band`.

    Examples
    --------
    >>> histogram_band(100, 10)
    (5, 16)
    """
    check_count(n, name="n")
    check_count(bins, name="bins")
    check_between(confidence, 0, 1, name="confidence")
    outside = 1 - confidence
    if simultaneous:
        outside = _outside(n, bins, confidence, cumulative=False)
    low, high = binom.ppf(outside / 2, n, 1 / bins), binom.isf(outside / 2, n, 1 / bins)
    return int(low), int(high)


@lru_cache(maxsize=64)
def _outside(n: int, cells: int, confidence: float, *, cumulative: bool) -> float:
    """Two-sided pointwise probability whose band covers all counts at once.

    Each simulated model is judged by its most unusual count; the answer is the value
    that at most ``1 - confidence`` of the models fall below.
    """
    share = np.full(cells, 1 / cells)
    counts = numpy_generator(0).multinomial(n, share, size=_BAND_DRAWS)
    if cumulative:
        counts, share = counts.cumsum(-1)[:, :-1], np.arange(1, cells) / cells
    lower = binom.cdf(counts, n, share)
    upper = binom.sf(counts - 1, n, share)
    unusual = np.sort(2 * np.minimum(lower, upper).min(-1))
    limit = float(unusual[int((1 - confidence) * len(unusual))])
    # A count whose own probability is the limit must lie inside, despite rounding.
    return min(1.0, limit) * (1 - 1e-9)


def gaps_of_counts(counts: Integers | Floats) -> Floats:
    """Observed minus nominal frequency; counts and result are ``(..., levels)``."""
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


def simulated_counts(
    rng: np.random.Generator, rows: Integers, *, levels: int, draws: int
) -> Integers | Floats:
    """How many of ``rows`` uniform values fall between levels.

    Shape ``(draws, groups, levels)``. The counts are multinomial. Where every cell
    expects at least 200 rows, they are drawn from the normal distribution with the same
    mean and covariance: quicker, and the same within the noise of 5000 draws.
    """
    shape = draws, len(rows)
    if rows.min() < _MANY_PER_CELL * levels:
        return rng.multinomial(rows, np.full(levels, 1 / levels), size=shape)
    expected = rows[:, None] / levels
    noise = rng.standard_normal((*shape, levels))
    noise -= noise.mean(-1, keepdims=True)  # a group's counts sum to its rows
    noise *= np.sqrt(expected)
    noise += expected
    return noise


@dataclass(frozen=True)
class NoiseFloor:
    """What one metric shows under perfect calibration.

    Parameters
    ----------
    metric, n
        Name of the metric, and number of test rows.
    expectation
        Its mean: the floor.
    low, high
        Its central 95 % range.
    method
        How the numbers were found.
    tail
        Probability of at least a value; see :meth:`p_value`.

    Examples
    --------
    >>> floor = noise_floor("calibration_error", n=62)
    >>> round(100 * floor.expectation, 1)
    5.4
    >>> floor.p_value(0.05) > 0.3, floor.p_value(0.5) < 0.01
    (True, True)
    """

    metric: str
    n: int
    expectation: float
    low: float
    high: float
    method: str
    tail: Callable[[float], float] = field(repr=False, compare=False)

    def p_value(self, observed: float) -> float:
        """Probability of at least ``observed`` under perfect calibration; never 0.

        For coverage: at least as far from nominal, on either side. From ``k`` of
        ``draws`` simulated models it is ``(1 + k) / (1 + draws)``.
        """
        if math.isnan(observed):
            raise InputError(
                f"observed must be a number, got {observed}. NaN comes from a "
                "prediction that is not finite (a diverged model)."
            )
        return self.tail(float(observed))


def _cumulative_kl(pit: Floats) -> Floats:
    # As PIT values: one row is meant where the last axis has length 1.
    values: Floats = cumulative_kl(pit_from_cdf(torch.from_numpy(pit))).numpy()
    return values


def _expected_integral(n: int) -> float:
    return 1 / (6 * n)


#: Metrics of the gaps between nominal and observed frequency: their default levels.
_OF_GAPS = {
    "calibration_error": 20,
    "paper_calibration_error": 20,
    "mean_absolute_calibration_error": 100,
    "root_mean_squared_calibration_error": 100,
    "miscalibration_area": 100,
}
#: Metrics of PIT values ``(..., n)`` whose expectation has a closed form.
_OF_ROWS: dict[str, tuple[Callable[[Floats], Floats], Callable[[int], float]]] = {
    "cramer_von_mises": (integrated_squares, _expected_integral),
    "integrated_calibration_error": (integrated_squares, _expected_integral),
    "cumulative_kl": (_cumulative_kl, expected_cumulative_kl),
}


def noise_floor(
    metric: str | PitMetric = "calibration_error",
    *,
    n: int,
    levels: int | None = None,
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
        ``"calibration_error"`` (sum), ``"paper_calibration_error"``,
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
    coverage
        Nominal coverage of the interval, of ``"coverage"``.
    draws
        Number of simulations, at least 40.
    seed
        Of the simulation: the same seed gives the same numbers.

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
        rng = numpy_generator(seed)
        # One set of values in memory at a time.
        found = (float(metric(torch.from_numpy(rng.random(n)))) for _ in range(draws))
        values = np.fromiter(found, dtype=np.float64)
        return floor_from_draws(_name_of(metric), n, values)
    if metric == "coverage":
        low, high = coverage_range(coverage, n)
        tail = partial(_coverage_tail, coverage, n)
        return NoiseFloor(metric, n, coverage, low, high, "exact binomial", tail)
    if metric == "debiased_calibration_error":
        return _debiased(noise_floor(n=n, levels=levels, draws=draws, seed=seed))
    if metric in _OF_ROWS:
        return _floor_of_rows(metric, n, draws, seed)
    if metric not in _OF_GAPS:
        names = ", ".join([*_OF_GAPS, *_OF_ROWS, "debiased_calibration_error"])
        raise InputError(
            f"metric must be one of {names}, coverage or a function of PIT values, "
            f"got {metric!r}."
        )
    at = check_count(_OF_GAPS[metric] if levels is None else levels, name="levels")
    return _floor_of_gaps(metric, n, at, draws, seed)


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


def predictive_noise_floor(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    metric: str | Callable[[Any, Tensor], Tensor | float] = "calibration_error",
    *,
    grid: TargetGrid | None = None,
    draws: int = 500,
    seed: int = 0,
) -> NoiseFloor:
    r"""What a metric shows when the targets really come from the predictions.

    Targets :math:`y_i \sim F_i` are drawn, rounded and capped as ``grid`` says, and the
    metric is computed again. It serves every metric (a score, coverage, errors within
    groups), and plain PIT values of a rounded target, which are not uniform even under
    perfect calibration. For randomized PIT values :func:`noise_floor` is cheaper.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``: anything that
        :func:`~calibrant.distributions.conversion.as_distribution` takes.
    metric
        A function ``(distribution, y) -> number``, or the name of a metric of plain PIT
        values, as ``"calibration_error"`` or ``"miscalibration_area"``.
    grid
        How targets are recorded; as exact numbers by default.
    draws, seed
        Simulated sets of targets, at least 40, and the seed of the simulation.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> predictive = Gaussian([5.0] * 100, 0.8)
    >>> exact = predictive_noise_floor(predictive, draws=100)
    >>> rounded = predictive_noise_floor(predictive, grid=TargetGrid(1), draws=100)
    >>> rounded.expectation > 5 * exact.expectation
    True
    """
    predictive = row_distribution(distribution)
    if isinstance(metric, str) and metric not in PIT_METRICS:
        raise InputError(
            f"metric must be one of {', '.join(PIT_METRICS)} or a function, got "
            f"{metric!r}."
        )
    values = np.empty(check_draws(draws))
    generator = torch_generator(seed, predictive.mean.device)
    with torch.no_grad():
        for draw in range(draws):
            y = predictive.sample(generator=generator)
            y = y if grid is None else grid.round(y)
            if isinstance(metric, str):
                values[draw] = PIT_METRICS[metric](predictive.cdf(y))
            else:
                values[draw] = float(metric(predictive, y))
    return floor_from_draws(_name_of(metric), predictive.batch_shape[0], values)


def _name_of(metric: object) -> str:
    """Name of a metric, given as such, as a function or as a callable object."""
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "__name__", type(metric).__name__))


def floor_from_draws(
    name: str, n: int, values: Floats, expectation: float | None = None
) -> NoiseFloor:
    """Summarize simulated values; ``expectation`` where it is known exactly."""
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(
            f"{name} must be finite for every simulated model, but is not for {bad} of "
            f"{len(values)}."
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
    metric: str, n: int, levels: int, draws: int, seed: int
) -> NoiseFloor:
    # Gaps of normal counts go with 1 / sqrt(n): one simulation serves all large n.
    rows = min(n, _MANY_PER_CELL * levels)
    scale = math.sqrt(rows / n)
    squares, absolute, area = _reduced_gaps(rows, levels, draws, seed)
    if metric == "mean_absolute_calibration_error":
        return floor_from_draws(metric, n, scale * absolute)
    if metric == "miscalibration_area":
        return floor_from_draws(metric, n, scale * area)
    if metric == "root_mean_squared_calibration_error":
        return floor_from_draws(metric, n, np.sqrt(scale**2 * (squares / levels)))
    unit = 100 if metric == "paper_calibration_error" else 1
    expected = unit * expected_calibration_error(n, levels=levels)
    return floor_from_draws(metric, n, unit * (scale**2 * squares), expected)


@lru_cache(maxsize=64)
def _reduced_gaps(n: int, levels: int, draws: int, seed: int) -> Floats:
    """Sum of squares, mean absolute value and area of gaps, ``(3, draws)``."""
    rng = numpy_generator(seed)
    at = torch.linspace(0, 1, levels + 1, dtype=torch.float64)
    parts = []
    for size in chunks(draws, levels):
        counts = simulated_counts(rng, np.array([n]), levels=levels, draws=size)
        gaps = gaps_of_counts(counts)[:, 0]
        from_zero = torch.nn.functional.pad(torch.from_numpy(gaps), (1, 0))
        area = area_between(at, from_zero).numpy()
        parts.append(np.stack([squared_sum(gaps), np.abs(gaps).mean(-1), area]))
    return np.concatenate(parts, axis=-1)


@lru_cache(maxsize=256)
def _floor_of_rows(metric: str, n: int, draws: int, seed: int) -> NoiseFloor:
    function, expectation = _OF_ROWS[metric]
    rows = min(n, _SETTLED)  # one simulation serves all large n
    rng = numpy_generator(seed)
    sizes = chunks(draws, rows)
    values = np.concatenate([function(rng.random((size, rows))) for size in sizes])
    scaled = values * (expectation(n) / expectation(rows))
    return floor_from_draws(metric, n, scaled, expectation(n))


def _debiased(floor: NoiseFloor) -> NoiseFloor:
    """Floor of the calibration error less its expectation."""
    expected, tail = floor.expectation, floor.tail
    return replace(
        floor,
        metric="debiased_calibration_error",
        expectation=0.0,
        low=floor.low - expected,
        high=floor.high - expected,
        tail=lambda observed: tail(observed + expected),
    )


def _simulated_tail(ordered: Floats, observed: float) -> float:
    # Equal values must count although they were summed in another order.
    slack = 1e-9 * abs(observed)
    at_least = len(ordered) - int(np.searchsorted(ordered, observed - slack))
    return (1 + at_least) / (1 + len(ordered))


def _coverage_tail(coverage: float, n: int, observed: float) -> float:
    distance = n * abs(observed - coverage) - 1e-9
    below = float(binom.cdf(math.floor(n * coverage - distance), n, coverage))
    above = float(binom.sf(math.ceil(n * coverage + distance) - 1, n, coverage))
    return min(1.0, max(below + above, float(np.finfo(np.float64).tiny)))
