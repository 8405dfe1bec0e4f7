"""One table, whatever it is kept in, read in batches of rows."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from calibrant.tables._csv import CsvReader
from calibrant.tables._errors import input_error
from calibrant.tables._frame import FrameReader
from calibrant.tables._header import check_columns
from calibrant.tables._parquet import ParquetReader
from calibrant.tables._path import PARQUET, ending, file_name, locate_file
from calibrant.tables.style import Style

__all__ = ["Batch", "Source", "open_source", "require_rows"]

ROWS = 65_536


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Parameters
    ----------
    data
        A :class:`pyarrow.RecordBatch` of the columns that were asked for.
    first_row
        Number of its first row; 1 is the first row of the table, under the header.
    share
        Part of the table read so far, from 0 to 1.

    Examples
    --------
    >>> batch = next(open_source({"rooms": [3, 4]}).batches())
    >>> batch.first_row, batch.share
    (1, 1.0)
    """

    data: pa.RecordBatch
    first_row: int
    share: float


class _Reader(Protocol):
    """What knows one kind of table; columns go by their places."""

    columns: tuple[str, ...]
    style: Style
    rows: int | None

    def empty(self, places: Sequence[int]) -> pa.RecordBatch: ...

    def parts(
        self, places: Sequence[int], rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]: ...


class Source:
    """One table, read as often as one likes.

    Parameters
    ----------
    name
        As the user wrote it: a path, or "the table" for one in memory.
    reader
        What knows this kind of table; :func:`open_source` finds it.
    path
        Of the file; None for a table in memory.

    Attributes
    ----------
    columns
        Names of all columns, without spaces around them.
    rows
        How many there are, if that is known without reading them; a file of text
        knows it when it has been read once.
    style
        Of the text, with delimiter and decimal mark found out.

    Examples
    --------
    >>> source = open_source({"rooms": [3, 4, 2], "price": [1.5, 2.0, 1.0]})
    >>> for batch in source.batches(["price"], rows=2):
    ...     print(batch.first_row, batch.data.column("price").to_pylist())
    1 [1.5, 2.0]
    3 [1.0]
    """

    def __init__(self, name: str, reader: _Reader, path: Path | None = None) -> None:
        self.name = name
        self.path = path
        self.columns: tuple[str, ...] = reader.columns
        self.rows: int | None = reader.rows
        self.style: Style = reader.style
        self._reader = reader

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse names that are no columns of this table."""
        check_columns(columns, self.columns, self.name)

    def batches(
        self, columns: Sequence[str] | None = None, *, rows: int = ROWS
    ) -> Iterator[Batch]:
        """Yield the table from its first row to its last.

        Parameters
        ----------
        columns
            Which, in this order; None takes all.
        rows
            The most that a batch may have; very wide rows make smaller batches.
        """
        if rows < 1:
            raise input_error(f"rows must be at least 1, got {rows}.")
        names, places = self._places(columns)
        return self._numbered(names, places, rows)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the whole table, or some columns, as a :class:`pyarrow.Table`."""
        names, places = self._places(columns)
        batches = [batch.data for batch in self._numbered(names, places, ROWS)]
        return pa.Table.from_batches(
            batches or [self._reader.empty(places).select(names)]
        )

    def _places(self, columns: Sequence[str] | None) -> tuple[list[str], list[int]]:
        """Return the wanted names, and the places of the columns to read for them."""
        names = list(self.columns if columns is None else columns)
        check_columns(names, self.columns, self.name)
        known = {column: place for place, column in enumerate(self.columns)}
        # Without any column nobody could count the rows.
        return names, [known[name] for name in dict.fromkeys(names)] or [0]

    def _numbered(
        self, names: list[str], places: list[int], rows: int
    ) -> Iterator[Batch]:
        first = 1
        for data, share in self._reader.parts(places, rows):
            if data.num_rows:
                yield Batch(data.select(names), first, share)
                first += data.num_rows
        self.rows = first - 1


def open_source(
    table: object, *, style: Style | None = None, expect: Sequence[str] | None = None
) -> Source:
    """Open a table of any kind; only the first lines of a file are read for that.

    Parameters
    ----------
    table
        Path of a file (``.csv``, ``.tsv`` or ``.txt``, also with ``.gz`` behind it, or
        ``.parquet``), a data frame, a :class:`pyarrow.Table`, or a mapping of column
        names to arrays of shape ``(n,)``.
    style
        How a file of text is written; what it leaves open is found out.
    expect
        Columns that must be there.

    Raises
    ------
    InputError
        With one line that names the file, and the row and the column if it is theirs.

    Examples
    --------
    >>> source = open_source({"rooms": [3, 4], "city": ["Rome", "n/a"]})
    >>> source.columns, source.rows
    (('rooms', 'city'), 2)
    >>> source.read().to_pylist()
    [{'rooms': 3, 'city': 'Rome'}, {'rooms': 4, 'city': None}]
    """
    style = Style() if style is None else style
    expect = () if expect is None else tuple(expect)
    if isinstance(table, Source):
        check_columns(expect, table.columns, table.name)
        return table
    reader: _Reader
    name, path = "the table", None
    if isinstance(table, str | os.PathLike):
        path = locate_file(table)
        name = file_name(table)
        if ending(path)[0] in PARQUET:
            reader = ParquetReader(path, name, style)
        else:
            reader = CsvReader(path, name, style, expect)
    else:
        reader = FrameReader(table, name, style)
    check_columns(expect, reader.columns, name)
    return Source(name, reader, path)


def require_rows(data: pa.Table | pa.RecordBatch, *, name: str, least: int = 1) -> None:
    """Refuse a table or batch with fewer than ``least`` rows.

    >>> require_rows(open_source({"a": [1]}).read(), name="the table")
    """
    if data.num_rows == 0:
        raise input_error(f"{name}: there is a header, but no rows below it.")
    if data.num_rows < least:
        raise input_error(
            f"{name}: at least {least:,} rows are needed, got {data.num_rows:,}."
        )
