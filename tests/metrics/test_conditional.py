"""Calibration within groups, and the worst of many groups."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import binom

from calibrant._checks import InputError
from calibrant.metrics.calibration import calibration_error, expected_calibration_error
from calibrant.metrics.conditional import calibration_by, worst_group
from calibrant.metrics.noise import noise_floor


def uniform(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(n)


def too_sure(pit: np.ndarray) -> np.ndarray:
    """PIT values of a model whose spread is too small: pushed to both ends."""
    return 0.5 + np.sign(pit - 0.5) * np.abs(2 * pit - 1) ** 0.5 / 2


def test_each_group_is_measured_on_its_own_rows() -> None:
    pit = uniform(400)
    key = np.arange(400) / 7
    groups = calibration_by(pit, key)
    assert [group.rows for group in groups] == [100] * 4
    second = groups[1]
    mine = pit[100:200]
    assert second.label == "14.29 to 28.43"
    assert (second.low, second.high) == (key[100], key[199])
    assert second.calibration_error == pytest.approx(calibration_error(mine))
    assert second.floor == expected_calibration_error(100)
    assert second.p_value == noise_floor(n=100).p_value(second.calibration_error)
    assert second.coverage_50 == pytest.approx(((mine > 0.25) & (mine < 0.75)).mean())
    assert second.coverage_90 == pytest.approx(((mine > 0.05) & (mine < 0.95)).mean())
    assert second.range_90 == (0.84, 0.95)
    assert second.range_50 == (0.4, 0.6)


def test_few_values_names_and_missing_ones_make_a_group_each() -> None:
    pit = uniform(6)
    by_value = calibration_by(pit, torch.tensor([2, 0, 0, 2, 7, 7]), bins=2)
    assert [(group.label, group.rows) for group in by_value] == [
        ("0", 2),
        ("2", 2),
        ("7", 2),
    ]
    by_name = calibration_by(
        pit, np.array(["b", "a", None, "b", math.nan, "b"], object)
    )
    assert [(group.label, group.rows) for group in by_name] == [
        ("a", 1),
        ("b", 3),
        ("missing", 2),
    ]
    assert by_name[0].low is by_name[0].high is None
    lost = calibration_by(pit, [1.0, math.nan, 1.0, 0.5, 0.5, math.nan])
    assert [(group.label, group.rows) for group in lost] == [
        ("0.5", 2),
        ("1", 2),
        ("missing", 2),
    ]
    assert len(calibration_by(pit, [True, False] * 3)) == 2
    nothing = calibration_by(pit, [math.nan] * 6)
    assert [group.label for group in nothing] == ["missing"]


def test_quantile_groups_keep_equal_values_together() -> None:
    key = np.r_[np.zeros(60), np.arange(1, 41)]
    groups = calibration_by(uniform(100), key, bins=4)
    assert [(group.low, group.rows) for group in groups] == [(0, 60), (1, 15), (16, 25)]
    assert (
        sum(group.rows for group in calibration_by(uniform(101), uniform(101))) == 101
    )


def test_a_model_that_is_right_on_average_only_is_caught() -> None:
    """Too sure in one half, too timid in the other: PIT values uniform over all."""
    pit = uniform(2000)
    # The outer half of the values belongs to the rows of small spread.
    key = np.where(np.abs(pit - 0.5) > 0.25, 0.5, 1.5)
    assert noise_floor(n=2000).p_value(calibration_error(pit)) > 0.05
    for group in calibration_by(pit, key):
        assert group.p_value < 0.001
        assert not group.range_50[0] <= group.coverage_50 <= group.range_50[1]


def overlapping(n: int) -> dict[str, np.ndarray]:
    """Columns that say much the same, and one of names."""
    rng = np.random.default_rng(1000)
    base = rng.normal(size=n)
    keys = {f"x{i}": base + 0.3 * i * rng.normal(size=n) for i in range(8)}
    return {**keys, "name": rng.choice(["a", "b", "c"], n)}


def few_blocks(n: int) -> dict[str, np.ndarray]:
    """Columns by which many rows share all their groups."""
    return {"a": np.arange(n) % 2, "b": np.arange(n) % 3, "c": np.arange(n) % 2}


@pytest.mark.parametrize("make", [overlapping, few_blocks])
def test_worst_group_keeps_its_level(make: Callable[[int], dict]) -> None:
    models, n = 200, 120
    keys = make(n)
    results = [
        worst_group(uniform(n, seed), keys, levels=10, draws=99, seed=seed)
        for seed in range(models)
    ]
    for level in (0.05, 0.5):
        low, high = binom.interval(0.999, models, level)
        assert low <= sum(each.p_value <= level for each in results) <= high
    # What a search that forgets how many groups it looked at would claim.
    claimed = sum(each.group.p_value <= 0.05 for each in results) / models
    assert claimed > (0.5 if make is overlapping else 0.1)
    assert np.mean([each.bonferroni >= each.p_value for each in results]) > 0.9
    assert results[0].tested == (35 if make is overlapping else 7)


def test_worst_group_finds_the_group_that_is_wrong() -> None:
    n = 600
    keys = overlapping(n)
    pit = uniform(n, 1)
    wrong = keys["name"] == "b"
    pit[wrong] = too_sure(pit[wrong])
    worst = worst_group(pit, keys)
    assert (worst.key, worst.group.label) == ("name", "b")
    assert worst.p_value < 0.01
    assert worst.group == calibration_by(pit, keys["name"])[1]


def test_a_million_rows_in_a_few_groups() -> None:
    pit = uniform(1_000_000)
    worst = worst_group(pit, {"half": np.arange(1_000_000) % 2}, draws=200)
    assert worst.group.rows == 500_000
    assert worst.p_value > 0.001


def test_is_reproducible_and_takes_tensors() -> None:
    pit = uniform(80)
    keys = {"x": uniform(80, 1)}
    first = worst_group(pit, keys, draws=100)
    tensors = {"x": torch.tensor(keys["x"], requires_grad=True)}
    assert worst_group(torch.tensor(pit), tensors, draws=100) == first


def test_names_what_is_wrong() -> None:
    pit = uniform(10)
    with pytest.raises(InputError, match=r"each of the 10 PIT values.* got \(3,\)"):
        calibration_by(pit, [1, 2, 3])
    with pytest.raises(InputError, match=r"keys\['x'\] must have one value"):
        worst_group(pit, {"x": np.ones((10, 1))})
    with pytest.raises(InputError, match=r"numbers or names, got dtype datetime64"):
        calibration_by(pit, np.arange(10).astype("datetime64[D]"))
    with pytest.raises(InputError, match="bins must be a whole number >= 1"):
        calibration_by(pit, pit, bins=0)
    with pytest.raises(InputError, match="at least one column"):
        worst_group(pit, {})
    with pytest.raises(InputError, match="levels must be a whole number >= 2"):
        worst_group(pit, {"x": pit}, levels=1)
    with pytest.raises(InputError, match=r"lie in \[0, 1\]"):
        calibration_by(pit + 1, pit)
