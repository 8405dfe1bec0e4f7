"""The columns of a ledger and of its CSV: the fields of a record, in their order."""

import math
import operator
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from reprlib import repr as short
from typing import Any, get_type_hints

from calibrant.benchmark._ledger_error import LedgerError
from calibrant.benchmark.records import LEVELS, Cell, Record

__all__ = ["COLUMNS", "KEYS", "Value", "checksum", "from_row", "to_row"]

Value = str | int | float


@dataclass(frozen=True)
class _Kind:
    """One type of field: its type in SQL, and how its values come and go."""

    sql: str
    store: Callable[[Any], Value]
    parse: Callable[[str], Value]


@dataclass(frozen=True)
class Column:
    """One field of a record: its name and its kind of value."""

    name: str
    kind: _Kind

    def store(self, value: object) -> Value:
        """Return a field's value as SQLite and CSV take it, or refuse it."""
        try:
            return self.kind.store(value)
        except (TypeError, ValueError) as error:
            raise LedgerError(
                f"{self.name} must be {error}, got {short(value)}."
            ) from None

    def parse(self, text: str) -> Value:
        """Return the value that a CSV has as text, as SQLite takes it."""
        try:
            return self.kind.parse(text)
        except ValueError as error:
            raise LedgerError(
                f"{self.name} must be {error}, got {short(text)}."
            ) from None


def _store_text(value: object) -> str:
    try:
        if isinstance(value, str) and not set(value) & set("\0\r\n"):
            return value.encode().decode()
    except UnicodeEncodeError:  # half of a pair of surrogates, as in a broken path
        pass
    raise ValueError("one line of text that UTF-8 can hold")


def _store_integer(value: Any) -> int:  # noqa: ANN401 - whatever a caller hands in
    try:
        whole = operator.index(value)
    except TypeError:
        raise ValueError("a whole number") from None
    if not -(2**63) <= whole < 2**63:
        raise ValueError("a whole number of at most 63 bits")
    return whole


def _store_float(value: object) -> float:
    if not isinstance(value, Real) or math.isnan(number := float(value)):
        raise ValueError("a number, or infinite, but not NaN")
    return number + 0.0  # SQLite knows no -0.0, so that 0.0 stands for both


def _store_counts(value: object) -> str:
    if not isinstance(value, tuple) or len(value) != LEVELS:
        raise ValueError(f"{LEVELS} counts")
    return " ".join(str(_store_integer(count)) for count in value)


def _parse_integer(text: str) -> int:
    # int() takes more than a program writes: spaces, underscores, digits of any script.
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError("a whole number")
    # int() has a limit of its own, with a text of its own.
    return _store_integer(int(text[:30]))


def _parse_float(text: str) -> float:
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError("a number")
    try:
        number = float(text)
    except ValueError:
        raise ValueError("a number") from None
    return _store_float(number)


def _parse_counts(text: str) -> str:
    return _store_counts(tuple(_parse_integer(count) for count in text.split(" ")))


_KINDS = {
    str: _Kind("TEXT", _store_text, _store_text),
    int: _Kind("INTEGER", _store_integer, _parse_integer),
    float: _Kind("REAL", _store_float, _parse_float),
    tuple[int, ...]: _Kind("TEXT", _store_counts, _parse_counts),
}


def _columns(of: type) -> tuple[Column, ...]:
    types = get_type_hints(of)
    names = [field.name for field in fields(of) if field.name != "cell"]
    return tuple(Column(name, _KINDS[types[name]]) for name in names)


#: The fields of a cell, which tell the rows apart.
KEYS = _columns(Cell)
#: All fields of a record, the cell's first.
COLUMNS = KEYS + _columns(Record)
_NUMBERS = COLUMNS[len(KEYS) :]


def to_row(record: Record) -> tuple[Value, ...]:
    """Return a record as one value for each column."""
    if not isinstance(record, Record):
        raise LedgerError(f"a ledger takes records, got {type(record).__name__}.")
    keys = [column.store(getattr(record.cell, column.name)) for column in KEYS]
    numbers = [column.store(getattr(record, column.name)) for column in _NUMBERS]
    return (*keys, *numbers)


def from_row(row: Sequence[Value]) -> Record:
    """Return the record that ``to_row`` made a row of."""
    values: dict[str, Any] = dict(
        zip((column.name for column in COLUMNS), row, strict=True)
    )
    cell = Cell(**{column.name: values.pop(column.name) for column in KEYS})
    values["curve"] = tuple(map(int, values["curve"].split()))
    return Record(cell=cell, **values)


def checksum(row: Sequence[Value]) -> int:
    """Return a CRC-32 of a row, since SQLite does not see a changed digit."""
    return zlib.crc32("\0".join(map(repr, row)).encode())
