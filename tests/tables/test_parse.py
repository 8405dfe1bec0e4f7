"""Cells as numbers and moments: every way to write one, and what is none."""

import datetime
import decimal
import math
import re
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tables import Style, read_target, read_times
from calibrant.tables.columns import PARTS, part_values
from calibrant.tables.infer import date_parts
from calibrant.tables.parse import (
    Parsed,
    as_text,
    number_hint,
    parse_dates,
    parse_numbers,
    plain,
    read_numbers,
)

GERMAN = Style(decimal=",", thousands=".")


def told(parsed: Parsed) -> list[Any]:
    """Return values, None for missing and "bad" for bad cells."""
    bad = np.zeros(len(parsed.values), bool) if parsed.bad is None else parsed.bad
    assert np.isnan(parsed.values[bad]).all()
    return [
        "bad" if wrong else None if math.isnan(value) else value
        for value, wrong in zip(parsed.values.tolist(), bad, strict=True)
    ]


def numbers(cells: list[Any], style: Style | None = None) -> list[Any]:
    return told(parse_numbers(pa.array(cells), style or Style()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        (" 1.5\t", 1.5),
        ("+2", 2.0),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("2E-2", 0.02),
        ("01234", 1234.0),
        ("20200131", 20200131.0),
        ("1e308", 1e308),
        ("9007199254740993", 9007199254740992.0),
        ("0.1", 0.1),
    ],
)
@pytest.mark.parametrize("slow", [False, True])
def test_text_is_read_as_a_number(text: str, value: float, slow: bool) -> None:
    cells = [text, "abc"] if slow else [text]
    assert numbers(cells)[0] == value


@pytest.mark.parametrize(
    "text",
    [
        *("abc", "1_000", "0x10", "inf", "-Infinity", "1e400", "nan(1)", "1,5", "1 2"),
        *("--1", "12 %", "1.2.3", "e5", ".", "1e", "\u0661"),
    ],
)
def test_other_text_is_no_number(text: str) -> None:
    assert numbers([text]) == ["bad"]
    assert numbers(["7", text]) == [7.0, "bad"]


@pytest.mark.parametrize("text", ["", "  ", "NA", "n/a", "NaN", "None", "?", "<NA>"])
def test_missing_is_not_bad(text: str) -> None:
    assert numbers([text, "1", None]) == [None, 1.0, None]


@pytest.mark.parametrize(
    ("text", "style", "value"),
    [
        ("1,5", Style(decimal=","), 1.5),
        ("-3", Style(decimal=","), -3.0),
        ("1.5", Style(decimal=","), "bad"),
        ("1,2,3", Style(decimal=","), "bad"),
        ("1.234.567,25", GERMAN, 1234567.25),
        ("1.5", GERMAN, "bad"),
        ("1234,5", GERMAN, 1234.5),
        ("1,234", Style(thousands=","), 1234.0),
        ("-1,234.5", Style(thousands=","), -1234.5),
        ("12,34,567", Style(thousands=","), 1234567.0),
        ("1,5", Style(thousands=","), "bad"),
        ("1,234,5", Style(thousands=","), "bad"),
        ("12345", Style(thousands=","), 12345.0),
        ("1 234", Style(thousands=" "), 1234.0),
        ("1\u00a0234\u202f567", Style(thousands=" "), 1234567.0),
        ("1'234", Style(thousands="'"), 1234.0),
        ("1\u2019234", Style(thousands="'"), 1234.0),
    ],
)
def test_the_style_of_the_file_counts(text: str, style: Style, value: Any) -> None:
    assert numbers([text], style) == [value]
    assert numbers([None, text], style) == [None, value]


@pytest.mark.parametrize(
    ("cells", "style", "values", "marks"),
    [
        (["$26,700", "$1,200.50"], Style(), [26700, 1200.5], (".", ",", "$")),
        (["-$5", "€ 6"], Style(), ["bad", "bad"], None),
        (["-$5", "+$ 6"], Style(), [-5, 6], (".", None, "$")),
        (["12 %", "3%", "NA"], Style(), [12, 3, None], (".", None, "%")),
        (["5 °C", "-3 °C"], Style(), [5, -3], (".", None, "°C")),
        (["1.234,5", "2,5"], Style(), [1234.5, 2.5], (",", ".", None)),
        (["1.234.567", "2.345"], Style(), [1234567, 2345], (",", ".", None)),
        (["1.234", "2.500"], Style(decimal=","), [1234, 2500], (",", ".", None)),
        (["1 234 kg", "12 345 kg"], Style(), [1234, 12345], (".", " ", "kg")),
        (["1'234", "5"], Style(), [1234, 5], (".", "'", None)),
        (["999", "1,234", "x"], Style(), [999, "bad", "bad"], None),
        (["12a", "12b", "13"], Style(), ["bad", "bad", 13], None),  # house numbers
        (["1,5", "2,5"], Style(), ["bad", "bad"], None),  # it may be 1.5 or 15
        (["269.28"], Style(decimal=",", thousands="."), ["bad"], None),
        (["192.168.1.1"], Style(), ["bad"], None),
        ([1.0, math.inf], Style(), [1, "bad"], None),
    ],
)
def test_units_and_thousands_are_read(
    cells: list[Any], style: Style, values: list[Any], marks: Any
) -> None:
    parsed, found = read_numbers(pa.array(cells), style)
    assert told(parsed) == values
    if marks is None:
        assert found == style
    else:
        assert (found.decimal, found.thousands, found.unit) == marks


def test_own_missing_marks_count_in_text_and_numbers() -> None:
    style = Style(missing=("-999", "9.9", "gone"))
    assert numbers(["-999", "-999.0", "gone", "1"], style) == [None, None, None, 1.0]
    assert numbers([-999, 1], style) == [None, 1.0]
    floats = pa.array([9.9, -999.0, 2.0], pa.float32())
    parsed = parse_numbers(floats, style)
    np.testing.assert_array_equal(parsed.values, [np.nan, np.nan, 2.0])
    half = parse_numbers(pa.array(np.array([1], np.float16)), Style(missing=("1e9",)))
    assert half.values.tolist() == [1.0]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (pa.array([1, None], pa.int8()), [1, np.nan]),
        (pa.array([2**63 - 1]), [2.0**63]),
        (pa.array([2**64 - 1], pa.uint64()), [2.0**64]),
        (pa.array([decimal.Decimal("1.50"), None]), [1.5, np.nan]),
        (pa.array(np.array([0.5], np.float16)), [0.5]),
        (pa.array([float("nan"), 1.0]), [np.nan, 1.0]),
        (pa.array([True, None, False]), [1.0, np.nan, 0.0]),
        (pa.array(["1", "2", "1"]).dictionary_encode(), [1.0, 2.0, 1.0]),
        (pa.array(["1.5", None], pa.large_string()), [1.5, np.nan]),
        (pa.array(["1.5", None], pa.string_view()), [1.5, np.nan]),
        (pa.array([None, None]), [np.nan, np.nan]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())), [1.0]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_typed_columns_are_numbers(cells: Any, values: list[float]) -> None:
    parsed = parse_numbers(plain(cells), Style())
    np.testing.assert_array_equal(parsed.values, values)
    assert parsed.bad is None


def test_typed_infinity_is_bad_and_dates_are_no_numbers() -> None:
    assert numbers([1.0, math.inf, -math.inf, None]) == [1.0, "bad", "bad", None]
    assert numbers([datetime.date(2020, 1, 1), None]) == ["bad", None]


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        (pa.array([1, -2, None]), ["1", "-2", None]),
        (pa.array([1.0, 0.5, -0.0, None, 1e300]), ["1", "0.5", "0", None, "1e+300"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array(np.array([2.0], np.float16)), ["2"]),
        (pa.array([decimal.Decimal("3.00")]), ["3"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([" 01234 "]), ["01234"]),
        (pa.array([datetime.date(2020, 1, 2)]), ["2020-01-02"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_the_text_form(cells: Any, texts: list[str]) -> None:
    assert as_text(cells).to_pylist() == texts


def test_much_text_gets_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.tables.parse.LARGE", 3)
    text = plain(pa.chunked_array([["ab"], ["cd"]]))
    assert pa.types.is_large_string(text.type)
    assert text.to_pylist() == ["ab", "cd"]


@pytest.mark.parametrize(
    ("texts", "style", "hint"),
    [
        (["1,234", "12,345.5"], Style(), r"thousands: --thousands ','\.$"),
        (["1,5", "2,25"], Style(), r"decimal commas: --decimal ','"),
        (["1.5"], GERMAN, r"decimal points: --decimal '\.'"),
        (["12 EUR"], Style(), "stand alone: remove the unit"),
        *[(texts, Style(), "^$") for texts in (["abc"], ["12a", "12b"], [])],
    ],
)
def test_a_hint_says_what_text_looks_like(
    texts: list[str], style: Style, hint: str
) -> None:
    assert re.search(hint, number_hint(texts, style))


def seconds(*parts: int) -> float:
    return datetime.datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


def dates(cells: list[Any], **options: Any) -> list[Any]:
    return told(parse_dates(pa.array(cells), Style(), **options).parsed)


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
    assert dates([text, "no date"] if slow else [text])[0] == value


@pytest.mark.parametrize(
    "text",
    [
        *("2021-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "0000-01-01", "abc"),
        *("31.04.2020", "2020-01-01 24:00", "2020-01-01 12:60", "2020-01-01 12:00:60"),
        *("1/2/20", "2020-01", "2020-01-01x", "13/13/2020", "1/2/2020 13:00 PM"),
        *("1/2/2020 0:30 AM", "2020", "12:30", "20200131"),
    ],
)
def test_other_text_is_no_date(text: str) -> None:
    assert dates([text]) == ["bad"]
    assert dates(["2020-01-01", text]) == [seconds(2020, 1, 1), "bad"]


def test_a_missing_date_is_not_bad() -> None:
    assert dates([None, "NaT", "", "1970-01-01"]) == [None, None, None, 0.0]
    assert dates([None, "NaT", "1/1/1970"]) == [None, None, 0.0]


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
    fast, slow = dates([zoned.isoformat()]), dates([zoned.isoformat(), "x"])
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
    found = parse_dates(pa.array(texts), Style(), day_first=day_first)
    assert (found.day_first, found.unclear) == (read, unclear)


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
    parts = date_parts(moments)
    assert {part.split(" (")[0] for part in parts} == names


def target(cells: Any, style: Style | None = None, first_row: int = 1) -> Any:
    column = cells if isinstance(cells, pa.Array | pa.ChunkedArray) else pa.array(cells)
    return read_target(
        column,
        target="price",
        name="houses.csv",
        style=style or Style(),
        first_row=first_row,
    )


def times(cells: Any, **options: Any) -> Any:
    column = cells if isinstance(cells, pa.Array) else pa.array(cells)
    return read_times(column, time="date", name="a.csv", style=Style(), **options)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.5", None, "NA", "-2e1"], [1.5, np.nan, np.nan, -20.0]),
        ([1, None], [1.0, np.nan]),
        (["$1,500", "$20", None], [1500.0, 20.0, np.nan]),
        (pa.array([None, None]), [np.nan, np.nan]),
        (pa.chunked_array([["1"], ["2"]]), [1.0, 2.0]),
    ],
)
def test_a_target_is_numbers(cells: Any, values: list[float]) -> None:
    np.testing.assert_array_equal(target(cells), values)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (
            ["1", "2", "12 EUR"],
            r"^houses.csv, row 7, column 'price': the target must be a number, got '12 "
            r"EUR'\. Numbers must stand alone: remove the unit",
        ),
        (
            ["1", "2", "abc"],
            r"row 7, .*got 'abc'\. Correct the cell, or leave it empty",
        ),
        (
            ["a", "b", "1"],
            r"row 5, .*got 'a'\. Most of the column looks like text: choo",
        ),
        (["1,5"], r"--decimal ','"),
        (["1", "inf"], "row 6, .*must be a number, got 'inf'"),
        ([1.0, float("inf")], "row 6, .*must be a number, got 'inf'"),
        ([True], "column 'price': the target must be a number, got cells of type bool"),
        ([datetime.date(2020, 1, 1)], "got cells of type date32"),
        ([[1]], "got cells of type list"),
    ],
)
def test_a_target_that_is_no_number(cells: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        target(cells, first_row=5)


def test_times_are_numbers_or_seconds() -> None:
    assert times(["2019", "2020.5"]).tolist() == [2019.0, 2020.5]
    assert times([3, 1]).tolist() == [3.0, 1.0]
    assert times(["1970-01-02", "1970-01-01 00:01"]).tolist() == [86_400.0, 60.0]
    assert times([datetime.date(1970, 1, 2)]).tolist() == [86_400.0]
    assert times(["1/2/1970"], day_first=True).tolist() == [31 * 86_400.0]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (
            ["2020-01-01", None],
            r"^a.csv, row 4, column 'date': every row must have a date or a number to "
            r"be ordered by, got an empty cell\. Fill it in, or remove the row\.$",
        ),
        (["2020-01-01", "soon"], "row 4, .* got 'soon'"),
        (["5", "6", "2020-01-01"], "row 5, .* got '2020-01-01'"),
        ([None], "row 3, .* got an empty cell"),
        (["NA"], "row 3, .* got an empty cell"),
        ([1.0, float("inf")], "row 4, .* got 'inf'"),
        (["1"] * 9 + ["x"], "row 12, .* got 'x'"),
        ([True], "must be a date or a number, got cells of type bool"),
    ],
)
def test_every_row_needs_a_time(cells: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        times(cells, first_row=3)
