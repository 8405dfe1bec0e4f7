"""What a model knows about the columns of its table, and how rows become numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calibrant.tables._cells import BoolArray, FloatArray, family, plain, whole
from calibrant.tables._description import Description, damaged
from calibrant.tables._errors import input_error, listed, shown
from calibrant.tables._reading import Reading
from calibrant.tables._sample import Sample
from calibrant.tables._words import amount, close_to
from calibrant.tables.column import Column, ColumnLine
from calibrant.tables.findings import Findings
from calibrant.tables.kinds import learn_kind, learn_time
from calibrant.tables.roles import Roles, check_roles
from calibrant.tables.style import Style

__all__ = ["TableEncoder"]

MOST_COLUMNS = 100_000
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TableEncoder:
    """Rows of a table as a matrix of numbers, by what the training rows taught.

    Parameters
    ----------
    columns
        Every column of the training file, in its order.
    target
        The name of the target.
    style
        How the training file was written.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"size": ["50", "60", None], "price": [1.0, 2.0, 3.0]})
    >>> encoder = TableEncoder.learn(
    ...     table, target="price", roles=Roles(), style=Style(), name="houses.csv"
    ... )
    >>> encoder.feature_names
    ('size', 'size is missing')
    >>> print(encoder.columns[0].done)
    number; 1 missing filled with the median 55 and flagged
    >>> encoder.encode(pa.table({"size": [70, None]}), name="new.parquet")
    array([[70.,  0.],
           [55.,  1.]])
    """

    columns: tuple[Column, ...]
    target: str
    style: Style

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the matrix's d columns, all different."""
        names = [name for column in self.columns for name in column.features]
        seen: Counter[str] = Counter()
        taken = set(names)
        unique = []
        for name in names:
            seen[name] += 1
            # Only if a header holds a name that is made here, too.
            unique.append(name if seen[name] == 1 else _free(name, taken))
        return tuple(unique)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The columns that a new file must have."""
        return tuple(column.name for column in self.columns if column.used)

    @property
    def lines(self) -> tuple[ColumnLine, ...]:
        """What was done with each column."""
        return tuple(column.line() for column in self.columns)

    @classmethod
    def learn(
        cls,
        table: pa.Table,
        *,
        target: str,
        roles: Roles,
        style: Style,
        name: str,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> "TableEncoder":
        """Find out what the columns are, from the training rows only.

        Parameters
        ----------
        table
            The training rows, n of them.
        target
            The column that is to be predicted.
        roles
            What the user says about columns.
        style
            How the file is written.
        name
            Of the file, for messages.
        rows
            The rows' numbers in the file, shape ``(n,)``, 1 for the first one; None
            if it is all of the file.
        """
        names = table.column_names
        _check_table(table, name=name)
        check_roles(roles, columns=names, target=target, name=name)
        columns = [
            _learn(
                Sample(name=each, cells=whole(column), style=style, rows=rows),
                target=target,
                roles=roles,
            )
            for each, column in zip(names, table.columns, strict=True)
        ]
        if not any(column.used for column in columns):
            raise input_error(_nothing_left(columns, name=name))
        return cls(columns=tuple(columns), target=target, style=style)

    def encode(
        self,
        data: pa.RecordBatch | pa.Table,
        *,
        name: str,
        first_row: int = 1,
        style: Style | None = None,
        findings: Findings | None = None,
        used: BoolArray | None = None,
        strict: bool = False,
    ) -> FloatArray:
        """Return rows as a matrix of shape ``(n, d)`` without gaps.

        Parameters
        ----------
        data
            Has the needed columns in any order; others are ignored.
        name
            Of the file, for messages.
        first_row
            The number of the first row; 1 is the one below the header.
        style
            How the file is written; None takes that of training.
        findings
            Where unusual things are written down.
        used
            Shape ``(n,)``: rows that count there, as those that have a target; None for
            all.
        strict
            Whether a cell that does not fit its column is an error; else it counts as
            missing unless most of the column is such.
        """
        self._check_columns(data.schema.names, name=name)
        matrix = np.empty((data.num_rows, len(self.feature_names)))
        start = 0
        whole_table = isinstance(data, pa.Table)
        batches = data.combine_chunks().to_batches() if whole_table else [data]
        for batch in batches:
            outside = np.zeros(batch.num_rows, dtype=np.bool_)
            counted = None if used is None else used[start : start + batch.num_rows]
            reading = Reading(
                name=name,
                first_row=first_row + start,
                style=self.style_for(style),
                strict=strict,
                findings=findings,
                outside=outside,
                used=counted,
            )
            self._write(batch, reading, matrix[start : start + batch.num_rows])
            start += batch.num_rows
            if findings is not None:
                counts = counted if counted is not None else np.ones_like(outside)
                findings.rows += int(counts.sum())
                findings.rows_outside += int((outside & counts).sum())
        return matrix

    def style_for(self, style: Style | None) -> Style:
        """Return the style of a file, with what means "missing" in training as well."""
        if style is None:
            return self.style
        missing = tuple(dict.fromkeys((*self.style.missing, *style.missing)))
        return replace(style, missing=missing)

    def _write(self, batch: pa.RecordBatch, reading: Reading, out: FloatArray) -> None:
        first = 0
        for column in self.columns:
            if column.rule is None:
                continue
            cells = plain(batch.column(column.name))
            if family(cells.type) == "other":
                raise input_error(
                    f"{reading.name}, column {shown(column.name)}: a {column.kind} was "
                    f"expected, got cells of type {cells.type}."
                )
            last = first + len(column.features)
            # That new rows are later than those of training is no news.
            own = replace(reading, any_range=column.kind == "time")
            column.rule.encode(column.name, cells, own, out[:, first:last])
            first = last

    def _check_columns(self, names: Sequence[str], *, name: str) -> None:
        counts = Counter(names)
        absent = [each for each in self.needed if each not in counts]
        if absent:
            near = close_to(absent[0], [each for each in counts if each != self.target])
            verb = "is" if len(absent) == 1 else "are"
            raise input_error(
                f"{name} must have the columns that the model was trained with, and "
                f"{amount(len(absent), 'column')} of them {verb} missing: "
                f"{listed(absent)}{near}."
            )
        double = [each for each in self.needed if counts[each] > 1]
        if double:
            raise input_error(
                f"{name} must have each column once, got twice: {listed(double)}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON, for :meth:`from_dict`."""
        return {
            "version": VERSION,
            "target": self.target,
            "decimal": self.style.decimal,
            "thousands": self.style.thousands,
            "missing": list(self.style.missing),
            "columns": [column.to_dict() for column in self.columns],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableEncoder":
        """Return what :meth:`to_dict` described; a stranger's file is checked."""
        entry = Description(content, "it")
        if entry.count("version") != VERSION:
            raise damaged(f"'version' must be {VERSION}")
        columns = tuple(
            Column.from_dict(each, where=f"column {place}")
            for place, each in enumerate(entry.entries("columns", most=MOST_COLUMNS), 1)
        )
        names = [column.name for column in columns]
        if len(set(names)) < len(names) or not any(each.used for each in columns):
            raise damaged("its columns must have different names, and one must be used")
        return cls(columns=columns, target=entry.text("target"), style=_style(entry))


def _style(entry: Description) -> Style:
    marks = {key: entry.optional_text(key) for key in ("decimal", "thousands")}
    missing = entry.texts("missing", most=1_000)
    try:
        return Style(**marks, missing=missing)
    except ValueError as error:
        raise damaged(str(error)) from None


def _free(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    taken.add(f"{name} ({number})")
    return f"{name} ({number})"


def _check_table(table: pa.Table, *, name: str) -> None:
    if not table.num_rows:
        raise input_error(f"{name} must have rows to learn from, and it has none.")
    counts = Counter(table.column_names)
    double = [each for each, count in counts.items() if count > 1]
    if double:
        raise input_error(
            f"{name} must have columns of different names, got twice: {listed(double)}."
        )


def _learn(sample: Sample, *, target: str, roles: Roles) -> Column:
    name = sample.name
    if name == target:
        return Column(name=name, kind="target", done="the target, to be predicted")
    if name == roles.time:
        feature = name not in roles.drop
        return learn_time(sample, day_first=roles.day_first, feature=feature)
    if name in roles.drop:
        return Column(name=name, kind="dropped", done="left out, as you asked")
    if name == roles.group:
        done = "keeps rows that belong together on one side of a split; not a feature"
        return Column(name=name, kind="group", done=done)
    categorical = name in roles.categorical
    return learn_kind(sample, categorical=categorical, day_first=roles.day_first)


def _nothing_left(columns: Sequence[Column], *, name: str) -> str:
    others = [column for column in columns if column.kind != "target"]
    if not others:
        return (
            f"{name} must have a column besides the target {shown(columns[0].name)}, "
            "and it has none."
        )
    why = "; ".join(f"{shown(each.name)}: {each.done}" for each in others[:3])
    more = f"; and {len(others) - 3:,} more" if len(others) > 3 else ""
    return f"{name} must have a column to predict from, and none is left ({why}{more})."
