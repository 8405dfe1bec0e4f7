"""The table that a model is trained on: read, cut, and its columns learned."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.estimators.base import usual_range
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.tables import (
    Roles,
    Source,
    Style,
    TableEncoder,
    open_source,
    read_target,
    read_times,
    require_rows,
)
from calibrant.tables.wording import amount, shown, written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Cut", "TrainingTable", "cut_rows", "learn_columns", "read_training_table"]

Array = npt.NDArray[np.float64]
#: A model and its measurement need this many rows each, to be worth anything.
_FEWEST_LEARNED = 20
_FEWEST_HELD = 5
#: Held-out rows of which fewer are independent vary more than as many rows do.
_MOSTLY = 0.9


@dataclass(frozen=True)
class TrainingTable:
    """A table, read; ``known`` are those of its rows that have a target to learn."""

    source: Source
    target: str
    data: "pa.Table"
    known: npt.NDArray[np.int64]
    y: Array

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of the rows that are left out."""
        notes = []
        lost = int(np.isnan(self.y).sum())
        if lost:
            notes.append(f"{amount(lost, 'row')} without a target: left out.")
        wild = np.setdiff1d(np.flatnonzero(~np.isnan(self.y)), self.known)
        if len(wild):
            first, known = wild[0], self.y[self.known]
            more = (
                f" (and {amount(len(wild) - 1, 'more row')})" if len(wild) > 1 else ""
            )
            notes.append(
                f"{self.source.name}, row {first + 1:,}, column {shown(self.target)}: "
                f"the target {written(self.y[first])} is beyond any reason and left "
                f"out{more}; the others are {written(known.min())} to "
                f"{written(known.max())}. Correct it, or learn from it as it is with "
                "--keep-outliers."
            )
        return tuple(notes)

    def column(self, name: str) -> Any:  # noqa: ANN401  (of pyarrow)
        """Return one column, if there is one of that name."""
        self.source.check_columns([name])
        return self.data[name]


@dataclass(frozen=True)
class Cut:
    """Rows to learn from and held-out rows to measure on."""

    learned: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    times: Array | None
    groups: npt.NDArray[np.int64] | None
    how: str
    notes: tuple[str, ...] = ()


def read_training_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    target: str,
    style: Style | None,
    *,
    keep_outliers: bool = False,
) -> TrainingTable:
    """Read all of a table, and its target as numbers; leave wild targets out."""
    source = open_source(table, style=style, expect=[target])
    data = source.read()
    require_rows(data, name=source.name)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    known = ~np.isnan(y)
    if known.any() and not keep_outliers:
        low, high = usual_range(y[known])
        known &= (y >= low) & (y <= high)
    return TrainingTable(source, target, data, np.flatnonzero(known), y)


def cut_rows(rows: TrainingTable, roles: Roles, share: float, seed: int) -> Cut:
    """Hold rows out by chance, by time, by group or by both.

    Rows with equal features, and rows of a group, are never on both sides: see
    :func:`linked_rows` and :meth:`Blocks.hold_out`.
    """
    if not 0 <= share < 1:
        raise InputError(
            f"the share of rows to set aside must be in [0, 1), got {share:g}. Write "
            "0.2 for a fifth, and 0 for none."
        )
    times = groups = None
    if roles.time is not None:
        times = read_times(
            rows.column(roles.time),
            time=roles.time,
            name=rows.source.name,
            style=rows.source.style,
            day_first=roles.day_first,
        )
    if roles.group is not None:
        groups = _codes(rows.column(roles.group))
    learned, held = rows.known, rows.known[:0]
    notes: tuple[str, ...] = ()
    if len(learned) < _FEWEST_LEARNED:
        _check_counts(rows, len(learned), 0 if share else None)
    if share:
        learned, held, notes = _held_out(rows, roles, share, seed, times, groups)
    _check_counts(rows, len(learned), len(held) if share else None)
    y = rows.y[learned]
    if np.ptp(y) == 0:
        raise InputError(
            f"{rows.source.name}: the target is {y[0]:g} in all rows to learn from, so "
            "there is nothing to predict. Choose another column."
        )
    how = " and ".join(
        word
        for word, given in (("time", roles.time), ("group", roles.group))
        if given is not None
    )
    lost = len(rows.known) - len(learned) - len(held)
    if lost:
        notes += (
            f"{amount(lost, 'row')} left out: groups with rows before and after the "
            "moment from which rows are held out are either learned from or measured "
            "on, with their rows of that time.",
        )
    return Cut(learned, held, times, groups, how or "random", notes)


def _held_out(
    rows: TrainingTable,
    roles: Roles,
    share: float,
    seed: int,
    times: Array | None,
    groups: npt.NDArray[np.int64] | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[str, ...]]:
    known = rows.known
    x = np.empty((len(known), 0))
    if times is None:
        # Learned from all rows, and used for nothing but to find equal ones.
        encoder = _encoder(rows, known, roles)
        data = rows.data.take(known)
        x = encoder.encode(data, name=rows.source.name, style=rows.source.style)
    own = None if groups is None else groups[known]
    labels = linked_rows(x, own, time=times)
    blocks = Blocks(labels, None if times is None else times[known])
    try:
        learned, held = blocks.hold_out(share, np.random.default_rng(seed))
    except InputError:
        by = " and ".join(repr(n)[:60] for n in (roles.time, roles.group) if n)
        raise InputError(
            f"{rows.source.name}, column {by}: all rows have the same value, so none "
            "can be set aside by it. Choose another column, or set nothing aside (0)."
            if by
            else f"{rows.source.name}: all rows have the same features, so none can be "
            "set aside. Set nothing aside (0)."
        ) from None
    notes: tuple[str, ...] = ()
    sets = len(np.unique(labels[held]))
    if sets < _MOSTLY * len(held):
        notes = (
            f"The {len(held):,} held-out rows come in {sets:,} independent sets (equal "
            "features, or one group): what a perfect model would show is computed for "
            "independent rows, and varies more here.",
        )
    return known[learned], known[held], notes


def _check_counts(rows: TrainingTable, learned: int, held: int | None) -> None:
    if learned < _FEWEST_LEARNED or (held is not None and held < _FEWEST_HELD):
        aside = "" if held is None else f" and {held} set aside to measure on"
        raise InputError(
            f"{rows.source.name}: at least {_FEWEST_LEARNED} rows to learn from and "
            f"{_FEWEST_HELD} to measure on are needed; "
            f"{amount(len(rows.known), 'row')} with a target give {learned}{aside}. "
            "Bring more rows, or change what is set aside (0 for nothing)."
        )


def _codes(column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401  (of pyarrow)
    """Number the values of a column; missing ones are a value of their own."""
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def learn_columns(rows: TrainingTable, cut: Cut, roles: Roles) -> TableEncoder:
    """Learn the columns from the rows to learn from, and from no other."""
    return _encoder(rows, cut.learned, roles)


def _encoder(
    rows: TrainingTable, chosen: npt.NDArray[np.int64], roles: Roles
) -> TableEncoder:
    return TableEncoder.learn(
        rows.data.take(chosen),
        target=rows.target,
        roles=roles,
        style=rows.source.style,
        name=rows.source.name,
        rows=1 + chosen,
    )
