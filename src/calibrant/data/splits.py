"""Which rows are for training and which for testing."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.errors import InputError

__all__ = ["Split", "random_splits", "shuffled_folds", "unshuffled_folds", "year_split"]

YEAR_TRAIN_ROWS = 463_715
YEAR_TEST_ROWS = 51_630

Rows = npt.NDArray[np.int64]


class Split(NamedTuple):
    """Row numbers from 0, ascending, int64: ``train`` and ``test`` share none."""

    train: Rows
    test: Rows


def unshuffled_folds(rows: int, folds: int) -> tuple[Split, ...]:
    """Cut the rows into consecutive folds as they stand in the file, as the paper does.

    Each fold is the test part once. The first ``rows % folds`` folds have one row more
    than the others, as in scikit-learn's ``KFold``.

    Parameters
    ----------
    rows, folds
        Their numbers; at least 2 folds, and at most as many as rows.

    Examples
    --------
    >>> [split.test.tolist() for split in unshuffled_folds(7, 3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    return _folds(np.arange(rows), folds)


def shuffled_folds(rows: int, folds: int, seed: int) -> tuple[Split, ...]:
    """Cut the rows into folds at random; the sizes are those of unshuffled folds.

    Parameters
    ----------
    rows, folds
        As for :func:`unshuffled_folds`.
    seed
        Of the order; the same seed gives the same folds on every machine.

    Examples
    --------
    >>> first, second = shuffled_folds(6, 2, seed=0)
    >>> sorted([*first.test, *second.test]) == list(range(6))
    True
    """
    return _folds(_generator(seed).permutation(rows), folds)


def random_splits(
    rows: int, splits: int, *, share: float = 0.1, seed: int
) -> tuple[Split, ...]:
    """Draw independent test parts, a tenth of the rows each unless told otherwise.

    Parameters
    ----------
    rows
        Number of rows, at least 2.
    splits
        How many to draw. More splits leave the former ones as they were.
    share
        Share of the rows for testing, rounded to whole rows; each part has a row.
    seed
        Of the draws.

    Examples
    --------
    >>> [split.test.size for split in random_splits(308, 3, seed=0)]
    [31, 31, 31]
    """
    if splits < 1:
        raise InputError(f"splits must be at least 1, got {splits}.")
    if not 0 < share < 1:
        hint = " Write 0.1 for 10 %." if share >= 1 else ""
        raise InputError(
            f"share must lie strictly between 0 and 1, got {share!r}.{hint}"
        )
    if rows < 2:
        raise InputError(f"a split needs at least 2 rows, got {rows}.")
    size = min(max(round(rows * share), 1), rows - 1)
    orders = (_generator(seed, number).permutation(rows) for number in range(splits))
    return tuple(_split(rows, order[:size]) for order in orders)


def year_split(rows: int) -> tuple[Split]:
    """Split Year Prediction MSD as its authors ask: no artist stands in both parts.

    Parameters
    ----------
    rows
        Number of rows, which must be 515,345: the first 463,715 train, the last 51,630
        test.

    Examples
    --------
    >>> (split,) = year_split(515_345)
    >>> split.train.size, split.test.size
    (463715, 51630)
    """
    if rows != YEAR_TRAIN_ROWS + YEAR_TEST_ROWS:
        raise InputError(
            "the fixed split is that of Year Prediction MSD only (515,345 rows), got a "
            f"table of {rows:,} rows. Split other tables unshuffled or shuffled."
        )
    return (_split(rows, np.arange(YEAR_TRAIN_ROWS, rows)),)


def _folds(order: Rows, folds: int) -> tuple[Split, ...]:
    rows = order.size
    if not 2 <= folds <= rows:
        raise InputError(
            f"folds must be at least 2 and at most the number of rows, got "
            f"folds={folds} with rows={rows}."
        )
    return tuple(_split(rows, part) for part in np.array_split(order, folds))


def _split(rows: int, test: Rows) -> Split:
    held_out = np.zeros(rows, dtype=bool)
    held_out[test] = True
    train, test = (np.flatnonzero(part) for part in (~held_out, held_out))
    return Split(train.astype(np.int64), test.astype(np.int64))


def _generator(*seed: int) -> np.random.Generator:
    if min(seed) < 0:
        raise InputError(f"seed must be a whole number from 0, got {seed[0]}.")
    return np.random.default_rng(seed)
