"""Mean gap, root mean square gap, area and integral of the calibration curve."""

import numpy as np
import pytest
import torch

from calibrant import InputError
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.miscalibration import (
    integrated_calibration_error,
    mean_absolute_calibration_error,
    miscalibration_area,
    root_mean_squared_calibration_error,
)


def test_mean_gaps_by_hand() -> None:
    # Observed 0, 1 where 0.5, 1 were promised.
    assert mean_absolute_calibration_error([0.6, 0.7], levels=2) == 0.25
    root = root_mean_squared_calibration_error([0.6, 0.7], levels=2)
    assert root == pytest.approx(0.125**0.5)


def test_area_of_a_line_that_crosses_the_diagonal() -> None:
    # Through (0, 0), (1/3, 1/2), (2/3, 1/2), (1, 1): gaps 0, 1/6, -1/6, 0.
    area = miscalibration_area([0.1, 0.9], levels=3)
    triangle = 1 / 3 * 1 / 6 / 2
    assert area == pytest.approx(2 * triangle + triangle)


def test_area_starts_at_level_zero() -> None:
    # All mass at 0: the line runs from (0, 1) to (1, 1).
    assert miscalibration_area([0.0, 0.0], levels=4) == pytest.approx(0.5)


def test_numpy_count_is_a_count() -> None:
    pit = torch.rand(20)
    area = miscalibration_area(pit, levels=7)
    assert miscalibration_area(pit, levels=np.int64(7)) == area


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


def test_integral_of_a_perfect_model_averages_one_sixth_of_the_rows(
    generator: torch.Generator,
) -> None:
    errors = [
        integrated_calibration_error(torch.rand(30, generator=generator))
        for _ in range(2000)
    ]
    assert np.mean(errors) == pytest.approx(1 / 180, rel=0.06)


@pytest.mark.parametrize("levels", [[0.5], [0.5, 0.2]])
def test_area_needs_ascending_levels(levels: list[float]) -> None:
    with pytest.raises(InputError, match="at least two ascending numbers"):
        miscalibration_area([0.5], levels=levels)


def test_batches_of_pit_values_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(n,\), got \(2, 3\)"):
        integrated_calibration_error(torch.rand(2, 3))
