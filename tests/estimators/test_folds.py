"""Which rows are linked, who learns from which, and rows whose order matters."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.estimators import CalibratedRegressor, SerialDependenceWarning
from calibrant.estimators.folds import (
    Blocks,
    Design,
    design_for,
    linked_rows,
    warn_of_order,
)
from calibrant.validation import InputError

Labels = npt.NDArray[np.int64]


def random() -> np.random.Generator:
    return np.random.default_rng(0)


def labels_of(sizes: Sequence[int]) -> Labels:
    """Blocks of these sizes, their rows scattered."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return random().permutation(labels)


block_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=40)


def linked_by_hand(x: Labels, groups: Labels) -> list[set[int]]:
    """Join sets of rows until nothing changes."""
    sets = [{row} for row in range(len(x))]
    joined = True
    while joined:
        joined = False
        for a in range(len(sets)):
            for b in range(a):
                together = any(
                    x[i] == x[j] or groups[i] == groups[j]
                    for i in sets[a]
                    for j in sets[b]
                )
                if together:
                    sets[b] |= sets.pop(a)
                    joined = True
                    break
            if joined:
                break
    return sets


class TestLinkedRows:
    @given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 5))
    def test_every_copy_shares_the_label(self, n: int, d: int, seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((n, d))
        order = np.random.default_rng(seed).permutation(2 * n)
        twice = np.concatenate([x, x])[order]
        labels = linked_rows(twice, None)
        source = order % n
        if 2 * n < 6:  # of so few rows any pair is a large share
            return
        for row in range(n):
            assert len(set(labels[source == row])) == 1
        assert len(set(labels)) == n

    @settings(max_examples=25)
    @given(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=30, max_size=40
        )
    )
    def test_links_go_through_others(self, rows: list[tuple[int, int]]) -> None:
        x, groups = np.array(rows).T
        if np.bincount(x).max() > 10:
            return
        labels = linked_rows(x[:, None].astype(float), groups)
        expected = linked_by_hand(x, groups)
        found = [set(np.flatnonzero(labels == each)) for each in np.unique(labels)]
        assert sorted(map(sorted, found)) == sorted(map(sorted, expected))

    def test_zero_has_no_sign(self) -> None:
        x = np.array([[0.0, 1], [-0.0, 1], [2, 1], [3, 1], [4, 1], [0, 2]])
        assert linked_rows(x, None).tolist() == [0, 0, 1, 2, 3, 4]

    def test_a_common_case_is_no_copy(self) -> None:
        months = np.tile(np.arange(12.0), 50)[:, None]  # each a twelfth of the rows
        assert len(set(linked_rows(months, None))) == 600
        constant = np.ones((7, 3))
        assert len(set(linked_rows(constant, None))) == 7

    def test_a_calendar_links_no_moments(self) -> None:
        weekday = np.tile(np.arange(7.0), 5)[:, None]
        time = np.arange(35)
        assert len(set(linked_rows(weekday, None))) == 7
        assert len(set(linked_rows(weekday, None, time=time))) == 35
        assert len(set(linked_rows(weekday, weekday[:, 0], time=time))) == 7

    @pytest.mark.parametrize(
        "groups",
        [
            ["a", "b", "a", "c", "d", "e"],
            np.array(["a", "b", "a", "c", "d", "e"], dtype=object),
            pd.Series(["a", "b", "a", "c", "d", "e"], dtype="category"),
            [1, 2, 1, 3, 4, 5],
            np.array([1, "b", 1, None.__class__, 2.5, (1, 2)], dtype=object),
            pd.to_datetime(["2020", "2021", "2020", "2022", "2023", "2024"]),
        ],
    )
    def test_groups_of_any_type(self, groups: Sequence[object]) -> None:
        x = np.arange(6.0)[:, None]
        assert linked_rows(x, groups).tolist() == [0, 1, 0, 2, 3, 4]

    @pytest.mark.parametrize(
        "groups",
        [
            [1.0, np.nan, 2.0],
            ["a", None, "b"],
            pd.Series([1, None, 2], dtype="Int64"),
            pd.to_datetime(["2020", None, "2021"]),
        ],
    )
    def test_a_missing_group_is_no_group(self, groups: Sequence[object]) -> None:
        with pytest.raises(InputError, match=r"gaps, and 1 of 3 .* label of their own"):
            linked_rows(np.arange(3.0)[:, None], groups)


class TestFolds:
    @given(block_sizes, st.integers(2, 6), st.integers(0, 3))
    def test_cover_all_rows_cut_no_block_and_are_balanced(
        self, sizes: list[int], count: int, seed: int
    ) -> None:
        labels = labels_of(sizes)
        blocks = Blocks(labels)
        if len(sizes) < 2:
            with pytest.raises(InputError, match=r"at least two .* there are 1"):
                blocks.folds(count, random())
            return
        folds = blocks.folds(count, np.random.default_rng(seed))
        assert set(folds) == set(range(min(count, len(sizes))))
        for each in range(len(sizes)):
            assert len(set(folds[labels == each])) == 1
        filled = np.bincount(folds)
        assert filled.max() - filled.min() <= max(sizes)

    @given(st.integers(2, 60), st.integers(2, 6), st.integers(0, 3))
    def test_with_time_are_stretches(self, n: int, count: int, seed: int) -> None:
        time = np.random.default_rng(seed).permutation(n)
        blocks = Blocks(np.arange(n), time)
        folds = blocks.folds(count, random())[time.argsort()]
        assert (np.diff(folds) >= 0).all()
        assert set(folds) == set(range(min(count, n)))
        filled = np.bincount(folds)
        assert filled.max() - filled.min() <= 1

    @pytest.mark.parametrize(("moments", "expected"), [(4, 10), (5, 5), (7, 7)])
    def test_of_groups_in_time_are_stretches_from_five_moments_on(
        self, moments: int, expected: int
    ) -> None:
        groups, time = np.arange(60) // 2, np.arange(60) // 2 % moments
        folds = Blocks(groups, time).folds(10, random())
        assert len(set(folds)) == expected
        if expected == moments:
            assert (folds == time).all()

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=20, max_size=50
        ),
        st.integers(0, 5),
    )
    def test_rows_to_test_on_are_later_and_of_other_groups(
        self, rows: list[tuple[int, int]], seed: int
    ) -> None:
        groups, time = np.array(rows).T
        blocks = Blocks(np.unique(groups, return_inverse=True)[1], time)
        try:
            learned, held = blocks.hold_out(0.2, np.random.default_rng(seed))
        except InputError:
            assert min(len(set(groups)), len(set(time))) == 1
            return
        assert time[learned].max() < time[held].min()
        assert not set(groups[learned]) & set(groups[held])

    def test_groups_that_are_seen_at_all_times_can_be_cut(self) -> None:
        groups, time = np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60)
        blocks = Blocks(groups, time)
        learned, held = blocks.hold_out(0.2, random())
        assert (len(learned), len(held)) == (120, 30)
        folds = blocks.folds(5, random())
        assert np.bincount(folds).tolist() == [60] * 5
        assert all(len(set(folds[groups == group])) == 1 for group in range(60))
        larger, smaller = blocks.split(np.arange(300), 0.1, random())
        assert (len(larger), len(smaller)) == (270, 30)
        assert not set(groups[larger]) & set(groups[smaller])

    @settings(max_examples=40)
    @given(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=20, max_size=50
        )
    )
    def test_groups_in_time_are_never_cut(self, rows: list[tuple[int, int]]) -> None:
        groups, time = np.array(rows).T
        blocks = Blocks(np.unique(groups, return_inverse=True)[1], time)
        try:
            folds = blocks.folds(2, random())
        except InputError:
            return  # all groups begin in one moment
        for group in set(groups):
            assert len(set(folds[groups == group])) == 1


class TestSplit:
    @given(block_sizes, st.floats(0.05, 0.6), st.integers(0, 3))
    def test_parts_are_disjoint_cover_and_cut_no_block(
        self, sizes: list[int], share: float, seed: int
    ) -> None:
        labels = labels_of(sizes)
        n = len(labels)
        rows = np.arange(0, n)
        larger, smaller = Blocks(labels).split(rows, share, np.random.default_rng(seed))
        assert sorted([*larger, *smaller]) == list(rows)
        assert not set(labels[larger]) & set(labels[smaller])
        assert len(larger) >= 1
        assert len(smaller) >= 1
        assert len(smaller) - share * n <= max(max(sizes) / 2, min(sizes))

    def test_with_time_a_moment_stays_whole(self) -> None:
        time = np.repeat([0, 1, 2], [10, 10, 30])
        _, smaller = Blocks(np.arange(50), time).split(np.arange(50), 0.1, random())
        assert set(time[smaller]) == {2}
        time = np.repeat([0, 1, 2], [10, 30, 5])
        _, smaller = Blocks(np.arange(45), time).split(np.arange(45), 0.3, random())
        assert set(time[smaller]) == {2}  # with moment 1 it would be most of them

    def test_one_block_cannot_be_cut(self) -> None:
        with pytest.raises(InputError, match=r"got 1 among 3 rows.*patience=None"):
            Blocks(np.zeros(3, dtype=int)).split(np.arange(3), 0.5, random())


class TestTime:
    @pytest.mark.parametrize(
        "time", [[0.0, np.nan, 1.0], pd.to_datetime(["2020", None, "2021"])]
    )
    def test_gaps(self, time: Sequence[object]) -> None:
        with pytest.raises(InputError, match=r"time must not have gaps.*Leave rows"):
            Blocks(np.arange(3), np.asarray(time))

    @pytest.mark.parametrize("time", [[1, "a"], ["1/1/2020", "2/1/2020"]])
    def test_values_without_an_order(self, time: list[object]) -> None:
        with pytest.raises(
            InputError, match=r"one type that has an order.*to_datetime"
        ):
            Blocks(np.arange(2), np.array(time, dtype=object))

    @pytest.mark.parametrize(
        "time",
        [
            [3.5, 1.0, 2.0],
            ["2022-03-01", "2020-01-31", "2021-12-01"],
            np.asarray(pd.to_datetime(["2022", "2020", "2021"])),
            np.array(pd.to_datetime(["2022", "2020", "2021"]), dtype=object),
        ],
    )
    def test_of_any_type(self, time: Sequence[object]) -> None:
        blocks = Blocks(np.arange(3), np.asarray(time))
        assert blocks.folds(3, random()).tolist() == [2, 0, 1]


def made(
    name: str | None,
    n: int = 30,
    *,
    members: int = 3,
    time: bool = False,
    share: float = 0.2,
) -> Design:
    return design_for(
        name,
        Blocks(np.arange(n), np.arange(n) if time else None),
        members=members,
        folds=5,
        share=share,
        random=np.random.default_rng(0),
    )


def test_nothing_and_train_see_all_rows() -> None:
    for name, judged in ((None, 0), ("train", 30)):
        design = made(name)
        assert [len(rows) for rows in design.rows] == [30, 30, 30]
        assert len(design.calibration) == judged
        assert design.unseen is None
        assert design.weights((0, 1)) is None


def test_every_row_has_members_that_have_not_seen_it() -> None:
    design = made("out_of_fold", 32)
    assert len(design.rows) == 15
    assert design.unseen is not None
    assert design.unseen.shape == (3, 32)
    for number, rows in enumerate(design.rows):
        _, left_out = np.nonzero(design.unseen == number)
        assert sorted([*rows, *left_out]) == list(range(32))
    # The partitions differ, and the unseen members of a row are of all of them.
    assert (design.unseen // 5 == np.arange(3)[:, None]).all()
    assert len(np.unique(design.unseen % 5, axis=0)) == 3


def test_weights_of_a_pool_are_those_of_unseen_members_alone() -> None:
    design = made("out_of_fold", 32)
    weights = design.weights((0, 2))
    assert weights is not None
    np.testing.assert_allclose(weights.sum(0), 1)
    assert (weights > 0).sum() == 2 * 32
    for number, rows in enumerate(design.rows):
        assert not weights[number, rows].any()


Make = Callable[..., CalibratedRegressor]

Array = npt.NDArray[np.float64]


def series(n: int = 200) -> tuple[Array, Array]:
    """Noise that remembers, beside a feature that tells nothing of it."""
    random = np.random.default_rng(0)
    noise = np.zeros(n)
    for row in range(1, n):
        noise[row] = 0.9 * noise[row - 1] + random.standard_normal()
    return random.standard_normal((n, 1)), noise


def test_rows_of_a_group_may_be_alike(cheap: Make) -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(25), 8)
    y = random.standard_normal(25)[groups] + 0.1 * random.standard_normal(200)
    x = random.standard_normal((200, 1))
    with pytest.warns(SerialDependenceWarning, match="groups="):
        cheap().fit(x, y)
    cheap().fit(x, y, groups=groups)


def test_the_warning_points_at_the_caller(cheap: Make) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cheap(epochs=1).fit(*series())
    (warning,) = [w for w in caught if w.category is SerialDependenceWarning]
    assert warning.filename == __file__


class TestWarnOfOrder:
    def test_neighbors_of_one_block_do_not_count(self) -> None:
        pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
        twice = pit.repeat_interleave(2)
        with pytest.warns(SerialDependenceWarning):
            warn_of_order(twice)
        warn_of_order(twice, np.repeat(np.arange(200), 2))

    def test_chance_seldom_warns(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for _ in range(200):
            warn_of_order(torch.rand(500, generator=generator))
