"""Who learns from which rows, and which rows tell how well."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant._checks import InputError
from calibrant.estimator._folds import Blocks, Labels

__all__ = ["DESIGNS", "Design", "Unit", "design_for"]

# A fold with more than this share of the rows, or twice its part, leaves too few.
_LARGEST_FOLD = 0.75
# A row's law must come from this many members that have not seen it.
_FEWEST_UNSEEN = 2


@dataclass(frozen=True)
class Unit:
    """Members whose mixture is one law, which has one recalibrator.

    Attributes
    ----------
    members
        Numbers of its members.
    calibration
        Rows whose PIT values the recalibrator learns from; empty for none.
    weight
        Share in the predicted mixture.
    """

    members: tuple[int, ...]
    calibration: Labels
    weight: float


@dataclass(frozen=True)
class Design:
    """The rows of each member, and the units that they make.

    Attributes
    ----------
    rows
        For each member the rows that it may look at.
    units
        What the predicted law is a mixture of.
    unseen
        For out-of-bag laws, which members have not seen which rows, ``(members, n)``.
    """

    rows: tuple[Labels, ...]
    units: tuple[Unit, ...]
    unseen: np.ndarray | None = None


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
    return _one_unit(wish, wish.all_rows, none)


def _train(wish: _Wish) -> Design:
    return _one_unit(wish, wish.all_rows, wish.all_rows)


def _held_out(wish: _Wish) -> Design:
    learned, held_out = wish.blocks.split(wish.all_rows, wish.share, wish.random)
    return _one_unit(wish, learned, held_out)


def _one_unit(wish: _Wish, learned: Labels, calibration: Labels) -> Design:
    unit = Unit(tuple(range(wish.members)), calibration, 1.0)
    return Design((learned,) * wish.members, (unit,))


def _cross_fit(wish: _Wish) -> Design:
    folds = wish.blocks.folds(wish.folds, wish.random)
    rows: list[Labels] = []
    units: list[Unit] = []
    for fold in range(int(folds.max()) + 1):
        own = np.flatnonzero(folds == fold)
        members = tuple(range(len(rows), len(rows) + wish.members))
        rows += [np.flatnonzero(folds != fold)] * wish.members
        units.append(Unit(members, own, len(own) / len(folds)))
    largest = max(unit.weight for unit in units)
    if largest > min(_LARGEST_FOLD, 2 / len(units)):
        warnings.warn(
            f"one fold holds {largest:.0%} of the rows, because groups or equal "
            "features are not cut: the members that learn without it see little, and "
            'their law weighs most. Use smaller groups, or recalibrate_on="held_out".',
            UserWarning,
            stacklevel=6,
        )
    return Design(tuple(rows), tuple(units))


def _out_of_bag(wish: _Wish) -> Design:
    if wish.blocks.time is not None:
        raise InputError(
            'recalibrate_on="out_of_bag" draws random rows, whose neighbors in time '
            'the other members have seen. With time use "cross_fit" (stretches of '
            'time) or "held_out" (the latest rows).'
        )
    n, rows = len(wish.blocks.labels), []
    unseen = np.zeros((wish.members, n), dtype=bool)
    for member in range(wish.members):
        learned, left_out = wish.blocks.split(wish.all_rows, wish.share, wish.random)
        rows.append(learned)
        unseen[member, left_out] = True
    known = np.flatnonzero(unseen.sum(0) >= _FEWEST_UNSEEN)
    if len(known) < 0.8 * n:
        raise InputError(
            f'recalibrate_on="out_of_bag" needs rows that at least {_FEWEST_UNSEEN} '
            f"members have not seen; with members={wish.members} and a share of "
            f"{wish.share:g} left out, only {len(known)} of {n} are. Use about 16 "
            "members."
        )
    unit = Unit(tuple(range(wish.members)), known, 1.0)
    return Design(tuple(rows), (unit,), unseen)


DESIGNS: dict[str | None, Callable[[_Wish], Design]] = {
    None: _nothing,
    "train": _train,
    "held_out": _held_out,
    "cross_fit": _cross_fit,
    "out_of_bag": _out_of_bag,
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
        Number of members, of each fold with ``"cross_fit"``.
    folds
        Number of folds of ``"cross_fit"``.
    share
        Share of rows that ``"held_out"`` keeps for the map and ``"out_of_bag"`` keeps
        from each member.
    random
        Source of random cuts.
    """
    if name not in DESIGNS:
        names = ", ".join(repr(each) for each in DESIGNS)
        raise InputError(f"recalibrate_on must be one of {names}, got {name!r}.")
    return DESIGNS[name](_Wish(blocks, members, folds, share, random))
