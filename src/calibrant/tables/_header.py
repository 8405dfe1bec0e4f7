"""The names of the columns: what they must be, and which were meant."""

import re
from collections import Counter
from collections.abc import Sequence

from calibrant.tables._errors import close_names, input_error, listed, shown
from calibrant.tables.style import MISSING

__all__ = ["check_columns", "check_header", "checked_names"]

MOST_COLUMNS = 20_000
LONGEST_NAME = 1_000
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


def checked_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names without spaces around them, or say what is wrong with them.

    A first column without a name most often counts the rows. It gets one.
    """
    if not names:
        raise input_error(f"{name}: a table needs at least one column, and has none.")
    if len(names) > MOST_COLUMNS:
        raise input_error(
            f"{name}: a table may have {MOST_COLUMNS:,} columns, got {len(names):,}. "
            "Leave some out, or check that rows and columns are not exchanged."
        )
    clean = [column.strip() for column in names]
    clean[0] = clean[0] or "column 1"
    _check_each(clean, name)
    double = [column for column, count in Counter(clean).items() if count > 1]
    if double:
        raise input_error(
            f"{name}: columns must have different names, and more than one is called "
            f"{listed(double)}. Rename or remove them."
        )
    return tuple(clean)


def _check_each(names: Sequence[str], name: str) -> None:
    for place, column in enumerate(names, 1):
        if not column:
            raise input_error(
                f"{name}: every column must have a name, and column {place} of "
                f"{len(names)} has none. Name or remove it; if it counts the rows, "
                "write the file without it (index=False in pandas)."
            )
        if len(column) > LONGEST_NAME:
            raise input_error(
                f"{name}: the name of a column may have {LONGEST_NAME:,} characters, "
                f"and that of column {place} has {len(column):,}: {shown(column)}. "
                "Check that the first line is the header."
            )


def check_header(names: Sequence[str], name: str, expect: Sequence[str]) -> None:
    """Refuse a first line that holds numbers, unless they are names after all.

    pandas calls columns without a name 0, 1, 2, ..., and those are accepted.
    """
    cells = [cell.strip() for cell in names]
    rest = cells[1:] if cells and not cells[0] else cells
    numbers = [cell for cell in rest if _NUMBER.fullmatch(cell)]
    others = [cell for cell in rest if cell not in numbers]
    if not numbers or any(cell.lower() not in MISSING for cell in others):
        return
    counted = len(rest) > 2 and rest == [str(place) for place in range(len(rest))]
    if counted or set(expect) & set(numbers):
        return
    raise input_error(
        f"{name}: the first line must name the columns, and it holds numbers only: "
        f"{listed(cells, 4)}. Put a line with the names above it."
    )


def check_columns(wanted: Sequence[str], columns: Sequence[str], name: str) -> None:
    """Refuse names that are no columns, and say which may have been meant."""
    there = set(columns)
    lost = [column for column in wanted if column not in there]
    if not lost:
        return
    if len(lost) > 1:
        start = f"{name}: there are no columns {listed(lost, 4)}."
    else:
        start = f"{name}: there is no column {shown(lost[0])}."
    close = [match for one in lost[:3] for match in close_names(one, columns, 1)]
    if close:
        raise input_error(f"{start} Did you mean {listed(close)}?")
    hint = " Is the delimiter right?" if len(columns) == 1 else ""
    raise input_error(f"{start} There are {listed(columns)}.{hint}")
