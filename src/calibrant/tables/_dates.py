"""Cells as moments: seconds since 1970 in UTC, from typed columns or from text."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._cells import (
    BoolArray,
    FloatArray,
    Parsed,
    as_text,
    failed_cells,
    family,
    to_numpy,
    try_cast,
)
from calibrant.tables.style import Style

__all__ = ["DAY", "DateCells", "parse_dates"]

IntArray = npt.NDArray[np.int64]

DAY = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TIME = (
    r"(?:[T ]+(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})"
    r"(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"(?: ?(?P<half>[AaPp])[Mm])?"
    r"(?: ?(?P<zone>Z|z|UTC|[+-]\d{2}(?::?\d{2})?))?)?$"
)
YEAR, MONTH, SHORT = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
CLEAR = (
    f"^{YEAR}-{MONTH}-{SHORT}{TIME}",
    f"^{YEAR}/{MONTH}/{SHORT}{TIME}",
    rf"^{SHORT}\.{MONTH}\.{YEAR}{TIME}",
)
DAY_FIRST = f"^{SHORT}/{MONTH}/{YEAR}{TIME}"
MONTH_FIRST = f"^{MONTH}/{SHORT}/{YEAR}{TIME}"


@dataclass(frozen=True)
class DateCells:
    """Moments, and in which order day and month were read where it matters.

    Parameters
    ----------
    parsed
        Seconds since 1970.
    day_first
        How 3/4/2020 is read.
    unclear
        The other order would have fitted every cell as well.
    """

    parsed: Parsed
    day_first: bool
    unclear: bool = False


def parse_dates(
    cells: pa.Array,
    style: Style,
    *,
    day_first: bool | None = None,
    order: bool | None = None,
) -> DateCells:
    """Return the cells of a plain array as moments.

    ``order`` says whether the day comes first in 3/4/2020; None takes what fits more
    of the cells, and ``day_first`` if both fit the same (None: the month).
    """
    default = bool(day_first if order is None else order)
    if family(cells.type) == "date":
        return DateCells(_typed(cells), default)
    text = as_text(cells)
    seconds = _fast(text)
    if seconds is not None:
        return DateCells(_checked(seconds, text, style), default)
    return _slow(text, style, order=order, default=default)


def _typed(cells: pa.Array) -> Parsed:
    if pa.types.is_date(cells.type):
        cells = pc.cast(pc.cast(cells, pa.date32()), pa.timestamp("s"))
    seconds = _stamps(cells)
    outside = (seconds < FIRST) | (seconds >= LAST)
    if not outside.any():
        return Parsed(seconds, None)
    return Parsed(np.where(outside, np.nan, seconds), outside)


def _stamps(stamps: pa.Array) -> FloatArray:
    """Return timestamps of any unit as seconds, equal for equal moments."""
    unit = UNITS[stamps.type.unit]
    absent = to_numpy(pc.is_null(stamps))
    count = to_numpy(pc.fill_null(pc.cast(stamps, pa.int64()), 0)).astype(np.int64)
    if unit > 10**6:
        count, unit = count // 1000, 10**6
    seconds = (count // unit).astype(np.float64) + (count % unit) / unit
    return np.where(absent, np.nan, seconds)


def _fast(text: pa.Array) -> FloatArray | None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        stamps = try_cast(text, kind)
        if stamps is not None:
            return _stamps(stamps)
    return None


def _slow(
    text: pa.Array, style: Style, *, order: bool | None, default: bool
) -> DateCells:
    """Read each different text once: rows share days more often than not."""
    encoded = text.dictionary_encode()
    dates = _different(encoded.dictionary, style, order=order, default=default)
    places = to_numpy(pc.fill_null(encoded.indices, len(encoded.dictionary)))
    seconds = np.append(dates.parsed.values, np.nan)[places]
    bad = dates.parsed.bad
    bad = None if bad is None else np.append(bad, False)[places]
    return replace(dates, parsed=Parsed(seconds, bad))


def _different(
    text: pa.Array, style: Style, *, order: bool | None, default: bool
) -> DateCells:
    seconds = np.full(len(text), np.nan)
    for pattern in CLEAR:
        seconds = _fill(seconds, text, pattern)
    if not pc.any(pc.match_substring_regex(text, r"^\d{1,2}/\d{1,2}/\d{4}")).as_py():
        return DateCells(_checked(seconds, text, style), default)
    forms = {True: DAY_FIRST, False: MONTH_FIRST}
    read = {first: _fill(seconds, text, form) for first, form in forms.items()}
    fits = {first: _known(each) for first, each in read.items()}
    unclear = fits[True] == fits[False] > _known(seconds)
    if order is None:
        order = default if fits[True] == fits[False] else fits[True] > fits[False]
    return DateCells(_checked(read[order], text, style), order, unclear)


def _known(seconds: FloatArray) -> int:
    return int((~np.isnan(seconds)).sum())


def _fill(seconds: FloatArray, text: pa.Array, pattern: str) -> FloatArray:
    """Return the seconds, and those of cells without any that fit a pattern."""
    places = np.flatnonzero(np.isnan(seconds))
    if not places.size:
        return seconds
    filled = seconds.copy()
    filled[places] = _matched(text.take(pa.array(places)), pattern)
    return filled


def _checked(seconds: FloatArray, text: pa.Array, style: Style) -> Parsed:
    with np.errstate(invalid="ignore"):
        seconds = np.where((seconds >= FIRST) & (seconds < LAST), seconds, np.nan)
    return Parsed(seconds, failed_cells(text, np.isnan(seconds), style))


def _matched(text: pa.Array, pattern: str) -> FloatArray:
    """Return seconds where the text fits a pattern, and NaN elsewhere."""
    seconds = np.full(len(text), np.nan)
    found = pc.extract_regex(text, pattern)
    places = np.flatnonzero(to_numpy(found.is_valid()))
    if not places.size:
        return seconds
    found = found.take(pa.array(places))
    part = {field.name: pc.struct_field(found, field.name) for field in found.type}
    days, good = _days(*(_integers(part[name]) for name in ("year", "month", "day")))
    within, right = _time_of_day(part)
    fraction = pc.utf8_slice_codeunits(pc.ascii_rpad(part["fraction"], 6, "0"), 0, 6)
    moments = (days * DAY + within - _offsets(part["zone"])).astype(np.float64)
    moments = moments + _integers(fraction) / 10**6
    seconds[places] = np.where(good & right, moments, np.nan)
    return seconds


def _integers(text: pa.Array) -> IntArray:
    digits = pc.if_else(pc.equal(text, ""), "0", text)
    return np.asarray(to_numpy(pc.cast(digits, pa.int64())), dtype=np.int64)


def _days(year: IntArray, month: IntArray, day: IntArray) -> tuple[IntArray, BoolArray]:
    """Return days since 1970, and which of the dates exist."""
    good = (year >= 1) & (month >= 1) & (month <= 12)
    index = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first = _first_days(index)
    good &= (day >= 1) & (day <= _first_days(index + 1) - first)
    return first + day - 1, good


def _first_days(month: IntArray) -> IntArray:
    """Return the first days of months, both counted from January 1970."""
    days = month.astype("datetime64[M]").astype("datetime64[D]")
    return days.astype(np.int64)


def _time_of_day(part: dict[str, Any]) -> tuple[IntArray, BoolArray]:
    hour, minute, second = (
        _integers(part[name]) for name in ("hour", "minute", "second")
    )
    half = to_numpy(pc.utf8_lower(part["half"])).astype(str)
    twelve = half != ""
    right = (hour < 24) & (minute < 60) & (second < 60)
    right &= ~twelve | ((hour >= 1) & (hour <= 12))
    hour = np.where(twelve, hour % 12 + 12 * (half == "p"), hour)
    return hour * 3600 + minute * 60 + second, right


def _offsets(zone: pa.Array) -> IntArray:
    """Return how many seconds a zone is ahead of UTC."""
    encoded = zone.dictionary_encode()
    known = [_offset(text) for text in encoded.dictionary.to_pylist()]
    offsets: IntArray = np.array(known, dtype=np.int64)[to_numpy(encoded.indices)]
    return offsets


def _offset(zone: str) -> int:
    digits = re.sub(r"\D", "", zone)
    if not digits:
        return 0
    size = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return -size if zone.startswith("-") else size
