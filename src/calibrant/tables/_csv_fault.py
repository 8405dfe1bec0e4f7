"""A text file that could not be read, once more and slowly: which row is at fault."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from calibrant.tables._csv_look import Look
from calibrant.tables._csv_stream import ByteStream
from calibrant.tables._errors import shown

__all__ = ["find_fault", "swallowed_rows"]

# Delimiters in the inner lines of a cell that are no accident.
_MANY_MARKS = 4


def find_fault(path: Path, look: Look, *, longest: int) -> str | None:
    """Return what is wrong and where, as in ", row 3: ...", or None if nothing is.

    Rows count from 1 below the header; lines without any cell do not count, and a
    quoted cell may go over several lines.

    Parameters
    ----------
    path
        Of the file.
    look
        At its first lines.
    longest
        Bytes that a row may have.
    """
    with ByteStream(path, packed=look.packed) as stream:
        stream.take(look.start)
        lines = _Lines(stream, longest)
        reader = csv.reader(lines, delimiter=str(look.style.delimiter), strict=True)
        row = 0
        try:
            for cells in reader:
                if not _is_blank(cells, look):
                    row += 1
                    fault = _fault(cells, look, row)
                    fault = fault or _length(lines.taken(), row, longest)
                    if fault:
                        return fault
                lines.taken()
        except csv.Error as error:
            return _quote(row + 1, str(error))
    return None


def swallowed_rows(path: Path, look: Look, cell: str, place: int) -> str | None:
    """Say that a cell holds rows of the table between two stray quotes, if it does.

    All of its lines are then cut into as many cells as the rows are.

    Parameters
    ----------
    path, look
        As for :func:`find_fault`.
    cell
        With line feeds in it.
    place
        Of its column.
    """
    first, *inner, last = re.split("\r\n|\r|\n", cell)
    mark, marks = str(look.style.delimiter), len(look.columns) - 1
    if len(inner) * marks < _MANY_MARKS or any(x.count(mark) != marks for x in inner):
        return None
    if (first.count(mark), last.count(mark)) != (marks - place, place):
        return None
    line = _line_of(path, look, first, inner[0])
    between = f", lines {line:,} to {line + len(inner) + 1:,}" if line else ""
    return (
        f"{between}, column {shown(look.columns[place])}: a quote is opened and closed "
        f"again {len(inner) + 1:,} lines below, and the lines between look like rows "
        "of the table. Remove both quotes, or save the table as Parquet if that is "
        "one cell."
    )


def _line_of(path: Path, look: Look, first: str, second: str) -> int | None:
    """Return the number in the file of the line that ends so, before this one."""
    with ByteStream(path, packed=look.packed) as stream:
        above = len(stream.take(look.start).splitlines())
        before = ""
        for number, line in enumerate(_split(stream, 1 << 20), above):
            text = line.rstrip("\r\n")
            if text == second and before.endswith(first):
                return number
            before = text
    return None


class _Lines:
    """The lines of a stream, with the number of characters since one last asked."""

    def __init__(self, stream: ByteStream, longest: int) -> None:
        self._lines = _split(stream, longest)
        self._taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._taken += len(line)
        return line

    def taken(self) -> int:
        """Return the characters of the lines since the last call."""
        taken, self._taken = self._taken, 0
        return taken


def _split(stream: ByteStream, longest: int) -> Iterator[str]:
    """Yield the lines; one that is much too long comes in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    rest = ""
    while data := stream.take(1 << 20):
        lines = list(io.StringIO(rest + decoder.decode(data), newline=""))
        # The last line may go on, also where "\r" and "\n" have come apart.
        rest = "" if len(lines[-1]) > 2 * longest else lines.pop()
        yield from lines
    yield from io.StringIO(rest + decoder.decode(b"", final=True), newline="")


def _is_blank(cells: list[str], look: Look) -> bool:
    if len(look.columns) == 1:
        return not cells
    return not cells or (len(cells) == 1 and not cells[0].strip())


def _fault(cells: list[str], look: Look, row: int) -> str | None:
    if len(cells) != len(look.columns):
        return _count(len(cells), look, row)
    text = "".join(cells)
    if text.isascii() and "\0" not in text:
        return None
    for column, cell in zip(look.columns, cells, strict=True):
        if fault := _character(cell):
            return f", row {row:,}, column {shown(column)}: {fault}"
    return None


def _count(found: int, look: Look, row: int) -> str:
    wanted = len(look.columns)
    mark = {"\t": "tab"}.get(str(look.style.delimiter), look.style.delimiter)
    hint = f"Correct it, or put cells that hold {mark!r} in quotes."
    if wanted == 1:
        hint = "Check that the first line names the columns and nothing stands above."
    return (
        f", row {row:,}: a row must have as many cells as the header, {wanted:,}, and "
        f"this one has {found:,}. {hint}"
    )


def _character(cell: str) -> str | None:
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        byte = ord(cell[error.start]) & 0xFF
        return (
            f"the text must be UTF-8, and the cell holds the byte 0x{byte:02X}. Save "
            "the file as CSV UTF-8."
        )
    if "\0" in cell:
        return "the cell holds a NUL byte. Remove it."
    return None


def _length(taken: int, row: int, longest: int) -> str | None:
    if taken <= longest:
        return None
    return (
        f", row {row:,}: a row may have {longest:,} bytes, and this one has more. "
        "Check that the quotes are closed, or leave the long column out."
    )


def _quote(row: int, reason: str) -> str:
    if "expected after" in reason:
        return (
            f", row {row:,}: text stands behind a closing quote. A quote inside a cell "
            "must be written twice."
        )
    if "limit" in reason:
        return (
            f", row {row:,}: a cell is longer than {csv.field_size_limit():,} "
            "characters. A quote may be opened there and not closed."
        )
    return f", row {row:,}: a quote is opened and not closed. Correct or remove it."
