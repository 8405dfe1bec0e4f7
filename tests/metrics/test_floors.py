"""Noise floors and bands against closed forms and simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import binom, kstest
from torch import Tensor

from calibrant.distributions.normal import Gaussian
from calibrant.metrics.calibration import (
    PIT_METRICS,
    calibration_curve,
    calibration_error,
    debiased_calibration_error,
)
from calibrant.metrics.floors import (
    _reduced_gaps,
    calibration_band,
    coverage_range,
    floor_after_recalibration,
    histogram_band,
    noise_floor,
    predictive_noise_floor,
    rows_for_coverage,
)
from calibrant.metrics.pit import TargetGrid, pit_values
from calibrant.protocols import Distribution
from calibrant.regularizers.divergences import cramer_von_mises, cumulative_kl
from calibrant.validation import InputError

# The paper's test folds, and the floors of its calibration error in percent.
FLOORS = {
    "yacht": (62, 5.4),
    "boston": (101, 3.3),
    "fish": (182, 1.8),
    "concrete": (206, 1.6),
    "airfoil": (301, 1.1),
    "red wine": (320, 1.0),
    "white wine": (980, 0.34),
    "kin8nm": (1638, 0.20),
    "protein": (9146, 0.036),
    "year": (51_630, 0.0064),
}


NAMES = [
    "calibration_error",
    "paper_calibration_error",
    "mean_absolute_calibration_error",
    "root_mean_squared_calibration_error",
    "miscalibration_area",
    "integrated_calibration_error",
    "cramer_von_mises",
    "cumulative_kl",
]


@pytest.mark.parametrize(("n", "percent"), FLOORS.values(), ids=FLOORS.keys())
def test_floors_of_the_paper(n: int, percent: float) -> None:
    floor = noise_floor("paper_calibration_error", n=n)
    digits = 1 if percent >= 1 else 1 - math.floor(math.log10(percent))
    assert round(floor.expectation, digits) == percent
    assert floor.low < floor.expectation < floor.high


@pytest.mark.parametrize(("n", "n_fit"), [(40, 60), (200, 50), (500, 7)])
def test_floor_after_recalibration_against_simulation(n: int, n_fit: int) -> None:
    rng = np.random.default_rng(0)
    draws = 100_000
    ends = np.zeros((draws, 1)), np.ones((draws, 1))
    knots = np.hstack([ends[0], np.sort(rng.random((draws, n_fit))), ends[1]])
    error = np.zeros(draws)
    # Rows below the recalibrated quantile at a level: it lies between two knots.
    for level in np.arange(1, 20) / 20:
        rank, between = divmod(level * (n_fit + 1), 1)
        around = knots[:, int(rank)], knots[:, int(rank) + 1]
        quantile = (1 - between) * around[0] + between * around[1]
        error += (rng.binomial(n, quantile) / n - level) ** 2
    standard_error = error.std() / math.sqrt(draws)
    assert floor_after_recalibration(n, n_fit) == pytest.approx(
        error.mean(), abs=4 * standard_error
    )


@pytest.mark.parametrize("name", NAMES)
def test_expectation_and_range_against_direct_simulation(name: str) -> None:
    functions = {
        **PIT_METRICS,
        "integrated_calibration_error": cramer_von_mises,
        "cramer_von_mises": cramer_von_mises,
        "cumulative_kl": cumulative_kl,
    }
    floor = noise_floor(name, n=50)
    direct = noise_floor(functions[name], n=50, draws=2000, seed=1)
    assert direct.expectation == pytest.approx(floor.expectation, rel=0.06)
    assert direct.low == pytest.approx(floor.low, rel=0.1)
    assert direct.high == pytest.approx(floor.high, rel=0.1)
    assert direct.method == "2000 simulated models"


@pytest.mark.parametrize("name", ["cramer_von_mises", "cumulative_kl"])
def test_scaled_laws_of_many_rows_against_direct_simulation(name: str) -> None:
    function = {"cramer_von_mises": cramer_von_mises, "cumulative_kl": cumulative_kl}
    floor = noise_floor(name, n=1500)
    direct = noise_floor(function[name], n=1500, draws=1000, seed=1)
    assert direct.expectation == pytest.approx(floor.expectation, rel=0.1)
    assert direct.high == pytest.approx(floor.high, rel=0.2)


@pytest.mark.parametrize("name", ["calibration_error", "cumulative_kl"])
@pytest.mark.parametrize("n", [15, 300])
def test_perfect_models_land_in_the_range_and_p_values_hold(name: str, n: int) -> None:
    metric = {"calibration_error": calibration_error, "cumulative_kl": cumulative_kl}
    floor = noise_floor(name, n=n)
    generator = torch.Generator().manual_seed(3)
    models = 600
    values = [
        float(metric[name](torch.rand(n, generator=generator))) for _ in range(models)
    ]
    inside = sum(floor.low <= value <= floor.high for value in values)
    rejected = sum(floor.p_value(value) < 0.05 for value in values)
    low, high = binom.interval(0.999, models, 0.95)
    assert low <= inside <= high
    low, high = binom.interval(0.999, models, 0.05)
    assert low <= rejected <= high
    assert kstest([floor.p_value(value) for value in values], "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "grid", [TargetGrid(step=1), TargetGrid(upper_cap=5.5)], ids=["rounded", "capped"]
)
def test_perfect_models_of_rounded_and_capped_targets(grid: TargetGrid) -> None:
    """The floor holds for randomized PIT values; plain ones lie far above it."""
    floor = noise_floor(n=200)
    generator = torch.Generator().manual_seed(5)
    law = Gaussian(5.3 + 0.05 * torch.randn(200, generator=generator), 0.8)
    models, inside, plain = 300, 0, 0
    for _ in range(models):
        y = grid.round(law.sample(generator=generator))
        pit = pit_values(law, y, grid=grid, generator=generator)
        inside += floor.low <= calibration_error(pit) <= floor.high
        plain += calibration_error(law.cdf(y)) > floor.high
    low, high = binom.interval(0.999, models, 0.95)
    assert low <= inside <= high
    assert plain > 0.9 * models


def test_p_values_are_never_zero_and_count_equal_values() -> None:
    floor = noise_floor(n=10, draws=100)
    assert floor.p_value(math.inf) == 1 / 101
    assert floor.p_value(0.0) == 1.0
    exact = noise_floor(lambda u: float((u < 0.5).any()), n=3, draws=400)
    assert exact.p_value(1.0) == pytest.approx(7 / 8, abs=0.06)


def test_coverage_is_exactly_binomial() -> None:
    floor = noise_floor("coverage", n=20, coverage=0.9)
    assert (floor.expectation, floor.low, floor.high) == (0.9, 0.75, 1.0)
    assert floor.method == "exact binomial"
    assert floor.p_value(0.9) == 1.0
    counts = np.arange(21)
    for k in (15, 20):
        far = np.abs(counts - 18) >= abs(k - 18)
        expected = binom.pmf(counts[far], 20, 0.9).sum()
        assert floor.p_value(k / 20) == pytest.approx(expected)
    assert 0 < noise_floor("coverage", n=100_000).p_value(0.1) < 1e-300


def test_is_reproducible_and_follows_the_seed() -> None:
    first = noise_floor(n=33, draws=500)
    assert noise_floor(n=33, draws=500) is first
    other = noise_floor(n=33, draws=500, seed=1)
    assert other.high != first.high
    assert noise_floor(lambda u: u.max(), n=5, draws=40) == noise_floor(
        lambda u: u.max(), n=5, draws=40
    )


def test_debiased_error_is_zero_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    values = [
        debiased_calibration_error(torch.rand(25, generator=generator), levels=10)
        for _ in range(1500)
    ]
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(1500)
    assert min(values) < 0


def predicted(n: int) -> Gaussian:
    return Gaussian(torch.linspace(4.5, 6.5, n), 0.8)


def test_predictive_floor_equals_the_uniform_one_without_a_grid() -> None:
    floor = predictive_noise_floor(predicted(80), draws=1000)
    uniform = noise_floor(n=80)
    assert floor.n == 80
    assert floor.expectation == pytest.approx(uniform.expectation, rel=0.1)
    assert floor.high == pytest.approx(uniform.high, rel=0.15)


def test_predictive_floor_of_plain_values_sees_the_rounding() -> None:
    law = Gaussian(torch.full((300,), 5.3), 0.8)
    grid = TargetGrid(step=1)
    rounded = predictive_noise_floor(law, "paper_calibration_error", grid=grid)
    assert rounded.expectation > 5 * noise_floor("paper_calibration_error", n=300).high
    generator = torch.Generator().manual_seed(2)
    y = grid.round(law.sample(generator=generator))
    assert rounded.p_value(100 * calibration_error(law.cdf(y))) > 0.01


def test_predictive_floor_takes_functions() -> None:
    def crps(law: Distribution, y: Tensor) -> Tensor:
        return law.crps(y).mean()

    floor = predictive_noise_floor(predicted(100), crps, draws=300)
    assert floor.metric == "crps"
    assert floor.expectation == pytest.approx(0.8 / math.sqrt(math.pi), rel=0.02)


def test_predictive_floor_is_reproducible_and_not_the_callers_stream() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(500, generator=generator)
    law = Gaussian(mean, 1.0)

    def correlation(law: Distribution, y: Tensor) -> Tensor:
        return torch.corrcoef(torch.stack([law.mean, y - law.mean]))[0, 1]

    floor = predictive_noise_floor(law, correlation, draws=40)
    assert floor.high < 0.2  # the caller's own noise again would give 1
    assert floor == predictive_noise_floor(law, correlation, draws=40)
    assert floor != predictive_noise_floor(law, correlation, draws=40, seed=1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: noise_floor("ece", n=10), r"one of calibration_error.*got 'ece'"),
        (lambda: noise_floor(n=-1), "n must be a whole number >= 1, got -1"),
        (lambda: noise_floor(n=10, draws=10), "draws must be a whole number >= 40"),
        (lambda: noise_floor(n=10, levels=0), "levels must be a whole number"),
        (lambda: noise_floor(lambda _: math.nan, n=10, draws=40), "not for 40 of 40"),
        (lambda: noise_floor(n=10, seed=-1), "seed must be a whole number >= 0"),
        (lambda: noise_floor(n=10).p_value(math.nan), "diverged"),
        (lambda: floor_after_recalibration(10, 0), "n_fit must be"),
        (lambda: predictive_noise_floor(predicted(5), "coverage"), "got 'coverage'"),
        (lambda: predictive_noise_floor(Gaussian(0.0, 1.0)), r"batch shape \(n,\)"),
        (lambda: coverage_range(90, 10), "coverage must lie strictly .* got 90"),
        (lambda: coverage_range(0.9, 0), "n must be a whole number >= 1, got 0"),
        (lambda: histogram_band(10, 2.5), r"whole number >= 1, got 2\.5"),
        (lambda: rows_for_coverage(0.9, 0), "tolerance must lie strictly"),
        (lambda: calibration_band(10, 5, confidence=95), "confidence must lie"),
        (lambda: calibration_band(10, True), "levels must be a whole number"),
    ],
)
def test_names_what_is_wrong(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


@pytest.mark.parametrize(
    "name", ["integrated_calibration_error", "cumulative_kl", "miscalibration_area"]
)
def test_one_row_has_a_floor(name: str) -> None:
    floor = noise_floor(name, n=1, draws=400)
    assert 0 < floor.low < floor.expectation < floor.high


def test_debiased_error_has_the_same_p_value() -> None:
    plain = noise_floor("calibration_error", n=70)
    debiased = noise_floor("debiased_calibration_error", n=70)
    assert debiased.expectation == 0
    assert debiased.low < 0 < debiased.high
    shifted = debiased.p_value(plain.high - plain.expectation)
    assert shifted == pytest.approx(plain.p_value(plain.high))


@pytest.mark.parametrize("levels", [20, 100])
def test_one_simulation_of_gaps_serves_all_large_n(levels: int) -> None:
    n, settled = 1_000_000, 200 * levels
    own = _reduced_gaps(n, levels, 50, 3)
    scale = math.sqrt(settled / n)
    powers = np.array([[scale**2], [scale], [scale]])
    scaled = powers * _reduced_gaps(settled, levels, 50, 3)
    np.testing.assert_allclose(scaled, own, rtol=1e-8)
    floor = noise_floor(n=n, levels=levels, draws=50, seed=3)
    assert floor.high == pytest.approx(np.quantile(own[0], 0.975), rel=1e-8)


@pytest.mark.parametrize("n", [1, 10, 62, 1000])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_range_of_coverage_is_the_shortest_central_one(n: int, coverage: float) -> None:
    low, high = coverage_range(coverage, n)
    least, most = round(n * low), round(n * high)
    assert binom.cdf(least - 1, n, coverage) < 0.025 <= binom.cdf(least, n, coverage)
    assert binom.sf(most, n, coverage) <= 0.025 < binom.sf(most - 1, n, coverage)


def test_rows_for_coverage_is_the_least_number_that_suffices() -> None:
    def within(n: int) -> float:
        counts = np.arange(n + 1)
        near = np.abs(counts / n - 0.9) <= 0.03 + 1e-12
        return float(binom.pmf(counts[near], n, 0.9).sum())

    n = rows_for_coverage(0.9, 0.03)
    assert within(n - 1) < 0.95
    assert all(within(more) >= 0.95 for more in range(n, n + 300))


def test_rows_for_coverage_is_normal_for_many_rows() -> None:
    assert rows_for_coverage(0.9, 0.001) == pytest.approx(0.09 * 1960**2, rel=1e-4)
    nearly = 0.25 * (1.959964 / 0.0045) ** 2
    assert rows_for_coverage(0.5, 0.0045) == pytest.approx(nearly, rel=0.01)


def share_inside(n: int, *, levels: int, simultaneous: bool) -> tuple[float, float]:
    """Share of curves, and of points, of 2000 perfect models inside the band."""
    _, low, high = calibration_band(n, levels, simultaneous=simultaneous)
    generator = torch.Generator().manual_seed(0)
    observed = torch.stack(
        [
            calibration_curve(torch.rand(n, generator=generator), levels=levels)[1]
            for _ in range(2000)
        ]
    )
    inside = (observed >= low) & (observed <= high)
    return float(inside.all(-1).double().mean()), float(inside[:, :-1].double().mean())


@pytest.mark.parametrize("n", [20, 62, 500])
def test_simultaneous_band_holds_whole_curves(n: int) -> None:
    curves, _ = share_inside(n, levels=20, simultaneous=True)
    # Discrete for few rows, so somewhat above; 4 standard errors below.
    assert 0.95 - 4 * 0.0049 < curves < 0.985


@pytest.mark.parametrize("n", [62, 500])
def test_pointwise_band_holds_points_but_not_curves(n: int) -> None:
    curves, points = share_inside(n, levels=20, simultaneous=False)
    assert 0.945 < points < 0.98
    assert curves < 0.85


def test_simultaneous_histogram_band_holds_all_bins() -> None:
    low, high = histogram_band(200, 10, simultaneous=True)
    narrow = histogram_band(200, 10)
    assert low < narrow[0] < narrow[1] < high
    rng = np.random.default_rng(1)
    counts = rng.multinomial(200, np.full(10, 0.1), size=4000)
    inside = ((counts >= low) & (counts <= high)).all(-1).mean()
    assert 0.95 - 4 * 0.0035 < inside < 0.99
