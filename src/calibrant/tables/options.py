"""What the user says about a table, and the words in which messages answer."""

import dataclasses
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.errors import InputError

#: Cells that mean "missing", whatever the case.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "#n/a", "<na>", "nat")

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class Style:
    r"""How the text of a table is written; None is detected from its first lines.

    Parameters
    ----------
    delimiter
        One character between two cells; ``"tab"`` is understood too.
    decimal
        ``"."`` or ``","``.
    thousands
        A character that groups digits and means nothing, e.g. ``","`` or ``"'"``.
    missing
        Cells that mean "missing" besides :data:`MISSING`, e.g. ``"-999"``; also
        for the numbers of a Parquet file.
    usual_decimal
        The decimal mark of a file whose first lines do not tell.
    unit
        What stands before or behind numbers and means nothing, e.g. ``"$"``.

    Examples
    --------
    >>> Style(delimiter="tab", missing=("-999",)).delimiter
    '\t'
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    usual_decimal: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            named = _NAMED.get(str(self.delimiter).lower(), self.delimiter)
            object.__setattr__(self, "delimiter", named)
        object.__setattr__(self, "missing", _texts(self.missing))
        fault, delimiter, mark = "", self.delimiter, self.thousands
        ascii_mark = delimiter is None or str(delimiter).isascii()
        if delimiter != "\t" and not (ascii_mark and _is_mark(delimiter, "\"'.-+")):
            fault = "the delimiter must be one character such as ',', ';', '|' or 'tab'"
            fault += f", got {shown(str(delimiter))}."
        elif self.decimal not in (None, ".", ","):
            fault = f"the decimal mark must be '.' or ',', got {self.decimal!r:.60}."
        elif not _is_mark(mark, '"+-'):
            fault = "the thousands mark must be one character such as ',', '.' or ' '"
            fault += f", got {shown(str(mark))}."
        elif mark is not None and mark == self.decimal:
            fault = (
                f"the decimal and the thousands mark must differ, both are {mark!r}."
            )
        if fault:
            raise InputError(fault)

    def found(self, *, delimiter: str | None, decimal: str) -> "Style":
        """Return the same style with what was None filled in."""
        return dataclasses.replace(
            self, delimiter=self.delimiter or delimiter, decimal=self.decimal or decimal
        )

    @property
    def tokens(self) -> tuple[str, ...]:
        """All texts that mean "missing", in small letters and without spaces."""
        own = (token.strip().lower() for token in self.missing)
        return tuple(dict.fromkeys((*MISSING, *own)))


def _texts(given: object) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(map(str, given))  # type: ignore[call-overload]


def _is_mark(mark: object, but: str) -> bool:
    """Whether something is None, or one character that belongs to no number or word."""
    if not isinstance(mark, str):
        return mark is None
    return len(mark) == 1 and not mark.isalnum() and mark not in f"\r\n\0{but}"


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns with a role of their own.

    Parameters
    ----------
    drop
        Columns that are not used.
    categorical
        Columns whose values are names, also if they are written as numbers.
    time
        The column that orders the rows; it is a feature too unless it is dropped.
    group
        The column that says which rows belong together; it is not used itself.
    day_first
        Whether 3/4/2020 is in April; None decides by what fits all rows.

    Examples
    --------
    >>> Roles(drop=("id",), categorical="zip").categorical
    ('zip',)
    """

    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    day_first: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "drop", _texts(self.drop))
        object.__setattr__(self, "categorical", _texts(self.categorical))


def check_roles(
    roles: Roles, *, columns: Sequence[str], target: str, name: str
) -> None:
    """Refuse names that are no columns of the file, and roles that clash."""
    named = {"drop": roles.drop, "categorical": roles.categorical}
    named["time"] = () if roles.time is None else (roles.time,)
    named["group"] = () if roles.group is None else (roles.group,)
    for role, names in named.items():
        check_columns(names, columns, name=name)
        if target in names:
            raise InputError(
                f"{shown(target)} is the target and cannot be named for {role}, too. "
                "Name another column."
            )
    both = sorted(set(roles.drop) & {*roles.categorical, roles.group})
    if both:
        raise InputError(
            f"a column is either dropped or used, got both for {listed(both)}. Leave "
            "one out."
        )


# Words of messages ------------------------------------------------------------------


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
