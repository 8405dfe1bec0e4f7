"""Counts, numbers, names and moments as they stand in a message."""

import difflib
import math
from collections.abc import Sequence

import numpy as np

from calibrant.errors import InputError
from calibrant.text import counted as amount

__all__ = [
    "amount",
    "check_columns",
    "close_names",
    "listed",
    "moment",
    "one_line",
    "shortened",
    "shown",
    "written",
]


def written(value: float) -> str:
    """Return a number as one would write it, without ``.0`` and with few digits.

    >>> written(65.0), written(0.12345678)
    ('65', '0.123457')
    """
    if value == math.floor(value) and abs(value) < 1e12:
        return str(int(value))
    return f"{value:.6g}"


def moment(seconds: float) -> str:
    """Return seconds since 1970 as a date, with the time unless it is midnight.

    >>> moment(0.0), moment(3600.0)
    ('1970-01-01', '1970-01-01 01:00:00')
    """
    text = str(np.datetime64(math.floor(seconds), "s"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def shortened(text: str, most: int = 60) -> str:
    """Return ``text``, cut to ``most`` characters with three dots at the end."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shown(name: str) -> str:
    """Return untrusted text for a message: short, in quotes, and on one line."""
    return repr(shortened(name))


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names for a message, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    text = ", ".join(shown(name) for name in names[:most])
    more = len(names) - most
    return f"{text} and {more:,} more" if more > 0 else text


def one_line(text: object, most: int = 200) -> str:
    """Return what another library said, on one short line without its full stop."""
    return shortened(" ".join(str(text).split()), most).rstrip(".")


def close_names(wanted: str, names: Sequence[str], most: int = 3) -> list[str]:
    """Return the names that ``wanted`` may be a slip of, whatever the case.

    >>> close_names("Prise", ["price", "size", "rooms"])
    ['price']
    """
    # Each name costs a comparison: no more than 1,000.
    folded = {name.strip().casefold()[:200]: name for name in reversed(names[:1_000])}
    key = wanted.strip().casefold()[:200]
    found = difflib.get_close_matches(key, list(folded), n=most, cutoff=0.7)
    return [folded[fold] for fold in found]


def check_columns(wanted: Sequence[str], known: Sequence[str], *, name: str) -> None:
    """Refuse names that are no columns of a file, and say which may be meant."""
    lost = [column for column in wanted if column not in set(known)]
    if not lost:
        return
    noun = "are no columns" if len(lost) > 1 else "is no column"
    near = [found for column in lost[:3] for found in close_names(column, known, 1)]
    hint = f"There are {listed(known)}."
    if near:
        hint = f"Did you mean {listed(near)}?"
    elif len(known) == 1:
        hint += " Is the delimiter right?"
    raise InputError(f"{name}: there {noun} {listed(lost, 4)}. {hint}")
