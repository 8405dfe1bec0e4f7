"""Which rows belong together, how they are cut apart, and who learns from which."""

import heapq
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from calibrant.validation import InputError

__all__ = [
    "Blocks",
    "Column",
    "Design",
    "SerialDependenceWarning",
    "design_for",
    "linked_rows",
    "warn_of_order",
]

Labels = npt.NDArray[np.int64]
#: One label or moment for each row, of any type that can be compared.
Column = Any

# A fold leaves too few rows if it holds more than the second share of them, or more
# than both twice its part and the first share.
_LARGE_FOLD, _LARGEST_FOLD = 0.4, 0.75
# Groups that begin in fewer moments are cut as if there were no time.
_FEWEST_STRETCHES = 5
# A correlation that is both large enough to matter and far from chance.
_LEAST_CORRELATION, _LEAST_ERRORS, _FEWEST_PAIRS = 0.15, 5.0, 49


def linked_rows(
    x: npt.NDArray[np.float64],
    groups: Column | None,
    *,
    time: Column | None = None,
) -> Labels:
    """Label rows that must share a fold: equal features, or the same group.

    A copy of a row in the training part would show a network the answer. Features that
    very many rows share (more than ten, and a twentieth of them) are a common case, as
    months or sites alone, and stay apart. With a time the copies share a moment, which
    is never cut, and equal features at other moments mean nothing. Features have shape
    ``(n, d)``, groups and labels ``(n,)``; links go through other rows.

    Examples
    --------
    >>> x = np.array([[1.0], [2.0], [1.0], [3.0], [4.0], [5.0]])
    >>> linked_rows(x, ["a", "b", "c", "b", "d", "e"])
    array([0, 1, 0, 1, 2, 3])
    """
    twins = np.arange(len(x)) if time is not None else _twins(x)
    if groups is None:
        return _numbered(twins)
    own = _group_labels(groups, len(x))
    first_group = twins.max() + 1
    links = coo_array(
        (np.ones(len(x)), (twins, first_group + own)),
        shape=(first_group + own.max() + 1,) * 2,
    )
    _, component = connected_components(links, directed=False)
    return _numbered(component[twins])


def _numbered(labels: npt.NDArray[Any]) -> Labels:
    """Number labels in the order in which they come."""
    _, first, result = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first.argsort().argsort()[result.reshape(-1)], dtype=np.int64)


def _twins(x: npt.NDArray[np.float64]) -> Labels:
    """Label rows with equal features, unless very many are; shape ``(n,)``."""
    # A hash of each row: to sort the rows themselves takes a minute for half a million.
    mixed = np.zeros(len(x), dtype=np.uint64)
    for column in x.T:
        # Adding 0 makes -0 the same as 0.
        mixed ^= np.ascontiguousarray(column + 0.0).view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, labels, counts = np.unique(mixed, return_inverse=True, return_counts=True)
    labels = labels.reshape(-1)
    common = counts[labels] > max(len(x) / 20, min(10, len(x) / 3))
    labels[common] = len(counts) + np.arange(int(common.sum()))
    return np.asarray(labels, dtype=np.int64)


def _group_labels(groups: Column, n: int) -> Labels:
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError(
            f"groups must have one label for each row, shape ({n},), got "
            f"{labels.shape}."
        )
    _refuse_gaps(labels, "groups", "Give rows without a group a label of their own.")
    if labels.dtype == object:  # labels of several types have no order
        labels = np.array([str(label) for label in labels])
    return np.asarray(np.unique(labels, return_inverse=True)[1].reshape(-1), np.int64)


def _refuse_gaps(values: npt.NDArray[Any], name: str, remedy: str) -> None:
    """Refuse NaN, NaT, NA and None."""
    missing = values != values  # NaN and NaT alone
    if values.dtype == object:
        names = ("None", "nan", "NaT", "<NA>")
        missing = np.array([str(value) in names for value in values])
    if missing.any():
        raise InputError(
            f"{name} must not have gaps, and {int(missing.sum())} of {len(values)} are "
            f"missing. {remedy}"
        )


def _moments(time: npt.NDArray[Any]) -> Labels:
    """Number the moments in their order."""
    _refuse_gaps(time, "time", "Leave rows without a time out.")
    try:
        if any(isinstance(value, str) for value in time[:1].tolist()):
            time = time.astype("datetime64[us]")
        _, moments = np.unique(time, return_inverse=True)
    except (ValueError, TypeError) as error:
        raise InputError(
            "time must be numbers or dates, of one type that has an order (text only "
            f"as ISO 8601 writes dates), got such as {str(time[0])!r:.60}: {error}. "
            "Convert it: pandas.to_datetime(time)."
        ) from None
    return np.asarray(moments.reshape(-1), dtype=np.int64)


class Blocks:
    """Rows in indivisible blocks, which folds and subsets are made of.

    With the time of each row folds are stretches of time, and held-out rows the latest.
    Labels and time have shape ``(n,)``.
    """

    def __init__(self, labels: Labels, time: npt.NDArray[Any] | None = None) -> None:
        if time is not None and time.shape != labels.shape:
            raise InputError(
                f"time must have one value for each row, shape {labels.shape}, got "
                f"{time.shape}."
            )
        self.labels = labels
        self.time = None if time is None else _moments(time)

    def part(self, rows: Labels) -> "Blocks":
        """Return some of the rows, in the same blocks."""
        return Blocks(self.labels[rows], None if self.time is None else self.time[rows])

    def hold_out(
        self, share: float, random: np.random.Generator
    ) -> tuple[Labels, Labels]:
        """Choose rows to learn from and about this share of all to test on.

        Without a time that is :meth:`split`. With a time the test rows are the latest,
        and no row to learn from is as late as one of them. Of the blocks that reach
        over that moment, a random half is tested on without its earlier rows, and the
        other half is learned from without its later ones.
        """
        everything = np.arange(len(self.labels))
        if self.time is None:
            return self.split(everything, share, random)
        early, late = Blocks(everything, self.time).split(everything, share, random)
        both = np.intersect1d(self.labels[early], self.labels[late])
        halves = np.split(random.permutation(both), [(len(both) + 1) // 2])
        for tested, learned in (halves, halves[::-1]):
            before = early[~np.isin(self.labels[early], tested)]
            after = late[~np.isin(self.labels[late], learned)]
            if len(before) and len(after):
                return before, after
        raise InputError("rows of one group alone cannot be cut into two parts.")

    def folds(self, count: int, random: np.random.Generator) -> Labels:
        """Cut all rows into folds of about equal size; the fold of each row.

        There are at most as many folds as blocks. With a time they are stretches of it,
        fewer if a block is too long; groups that begin in too few moments for that (4,
        or fewer than the count) are cut as if there were no time.
        """
        n = len(self.labels)
        if self._begin_together(np.arange(n), min(count, _FEWEST_STRETCHES)):
            return Blocks(self.labels).folds(count, random)
        block, sizes = self._in_order(np.arange(n), random)
        if len(sizes) < 2:
            raise InputError(
                "folds need at least two rows that differ (or groups, or moments), "
                f"and there are {len(sizes)}. Bring more."
            )
        count = min(count, len(sizes))
        if self.time is not None:
            middles = np.cumsum(sizes) - sizes / 2
            stretch = (middles * count / n).astype(np.int64)
            _, fold = np.unique(stretch, return_inverse=True)
            return np.asarray(fold.reshape(-1)[block], dtype=np.int64)
        fold = np.empty(len(sizes), dtype=np.int64)
        filled = [(0, number) for number in range(count)]
        # Largest first, each into the emptiest fold; equal ones stay in random order.
        for place in np.argsort(-sizes, kind="stable").tolist():
            rows, fold[place] = filled[0]
            heapq.heapreplace(filled, (rows + int(sizes[place]), int(fold[place])))
        return np.asarray(fold[block], dtype=np.int64)

    def split(
        self, rows: Labels, share: float, random: np.random.Generator
    ) -> tuple[Labels, Labels]:
        """Cut rows into a larger part and one of about this share, at least a block.

        With a time the second part is the blocks that begin last; otherwise blocks that
        are too large for it are passed over.
        """
        if self._begin_together(rows, 2):
            return Blocks(self.labels).split(rows, share, random)
        block, sizes = self._in_order(rows, random)
        if len(sizes) < 2:
            raise InputError(
                "at least two rows that differ (or groups, or moments) are needed to "
                f"hold some of them out, got {len(sizes)} among {len(rows)} rows. "
                "Bring more rows, or do without: patience=None for early stopping, "
                'recalibrate_on=None for "held_out".'
            )
        taken = np.zeros(len(sizes), dtype=bool)
        taken[self._last(sizes, share * len(rows))] = True
        return rows[~taken[block]], rows[taken[block]]

    def _last(self, sizes: Labels, wanted: float) -> list[int]:
        """Choose blocks from the end that hold about as many rows as wanted."""
        chosen: list[int] = []
        rows = 0
        for place in range(len(sizes) - 1, 0, -1):
            if rows + 0.5 >= wanted:
                break
            if rows + sizes[place] / 2 < wanted:
                chosen.append(place)
                rows += int(sizes[place])
            elif self.time is not None:
                break
        smallest = len(sizes) - 1 if self.time is not None else int(sizes.argmin())
        return chosen or [smallest]

    def _in_order(
        self, rows: Labels, random: np.random.Generator
    ) -> tuple[Labels, Labels]:
        """Place of each row's block, at random or by time, and the blocks' sizes."""
        # A block's time is its earliest. A moment is cut by long blocks alone.
        labels = self.labels[rows]
        if self.time is not None:
            labels = self._starts(rows)
        _, block, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        block = block.reshape(-1)
        if self.time is None:
            order = random.permutation(len(sizes))
            block, sizes = order.argsort()[block], sizes[order]
        return block, sizes

    def _begin_together(self, rows: Labels, least: int) -> bool:
        """Whether these are groups, and begin in fewer moments than that."""
        labels = self.labels[rows]
        if self.time is None or len(np.unique(labels)) == len(rows):
            return False
        return len(np.unique(self._starts(rows))) < least

    def _starts(self, rows: Labels) -> Labels:
        """First moment of each row's block, shape ``(n,)``."""
        time: Any = self.time
        start = np.full(self.labels[rows].max() + 1, time[rows].max())
        np.minimum.at(start, self.labels[rows], time[rows])
        return np.asarray(start[self.labels[rows]], dtype=np.int64)


@dataclass(frozen=True)
class Design:
    """The rows of each member, and those of the map."""

    rows: tuple[Labels, ...]  # for each member those that it may look at
    calibration: Labels  # rows whose PIT values the map learns from; empty for none
    # Members that have not seen a row, which are pooled, (pool, n); None for all.
    unseen: Labels | None = None
    # For each member those that its regularizer alone looks at; None for its own rows.
    regularized: tuple[Labels, ...] | None = None

    @property
    def pool_size(self) -> int:
        """Members in the pool of a row."""
        return len(self.rows) if self.unseen is None else len(self.unseen)

    def weights(self, chosen: tuple[int, ...]) -> np.ndarray | None:
        """Weights of all members ``(members, n)`` in pools of some unseen ones."""
        if self.unseen is None:
            return None
        n = self.unseen.shape[1]
        weights = np.zeros((len(self.rows), n))
        for place in chosen:
            weights[self.unseen[place], np.arange(n)] += 1 / len(chosen)
        return weights


def design_for(
    name: str | None,
    blocks: Blocks,
    *,
    members: int,
    folds: int = 2,
    share: float = 0.2,
    regularized_share: float | None = None,
    random: np.random.Generator,
) -> Design:
    """Decide which members learn from which rows.

    ``"out_of_fold"``: cut all rows into folds, ``members`` times, and let each of
    ``members * folds`` learn without one fold. ``"held_out"``: this share is for the
    map. ``"train"``: all rows are for both. None: there is no map. With a
    ``regularized_share`` the regularizer has rows of its own: of the member that learns
    without fold k the next fold, otherwise this share of each member's rows.
    """
    everything = np.arange(len(blocks.labels))
    learned, calibration = everything, everything if name == "train" else everything[:0]
    if name == "held_out":
        learned, calibration = blocks.split(everything, share, random)
    if name != "out_of_fold":
        if regularized_share is None:
            return Design((learned,) * members, calibration)
        cuts = [
            blocks.split(learned, regularized_share, random) for _ in range(members)
        ]
        own, apart = zip(*cuts, strict=True)
        return Design(own, calibration, regularized=apart)
    rows: list[Labels] = []
    following: list[Labels] = []
    unseen = np.empty((members, len(everything)), dtype=np.int64)
    for partition in range(members):
        fold_of_row = blocks.folds(folds, random)
        unseen[partition] = len(rows) + fold_of_row
        count = int(fold_of_row.max()) + 1
        rows += [np.flatnonzero(fold_of_row != fold) for fold in range(count)]
        following += [
            np.flatnonzero(fold_of_row == (fold + 1) % count) for fold in range(count)
        ]
    largest = 1 - min(map(len, rows)) / len(everything)
    if largest > min(_LARGEST_FOLD, max(_LARGE_FOLD, 2 / folds)):
        warnings.warn(
            f"one fold holds {largest:.0%} of the rows, because groups or equal "
            "features are not cut: the members that learn without it see little. Use "
            'smaller groups, or recalibrate_on="held_out".',
            UserWarning,
            stacklevel=4,
        )
    if regularized_share is None:
        return Design(tuple(rows), everything, unseen)
    pairs = zip(rows, following, strict=True)
    learned_from = tuple(own[~np.isin(own, apart)] for own, apart in pairs)
    if min(map(len, learned_from)) == 0:
        raise InputError(
            'regularize_on="held_out" needs at least 3 folds: one to learn from, one '
            "for the regularizer and one for the map. Raise folds, or use "
            'recalibrate_on="held_out".'
        )
    return Design(learned_from, everything, unseen, tuple(following))


class SerialDependenceWarning(UserWarning):
    """Neighboring rows have alike errors: random folds see through them."""


def warn_of_order(
    pit: Tensor, labels: npt.NDArray[Any] | None = None, *, stacklevel: int = 3
) -> None:
    r"""Warn if PIT values in row order ``(n,)`` depend on their neighbors.

    Random folds are honest for rows that are exchangeable. In a series, or a file that
    is sorted by its design, a row's neighbors tell its error, and they were trained on.
    With :math:`c_i` the PIT value less the mean, over neighbors in different blocks,

    .. math:: r = \frac{\sum c_i c_{i+1} / m}{\sum c_i^2 / n} , \qquad
        r \sqrt m > 5 , \quad r > 0.15 .

    Neighbors with the same label ``(n,)``, which no fold parts, do not count.
    """
    centered = pit.double() - pit.double().mean()
    spread = float(centered.square().mean())
    products = centered[1:] * centered[:-1]
    if labels is not None:
        products = products[torch.from_numpy(np.diff(labels) != 0)]
    if len(products) < _FEWEST_PAIRS or spread <= 0:
        return
    correlation = float(products.mean()) / spread
    far = correlation * math.sqrt(len(products)) > _LEAST_ERRORS
    if correlation > _LEAST_CORRELATION and far:
        warnings.warn(
            f"neighboring rows have alike errors (correlation {correlation:.2f} over "
            f"{len(pit)} rows in the order given). If the rows are a series, or sorted "
            "by what they have in common, random folds are too optimistic: pass "
            "time= or groups= to fit.",
            SerialDependenceWarning,
            stacklevel=stacklevel,
        )
