"""Calibration of the worst random group."""

from itertools import combinations

import numpy as np
import pytest
import torch

from calibrant import InputError
from calibrant.metrics.adversarial import (
    adversarial_group_calibration,
    worst_group_calibration_error,
)
from calibrant.metrics.miscalibration import mean_absolute_calibration_error

PIT = np.random.default_rng(1).uniform(size=200) ** 1.5


@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_group_of_all_rows_shows_the_error_of_all_rows(kind: str) -> None:
    levels = [0.9, 0.05, 0.3]  # in any order
    result = adversarial_group_calibration(
        PIT, fractions=[1.0], levels=levels, kind=kind
    )
    expected = mean_absolute_calibration_error(PIT, levels=levels, kind=kind)
    assert result.error.item() == pytest.approx(expected)
    assert result.standard_error.item() == pytest.approx(0, abs=1e-15)


def test_one_group_per_trial_averages_all_subsets() -> None:
    pit = np.array([0.05, 0.22, 0.5, 0.61, 0.97])
    errors = [
        mean_absolute_calibration_error(pit[list(chosen)], levels=7)
        for chosen in combinations(range(5), 3)
    ]
    result = adversarial_group_calibration(
        pit, fractions=[0.6], levels=7, groups=1, trials=20_000
    )
    assert result.error.item() == pytest.approx(np.mean(errors), rel=0.01)
    worst = adversarial_group_calibration(
        pit, fractions=[0.6], levels=7, groups=500, trials=2
    )
    assert worst.error.item() == pytest.approx(max(errors))


def test_smaller_groups_look_worse() -> None:
    result = adversarial_group_calibration(PIT, trials=50)
    assert result.fraction.tolist() == [tenth / 10 for tenth in range(1, 11)]
    assert result.error[0] > result.error[4] > result.error[9]


def test_standard_error_is_that_of_the_mean() -> None:
    few = adversarial_group_calibration(PIT, fractions=[0.2], trials=100)
    spread = [
        adversarial_group_calibration(
            PIT,
            fractions=[0.2],
            trials=100,
            generator=torch.Generator().manual_seed(seed),
        ).error.item()
        for seed in range(60)
    ]
    assert few.standard_error.item() == pytest.approx(np.std(spread), rel=0.35)


def test_same_seed_same_result_and_the_default_is_a_seed() -> None:
    first, second = (
        worst_group_calibration_error(PIT, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert first == second
    assert worst_group_calibration_error(PIT) == worst_group_calibration_error(PIT)
    assert worst_group_calibration_error(PIT) != first


def test_global_state_of_randomness_is_left_alone() -> None:
    before = torch.get_rng_state()
    worst_group_calibration_error(PIT)
    assert torch.equal(before, torch.get_rng_state())


def test_tiny_data_sets() -> None:
    assert worst_group_calibration_error([0.5]) == pytest.approx(
        mean_absolute_calibration_error([0.5])
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fractions": [0.0]}, "above 0 and at most at 1"),
        ({"fractions": [10]}, "Write 0.1 for groups of a tenth"),
        ({"fractions": 0.5}, r"fractions must have shape \(k,\)"),
        ({"groups": 0}, "groups must be at least 1"),
        ({"trials": 1}, "trials at least 2, got groups=10 and trials=1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        adversarial_group_calibration(PIT, **options)  # type: ignore[arg-type]
