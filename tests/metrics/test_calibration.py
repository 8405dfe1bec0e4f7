"""The calibration curve and its squared error."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import Gaussian, InputError, PitValues
from calibrant.metrics.calibration import (
    calibration_curve,
    calibration_error,
    expected_calibration_error,
    paper_calibration_error,
)

# Multiples of 1/40 hit levels exactly, where "at most" must include them.
PIT = arrays(
    np.float64,
    st.integers(1, 30),
    elements=st.one_of(st.floats(0, 1), st.sampled_from(list(np.arange(41) / 40))),
)


@given(PIT)
def test_curve_is_the_share_at_most_each_level(pit: np.ndarray) -> None:
    promised, observed = calibration_curve(pit)
    table = (pit[:, None] <= np.arange(1, 21) / 20).mean(0)
    np.testing.assert_allclose(promised, np.arange(1, 21) / 20, rtol=0)
    np.testing.assert_allclose(observed, table, rtol=1e-15)


@given(PIT)
def test_interval_curve_is_the_share_inside_central_intervals(pit: np.ndarray) -> None:
    levels = np.array([0.13, 0.5, 0.97])
    _, observed = calibration_curve(pit, levels=levels, kind="interval")
    table = (np.abs(2 * pit[:, None] - 1) <= levels).mean(0)
    np.testing.assert_allclose(observed, table, rtol=1e-15)


def test_levels_keep_the_order_they_came_in() -> None:
    promised, observed = calibration_curve([0.1, 0.4, 0.6], levels=[0.5, 0.2, 0.5])
    assert promised.tolist() == [0.5, 0.2, 0.5]
    np.testing.assert_allclose(observed, [2 / 3, 1 / 3, 2 / 3])


def test_float32_values_on_a_level_count() -> None:
    pit = torch.arange(1, 21, dtype=torch.float32) / 20
    assert calibration_error(pit) == 0


def test_error_by_hand() -> None:
    # Observed 1, 1 where 0.5, 1 were promised.
    assert calibration_error([0.1, 0.3], levels=2) == 0.25
    assert calibration_error([0.1, 0.3], levels=2, reduction="mean") == 0.125
    root = calibration_error([0.1, 0.3], levels=2, reduction="root_mean")
    assert root == pytest.approx(0.125**0.5)


def test_evenly_spread_values_have_no_error() -> None:
    assert calibration_error((np.arange(100) + 1) / 100) == pytest.approx(0, abs=1e-28)


def test_papers_error_is_a_hundred_times_the_sum_over_twenty_levels() -> None:
    pit = np.linspace(0, 1, 57) ** 2
    levels = np.arange(1, 21) / 20
    by_hand = 100 * (((pit[:, None] <= levels).mean(0) - levels) ** 2).sum()
    assert paper_calibration_error(pit) == pytest.approx(by_hand)


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_papers_error_at_its_worst(side: float) -> None:
    assert paper_calibration_error([side] * 9) == pytest.approx(617.5)


def test_mirrored_values_have_the_same_interval_error() -> None:
    pit = torch.rand(99)
    error = calibration_error(pit, kind="interval")
    assert calibration_error(1 - pit, kind="interval") == pytest.approx(error)


def test_intervals_cannot_see_a_bias_that_quantiles_see() -> None:
    # Uniform |2u - 1|, but all targets below the median.
    pit = (np.arange(1000) + 0.5) / 2000
    assert calibration_error(pit, kind="interval") < 1e-3
    assert calibration_error(pit) > 1


def test_takes_pit_values_with_both_tails() -> None:
    law, y = Gaussian(torch.zeros(50), 1.0), torch.randn(50)
    pit = law.pit(y)
    assert isinstance(pit, PitValues)
    assert calibration_error(pit) == calibration_error(law.cdf(y))


def test_expected_error_is_the_mean_over_perfect_models(
    generator: torch.Generator,
) -> None:
    errors = [
        calibration_error(torch.rand(50, generator=generator)) for _ in range(2000)
    ]
    assert np.mean(errors) == pytest.approx(expected_calibration_error(50), rel=0.05)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"levels": 0}, "levels must be at least 1, got 0"),
        ({"levels": [0.5, 1.5]}, r"level must lie in \[0, 1\]"),
        ({"levels": [[0.5]]}, r"levels must be a count or have shape \(k,\)"),
        ({"levels": []}, r"levels must be a count or have shape \(k,\)"),
        ({"kind": "central"}, "kind must be 'quantile' or 'interval', got 'central'"),
        ({"reduction": "max"}, "reduction must be one of sum, mean, root_mean"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        calibration_error([0.5], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pit", "text"),
    [
        ([[0.5, 0.5]], r"pit must have shape \(n,\), got \(1, 2\)"),
        ([], r"pit must have shape"),
        ([0.5, 2.0], r"pit must lie in \[0, 1\]"),
        ([0.5, float("nan")], r"pit must lie in \[0, 1\]"),
    ],
)
def test_bad_values_are_refused(pit: list[float], text: str) -> None:
    with pytest.raises(InputError, match=text):
        calibration_error(pit)


@pytest.mark.parametrize(("n", "levels"), [(0, 20), (5, 0)])
def test_no_rows_or_levels_are_refused(n: int, levels: int) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        expected_calibration_error(n, levels=levels)
