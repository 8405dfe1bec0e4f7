"""Records as a CSV, to carry a run to another machine or to keep it in a repository."""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from calibrant.benchmark._ledger_columns import COLUMNS, Value, from_row, to_row
from calibrant.benchmark._ledger_error import LedgerError
from calibrant.benchmark._ledger_sense import check_sense
from calibrant.benchmark.records import Cell, Record
from calibrant.files import replace_file

__all__ = ["read_csv", "write_csv"]

_HEADER = [column.name for column in COLUMNS]


def write_csv(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write records to a CSV, sorted by cell; the file is replaced in one step.

    Numbers have the fewest digits that give the same bits back. The same records make
    the same bytes, also compressed.

    Parameters
    ----------
    path
        The file, compressed if its name ends in ``.gz``.
    records
        Finished cells.
    """
    target = Path(path)
    ordered = sorted(records, key=lambda record: record.cell)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows([_shortest(value) for value in to_row(each)] for each in ordered)
    content = text.getvalue().encode()
    if target.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        replace_file(target, content)
    except OSError as error:
        raise LedgerError(
            f"{target} cannot be written: {error.strerror}. A file that was there is "
            "as it was."
        ) from error


def read_csv(path: str | os.PathLike[str]) -> list[Record]:
    """Read the records of a CSV that ``write_csv`` wrote, sorted by cell.

    Parameters
    ----------
    path
        The file, compressed if its name ends in ``.gz``.

    Raises
    ------
    LedgerError
        The file is cut short, has been changed, or holds what no run can have written;
        the text names line and column.
    """
    source = Path(path)
    text = _text(source)
    if not text.endswith("\n"):
        raise LedgerError(
            f"{source} must end with a whole line, and line {text.count(chr(10)) + 1} "
            "is cut short. Copy the file again, or remove that line."
        )
    found: dict[Cell, tuple[int, Record]] = {}
    for line, fields in _lines(text, source):
        record = _record(fields, f"{source}, line {line}")
        first = found.setdefault(record.cell, (line, record))[0]
        if first != line:
            raise LedgerError(
                f"{source}, line {line}: every cell must be there once, and this one "
                f"is also in line {first}. Remove one of them."
            )
    return [found[cell][1] for cell in sorted(found)]


def _text(source: Path) -> str:
    try:
        content = source.read_bytes()
        if source.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")  # spreadsheets put a mark in front
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise LedgerError(
            f"{source} must be a CSV of records, and it is damaged: {error}. Copy it "
            "again."
        ) from error
    except OSError as error:
        raise LedgerError(f"{source} cannot be read: {error.strerror}.") from error


def _lines(text: str, source: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each row, once the header is seen to be ours."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header: list[str] = next(reader, [])
        if header != _HEADER:
            raise LedgerError(f"{source}, line 1: {_wrong_header(header)}")
        for fields in reader:
            yield reader.line_num, fields
    except csv.Error as error:
        raise LedgerError(
            f"{source}, line {reader.line_num}: {error}. Copy the file again."
        ) from error


def _wrong_header(header: list[str]) -> str:
    rule = "a CSV of records starts with its columns' names"
    for column, (name, expected) in enumerate(zip(header, _HEADER, strict=False), 1):
        if name != expected:
            return f"{rule}, and column {column} must be {expected!r}, got {name!r}."
    return f"{rule}, which are {len(_HEADER)}, got {len(header)}."


def _record(fields: list[str], where: str) -> Record:
    if len(fields) < len(COLUMNS):
        missing = COLUMNS[len(fields)].name
        raise LedgerError(
            f"{where}: must have {len(COLUMNS)} columns, and {missing!r} and what "
            "follows is missing. Copy the file again, or remove that line."
        )
    if len(fields) > len(COLUMNS):
        raise LedgerError(
            f"{where}: must have {len(COLUMNS)} columns, got {len(fields)}; there is "
            f"{fields[len(COLUMNS)]!r} after {COLUMNS[-1].name!r}."
        )
    try:
        pairs = zip(COLUMNS, fields, strict=True)
        record = from_row([column.parse(field) for column, field in pairs])
        check_sense(record)
    except LedgerError as error:
        raise LedgerError(f"{where}: {error} Nothing was taken from it.") from None
    return record


def _shortest(value: Value) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
