"""Cells of a column as numbers, truth values and moments, whatever their type."""

import datetime
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.errors import InputError
from calibrant.tables.options import Style, shown

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: Bytes of text above which offsets of 32 bits may not do.
LARGE = 2**30
#: The share of cells that must fit for text to be numbers or dates.
ENOUGH = 0.9
DAY = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999


@dataclass(frozen=True)
class Parsed:
    """Values ``(n,)``, NaN where a cell is missing or bad; which are bad, if any is."""

    values: FloatArray
    bad: BoolArray | None = None

    @property
    def bad_count(self) -> int:
        """How many cells do not fit."""
        return 0 if self.bad is None else int(self.bad.sum())

    @property
    def good_count(self) -> int:
        """How many cells have a value."""
        return int(len(self.values) - np.isnan(self.values).sum())

    @property
    def mostly_good(self) -> bool:
        """Whether nearly all of the cells that are there have a value."""
        good = self.good_count
        return good > 0 and good >= ENOUGH * (good + self.bad_count)


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array without dictionaries and views."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_string(column.type) and column.nbytes > LARGE:
            column = column.cast(pa.large_string())
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        return plain(column.storage)
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary_decode())
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column


def family(kind: pa.DataType) -> str:
    """Return text, number, boolean, date, null or other for a plain arrow type."""
    types = pa.types
    tests = {
        "text": (types.is_string, types.is_large_string),
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "boolean": (types.is_boolean,),
        "date": (types.is_timestamp, types.is_date),
        "null": (types.is_null,),
    }
    found = (name for name, is_kind in tests.items() if any(t(kind) for t in is_kind))
    return next(found, "other")


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Return an arrow array as numpy; nulls of floats become NaN."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _floats(array: pa.Array) -> FloatArray:
    return np.asarray(to_numpy(array), dtype=np.float64)


def as_text(cells: pa.Array) -> pa.Array:
    """Return the text form: no outer spaces, whole numbers without a point."""
    kind = cells.type
    if family(kind) == "text":
        return pc.utf8_trim_whitespace(cells)
    if not (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return pc.cast(cells, pa.string())
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        cells = pc.cast(cells, pa.float64(), safe=False)
    numbers = to_numpy(cells)
    integral = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**62)
    integers = pa.array(np.where(integral, numbers, 0).astype(np.int64))
    text = pc.cast(cells, pa.string())
    text = pc.if_else(pa.array(integral), pc.cast(integers, pa.string()), text)
    return pc.if_else(pa.array(np.isnan(numbers)), pa.scalar(None, pa.string()), text)


def cell_text(cells: pa.Array, place: int) -> str:
    """Return one cell as its text form."""
    return str(as_text(cells.slice(place, 1))[0].as_py())


def _cast(text: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return text cast to a type, None if a cell cannot be.

    The first cells are tried alone: a cast goes on after a failure, and a cell that
    fails costs a hundred times one that does not.
    """
    try:
        pc.cast(text.slice(0, 256), kind)
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None


def _parsed(text: pa.Array, values: FloatArray, style: Style) -> Parsed:
    """Tell cells without a value that are bad from those that are just missing."""
    places = np.flatnonzero(np.isnan(values))
    taken = pc.utf8_lower(pc.utf8_trim_whitespace(text.take(pa.array(places))))
    tokens = pa.array(style.tokens, taken.type)
    absent = pc.or_(pc.is_null(taken), pc.is_in(taken, value_set=tokens))
    places = places[~to_numpy(absent)]
    bad = np.zeros(len(values), dtype=np.bool_)
    bad[places] = True
    return Parsed(values, bad if places.size else None)


# Numbers ----------------------------------------------------------------------------

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Programs write several characters for the same mark.
_GROUPS = {" ": "[ \u00a0\u202f]", "'": "['\u2019]"}
_DRESSED = re.compile(
    r"[+-]?(?P<front>[$€£¥]\s?)?(?P<body>\d[\d.,'\u2019 \u00a0\u202f]*)"
    r"(?P<back>[%‰$€£¥]|°?[a-zA-Z]{1,4})?"
)


def parse_numbers(cells: pa.Array, style: Style) -> Parsed:
    """Return the cells of a plain array as numbers; infinite ones are bad."""
    if family(cells.type) in ("number", "boolean"):
        values = _floats(pc.cast(cells, pa.float64(), safe=False))
        infinite = np.isinf(values)
        bad = infinite if infinite.any() else None
        parsed = Parsed(np.where(infinite, np.nan, values), bad)
    else:
        text = as_text(cells)
        values = _text_numbers(text, style)
        parsed = _parsed(text, np.where(np.isfinite(values), values, np.nan), style)
    for token in style.missing:  # numbers that mean "missing", such as -999
        number = _text_numbers(pa.array([token.strip()]), style)[0]
        if pa.types.is_floating(cells.type):
            with np.errstate(over="ignore"):  # -99999 is none of the half floats
                number = np.float64(np.dtype(cells.type.to_pandas_dtype()).type(number))
        gone = np.where(parsed.values == number, np.nan, parsed.values)
        parsed = replace(parsed, values=gone)
    return replace(parsed, values=parsed.values + 0.0)  # + 0.0 makes -0.0 a 0.0


def _text_numbers(text: pa.Array, style: Style) -> FloatArray:
    """Read all cells at once, and only if one fails look for which."""
    nothing = pa.scalar(None, text.type)
    if style.unit:
        unit = re.escape(style.unit)
        text = pc.replace_substring_regex(
            text, rf"^([+-]?)\s?{unit}\s?|\s?{unit}$", r"\1", max_replacements=1
        )
    if style.thousands:
        marks = _GROUPS.get(style.thousands, re.escape(style.thousands))
        grouped = pc.match_substring_regex(text, marks)
        # 1,5 is not 15: only groups of three digits (or two, in India) count.
        rest = rf"({re.escape(style.decimal or '.')}\d*)?$"
        form = rf"^[+-]?\d{{1,3}}({marks}\d{{2,3}})*{marks}\d{{3}}{rest}"
        joined = pc.replace_substring_regex(text, marks, "")
        joined = pc.if_else(pc.match_substring_regex(text, form), joined, nothing)
        text = pc.if_else(grouped, joined, text)
    if style.decimal == ",":
        # 1.5 where commas are expected would be a guess.
        text = pc.if_else(pc.match_substring(text, "."), nothing, text)
        text = pc.replace_substring(text, ",", ".")
    numbers = _cast(text, pa.float64())
    if numbers is None:
        good = pc.match_substring_regex(text, _NUMBER)
        numbers = pc.cast(pc.if_else(good, text, nothing), pa.float64())
    return _floats(numbers)


def read_numbers(cells: pa.Array, style: Style) -> tuple[Parsed, Style]:
    """Return numbers also from texts such as $26,700, 12 % or 1.234,5.

    The second value is the style in which they are written: ``style`` itself, or one
    with the unit and the marks that more of the cells fit.
    """
    parsed = parse_numbers(cells, style)
    if parsed.bad is not None and family(cells.type) == "text":
        texts = pc.unique(as_text(cells)).slice(0, 10_000).drop_null().to_pylist()
        dressed = _dressed(texts, style)
        other = parse_numbers(cells, dressed)
        if other.good_count > parsed.good_count:
            return other, dressed
    return parsed, style


def _dressed(texts: list[str], style: Style) -> Style:
    """Find the unit and the marks of texts that are nearly all numbers but for them."""
    tokens = set(style.tokens)
    texts = [text for text in texts if text.lower() not in tokens]
    found = [match for text in texts if (match := _DRESSED.fullmatch(text))]
    if not found or len(found) < ENOUGH * len(texts):
        return style
    units = [(match["front"] or match["back"] or "").strip() for match in found]
    unit = max(units, key=units.count)
    # House numbers such as 12a and 12b have no unit.
    if unit and units.count(unit) < ENOUGH * len(found):
        return style
    bodies = [match["body"].strip() for match in found]
    decimal, thousands = style.decimal or ".", style.thousands
    if thousands is None:
        for body in bodies:
            if "." in body and "," in body:
                decimal = max(".,", key=body.rfind)
            elif body.count(".") > 1:
                decimal = ","
        marks = {"." if decimal == "," else ",": "[.,]", **_GROUPS}
        rest = "\n".join(body.replace(decimal, "") for body in bodies)
        thousands = next((mark for mark in marks if re.search(marks[mark], rest)), None)
    return replace(style, decimal=decimal, thousands=thousands, unit=unit or style.unit)


def number_hint(texts: list[str], style: Style) -> str:
    """Return a sentence if most of the texts are numbers in another style, else "".

    >>> number_hint(["1,5", "2,25"], Style())
    "It looks like numbers with decimal commas: --decimal ','."
    """
    other, noun = (".", "points") if style.decimal == "," else (",", "commas")
    form = re.compile(rf"[+-]?\d+[{other}]\d+")
    dressed = _dressed(texts, style)
    if dressed.unit != style.unit:
        return "Numbers must stand alone: remove the unit."
    cells = pa.array(texts, pa.string())
    if dressed != style and parse_numbers(cells, dressed).mostly_good:
        mark = dressed.thousands
        return f"It looks like numbers with thousands: --thousands '{mark}'."
    if 2 * sum(form.fullmatch(text) is not None for text in texts) > len(texts):
        return f"It looks like numbers with decimal {noun}: --decimal '{other}'."
    return ""


# Truth values -----------------------------------------------------------------------

_TRUTHS = {
    **dict.fromkeys(("true", "yes", "t", "y", "on"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n", "off"), 0.0),
}
# Typed columns of other programs; a column of 0 and 1 alone is one of numbers.
_DIGITS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def parse_booleans(cells: pa.Array, style: Style, *, digits: bool) -> Parsed:
    """Return the cells of a plain array as 0 and 1; ``digits`` count if so asked."""
    text = as_text(cells)
    words = {**_TRUTHS, **_DIGITS} if digits else _TRUTHS
    keys = pa.array(list(words), text.type)
    found = pc.index_in(pc.utf8_lower(text), value_set=keys)
    values = np.array([*words.values(), np.nan])
    return _parsed(text, values[to_numpy(pc.fill_null(found, len(words)))], style)


# Dates ------------------------------------------------------------------------------

_DATE = re.compile(
    r"(?:(\d{4})([-/])(\d\d?)\2(\d\d?)|(\d\d?)([./])(\d\d?)\6(\d{4}))"
    r"(?:[T ]+(\d\d?)(:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?: ?([AaPp])[Mm])?"
    r"(?: ?(Z|z|UTC|[+-]\d\d(?::?\d\d)?))?)?",
    re.ASCII,
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Dates(NamedTuple):
    """Seconds since 1970 in UTC, and how 3/4/2020 is read; unclear if both ways fit."""

    parsed: Parsed
    day_first: bool
    unclear: bool = False


def parse_dates(
    cells: pa.Array,
    style: Style,
    *,
    day_first: bool | None = None,
    order: bool | None = None,
) -> Dates:
    """Return the cells of a plain array as moments.

    ``order`` says whether the day comes first in 3/4/2020; None takes what fits more
    of the cells, and ``day_first`` if both fit the same (None: the month).
    """
    default = bool(day_first if order is None else order)
    if pa.types.is_date(cells.type):
        cells = pc.cast(pc.cast(cells, pa.date32()), pa.timestamp("s"))
    if pa.types.is_timestamp(cells.type):
        return Dates(_moments(cells), default)
    text = as_text(cells)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        stamps = _cast(text, kind)
        if stamps is not None:
            return Dates(_moments(stamps), default)
    # Each different text once: rows share days more often than not.
    encoded = text.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    places = to_numpy(pc.fill_null(encoded.indices, len(texts)))
    ways = {
        first: np.array([*(_seconds(text, first) for text in texts), np.nan])
        for first in (True, False)
    }
    slashed = np.array([*("/" in text[1:3] for text in texts), False])
    fits = {first: int(np.isfinite(way[slashed]).sum()) for first, way in ways.items()}
    unclear = fits[True] == fits[False] > 0
    if order is None:
        order = default if fits[True] == fits[False] else fits[True] > fits[False]
    return Dates(_parsed(text, ways[order][places], style), order, unclear)


def _moments(stamps: pa.Array) -> Parsed:
    """Return timestamps of any unit as seconds; beyond the calendar they are bad."""
    unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[stamps.type.unit]
    absent = to_numpy(pc.is_null(stamps))
    count = to_numpy(pc.fill_null(pc.cast(stamps, pa.int64()), 0)).astype(np.int64)
    if unit > 10**6:
        count, unit = count // 1000, 10**6
    seconds = (count // unit).astype(np.float64) + (count % unit) / unit
    bad = ~absent & ((seconds < FIRST) | (seconds >= LAST))
    return Parsed(np.where(absent | bad, np.nan, seconds), bad if bad.any() else None)


def _seconds(text: str, day_first: bool) -> float:
    """Return the moment that a text names, NaN if it names none."""
    match = _DATE.fullmatch(text)
    if match is None:
        return np.nan
    year, _, month, day, first, mark, second, late_year, *rest = match.groups()
    if year is None:
        month, day = (second, first) if day_first or mark == "." else (first, second)
    hours, minutes, half, zone = rest
    if half and not 1 <= int(hours) <= 12:
        return np.nan
    hour = int(hours or 0) % (12 if half else 100) + 12 * (half in ("P", "p"))
    zone = zone if zone and zone[0] in "+-" else "+00:00"
    try:
        moment = datetime.datetime.fromisoformat(
            f"{year or late_year}-{month:0>2}-{day:0>2}T{hour:02}{minutes or ''}{zone}"
        )
        count = (moment - _EPOCH) // _MICROSECOND
    except ValueError:
        return np.nan
    value = count // 10**6 + count % 10**6 / 10**6
    return value if FIRST <= value < LAST else np.nan


# Columns that must be whole ---------------------------------------------------------


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
    style
        How the file is written.
    target, name, first_row, what
        Name of the column and of its file, number of the first row and the word for the
        column, all for messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_target(
    ...     pa.array(["$1,500", None]), target="y", name="a.csv", style=Style()
    ... )
    array([1500.,   nan])
    """
    cells = plain(column)
    if family(cells.type) not in ("number", "text", "null"):
        raise InputError(
            f"{name}, column {shown(target)}: the {what} must be a number, got cells "
            f"of type {cells.type}. Choose a column of numbers."
        )
    parsed, _ = read_numbers(cells, style)
    if parsed.bad is None:
        return parsed.values
    bad = np.flatnonzero(parsed.bad)
    texts = [cell_text(cells, place) for place in bad[:20].tolist()]
    advice = number_hint(texts, style)
    if not advice and len(bad) > parsed.good_count:
        advice = "Most of the column looks like text: choose a column of numbers."
    otherwise = ", or leave it empty" if what == "target" else ""
    raise InputError(
        f"{name}, row {first_row + int(bad[0]):,}, column {shown(target)}: the {what} "
        f"must be a number, got {shown(texts[0])}. "
        f"{advice or f'Correct the cell{otherwise}.'}"
    )


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
    column, time, name, style, first_row
        As for :func:`read_target`; ``time`` is the name of the column.
    day_first
        How 3/4/2020 is read; None takes what fits more of the cells.

    Examples
    --------
    >>> import pyarrow as pa
    >>> cells = pa.array(["1970-01-02", "1970-01-01 01:00"])
    >>> read_times(cells, time="date", name="a.csv", style=Style())
    array([86400.,  3600.])
    """
    cells = plain(column)
    kind = family(cells.type)
    if kind not in ("number", "text", "date", "null"):
        raise InputError(
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
        bad = parsed.bad is not None and bool(parsed.bad[place])
        got = shown(cell_text(cells, place)) if bad else "an empty cell"
        raise InputError(
            f"{name}, row {first_row + place:,}, column {shown(time)}: every row must "
            f"have a date or a number to be ordered by, got {got}. Fill it in, or "
            "remove the row."
        )
    return parsed.values
