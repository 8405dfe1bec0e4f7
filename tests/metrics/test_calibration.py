"""Calibration of PIT values against plain forms: levels, curve, errors, coverage."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.metrics.calibration import (
    calibration_curve,
    calibration_error,
    count_at_most,
    coverage,
    expected_calibration_error,
    integrated_calibration_error,
    level_cells,
    mean_absolute_calibration_error,
    mean_width,
    miscalibration_area,
    nominal_levels,
    paper_calibration_error,
    pit_rows,
    root_mean_squared_calibration_error,
)
from calibrant.protocols import PitValues
from calibrant.validation import pit_from_cdf

# Multiples of 1/40 hit levels exactly, where "at most" must include them.
PIT = arrays(
    np.float64,
    st.integers(1, 30),
    elements=st.one_of(st.floats(0, 1), st.sampled_from(list(np.arange(41) / 40))),
)


@given(PIT)
def test_curve_is_the_share_at_most_each_level(pit: np.ndarray) -> None:
    nominal, observed = calibration_curve(pit)
    table = (pit[:, None] <= np.arange(1, 21) / 20).mean(0)
    np.testing.assert_allclose(nominal, np.arange(1, 21) / 20, rtol=0)
    np.testing.assert_allclose(observed, table, rtol=1e-15)
    levels = np.array([0.13, 0.5, 0.97])
    _, observed = calibration_curve(pit, levels=levels, kind="interval")
    table = (np.abs(2 * pit[:, None] - 1) <= levels).mean(0)
    np.testing.assert_allclose(observed, table, rtol=1e-15)


@given(st.lists(st.floats(0, 1), min_size=1), st.lists(st.floats(0, 1), min_size=1))
def test_any_levels_in_any_order(values: list[float], levels: list[float]) -> None:
    pit, nominal = torch.tensor(values), torch.tensor(levels)
    table = (pit[:, None] <= nominal).sum(0)
    assert torch.equal(count_at_most(pit, nominal), table)
    assert calibration_curve(pit, levels=nominal)[0].tolist() == levels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 3, 20, 49, 100, 1000])
def test_levels_are_met_exactly(count: int, dtype: torch.dtype) -> None:
    levels = nominal_levels(count).to(dtype)
    pit = torch.cat([levels, torch.nextafter(levels, torch.zeros_like(levels))])
    np.testing.assert_array_equal(level_cells(pit, count), [*range(count)] * 2)
    assert count_at_most(pit, levels).tolist() == [2 * i for i in range(1, count + 1)]
    assert calibration_error(levels, levels=count) == 0


def test_errors_by_hand() -> None:
    # Observed 1, 1 where 0.5, 1 are nominal.
    assert calibration_error([0.1, 0.3], levels=2) == 0.25
    assert calibration_error([0.1, 0.3], levels=2, reduction="mean") == 0.125
    root = calibration_error([0.1, 0.3], levels=2, reduction="root_mean")
    assert root == pytest.approx(0.125**0.5)
    # Observed 0, 1 where 0.5, 1 are nominal.
    assert mean_absolute_calibration_error([0.6, 0.7], levels=2) == 0.25
    root = root_mean_squared_calibration_error([0.6, 0.7], levels=2)
    assert root == pytest.approx(0.125**0.5)


def test_papers_error_is_a_hundred_times_the_sum_over_twenty_levels() -> None:
    pit = np.linspace(0, 1, 57) ** 2
    levels = np.arange(1, 21) / 20
    by_hand = 100 * (((pit[:, None] <= levels).mean(0) - levels) ** 2).sum()
    assert paper_calibration_error(pit) == pytest.approx(by_hand)
    for side in (0.0, 1.0):  # its worst
        assert paper_calibration_error([side] * 9) == pytest.approx(617.5)


def test_intervals_cannot_see_a_bias_that_quantiles_see() -> None:
    # Uniform |2u - 1|, but all targets below the median.
    pit = (np.arange(1000) + 0.5) / 2000
    assert calibration_error(pit, kind="interval") < 1e-3
    assert calibration_error(pit) > 1


def test_takes_pit_values_with_both_tails() -> None:
    predictive, y = Gaussian(torch.zeros(50), 1.0), torch.randn(50)
    pit = predictive.pit(y)
    assert isinstance(pit, PitValues)
    assert calibration_error(pit) == calibration_error(predictive.cdf(y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    values = torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=dtype)
    assert pit_rows(pit_from_cdf(values)).dtype == torch.float32
    assert calibration_error(pit_from_cdf(values), levels=4) == 0
    assert calibration_error(values, levels=4) == 0


@pytest.mark.parametrize(
    ("metric", "n", "expected"),
    [
        (calibration_error, 50, expected_calibration_error(50)),
        (paper_calibration_error, 40, 332.5 / 40),
        (integrated_calibration_error, 30, 1 / 180),
    ],
)
def test_expected_error_is_the_mean_over_perfect_models(
    metric: Callable[[torch.Tensor], float],
    n: int,
    expected: float,
    generator: torch.Generator,
) -> None:
    errors = [metric(torch.rand(n, generator=generator)) for _ in range(2000)]
    assert np.mean(errors) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"levels": 0}, "levels must be a whole number >= 1, got 0"),
        ({"levels": [0.5, 1.5]}, r"level must lie in \[0, 1\]"),
        ({"levels": [[0.5]]}, r"levels must be a count or have shape \(k,\)"),
        ({"levels": []}, r"levels must be a count or have shape \(k,\)"),
        ({"kind": "central"}, "kind must be 'quantile' or 'interval', got 'central'"),
        ({"reduction": "max"}, "reduction must be one of sum, mean, root_mean"),
        ({"pit": [[0.5, 0.5]]}, r"pit must have shape \(n,\), got \(1, 2\)"),
        ({"pit": []}, r"pit must have shape"),
        ({"pit": [0.5, 2.0]}, r"pit must lie in \[0, 1\]"),
        ({"pit": [0.5, float("nan")]}, r"pit must lie in \[0, 1\]"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        calibration_error(**{"pit": [0.5], **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "levels"), [(0, 20), (5, 0)])
def test_no_rows_or_levels_are_refused(n: int, levels: int) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        expected_calibration_error(n, levels=levels)


def test_area_of_a_line_that_crosses_the_diagonal() -> None:
    # Through (0, 0), (1/3, 1/2), (2/3, 1/2), (1, 1): gaps 0, 1/6, -1/6, 0.
    area = miscalibration_area([0.1, 0.9], levels=3)
    triangle = 1 / 3 * 1 / 6 / 2
    assert area == pytest.approx(2 * triangle + triangle)
    # All mass at 0: the line runs from (0, 1) to (1, 1).
    assert miscalibration_area([0.0, 0.0], levels=4) == pytest.approx(0.5)
    for levels in ([0.5], [0.5, 0.2]):
        with pytest.raises(InputError, match="at least two ascending numbers"):
            miscalibration_area([0.5], levels=levels)


def test_many_levels_come_to_the_same_area_and_integral() -> None:
    pit = torch.rand(40) ** 2
    mean = mean_absolute_calibration_error(pit, levels=20_000)
    assert miscalibration_area(pit, levels=20_000) == pytest.approx(mean, rel=1e-3)
    squares = calibration_error(pit, levels=20_000, reduction="mean")
    assert integrated_calibration_error(pit) == pytest.approx(squares, rel=1e-3)


def test_integral_by_hand_and_at_its_ends() -> None:
    # F is 0 below 1/2 and 1 above: twice the integral of p^2 over [0, 1/2].
    assert integrated_calibration_error([0.5]) == pytest.approx(1 / 12)
    assert integrated_calibration_error([0.0, 0.0]) == pytest.approx(1 / 3)
    best = (np.arange(10) + 0.5) / 10
    assert integrated_calibration_error(best) == pytest.approx(1 / 1200)


def test_coverage_and_width_by_hand() -> None:
    predictive = Gaussian([0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 2.0, 2.0])
    assert coverage(predictive, [1.6, 1.7, 13.2, 13.4], level=0.9) == 0.5
    width = 2 * 1.6448536269514722 * 1.5
    assert mean_width(predictive, level=0.9) == pytest.approx(width)
    for level in (0.0, 1.0):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            coverage(predictive, [0.0] * 4, level=level)
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            mean_width(predictive, level=level)


def test_ends_of_the_interval_belong_to_it() -> None:
    predictive = Empirical(torch.arange(1.0, 11.0)[:, None].expand(10, 4))
    lower, upper = predictive.interval(0.8)
    y = torch.stack([lower[0], lower[1] - 1e-9, upper[2], upper[3] + 1e-9])
    assert coverage(predictive, y, level=0.8) == 0.5


def test_calibrated_model_shows_the_level(generator: torch.Generator) -> None:
    stddev = 1 + torch.rand(40_000, generator=generator)
    y = stddev * torch.randn(40_000, generator=generator)
    predictive = Gaussian(torch.zeros(40_000), stddev)
    for level in (0.5, 0.8, 0.95):
        assert coverage(predictive, y, level=level) == pytest.approx(level, abs=0.01)
