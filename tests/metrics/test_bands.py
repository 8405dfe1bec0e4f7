"""Ranges of coverage, calibration curve and histogram of a perfect model."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from calibrant._checks import InputError
from calibrant.metrics.bands import (
    calibration_band,
    coverage_range,
    histogram_band,
    rows_for_coverage,
)
from calibrant.metrics.calibration import calibration_curve


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


def test_a_wide_tolerance_needs_one_row() -> None:
    assert rows_for_coverage(0.5, 0.6) == 1


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


def test_band_of_one_level_is_a_point() -> None:
    for simultaneous in (False, True):
        promised, low, high = calibration_band(10, 1, simultaneous=simultaneous)
        assert promised.tolist() == low.tolist() == high.tolist() == [1.0]


def test_simultaneous_histogram_band_holds_all_bins() -> None:
    low, high = histogram_band(200, 10, simultaneous=True)
    narrow = histogram_band(200, 10)
    assert low < narrow[0] < narrow[1] < high
    rng = np.random.default_rng(1)
    counts = rng.multinomial(200, np.full(10, 0.1), size=4000)
    inside = ((counts >= low) & (counts <= high)).all(-1).mean()
    assert 0.95 - 4 * 0.0035 < inside < 0.99


def test_a_million_rows() -> None:
    _, low, high = calibration_band(1_000_000, 20)
    assert float((high - low).max()) == pytest.approx(2 * 1.96 * 0.0005, rel=0.01)
    assert histogram_band(1_000_000, 100) == (9805, 10195)


def test_is_reproducible() -> None:
    first = calibration_band(50, 5, simultaneous=True)
    assert all(map(torch.equal, first, calibration_band(50, 5, simultaneous=True)))


def test_names_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"coverage must lie strictly .* got 90"):
        coverage_range(90, 10)
    with pytest.raises(InputError, match=r"n must be a whole number >= 1, got 0"):
        coverage_range(0.9, 0)
    with pytest.raises(InputError, match=r"whole number >= 1, got 2\.5"):
        histogram_band(10, 2.5)
    with pytest.raises(InputError, match="tolerance must lie strictly"):
        rows_for_coverage(0.9, 0)
    with pytest.raises(InputError, match="confidence must lie strictly"):
        calibration_band(10, 5, confidence=95)
    with pytest.raises(InputError, match="levels must be a whole number"):
        calibration_band(10, True)
