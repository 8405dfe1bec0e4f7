"""The first lines of a text file: the header, the delimiter, the decimal mark."""

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrant.tables._csv_magic import check_is_text
from calibrant.tables._csv_stream import ByteStream, is_packed
from calibrant.tables._errors import input_error, shown
from calibrant.tables._header import check_header, checked_names
from calibrant.tables._path import cannot_read, ending
from calibrant.tables.style import Style

__all__ = ["Look", "look_at"]

HEAD = 1 << 20
LOOKED_AT = 200
DELIMITERS = (",", ";", "\t", "|")
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_BOTH = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+")
_EXCEL_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


@dataclass(frozen=True)
class Look:
    """What the first lines say.

    Parameters
    ----------
    columns
        Their names.
    style
        With delimiter and decimal mark.
    start
        Byte, after unpacking, at which the first row begins.
    packed
        Whether the file is to be unpacked.
    """

    columns: tuple[str, ...]
    style: Style
    start: int
    packed: bool


def look_at(path: Path, name: str, style: Style, expect: Sequence[str]) -> Look:
    """Read the header of a text file and find out how the file is written."""
    beginning, packed = _beginning(path, name)
    check_is_text(beginning, name)
    whole = len(beginning) < HEAD
    mark = codecs.BOM_UTF8 if beginning.startswith(codecs.BOM_UTF8) else b""
    full = _decoded(beginning[len(mark) :], whole)
    skipped, told = _lines_above(full)
    text = full[skipped:]
    delimiter = style.delimiter or told or _delimiter(text, ending(path)[0])
    names, length = _header(text, delimiter, name, whole)
    check_header(names, name, expect)
    columns = checked_names(names, name)
    start = len(mark) + _size(full[: skipped + length])
    decimal = _decimal(text[length:], delimiter, style)
    found = style.found(delimiter=delimiter, decimal=decimal)
    return Look(columns, found, start, packed)


def _beginning(path: Path, name: str) -> tuple[bytes, bool]:
    try:
        packed = is_packed(path)
        if ending(path)[1] and not packed:
            raise input_error(
                f"{name}: the name ends in .gz, and the file is not compressed by "
                "gzip. Rename it without .gz, or download it again."
            )
        with ByteStream(path, packed=packed) as stream:
            return stream.take(HEAD), packed
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise input_error(
            f"{name}: the gzip file is cut off or damaged. Download it again."
        ) from error
    except OSError as error:
        raise cannot_read(name, error) from error


def _decoded(data: bytes, whole: bool) -> str:
    """Decode, and keep what is no UTF-8 as a lone surrogate for a later message."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return decoder.decode(data, final=whole)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _lines_above(text: str) -> tuple[int, str | None]:
    """Return how many characters stand above the header, and what Excel's line says.

    Some programs write ``sep=;`` into the first line, for Excel.
    """
    skipped = len(text) - len(text.lstrip(" \t\r\n"))
    skipped = max(text.rfind("\n", 0, skipped), text.rfind("\r", 0, skipped)) + 1
    line = io.StringIO(text[skipped : skipped + 20], newline="").readline()
    match = _EXCEL_LINE.fullmatch(line)
    return (skipped + len(line), match[1]) if match else (skipped, None)


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    """Return the first rows with anything in them."""
    text = text[: HEAD // 8]  # below the length at which csv refuses a cell
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return itertools.islice(
        (row for row in rows if any(map(str.strip, row))), LOOKED_AT
    )


def _delimiter(text: str, suffix: str) -> str:
    """Find the character that parts the header as it parts the rows below it."""
    best, best_rank = "\t" if suffix == ".tsv" else ",", (0.0, 0)
    for mark in DELIMITERS:
        counts = [len(row) for row in _records(text, mark)]
        if not counts or counts[0] == 1:
            continue
        below = counts[1:-1] or counts[1:]  # the last one may be cut off
        same = sum(count == counts[0] for count in below)
        rank = (same / len(below) if below else 1.0, counts[0])
        if rank > best_rank:
            best, best_rank = mark, rank
    return best


def _header(text: str, delimiter: str, name: str, whole: bool) -> tuple[list[str], int]:
    """Return the cells of the first row and how many characters it takes."""
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in io.StringIO(text, newline=""):
            taken += len(line)
            yield line

    try:
        names = next(csv.reader(lines(), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        fault = "a quote in it is not closed or out of place"
        if "limit" in str(error):
            fault = f"a cell of it is longer than {csv.field_size_limit():,} characters"
        raise input_error(
            f"{name}: the first line must name the columns, and {fault}: "
            f"{shown(text)}. Check the first line."
        ) from None
    if taken == len(text) and not whole:
        raise input_error(
            f"{name}: the first line must name the columns, and it is longer than "
            f"{HEAD:,} bytes: {shown(text)}. Check that the file has lines."
        )
    _check_characters(names, name)
    return names, taken


def _check_characters(names: Sequence[str], name: str) -> None:
    for place, column in enumerate(names, 1):
        try:
            column.encode()
        except UnicodeEncodeError as error:
            byte = ord(column[error.start]) & 0xFF
            raise input_error(
                f"{name}: the text must be UTF-8, and the name of column {place} holds "
                f"the byte 0x{byte:02X}. Save it as CSV UTF-8."
            ) from None
        if "\0" in column:
            raise input_error(
                f"{name}: the name of column {place} holds a NUL byte. Save it as CSV "
                "UTF-8."
            )


def _decimal(text: str, delimiter: str, style: Style) -> str:
    """Tell which mark the numbers have; a comma only if nothing speaks for a point."""
    if style.thousands in (",", "."):
        return "." if style.thousands == "," else ","
    if delimiter == ",":
        return "."
    rows = _records(text, delimiter)
    cells = [cell.strip() for row in rows for cell in row]
    if any(_BOTH.fullmatch(cell) for cell in cells):
        return ","
    commas = sum(_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(_POINT.fullmatch(cell) is not None for cell in cells)
    if commas == points == 0 and style.usual_decimal is not None:
        return style.usual_decimal
    return "," if commas > points else "."
