"""Rows of a table as a matrix of numbers, by what the training rows taught."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calibrant.errors import InputError
from calibrant.tables.columns import (
    Column,
    ColumnLine,
    Findings,
    Reading,
    TargetRule,
    restored,
    row_codes,
)
from calibrant.tables.infer import Sample, infer_column
from calibrant.tables.options import (
    Roles,
    Style,
    check_columns,
    check_roles,
    one_line,
    shown,
)
from calibrant.tables.parse import (
    BoolArray,
    FloatArray,
    family,
    plain,
    read_numbers,
    read_target,
)

__all__ = ["TableEncoder"]

VERSION = 2


@dataclass(frozen=True, kw_only=True)
class TableEncoder:
    """What a model knows about the columns of its table.

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

    def __post_init__(self) -> None:
        names = {column.name for column in self.columns}
        if len(names) < len(self.columns) or not self.needed:
            raise InputError("columns must have different names, and one must be used")

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the matrix's d columns, all different."""
        names = [name for column in self.columns for name in column.features]
        taken, unique = set(names), dict[str, None]()
        for name in names:
            # Only if a header holds a name that is made here, too.
            others = (f"{name} ({number})" for number in itertools.count(2))
            free = (other for other in others if other not in taken | unique.keys())
            unique[next(free) if name in unique else name] = None
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
            The training rows, n of them, with columns of different names.
        target
            The column that is to be predicted.
        roles, style
            What columns are for, and how the file is written.
        name, rows
            Of the file and numbers ``(n,)`` of the rows in it, for messages; None: all.
        """
        names = table.column_names
        if not table.num_rows:
            raise InputError(f"{name} must have rows to learn from, and it has none.")
        check_roles(roles, columns=names, target=target, name=name)
        y, answers = None, plain(table.column(target))
        if family(answers.type) in ("number", "text"):
            parsed, _ = read_numbers(answers, style)
            y = parsed.values if parsed.mostly_good else None
        columns = tuple(
            infer_column(
                Sample(name=column, cells=plain(cells), style=style, rows=rows, y=y),
                target=target,
                roles=roles,
            )
            for column, cells in zip(names, table.columns, strict=True)
        )
        if not any(column.used for column in columns):
            raise InputError(_nothing_left(columns, name=name))
        return cls(columns=columns, target=target, style=style)

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
        name, first_row
            Of the file, and the number of the first row in it, for messages.
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
        check_columns(self.needed, data.schema.names, name=name)
        findings = Findings() if findings is None else findings
        used = np.ones(data.num_rows, dtype=np.bool_) if used is None else used
        outside = np.zeros(data.num_rows, dtype=np.bool_)
        parts = []
        for column in self.columns:
            if column.rule is None:
                continue
            cells = plain(data.column(column.name))
            if family(cells.type) == "other":
                raise InputError(
                    f"{name}, column {shown(column.name)}: a {column.kind} was "
                    f"expected, got cells of type {cells.type}."
                )
            own = self.style_for(style, column.name)
            reading = Reading(
                *(name, column, own, findings, outside, used), first_row, strict
            )
            parts.append(column.rule.encode(cells, reading))
        findings.rows += int(used.sum())
        findings.rows_outside += int((outside & used).sum())
        return np.ascontiguousarray(np.hstack(parts))

    @property
    def uses_target(self) -> bool:
        """Whether training rows need :meth:`encode_training`."""
        return any(isinstance(column.rule, TargetRule) for column in self.columns)

    def encode_training(
        self,
        data: pa.Table,
        *,
        name: str,
        labels: npt.NDArray[np.int64],
        style: Style | None = None,
        folds: int = 5,
        seed: int = 0,
    ) -> FloatArray:
        """Return training rows as a matrix ``(n, d)`` in which no row's target is.

        Mean targets are those of the other folds, so that a model that learns from
        these rows, or is recalibrated on them, meets what it will meet on new rows.

        Parameters
        ----------
        data, name, style
            The training rows with their target; see :meth:`encode`.
        labels
            Shape ``(n,)``: rows with the same label are in the same fold. Rows with
            equal features must have the same, and stay equal.
        folds, seed
            How many folds, and how rows come into them.
        """
        matrix = self.encode(data, name=name, style=style)
        style_of = {c.name: self.style_for(style, c.name) for c in self.columns}
        y = read_target(
            data[self.target],
            target=self.target,
            name=name,
            style=style_of[self.target],
        )
        codes = np.unique(labels, return_inverse=True)[1]
        order = np.random.default_rng(seed).permutation(codes.max(initial=0) + 1)
        fold, last = (order % folds)[codes], 0
        for column in self.columns:
            first, last = last, last + len(column.features)
            rule = column.rule
            if not isinstance(rule, TargetRule):
                continue
            cells = plain(data.column(column.name))
            codes = row_codes(cells, rule.levels, style_of[column.name])
            for number in range(folds):
                mask = fold == number
                others = TargetRule.learn(codes, np.where(mask, np.nan, y), rule.levels)
                others = replace(others, flag=rule.flag)
                matrix[mask, first:last] = others.columns(codes[mask])
        return matrix

    def style_for(self, style: Style | None, column: str | None = None) -> Style:
        """Return the style of a file or of one of its columns.

        What means "missing" in training means it there, too. Numbers of a column that
        had a unit or thousands in training may have them in a file like that one.
        """
        style = self.style if style is None else style
        missing = tuple(dict.fromkeys((*self.style.missing, *style.missing)))
        own = next((c.style for c in self.columns if c.name == column), None)
        if own is None or (style.decimal or ".") != (self.style.decimal or "."):
            return replace(style, missing=missing)
        marks = {"decimal": own.decimal, "thousands": own.thousands, "unit": own.unit}
        return replace(style, missing=missing, **marks)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON, for :meth:`from_dict`."""
        described = json.loads(json.dumps(asdict(self), allow_nan=False))
        return {"version": VERSION, **described}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableEncoder":
        """Return what :meth:`to_dict` described; an untrusted file is checked."""
        try:
            if content["version"] != VERSION:
                raise InputError(f"'version' must be {VERSION}")
            encoder: TableEncoder = restored(cls, content)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                "the description of the columns in the model is damaged: "
                f"{one_line(error)}. Fit the model again, or get the folder once more."
            ) from error
        return encoder


def _nothing_left(columns: Sequence[Column], *, name: str) -> str:
    others = [column for column in columns if column.kind != "target"]
    if not others:
        return (
            f"{name} must have a column besides the target {shown(columns[0].name)}, "
            "and it has none."
        )
    why = "; ".join(f"{shown(column.name)}: {column.done}" for column in others[:3])
    more = f"; and {len(others) - 3:,} more" if len(others) > 3 else ""
    return f"{name} must have a column to predict from, and none is left ({why}{more})."
