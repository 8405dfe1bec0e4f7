"""Cells as moments: every way to write one, against the standard library."""

import datetime
import math
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.tables._calendar import PARTS, calendar_parts, part_values
from calibrant.tables._dates import parse_dates
from calibrant.tables.style import Style


def seconds(*parts: int) -> float:
    return datetime.datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


def parse(cells: list[Any], **options: Any) -> list[Any]:
    parsed = parse_dates(pa.array(cells), Style(), **options).parsed
    bad = np.zeros(len(cells), bool) if parsed.bad is None else parsed.bad
    return [
        "bad" if wrong else None if math.isnan(value) else value
        for value, wrong in zip(parsed.values.tolist(), bad, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-02-29", seconds(2020, 2, 29)),
        ("2020-2-9", seconds(2020, 2, 9)),
        ("2020-02-29T13:45", seconds(2020, 2, 29, 13, 45)),
        ("2020-02-29 13:45:07", seconds(2020, 2, 29, 13, 45, 7)),
        (" 2020-02-29 13:45:07.25 ", seconds(2020, 2, 29, 13, 45, 7) + 0.25),
        ("2020-02-29 13:45:07.123456789", seconds(2020, 2, 29, 13, 45, 7, 123456)),
        ("2020-02-29T13:45:07Z", seconds(2020, 2, 29, 13, 45, 7)),
        ("2020-02-29T13:45:07+02:00", seconds(2020, 2, 29, 11, 45, 7)),
        ("2020-02-29 13:45:07-0330", seconds(2020, 2, 29, 17, 15, 7)),
        ("2020-02-29T13:45+01", seconds(2020, 2, 29, 12, 45)),
        ("2020/02/29", seconds(2020, 2, 29)),
        ("2020/2/29 5:07", seconds(2020, 2, 29, 5, 7)),
        ("29.02.2020", seconds(2020, 2, 29)),
        ("1.3.2020 23:59:59", seconds(2020, 3, 1, 23, 59, 59)),
        ("2/29/2020", seconds(2020, 2, 29)),
        ("29/2/2020", seconds(2020, 2, 29)),
        ("2/29/2020 12:05 AM", seconds(2020, 2, 29, 0, 5)),
        ("2/29/2020 12:05pm", seconds(2020, 2, 29, 12, 5)),
        ("0001-01-01", -62_135_596_800.0),
        ("9999-12-31 23:59:59", seconds(9999, 12, 31, 23, 59, 59)),
        ("1969-12-31 23:59:59.5", -0.5),
    ],
)
@pytest.mark.parametrize("slow", [False, True])
def test_text_is_read_as_a_moment(text: str, value: float, slow: bool) -> None:
    assert parse([text, "no date"] if slow else [text])[0] == value


@pytest.mark.parametrize(
    "text",
    [
        *("2021-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "0000-01-01", "abc"),
        *("31.04.2020", "2020-01-01 24:00", "2020-01-01 12:60", "2020-01-01 12:00:60"),
        *("1/2/20", "2020-01", "2020-01-01x", "13/13/2020", "1/2/2020 13:00 PM"),
        *("1/2/2020 0:30 AM", "2020", "12:30", "20200131"),
    ],
)
def test_other_text_is_bad(text: str) -> None:
    assert parse([text]) == ["bad"]
    assert parse(["2020-01-01", text]) == [seconds(2020, 1, 1), "bad"]


def test_missing_is_not_bad() -> None:
    assert parse([None, "NaT", "", "1970-01-01"]) == [None, None, None, 0.0]
    assert parse([None, "NaT", "1/1/1970"]) == [None, None, 0.0]


@given(
    st.datetimes(
        min_value=datetime.datetime(1, 1, 2), max_value=datetime.datetime(9999, 12, 30)
    ),
    st.integers(-14 * 60, 14 * 60),
)
def test_iso_texts_agree_with_the_standard_library(
    moment: datetime.datetime, minutes: int
) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    zoned = moment.replace(tzinfo=zone)
    zero = datetime.datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (zoned - zero) // datetime.timedelta(microseconds=1)
    whole, part = divmod(microseconds, 10**6)
    fast, slow = parse([zoned.isoformat()]), parse([zoned.isoformat(), "x"])
    assert fast[0] == slow[0] == whole + part / 10**6


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_timestamps_of_any_unit_agree_with_text(unit: str, zone: str | None) -> None:
    moments = [datetime.datetime(2020, 2, 29, 13, 45, 7, tzinfo=UTC), None]
    moments += [datetime.datetime(1901, 1, 1, tzinfo=UTC)]
    typed = pa.array(moments, pa.timestamp(unit, zone or "UTC"))
    if zone is None:
        typed = typed.cast(pa.timestamp(unit))
    values = parse_dates(typed, Style()).parsed.values
    texts = ["2020-02-29 13:45:07", None, "1901-01-01"]
    np.testing.assert_array_equal(
        values, parse_dates(pa.array(texts), Style()).parsed.values
    )


def test_fractions_agree_bit_for_bit() -> None:
    typed = pa.array([1_600_000_000_123_456_789], pa.timestamp("ns"))
    text = pa.array(["2020-09-13 12:26:40.123456"])
    assert (
        parse_dates(typed, Style()).parsed.values[0]
        == (parse_dates(text, Style()).parsed.values[0])
    )


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_typed_dates(kind: Any) -> None:
    parsed = parse_dates(pa.array([datetime.date(1970, 1, 2), None], kind), Style())
    np.testing.assert_array_equal(parsed.parsed.values, [86_400.0, np.nan])


def test_typed_moments_beyond_the_calendar_are_bad() -> None:
    cells = pa.array([2**62, 0], pa.timestamp("s"))
    parsed = parse_dates(cells, Style()).parsed
    np.testing.assert_array_equal(parsed.values, [np.nan, 0.0])
    assert parsed.bad is not None
    assert parsed.bad.tolist() == [True, False]


@pytest.mark.parametrize(
    ("texts", "day_first", "read", "unclear"),
    [
        (["13/4/2020", "1/4/2020"], None, True, False),
        (["4/13/2020", "1/4/2020"], None, False, False),
        (["4/13/2020", "1/4/2020"], True, False, False),  # data against the wish
        (["3/4/2020"], None, False, True),
        (["3/4/2020"], True, True, True),
        (["2020-01-01"], True, True, False),
        (["2020-01-01", "99/99/2020"], None, False, False),
        (["2020-1-1"], None, False, False),
    ],
)
def test_which_of_day_and_month_comes_first(
    texts: list[str], day_first: bool | None, read: bool, unclear: bool
) -> None:
    dates = parse_dates(pa.array(texts), Style(), day_first=day_first)
    assert (dates.day_first, dates.unclear) == (read, unclear)


def test_a_learned_order_is_kept() -> None:
    assert parse(["4/13/2020", "3/4/2020"], order=True) == ["bad", seconds(2020, 4, 3)]


def test_parts_by_hand() -> None:
    # Monday 6 January 2020, 6:00, and Thursday 9 April, 18:00
    moments = np.array([seconds(2020, 1, 6, 6), seconds(2020, 4, 9, 18)])
    found = {
        part: part_values(part, moments, first=seconds(2020, 1, 6)) for part in PARTS
    }
    weekday = 2 * math.pi * 3 / 7
    expected = {
        "position": [0.25, 94.75],
        "month (sin)": [0.0, 1.0],
        "month (cos)": [1.0, 0.0],
        "weekday (sin)": [0.0, math.sin(weekday)],
        "weekday (cos)": [1.0, math.cos(weekday)],
        "hour (sin)": [1.0, -1.0],
        "hour (cos)": [0.0, 0.0],
    }
    for part, values in expected.items():
        np.testing.assert_allclose(found[part], values, atol=1e-12)


@pytest.mark.parametrize(
    ("days", "names"),
    [
        ([0], set()),
        ([0, 1, 5], {"position"}),
        ([0, 0.5], {"position", "hour"}),
        ([0, 7, 14], {"position"}),
        ([0, 3, 10], {"position", "weekday"}),
        ([0, 7, 70], {"position", "month"}),
        ([0, 8, 70], {"position", "month", "weekday"}),
        ([0, 365.0 * 4 + 1], {"position"} | {"weekday"}),
    ],
)
def test_only_parts_that_vary_are_made(days: list[float], names: set[str]) -> None:
    moments = np.array(days) * 86_400 + seconds(2020, 1, 1)
    parts = calendar_parts(moments)
    assert {part.split(" (")[0] for part in parts} == names


def test_before_1970_the_calendar_holds() -> None:
    moments = np.array([seconds(1969, 12, 31, 23), seconds(1969, 7, 1)])
    month = part_values("month (sin)", moments, first=0.0)
    np.testing.assert_allclose(month, [math.sin(2 * math.pi * 11 / 12), 0.0], atol=1e-9)
    weekday = part_values("weekday (cos)", moments, first=0.0)  # Wednesday, Tuesday
    np.testing.assert_allclose(weekday, np.cos(2 * np.pi * np.array([2, 1]) / 7))
