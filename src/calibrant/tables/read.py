"""Tables from files and from memory, read in batches of rows."""

import contextlib
import csv
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from calibrant.errors import InputError
from calibrant.tables.options import (
    Style,
    check_columns,
    close_names,
    listed,
    one_line,
    shortened,
    shown,
)

__all__ = [
    "PARQUET",
    "Batch",
    "Source",
    "ending",
    "open_source",
    "require_rows",
    "user_path",
]

#: Rows of a batch, unless one asks for others.
ROWS = 65_536
TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
MOST_COLUMNS = 20_000
LONGEST_NAME = 1_000
#: Bytes of text that are parsed at once, and the most that a row may have.
BLOCK = 1 << 20
#: Bytes that a batch of Parquet should not have more of, as far as the file tells.
MOST_BYTES = 1 << 26
#: Bytes in memory that any gzip file may become, and times its size above that: more
#: than any table needs, and few enough that a small file cannot fill the memory.
MOST_UNPACKED = 1 << 28
MOST_TIMES = 500

_READ = "Tables are read from .csv, .tsv, .txt (also with .gz behind it) and .parquet."


# Paths ------------------------------------------------------------------------------


def ending(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Return the suffix in lower case without ``.gz``, and whether that was there.

    >>> ending("a/B.CSV.gz")
    ('.csv', True)
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix, name.endswith(".gz")


def user_path(path: str | os.PathLike[str], *, what: str) -> Path:
    """Return what the user wrote as a path, with ``~`` for the home folder."""
    given: object = os.fspath(path)
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise InputError(f"{what} must be the path of a file, got {path!r}.")
    return Path(os.path.expanduser(given))  # noqa: PTH111  (keeps an unknown ~user)


def _locate(path: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file that may hold a table, or say why it cannot."""
    place = user_path(path, what="a table")
    suffix, packed = ending(place)
    fault = ""
    try:
        size = place.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        near = close_names(place.name, _names(place.parent))
        hint = f"Did you mean {listed(near)}?" if near else "Check the path."
        raise InputError(f"{name}: there is no such file. {hint}") from None
    except OSError as error:
        raise _cannot_read(name, error) from error
    if place.is_dir():
        tables = [n for n in _names(place) if ending(n)[0] in (*TEXT, *PARQUET)]
        hint = f"Name a file in it, e.g. {shown(tables[0])}." if tables else _READ
        fault = f"this is a folder. {hint}"
    elif suffix.startswith((".xls", ".ods")):
        fault = "this is a spreadsheet. Save the sheet as CSV UTF-8."
    elif suffix not in TEXT and (suffix not in PARQUET or packed):
        fault = f"files that end in {shown(place.suffix)} are not read. {_READ}"
    elif size == 0:
        fault = "the file is empty."
    if fault:
        raise InputError(f"{name}: {fault}")
    return place


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(entry.name for entry in folder.iterdir())
    return []


def _cannot_read(name: str, error: OSError) -> InputError:
    reason = os.strerror(error.errno) if error.errno else one_line(error)
    return InputError(f"{name}: the file cannot be read: {reason}.")


# Names of columns -------------------------------------------------------------------

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


def _checked_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names without spaces around them, or say what is wrong with them.

    A first column without a name most often counts the rows. It gets one.
    """
    clean = [column.strip() for column in names]
    clean[:1] = [column or "column 1" for column in clean[:1]]
    double = [
        column for column, count in Counter(clean).items() if column and count > 1
    ]
    long = [column for column in clean if len(column) > LONGEST_NAME]
    fault = ""
    if not 0 < len(names) <= MOST_COLUMNS:
        fault = (
            f"a table must have from 1 to {MOST_COLUMNS:,} columns, got "
            f"{len(names):,}. Check that rows and columns are not exchanged."
        )
    elif double:
        fault = (
            "columns must have different names, and more than one is called "
            f"{listed(double)}. Rename or remove them."
        )
    elif "" in clean:
        fault = (
            f"every column must have a name, and column {clean.index('') + 1} of "
            f"{len(names)} has none. Name or remove it; if it counts the rows, write "
            "the file without it (index=False in pandas)."
        )
    elif long:
        fault = (
            f"the name of a column may have {LONGEST_NAME:,} characters, and that of "
            f"column {clean.index(long[0]) + 1} has {len(long[0]):,}: "
            f"{shown(long[0])}. Check that the first line is the header."
        )
    elif no_text := _character("".join(clean)):
        fault = f"in the names of the columns, {no_text}"
    if fault:
        raise InputError(f"{name}: {fault}")
    return tuple(clean)


def _check_header(names: Sequence[str], name: str, expect: Sequence[str]) -> None:
    """Refuse a first line that holds numbers, unless they are names after all."""
    cells = [cell.strip() for cell in names]
    rest = cells[1:] if cells and not cells[0] else cells
    # pandas calls columns without a name 0, 1, 2, ...
    counted = len(rest) > 2 and rest == [str(place) for place in range(len(rest))]
    numbers = bool(rest) and all(map(_NUMBER.fullmatch, rest))
    if numbers and not counted and not set(rest) & set(expect):
        raise InputError(
            f"{name}: the first line must name the columns, and it holds numbers only: "
            f"{listed(cells, 4)}. Put a line with the names above it."
        )


def _character(text: str) -> str | None:
    """Say which character of a text cannot be, None if all can."""
    if "\0" in text:
        return "the cell holds a NUL byte. Remove it."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) & 0xFF
        return (
            f"the text must be UTF-8, and the cell holds the byte 0x{byte:02X}. Save "
            "the file as CSV UTF-8."
        )
    return None


# Sources ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Some rows of a table: the columns that were asked for."""

    data: pa.RecordBatch
    first_row: int
    """Number of its first row; 1 is the first row of the table, under the header."""
    share: float
    """Part of the table read so far, from 0 to 1."""


#: Yields batches of at most so many rows of the columns at these places, and the share
#: of the table that was read so far if only the reader knows it.
_Parts = Callable[[list[int], int], Iterator[tuple[pa.RecordBatch, float | None]]]


class Source:
    """One table, read as often as one likes.

    Made by :func:`open_source`.

    Attributes
    ----------
    name, path
        As the user wrote it, and of the file; "the table" and None for one in memory.
    columns
        Names of all columns, without spaces around them.
    rows
        How many there are, if that is known without reading them; a file of text
        knows it when it has been read once.
    style
        Of the text, with delimiter and decimal mark detected.

    Examples
    --------
    >>> source = open_source({"rooms": [3, 4, 2], "price": [1.5, 2.0, 1.0]})
    >>> for batch in source.batches(["price"], rows=2):
    ...     print(batch.first_row, batch.data.column("price").to_pylist())
    1 [1.5, 2.0]
    3 [1.0]
    """

    def __init__(
        self,
        name: str,
        style: Style,
        schema: pa.Schema,
        parts: _Parts,
        rows: int | None = None,
        path: Path | None = None,
    ) -> None:
        self.name, self.rows, self.path = name, rows, path
        self.style = style.found(delimiter=None, decimal=".")
        self.columns = _checked_names(schema.names, name)
        self.schema = pa.schema(list(zip(self.columns, schema.types, strict=True)))
        self._parts = parts

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse names that are no columns, and say which may have been meant."""
        check_columns(columns, self.columns, name=self.name)

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
            raise InputError(f"rows must be at least 1, got {rows}.")
        names = list(self.columns if columns is None else columns)
        self.check_columns(names)
        return self._numbered(names, rows)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the whole table, or some columns, as a :class:`pyarrow.Table`."""
        names = list(self.columns if columns is None else columns)
        parts = [batch.data for batch in self.batches(names)]
        if parts:
            return pa.Table.from_batches(parts)
        return self.schema.empty_table().select(names)

    def _numbered(self, names: list[str], rows: int) -> Iterator[Batch]:
        known = {column: place for place, column in enumerate(self.columns)}
        # Without any column nobody could count the rows.
        places = [known[name] for name in dict.fromkeys(names)] or [0]
        first = 1
        for part, share in self._parts(places, rows):
            if part.num_rows:
                data = part.rename_columns([self.columns[place] for place in places])
                done = (first - 1 + part.num_rows) / max(self.rows or 1, 1)
                share = min(done, 1.0) if share is None else share
                yield Batch(data.select(names), first, share)
                first += part.num_rows
        self.rows = first - 1


# Text files -------------------------------------------------------------------------

_GZIP = b"\x1f\x8b"
_BEGINNINGS = {
    (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"): (
        "this looks like an Excel or zip file. Save the sheet as CSV UTF-8."
    ),
    (b"PAR1",): "this is a Parquet file. Let its name end in .parquet.",
    (b"%PDF",): "this is a PDF file. Save the table as CSV UTF-8.",
    (b"\xff\xfe", b"\xfe\xff"): "the text is in UTF-16. Save it as CSV UTF-8.",
    (b"<",): "this is a web page or XML, not a table. Save the table as CSV.",
    (b"[{", b'{"'): "this looks like JSON. Save the table as CSV.",
}
_DELIMITERS = (",", ";", "\t", "|")
#: Blank lines above the header, and the line that some programs write for Excel.
_ABOVE = re.compile(
    r'\ufeff?(?:[ \t]*(?:\r\n|\r|\n))*(?:"?sep=(.)"?[ \t]*(?:\r\n|\r|\n))?',
    re.IGNORECASE,
)
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_BOTH = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+")


class _TextSource(Source):
    """A file of text, every cell as text, read anew for every pass."""

    def __init__(
        self, path: Path, name: str, style: Style, expect: Sequence[str]
    ) -> None:
        self.name, self.path = name, path
        with self._opened() as (raw, stream):
            head = stream.read(BLOCK)
            if ending(path)[1] and stream is raw:
                raise InputError(
                    f"{name}: the name ends in .gz, and the file is not compressed by "
                    "gzip. Rename it without .gz, or download it again."
                )
        content = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not content:
            raise InputError(f"{name}: the file is empty but for spaces and line ends.")
        for starts, fault in _BEGINNINGS.items():
            if content.startswith(starts):
                raise InputError(f"{name}: {fault}")
        # What is no UTF-8 becomes a lone surrogate, for a later message.
        text = head.decode("utf-8", "surrogateescape")
        match = _ABOVE.match(text)
        above = match.end() if match else 0
        delimiter = style.delimiter or (match and match[1])
        delimiter = delimiter or _delimiter(text[above:], ending(path)[0])
        lines, names, fault = io.StringIO(text[above:], newline=""), [], ""
        try:
            names = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
        except csv.Error as error:
            fault = f"it cannot be read ({error})"
        if len(head) == BLOCK and lines.tell() == len(text) - above:
            fault = "it is too long"
        if fault:
            raise InputError(
                f"{name}: the first line must name the columns, and {fault}: "
                f"{shown(text[above:])}. Check its quotes, and that the file has lines."
            )
        _check_header(names, name, expect)
        below = above + lines.tell()
        self._start = len(text[:below].encode("utf-8", "surrogateescape"))
        decimal = _decimal(text[below:], delimiter, style)
        style = style.found(delimiter=delimiter, decimal=decimal)
        columns = _checked_names(names, name)
        schema = pa.schema([(column, pa.string()) for column in columns])
        super().__init__(name, style, schema, self._read_text, path=path)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """Open the file as it is and unpacked; whatever goes wrong is one line."""
        try:
            raw = pa.OSFile(str(self.path))
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            yield raw, pa.CompressedInputStream(raw, "gzip") if packed else raw
        except OSError as error:
            if error.errno is not None:
                raise _cannot_read(self.name, error) from error
            raise InputError(
                f"{self.name}: the gzip file is cut off or damaged. Download it again."
            ) from error

    def _read_text(
        self, places: list[int], rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        count, unpacked, self._doubt = 0, 0, False
        with self._opened() as (raw, stream):
            stream.read(self._start)
            size = max(raw.size(), 1)
            most = max(MOST_UNPACKED, MOST_TIMES * size)
            try:
                for block in self._blocks(stream, places):
                    cells = [
                        self._tidy(column, place, count)
                        for column, place in zip(block.columns, places, strict=True)
                    ]
                    count, unpacked = count + block.num_rows, unpacked + block.nbytes
                    if stream is not raw and unpacked > most:
                        raise InputError(
                            f"{self.name}: a gzip file may become {MOST_TIMES} times "
                            "its size, and this one becomes more. If you trust it, "
                            "unpack it yourself (gunzip) and give the unpacked file."
                        )
                    tidy = pa.record_batch(cells, block.schema)
                    share = raw.tell() / size
                    for start in range(0, block.num_rows, rows):
                        yield tidy.slice(start, rows), share
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                reason = f": no table can be read from it: {one_line(error)}."
                raise InputError(f"{self.name}{self._fault() or reason}") from error
        # pyarrow takes the end of the file for the end of an open quote.
        if self._doubt and (fault := self._fault()):
            raise InputError(f"{self.name}{fault}")

    def _blocks(
        self, stream: pa.NativeFile, places: list[int]
    ) -> Iterator[pa.RecordBatch]:
        # Places for names: what others call a column is never parsed.
        every = [str(place) for place in range(len(self.columns))]
        spellings = {
            spelling
            for token in self.style.tokens
            for spelling in (token, token.upper(), token.capitalize())
        }
        yield from pyarrow.csv.open_csv(
            stream,
            # Blocks in threads gave nothing here, and errors would come in any order.
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=BLOCK, column_names=every
            ),
            pyarrow.csv.ParseOptions(
                delimiter=self.style.delimiter, newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(every, pa.string()),
                include_columns=[str(place) for place in places],
                null_values=[*spellings, "NaN", "NaT"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )

    def _tidy(self, cells: pa.Array, place: int, before: int) -> pa.Array:
        """Remove spaces around cells; nearly all columns have none, as bytes tell."""
        codes = np.frombuffer(cells.buffers()[2] or b"", dtype=np.uint8)
        if (codes - np.uint8(33) < 128 - 33).all():
            return cells
        if pc.any(pc.match_substring(cells, "\0")).as_py():
            raise pa.ArrowInvalid("it holds NUL bytes")
        self._check_lines(cells, place, before)
        cells = pc.utf8_trim_whitespace(cells)
        tokens = pa.array(self.style.tokens, pa.string())
        absent = pc.is_in(pc.utf8_lower(cells), value_set=tokens)
        return pc.if_else(absent, pa.scalar(None, pa.string()), cells)

    def _check_lines(self, cells: pa.Array, place: int, before: int) -> None:
        """Refuse cells that hold rows of the table, between two stray quotes.

        All lines of such a cell are cut into as many cells as the rows are. Of short
        ones and those that end with a line ``_doubt`` remembers that there are some.
        """
        mark, marks = str(self.style.delimiter), len(self.columns) - 1
        found = pc.indices_nonzero(pc.match_substring_regex(cells, r"[\r\n]"))
        for row in found.to_pylist():
            first, *inner, last = re.split("\r\n|\r|\n", cells[row].as_py())
            counts = [line.count(mark) for line in (first, *inner, last)]
            alike = counts == [marks - place, *[marks] * len(inner), place]
            if alike and len(inner) * marks >= 4:
                raise InputError(
                    f"{self.name}, row {before + row + 1:,}, column "
                    f"{shown(self.columns[place])}: a quote is opened and closed again "
                    f"{len(inner) + 1:,} lines below, and the lines between look like "
                    "rows of the table. Remove both quotes, or save the table as "
                    "Parquet if that is one cell."
                )
            self._doubt |= alike or not last

    def _fault(self) -> str | None:
        """Read the file once more, slowly, and say what is wrong with which row.

        Rows count from 1 below the header; empty lines do not count, and a quoted cell
        may go over several lines.
        """
        row, delimiter = 1, str(self.style.delimiter)
        with self._opened() as (_, stream):
            stream.read(self._start)
            text = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="")
            try:
                for cells in csv.reader(text, delimiter=delimiter, strict=True):
                    if cells and (fault := self._row_fault(cells)):
                        return f", row {row:,}{fault}"
                    row += bool(cells)
            except csv.Error as error:
                fault = "a quote is opened and not closed. Correct or remove it."
                if "expected after" in str(error):
                    fault = (
                        "text stands behind a closing quote. A quote inside a cell "
                        "must be written twice."
                    )
                return f", row {row:,}: {fault}"
        return None

    def _row_fault(self, cells: list[str]) -> str | None:
        if sum(map(len, cells)) > BLOCK:
            return (
                f": a row may have {BLOCK:,} bytes, and this one has more. Check that "
                "the quotes are closed, or leave the long column out."
            )
        if len(cells) != len(self.columns):
            mark = str(self.style.delimiter).replace("\t", "tab")
            hint = f"Correct it, or put cells that hold {mark!r} in quotes."
            if len(self.columns) == 1:
                hint = "Check that the first line names the columns."
            return (
                f": a row must have as many cells as the header, {len(self.columns):,},"
                f" and this one has {len(cells):,}. {hint}"
            )
        for column, cell in zip(self.columns, cells, strict=True):
            if fault := _character(cell):
                return f", column {shown(column)}: {fault}"
        return None


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    """Return the first rows with anything in them."""
    text = text[: BLOCK // 8]  # below the length at which csv refuses a cell
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return itertools.islice((row for row in rows if any(map(str.strip, row))), 200)


def _delimiter(text: str, suffix: str) -> str:
    """Find the character that parts the header as it parts the rows below it."""
    best, best_rank = "\t" if suffix == ".tsv" else ",", (0.0, 0)
    for mark in _DELIMITERS:
        counts = [len(row) for row in _records(text, mark)]
        if not counts or counts[0] == 1:
            continue
        below = counts[1:-1] or counts[1:]  # the last one may be cut off
        same = sum(count == counts[0] for count in below)
        rank = (same / len(below) if below else 1.0, counts[0])
        if rank > best_rank:
            best, best_rank = mark, rank
    return best


def _decimal(text: str, delimiter: str, style: Style) -> str:
    """Tell which mark the numbers have; a comma only if nothing speaks for a point."""
    if style.thousands in (",", "."):
        return "." if style.thousands == "," else ","
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in _records(text, delimiter) for cell in row]
    if any(_BOTH.fullmatch(cell) for cell in cells):
        return ","
    commas = sum(_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(_POINT.fullmatch(cell) is not None for cell in cells)
    if commas == points == 0 and style.usual_decimal is not None:
        return style.usual_decimal
    return "," if commas > points else "."


# Typed tables -----------------------------------------------------------------------


def _parquet(path: Path, name: str, style: Style) -> Source:
    @contextlib.contextmanager
    def opened() -> Iterator[pyarrow.parquet.ParquetFile]:
        """Open the file; whatever untrusted bytes lead to is one line."""
        try:
            # In pieces of a column; the default is a whole group of rows.
            with pyarrow.parquet.ParquetFile(
                path, buffer_size=1 << 20, pre_buffer=False
            ) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            # An error of pyarrow about the content has no number of the system.
            if isinstance(error, OSError) and error.errno is not None:
                raise _cannot_read(name, error) from error
            raise InputError(
                f"{name}: this is no Parquet file, or a damaged one "
                f"({one_line(error, 120)}). Write or download it again."
            ) from error

    def parts(places: list[int], rows: int) -> Iterator[tuple[pa.RecordBatch, None]]:
        wanted = [schema.names[place] for place in places]
        with opened() as file:
            for batch in file.iter_batches(
                min(rows, most), columns=wanted, use_threads=False
            ):
                batch.validate(full=True)  # text may be no UTF-8
                yield batch.select(wanted), None

    with opened() as file:
        about, schema = file.metadata, file.schema_arrow
        groups = [about.row_group(place) for place in range(about.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    most = max(MOST_BYTES * about.num_rows // max(size, 1), 1)
    return Source(name, style, schema, parts, about.num_rows, path)


def _in_memory(table: Any, name: str, style: Style) -> Source:  # noqa: ANN401
    if isinstance(table, Mapping):
        keys, columns = list(table), list(table.values())
    elif hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        keys = list(table.columns)
        columns = [table.iloc[:, place] for place in range(len(keys))]
    elif isinstance(table, pa.RecordBatch) or hasattr(table, "__arrow_c_stream__"):
        with _as_table(name):
            table = table if isinstance(table, pa.RecordBatch) else pa.table(table)
        keys, columns = table.schema.names, table.columns
    else:
        raise InputError(
            "a table must be the path of a file, a data frame, an arrow table or a "
            f"mapping of column names to arrays, got {type(table).__name__}."
        )
    names = list(map(str, keys))
    arrays = [_array(v, key, name) for v, key in zip(columns, names, strict=True)]
    with _as_table(name):  # columns may be of different lengths
        whole = pa.table(arrays, names=names)

    def parts(places: list[int], rows: int) -> Iterator[tuple[pa.RecordBatch, None]]:
        for batch in whole.select(places).to_batches(max_chunksize=rows):
            yield batch, None

    return Source(name, style, whole.schema, parts, whole.num_rows)


@contextlib.contextmanager
def _as_table(name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name} is not a table: {one_line(error)}.") from error


def _array(values: Any, column: str, name: str) -> pa.Array:  # noqa: ANN401
    """Return one column as arrow; one of mixed types as text, as a file would hold."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not hasattr(values, "iloc") and not isinstance(values, list):
        values = np.asarray(values)
    if getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"{name}, column {shown(column)}: a column must be a list or an array of "
            f"one dimension, got shape {tuple(values.shape)}."
        )
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        # None, NaN, NaT and NA are told from values without importing pandas.
        empty = ("NoneType", "NAType", "NaTType")
        return pa.array(
            [None if type(v).__name__ in empty or v != v else str(v) for v in values],
            pa.string(),
        )


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
        How a file of text is written; what it leaves open is detected.
    expect
        Columns that must be there.

    Raises
    ------
    InputError
        With one line that names the file, and the row and the column if it is theirs.

    Examples
    --------
    >>> source = open_source({"rooms": [3, 4], "city": ["Rome", "Oslo"]})
    >>> source.columns, source.rows
    (('rooms', 'city'), 2)
    >>> source.read(["city"]).to_pylist()
    [{'city': 'Rome'}, {'city': 'Oslo'}]
    """
    style, expect = style or Style(), tuple(expect or ())
    source: Source
    if isinstance(table, Source):
        source = table
    elif not isinstance(table, str | os.PathLike):
        source = _in_memory(table, "the table", style)
    else:
        name = shortened(os.fspath(table), 300)
        path = _locate(table, name)
        if ending(path)[0] in PARQUET:
            source = _parquet(path, name, style)
        else:
            source = _TextSource(path, name, style, expect)
    source.check_columns(expect)
    return source


def require_rows(data: pa.Table | pa.RecordBatch, *, name: str, least: int = 1) -> None:
    """Refuse a table or batch with fewer than ``least`` rows.

    >>> require_rows(open_source({"a": [1]}).read(), name="the table")
    """
    if data.num_rows == 0:
        raise InputError(f"{name}: there is a header, but no rows below it.")
    if data.num_rows < least:
        raise InputError(
            f"{name}: at least {least:,} rows are needed, got {data.num_rows:,}."
        )
