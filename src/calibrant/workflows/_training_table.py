"""The table that a model is trained on: read, cut, and its columns learned."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.estimator._standardize import usual_range
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
from calibrant.tables._errors import shown
from calibrant.tables._words import amount, written
from calibrant.workflows._set_aside import set_aside

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Cut", "TrainingTable", "cut_rows", "learn_columns", "read_training_table"]

Array = npt.NDArray[np.float64]


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
    """Rows to learn from and rows to measure on."""

    learned: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    times: Array | None
    groups: npt.NDArray[np.int64] | None
    how: str


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
    """Set rows aside by chance, by time or by group, and refuse a constant target."""
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
    learned, held = set_aside(
        rows.known,
        share,
        seed=seed,
        times=times,
        groups=groups,
        name=rows.source.name,
        by=roles.time or roles.group,
    )
    y = rows.y[learned]
    if np.ptp(y) == 0:
        raise InputError(
            f"{rows.source.name}: the target is {y[0]:g} in all rows to learn from, so "
            "there is nothing to predict. Choose another column."
        )
    how = "time" if times is not None else "group" if groups is not None else "random"
    return Cut(learned, held, times, groups, how)


def _codes(column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401  (of pyarrow)
    """Number the values of a column; missing ones are a value of their own."""
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def learn_columns(rows: TrainingTable, cut: Cut, roles: Roles) -> TableEncoder:
    """Learn the columns from the rows to learn from, and from no other."""
    return TableEncoder.learn(
        rows.data.take(cut.learned),
        target=rows.target,
        roles=roles,
        style=rows.source.style,
        name=rows.source.name,
        rows=1 + cut.learned,
    )
