"""Which rows each member learns from, and which rows teach the map."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant._checks import InputError
from calibrant.estimators._folds import Blocks, Labels

__all__ = ["DESIGNS", "Design", "design_for"]

# A fold with more than this share of the rows, or twice its part, leaves too few.
_LARGEST_FOLD = 0.75


@dataclass(frozen=True)
class Design:
    """The rows of each member, and those of the map.

    Attributes
    ----------
    rows
        For each member the rows that it may look at.
    calibration
        Rows whose PIT values the map learns from; empty for none.
    unseen
        The members that have not seen a row, shape ``(pool, n)``: its out-of-fold
        distribution is pooled from these. None if all members are asked.
    """

    rows: tuple[Labels, ...]
    calibration: Labels
    unseen: Labels | None = None

    def weights(self, chosen: tuple[int, ...]) -> np.ndarray | None:
        """Weights of all members ``(members, n)`` in pools of some unseen ones."""
        if self.unseen is None:
            return None
        n = self.unseen.shape[1]
        weights = np.zeros((len(self.rows), n))
        for place in chosen:
            weights[self.unseen[place], np.arange(n)] += 1 / len(chosen)
        return weights


@dataclass(frozen=True)
class _Wish:
    """What the designs are made from."""

    blocks: Blocks
    members: int
    folds: int
    share: float
    random: np.random.Generator

    @property
    def all_rows(self) -> Labels:
        return np.arange(len(self.blocks.labels))


def _nothing(wish: _Wish) -> Design:
    none = np.empty(0, dtype=np.int64)
    return Design((wish.all_rows,) * wish.members, none)


def _train(wish: _Wish) -> Design:
    return Design((wish.all_rows,) * wish.members, wish.all_rows)


def _held_out(wish: _Wish) -> Design:
    learned, held_out = wish.blocks.split(wish.all_rows, wish.share, wish.random)
    return Design((learned,) * wish.members, held_out)


def _out_of_fold(wish: _Wish) -> Design:
    """Cut all rows into folds again and again; a member learns without one fold."""
    rows: list[Labels] = []
    unseen = np.empty((wish.members, len(wish.blocks.labels)), dtype=np.int64)
    for partition in range(wish.members):
        fold_of_row = wish.blocks.folds(wish.folds, wish.random)
        unseen[partition] = len(rows) + fold_of_row
        count = int(fold_of_row.max()) + 1
        rows += [np.flatnonzero(fold_of_row != fold) for fold in range(count)]
    smallest = 1 - min(len(each) for each in rows) / len(wish.blocks.labels)
    if smallest > min(_LARGEST_FOLD, 2 / wish.folds):
        warnings.warn(
            f"one fold holds {smallest:.0%} of the rows, because groups or equal "
            "features are not cut: the members that learn without it see little. Use "
            'smaller groups, or recalibrate_on="held_out".',
            UserWarning,
            stacklevel=6,
        )
    return Design(tuple(rows), wish.all_rows, unseen)


DESIGNS: dict[str | None, Callable[[_Wish], Design]] = {
    None: _nothing,
    "train": _train,
    "held_out": _held_out,
    "out_of_fold": _out_of_fold,
}


def design_for(
    name: str | None,
    blocks: Blocks,
    *,
    members: int,
    folds: int,
    share: float,
    random: np.random.Generator,
) -> Design:
    """Make the design of this name.

    Parameters
    ----------
    name
        A key of ``DESIGNS``.
    blocks
        The rows.
    members
        Number of members; with ``"out_of_fold"`` of those that have not seen a row,
        which makes ``members * folds`` in all.
    folds
        Number of folds of ``"out_of_fold"``.
    share
        Share of rows that ``"held_out"`` keeps for the map.
    random
        Source of random cuts.
    """
    if name not in DESIGNS:
        names = ", ".join(repr(each) for each in DESIGNS)
        raise InputError(f"recalibrate_on must be one of {names}, got {name!r}.")
    return DESIGNS[name](_Wish(blocks, members, folds, share, random))
