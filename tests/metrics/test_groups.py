"""Calibration within groups, given the prediction, and in the worst of many groups."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, ks_2samp

from calibrant.distributions.normal import Gaussian
from calibrant.distributions.student_t import StudentT
from calibrant.metrics import floors
from calibrant.metrics.calibration import (
    calibration_error,
    expected_calibration_error,
)
from calibrant.metrics.floors import (
    gaps_of_counts,
    noise_floor,
    simulated_counts,
    squared_sum,
)
from calibrant.metrics.groups import (
    _distinct_columns,
    _group_rows,
    _quantile_codes,
    calibration_by,
    distribution_calibration,
    worst_group,
)
from calibrant.metrics.pit import (
    GriddedTargetWarning,
    numpy_generator,
)
from calibrant.validation import InputError


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


def test_is_reproducible_and_takes_tensors() -> None:
    pit = uniform(80)
    keys = {"x": uniform(80, 1)}
    first = worst_group(pit, keys, draws=100)
    tensors = {"x": torch.tensor(keys["x"], requires_grad=True)}
    assert worst_group(torch.tensor(pit), tensors, draws=100) == first


def predictions(
    n: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, generator=generator)
    return mean, 0.3 + 1.5 * torch.rand(n, generator=generator), generator


def test_perfect_models_are_rejected_at_the_stated_rate() -> None:
    models = 400
    found = []
    for seed in range(models):
        mean, spread, generator = predictions(200, seed)
        law = Gaussian(mean, spread)
        y = law.sample(generator=generator)
        found.append(distribution_calibration(law, y, draws=200, seed=seed))
    low, high = binom.interval(0.999, models, 0.05)
    assert low <= sum(each.p_value <= 0.05 for each in found) <= high
    excess = np.array([each.excess for each in found])
    assert abs(excess.mean()) < 4 * excess.std() / models**0.5


def test_catches_a_model_that_is_right_on_average_only() -> None:
    """It says a spread at random, and the law of all targets together is right."""
    generator = torch.Generator().manual_seed(0)
    n = 1000
    claimed = torch.where(torch.rand(n, generator=generator) < 0.5, 0.6, 1.6)
    true = torch.where(torch.rand(n, generator=generator) < 0.5, 0.6, 1.6)
    law = Gaussian(torch.randn(n, generator=generator), claimed)
    z = torch.randn(n, generator=generator)
    # The PIT values of a mixture of both ratios are made uniform by hand: every row
    # gets the rank of its z among all, so that only the groups are wrong.
    z = z * true / claimed
    rank = z.argsort().argsort()
    y = law.quantile((rank + 0.5) / n)
    assert noise_floor(n=n).p_value(calibration_error(law.cdf(y))) > 0.5
    result = distribution_calibration(law, y)
    assert result.p_value < 0.01
    assert result.value > 2 * result.floor


def test_value_and_floor_by_hand() -> None:
    mean = torch.linspace(0, 1, 80)
    spread = 1 + torch.arange(80) % 2 * 0.5 + mean / 100
    law = Gaussian(mean, spread)
    y = law.sample(generator=torch.Generator().manual_seed(0))
    result = distribution_calibration(law, y, bins=2)
    pit = law.cdf(y)
    groups = [pit[start : start + 40][odd::2] for start in (0, 40) for odd in (0, 1)]
    by_hand = np.mean([calibration_error(each.contiguous()) for each in groups])
    assert result.value == pytest.approx(by_hand)
    assert result.floor == pytest.approx(expected_calibration_error(20))
    assert result.excess == pytest.approx(result.value - result.floor)
    assert (result.groups, result.n) == (4, 80)


@pytest.mark.parametrize(("n", "groups"), [(15, 1), (50, 2), (100, 4), (400, 16)])
def test_few_rows_make_few_groups(n: int, groups: int) -> None:
    mean, spread, generator = predictions(n, 0)
    law = Gaussian(mean, spread)
    y = law.sample(generator=generator)
    assert distribution_calibration(law, y, draws=40).groups == groups


def test_a_rounded_target_is_treated_as_such() -> None:
    generator = torch.Generator().manual_seed(0)
    law = Gaussian(5.5 + 0.1 * torch.randn(500, generator=generator), 0.8)
    y = law.sample(generator=generator).round()
    with pytest.warns(GriddedTargetWarning):
        assert distribution_calibration(law, y).p_value > 0.01


def test_a_law_without_a_variance_is_grouped_by_its_quartiles() -> None:
    mean, spread, generator = predictions(400, 0)
    law = StudentT(torch.ones(400), mean, spread)
    y = law.sample(generator=generator)
    result = distribution_calibration(law, y)
    assert result.groups == 16
    assert result.p_value > 0.001


def test_takes_pit_values_that_are_there_already() -> None:
    mean, spread, generator = predictions(100, 0)
    law = Gaussian(mean, spread)
    y = law.sample(generator=generator)
    given = distribution_calibration(law, y, draws=40, pit=law.cdf(y))
    assert given == distribution_calibration(law, y, draws=40)


TEN = uniform(10)
THIRTY = Gaussian(np.zeros(30), np.ones(30)), np.linspace(-1, 1, 30)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: calibration_by(TEN, [1, 2, 3]), r"each of the 10 .* got \(3,\)"),
        (
            lambda: worst_group(TEN, {"x": np.ones((10, 1))}),
            r"keys\['x'\] must have one value",
        ),
        (
            lambda: calibration_by(TEN, np.arange(10).astype("datetime64[D]")),
            "numbers or names, got dtype datetime64",
        ),
        (lambda: calibration_by(TEN, TEN, bins=0), "bins must be a whole number >= 1"),
        (lambda: worst_group(TEN, {}), "at least one column"),
        (lambda: worst_group(TEN, {"x": TEN}, levels=1), "whole number >= 2"),
        (lambda: calibration_by(TEN + 1, TEN), r"lie in \[0, 1\]"),
        (lambda: distribution_calibration(*THIRTY, bins=0), "bins must be a whole"),
        (lambda: distribution_calibration(*THIRTY, levels=1), "whole number >= 2"),
        (lambda: distribution_calibration(*THIRTY, draws=1), "draws must be"),
        (
            lambda: distribution_calibration(*THIRTY, pit=uniform(29)),
            "each of 30 targets, got 29",
        ),
    ],
)
def test_names_what_is_wrong(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


COLUMNS = arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.one_of(
        st.floats(-1e6, 1e6), st.integers(-3, 12).map(float), st.just(np.inf)
    ),
)


@given(COLUMNS, st.integers(1, 12))
def test_quantile_codes_are_those_of_numpys_quantiles(
    column: np.ndarray, bins: int
) -> None:
    inner = np.quantile(column, np.arange(1, bins) / bins, method="inverted_cdf")
    codes = np.searchsorted(inner, column, side="left")
    plain = np.unique(codes, return_inverse=True)[1].reshape(-1)
    np.testing.assert_array_equal(_quantile_codes(column, bins), plain)


@given(COLUMNS, st.integers(1, 12))
def test_groups_of_numbers(column: np.ndarray, bins: int) -> None:
    distinct = np.unique(column)
    few = len(distinct) <= max(8, bins)
    codes = np.searchsorted(distinct, column) if few else _quantile_codes(column, bins)
    groups = _group_rows(column, bins=bins, n=len(column))
    np.testing.assert_array_equal(groups.codes, codes)
    for code, (low, high) in enumerate(zip(groups.low, groups.high, strict=True)):
        members = column[codes == code]
        assert (low, high) == (members.min(), members.max())
    assert len(groups.labels) == codes.max() + 1


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_distinct_columns(keys: int) -> None:
    rng = np.random.default_rng(0)
    # Codes of later keys start where those of the key before end.
    codes = rng.integers(3, size=(keys, 200)) + 3 * np.arange(keys)[:, None]
    codes[0, codes[0] == 1] = 2
    columns, counts = np.unique(codes, axis=1, return_counts=True)
    found = _distinct_columns(codes, 3 * keys)
    np.testing.assert_array_equal(found[0], columns)
    np.testing.assert_array_equal(found[1], counts)


@pytest.mark.parametrize("levels", [20, 100])
def test_normal_counts_have_the_law_of_multinomial_ones(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten times fewer rows per cell than normal counts are used from.
    rows = np.array([20 * levels])
    errors = []
    for least in (20, 10**6):
        monkeypatch.setattr(floors, "_MANY_PER_CELL", least)
        counts = simulated_counts(
            numpy_generator(least), rows, levels=levels, draws=5000
        )
        errors.append(squared_sum(gaps_of_counts(counts))[:, 0])
    assert ks_2samp(*errors).pvalue > 0.01
    expected = expected_calibration_error(int(rows[0]), levels=levels)
    assert np.mean(errors[0]) == pytest.approx(expected, rel=0.03)
    for level in (0.5, 0.9, 0.99):
        normal, exact = (np.quantile(each, level) for each in errors)
        assert normal == pytest.approx(exact, rel=0.15)
