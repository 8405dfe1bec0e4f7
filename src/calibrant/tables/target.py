"""The columns that must be whole: the target, and the one that orders the rows."""

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from calibrant.tables._cells import FloatArray, Parsed, cell_text, family, whole
from calibrant.tables._dates import parse_dates
from calibrant.tables._errors import input_error, shown
from calibrant.tables._hints import number_hint
from calibrant.tables._numbers import parse_numbers
from calibrant.tables.style import Style

if TYPE_CHECKING:
    from calibrant._checks import InputError

__all__ = ["read_target", "read_times"]


def read_target(
    column: pa.Array | pa.ChunkedArray,
    *,
    target: str,
    name: str,
    style: Style,
    first_row: int = 1,
    what: str = "target",
) -> FloatArray:
    """Return the target as numbers of shape ``(n,)``, NaN where it is missing.

    Parameters
    ----------
    column
        An arrow array or its chunks, of n numbers or texts of numbers.
    target, name
        Of the column and of its file, for messages.
    style
        How the file is written.
    first_row
        The number of the first row; 1 is the one below the header.
    what
        The word for it in messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_target(
    ...     pa.array(["1,5", None]), target="y", name="a.csv", style=Style(decimal=",")
    ... )
    array([1.5, nan])
    """
    cells = whole(column)
    if family(cells.type) not in ("number", "text", "null"):
        raise input_error(
            f"{name}, column {shown(target)}: the {what} must be a number, got cells "
            f"of type {cells.type}. Choose a column of numbers."
        )
    parsed = parse_numbers(cells, style)
    if parsed.bad is not None:
        where = f"{name}, row {{row:,}}, column {shown(target)}"
        raise _no_number(
            cells,
            parsed,
            where=f"{where}: the {what}",
            style=style,
            first_row=first_row,
            otherwise="Correct the cell, or leave it empty."
            if what == "target"
            else "Correct the cell.",
        )
    return parsed.values


def read_times(
    column: pa.Array | pa.ChunkedArray,
    *,
    time: str,
    name: str,
    style: Style,
    day_first: bool | None = None,
    first_row: int = 1,
) -> FloatArray:
    """Return a column that orders rows as numbers or seconds of shape ``(n,)``.

    Parameters
    ----------
    column
        An arrow array or its chunks, of n dates or numbers.
    time, name
        Of the column and of its file, for messages.
    style
        How the file is written.
    day_first
        How 3/4/2020 is read; None takes what fits more of the cells.
    first_row
        The number of the first row; 1 is the one below the header.

    Examples
    --------
    >>> import pyarrow as pa
    >>> cells = pa.array(["1970-01-02", "1970-01-01 01:00"])
    >>> read_times(cells, time="date", name="a.csv", style=Style())
    array([86400.,  3600.])
    """
    cells = whole(column)
    where = f"{name}, row {{row:,}}, column {shown(time)}"
    kind = family(cells.type)
    if kind not in ("number", "text", "date", "null"):
        raise input_error(
            f"{name}, column {shown(time)}: the time must be a date or a number, got "
            f"cells of type {cells.type}."
        )
    ways = []
    if kind != "date":
        ways.append(parse_numbers(cells, style))
    if kind != "number":
        ways.append(parse_dates(cells, style, day_first=day_first).parsed)
    parsed = max(ways, key=lambda way: way.good_count)
    gaps = np.isnan(parsed.values)
    if gaps.any():
        place = int(np.argmax(gaps))
        there = parsed.bad is not None and bool(parsed.bad[place])
        got = shown(cell_text(cells, place)) if there else "an empty cell"
        raise input_error(
            f"{where.format(row=first_row + place)}: every row must have a date or a "
            f"number to be ordered by, got {got}. Fill it in, or remove the row."
        )
    return parsed.values


def _no_number(
    cells: pa.Array,
    parsed: Parsed,
    *,
    where: str,
    style: Style,
    first_row: int,
    otherwise: str,
) -> "InputError":
    bad = np.flatnonzero(np.isnan(parsed.values) if parsed.bad is None else parsed.bad)
    texts = [cell_text(cells, int(place)) for place in islice(bad, 20)]
    advice = number_hint(texts, style)
    most = 2 * len(bad) > len(bad) + parsed.good_count
    if not advice and most:
        advice = "Most of the column looks like text: choose a column of numbers."
    return input_error(
        f"{where.format(row=first_row + int(bad[0]))} must be a number, "
        f"got {shown(texts[0])}. {advice or otherwise}"
    )
