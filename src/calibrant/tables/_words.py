"""Counts, numbers and moments as they stand in a sentence."""

import math
from collections.abc import Sequence

import numpy as np

from calibrant.tables._errors import close_names, shown

__all__ = ["amount", "close_to", "moment", "percent", "written"]

MANY = 1_000
"""Names that are searched for a similar one; each costs a comparison."""


def amount(count: int, one: str) -> str:
    """Return a count with its noun.

    >>> amount(1, "row"), amount(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {one if count == 1 else one + 's'}"


def percent(part: int, whole: int) -> str:
    """Return a share as whole percent, but never a false 0 or 100.

    >>> percent(5, 100), percent(1, 1000), percent(999, 1000)
    ('5 %', '<1 %', '>99 %')
    """
    share = 100 * part / max(whole, 1)
    if 0 < share < 1:
        return "<1 %"
    return ">99 %" if 99 < share < 100 else f"{share:.0f} %"


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


def close_to(name: str, names: Sequence[str]) -> str:
    """Return " (did you mean ...?)" if a name is similar, else nothing.

    >>> close_to("prize", ["price", "rooms"])
    " (did you mean 'price'?)"
    """
    near = close_names(name, names[:MANY], 1)
    return f" (did you mean {shown(near[0])}?)" if near else ""
