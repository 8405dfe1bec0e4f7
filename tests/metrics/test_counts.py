"""Codes of groups and simulated counts, against their plain forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ks_2samp

from calibrant.metrics import _counts
from calibrant.metrics._counts import (
    cells_between,
    numpy_generator,
    quantile_codes,
    simulated_counts,
    simulated_gaps,
)
from calibrant.metrics._keys import group_rows
from calibrant.metrics.calibration import expected_calibration_error
from calibrant.metrics.conditional import _distinct_columns
from calibrant.metrics.miscalibration import integrated_squares
from calibrant.metrics.pit import TargetGrid, _surely_continuous, detect_grid
from calibrant.metrics.variance import spread_bins
from calibrant.regularizers.divergences import cramer_von_mises

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
    np.testing.assert_array_equal(quantile_codes(column, bins), plain)


@given(COLUMNS, st.integers(1, 12))
def test_groups_of_numbers(column: np.ndarray, bins: int) -> None:
    distinct = np.unique(column)
    few = len(distinct) <= max(8, bins)
    codes = np.searchsorted(distinct, column) if few else quantile_codes(column, bins)
    groups = group_rows(column, bins=bins, n=len(column))
    np.testing.assert_array_equal(groups.codes, codes)
    for code, (low, high) in enumerate(zip(groups.low, groups.high, strict=True)):
        members = column[codes == code]
        assert (low, high) == (members.min(), members.max())
    assert len(groups.labels) == codes.max() + 1


def test_a_column_of_missing_numbers_is_one_group() -> None:
    groups = group_rows(np.full(3, np.nan), bins=4, n=3)
    assert groups.labels == ("missing",)
    assert groups.codes.tolist() == [0, 0, 0]


def test_many_edges_are_searched() -> None:
    values, edges = np.random.default_rng(0).random(300), np.arange(1, 40) / 40
    plain = (values[:, None] > edges).sum(1)
    np.testing.assert_array_equal(cells_between(values, edges), plain)
    np.testing.assert_array_equal(cells_between(values, edges[:9]), plain.clip(max=9))


@pytest.mark.parametrize("count", [9, 39])
def test_a_value_on_an_edge(count: int) -> None:
    edges = np.arange(1.0, count + 1)
    np.testing.assert_array_equal(cells_between(edges, edges), edges - 1)
    above = cells_between(edges, edges, edge_above=True)
    np.testing.assert_array_equal(above, edges)


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_distinct_columns(keys: int) -> None:
    rng = np.random.default_rng(0)
    # Codes of later keys start where those of the key before end.
    codes = rng.integers(3, size=(keys, 200)) + 3 * np.arange(keys)[:, None]
    codes[0, codes[0] == 1] = 2
    columns, counts = np.unique(codes, axis=1, return_counts=True)
    found = _distinct_columns(codes)
    np.testing.assert_array_equal(found[0], columns)
    np.testing.assert_array_equal(found[1], counts)


@pytest.mark.parametrize("bins", [1, 10, 30])
@pytest.mark.parametrize("ties", [False, True])
def test_spread_bins_against_a_search(bins: int, ties: bool) -> None:
    by = torch.rand(500).round(decimals=1) if ties else torch.rand(500)
    first = torch.arange(1, bins) * 500 // bins
    index = torch.bucketize(by, by.sort().values[first], right=True)
    _, index, count = index.unique(return_inverse=True, return_counts=True)
    found = spread_bins(by, by.square(), bins=bins)
    assert torch.equal(found.bin_of, index)
    torch.testing.assert_close(found.weight, count / 500)


def test_integrated_squares_is_cramer_von_mises() -> None:
    pit = torch.rand(3, 50)
    found = torch.from_numpy(integrated_squares(pit.numpy()))
    torch.testing.assert_close(found, cramer_von_mises(pit))


@pytest.mark.parametrize("levels", [20, 100])
def test_normal_counts_have_the_law_of_multinomial_ones(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten times fewer rows per cell than normal counts are used from.
    rows = np.array([20 * levels])
    errors = []
    for least in (20, 10**6):
        monkeypatch.setattr(_counts, "_MANY_PER_CELL", least)
        errors.append(simulated_gaps(rows, levels=levels, draws=5000, seed=least)[:, 0])
    assert ks_2samp(*errors).pvalue > 0.01
    expected = expected_calibration_error(int(rows[0]), levels=levels)
    assert np.mean(errors[0]) == pytest.approx(expected, rel=0.03)
    for level in (0.5, 0.9, 0.99):
        normal, exact = (np.quantile(each, level) for each in errors)
        assert normal == pytest.approx(exact, rel=0.15)


def test_normal_counts_sum_to_the_rows() -> None:
    rows = np.array([4000, 9000])
    counts = simulated_counts(numpy_generator(0), rows, levels=20, draws=7)
    assert counts.shape == (7, 2, 20)
    np.testing.assert_allclose(counts.sum(-1), np.broadcast_to(rows, (7, 2)))


@pytest.mark.parametrize(
    ("column", "grid"),
    [
        (np.arange(5000) / 7, None),
        (np.minimum(np.arange(5000), 4900) / 7, TargetGrid(upper_cap=700)),
        (np.maximum(np.arange(5000), 70) / 7, TargetGrid(lower_cap=10)),
        (np.arange(5000) // 10, TargetGrid(step=1)),
        (np.arange(5000) // 9, None),
        (np.repeat([1.0, 2.0], 600), TargetGrid(step=1)),
    ],
    ids=["continuous", "capped", "floored", "rounded", "finely", "two"],
)
def test_a_quick_look_finds_the_same_grid(
    column: np.ndarray, grid: TargetGrid | None
) -> None:
    shuffled = np.random.default_rng(0).permutation(column).astype(np.float64)
    for values in (column.astype(np.float64), shuffled):
        assert detect_grid(values) == grid
        assert not (_surely_continuous(values) and grid is not None)
