"""Splits against scikit-learn, by hand, and as partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from calibrant.data import (
    Split,
    random_splits,
    shuffled_folds,
    unshuffled_folds,
    year_split,
)
from calibrant.errors import InputError


def check_partition(splits: tuple[Split, ...], rows: int) -> None:
    tested = np.concatenate([split.test for split in splits])
    assert sorted(tested.tolist()) == list(range(rows))
    for split in splits:
        assert split.train.dtype == split.test.dtype == np.int64
        both = np.concatenate(split)
        assert sorted(both.tolist()) == list(range(rows))
        assert (np.diff(split.train) > 0).all()
        assert (np.diff(split.test) > 0).all()


@given(st.integers(2, 60), st.integers(2, 12))
def test_unshuffled_folds_are_those_of_scikit_learn(rows: int, folds: int) -> None:
    if folds > rows:
        folds = rows
    ours = unshuffled_folds(rows, folds)
    theirs = list(KFold(folds).split(np.zeros((rows, 1))))
    assert len(ours) == len(theirs)
    for split, (train, test) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(split.train, train)
        np.testing.assert_array_equal(split.test, test)


def test_unshuffled_folds_by_hand() -> None:
    splits = unshuffled_folds(8, 3)
    assert [split.test.tolist() for split in splits] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert splits[1].train.tolist() == [0, 1, 2, 6, 7]
    # 1503 = 5 x 300 + 3: the first three folds have a row more.
    assert [len(s.test) for s in unshuffled_folds(1503, 5)] == [301, 301, 301, 300, 300]


@given(st.integers(2, 60), st.integers(2, 12), st.integers(0, 2**32))
def test_shuffled_folds_are_a_partition(rows: int, folds: int, seed: int) -> None:
    folds = min(folds, rows)
    splits = shuffled_folds(rows, folds, seed)
    check_partition(splits, rows)
    assert [s.test.size for s in splits] == [
        s.test.size for s in unshuffled_folds(rows, folds)
    ]


def test_a_seed_decides_and_is_the_same_everywhere() -> None:
    first, again = shuffled_folds(100, 5, seed=3), shuffled_folds(100, 5, seed=3)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.test, other.test)
    assert first[0].test.tolist() != shuffled_folds(100, 5, seed=4)[0].test.tolist()
    assert first[0].test.tolist() != list(range(20))
    # Written down, so that a new version of numpy cannot change it unseen.
    assert shuffled_folds(10, 2, seed=0)[0].test.tolist() == SHUFFLED
    assert random_splits(20, 1, seed=0)[0].test.tolist() == RANDOM


def test_random_splits_are_independent_and_extend() -> None:
    three, five = random_splits(50, 3, seed=1), random_splits(50, 5, seed=1)
    for one, other in zip(three, five, strict=False):
        np.testing.assert_array_equal(one.test, other.test)
    assert five[0].test.tolist() != five[1].test.tolist()
    assert [split.test.size for split in five] == [5] * 5
    assert all(np.intersect1d(*split).size == 0 for split in five)


@pytest.mark.parametrize(
    ("rows", "share", "size"), [(308, 0.1, 31), (2, 0.01, 1), (2, 0.99, 1), (9, 0.5, 4)]
)
def test_size_of_the_test_part(rows: int, share: float, size: int) -> None:
    (split,) = random_splits(rows, 1, share=share, seed=0)
    assert (split.test.size, split.train.size) == (size, rows - size)


def test_the_fixed_splits() -> None:
    (year,) = year_split(515_345)
    assert (year.train.size, year.test.size) == (463_715, 51_630)
    assert (year.train[-1], year.test[0], year.test[-1]) == (463_714, 463_715, 515_344)


def test_refuses_what_cannot_be_split() -> None:
    with pytest.raises(ValueError, match=r"folds=1 with rows=10"):
        unshuffled_folds(10, 1)
    with pytest.raises(ValueError, match=r"folds=11 with rows=10"):
        shuffled_folds(10, 11, seed=0)
    with pytest.raises(ValueError, match=r"seed must be a whole number from 0, got -1"):
        shuffled_folds(10, 2, seed=-1)
    with pytest.raises(ValueError, match=r"splits must be at least 1"):
        random_splits(10, 0, seed=0)
    with pytest.raises(ValueError, match=r"got 10\. Write 0\.1 for 10 %"):
        random_splits(10, 1, share=10, seed=0)
    with pytest.raises(ValueError, match=r"strictly between 0 and 1, got 0\.$"):
        random_splits(10, 1, share=0, seed=0)
    with pytest.raises(ValueError, match=r"at least 2 rows, got 1"):
        random_splits(1, 1, seed=0)
    with pytest.raises(
        InputError,
        match=r"Year Prediction MSD only \(515,345 rows\), got a table of 1,030 rows\. "
        r"Split other tables unshuffled or shuffled\.$",
    ):
        year_split(1030)


SHUFFLED = [2, 3, 4, 6, 7]
RANDOM = [4, 19]
