"""Cells as numbers: every way to write one, and what is none."""

import datetime
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.tables._cells import as_text, plain, whole
from calibrant.tables._hints import number_hint
from calibrant.tables._numbers import parse_numbers
from calibrant.tables.style import Style

GERMAN = Style(decimal=",", thousands=".")


def parse(cells: list[Any], style: Style | None = None) -> list[Any]:
    """Return numbers, None for missing and "bad" for bad cells."""
    parsed = parse_numbers(pa.array(cells), style or Style())
    bad = np.zeros(len(cells), bool) if parsed.bad is None else parsed.bad
    assert np.isnan(parsed.values[bad]).all()
    return [
        "bad" if wrong else None if math.isnan(value) else value
        for value, wrong in zip(parsed.values.tolist(), bad, strict=True)
    ]


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
    assert parse(cells)[0] == value


@pytest.mark.parametrize(
    "text",
    [
        *("abc", "1_000", "0x10", "inf", "-Infinity", "1e400", "nan(1)", "1,5", "1 2"),
        *("--1", "12 %", "1.2.3", "e5", ".", "1e", "\u0661"),
    ],
)
def test_other_text_is_bad(text: str) -> None:
    assert parse([text]) == ["bad"]
    assert parse(["7", text]) == [7.0, "bad"]


@pytest.mark.parametrize("text", ["", "  ", "NA", "n/a", "NaN", "None", "?", "<NA>"])
def test_missing_is_not_bad(text: str) -> None:
    assert parse([text, "1", None]) == [None, 1.0, None]


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
    assert parse([text], style) == [value]
    assert parse([None, text], style) == [None, value]


def test_decimal_commas_in_a_slice_of_a_larger_array() -> None:
    cells = pa.array(["9,9", "1,5", None, "2,5", "8,8"]).slice(1, 3)
    parsed = parse_numbers(cells, Style(decimal=","))
    np.testing.assert_array_equal(parsed.values, [1.5, np.nan, 2.5])
    empty = parse_numbers(pa.array([], pa.string()), Style(decimal=","))
    assert empty.values.shape == (0,)
    nothing = parse_numbers(pa.nulls(2, pa.string()), Style(decimal=","))
    assert np.isnan(nothing.values).all()


def test_own_missing_marks_count_in_text_and_numbers() -> None:
    style = Style(missing=("-999", "9.9", "gone"))
    assert parse(["-999", "-999.0", "gone", "1"], style) == [None, None, None, 1.0]
    assert parse([-999, 1], style) == [None, 1.0]
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
        (pa.array([1500], pa.duration("ms")), [1.5]),
        (pa.array([datetime.time(1, 0, 1)], pa.time32("s")), [3601.0]),
        (pa.array([datetime.time(0, 0, 1, 500_000)], pa.time64("us")), [1.5]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], [5, 6]), [5.0, 5.0, 6.0]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())), [1.0]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_typed_columns_are_numbers(cells: Any, values: list[float]) -> None:
    parsed = parse_numbers(whole(cells), Style())
    np.testing.assert_array_equal(parsed.values, values)
    assert parsed.bad is None


def test_typed_infinity_is_bad_and_dates_are_no_numbers() -> None:
    assert parse([1.0, math.inf, -math.inf, None]) == [1.0, "bad", "bad", None]
    assert parse([datetime.date(2020, 1, 1), None]) == ["bad", None]


def test_zero_has_no_sign() -> None:
    parsed = parse_numbers(pa.array(["-0", "-0.0"]), Style())
    assert not np.signbit(parsed.values).any()


def test_a_failure_beyond_the_first_cells_is_found() -> None:
    cells = ["1"] * 1000 + ["x", "2"]
    assert parse(cells)[-2:] == ["bad", 2.0]


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
        (pa.array([5], pa.duration("s")), ["5"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_the_text_form(cells: Any, texts: list[str]) -> None:
    assert as_text(cells).to_pylist() == texts


def test_chunks_become_one_array() -> None:
    chunks = [pa.array(["1"]).dictionary_encode(), pa.array(["2"]).dictionary_encode()]
    assert whole(pa.chunked_array(chunks)).to_pylist() == ["1", "2"]
    assert whole(pa.chunked_array([], pa.int64())).to_pylist() == []
    assert plain(pa.array([1])).to_pylist() == [1]


def test_much_text_gets_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.tables._cells.LARGE", 3)
    text = whole(pa.chunked_array([["ab"], ["cd"]]))
    assert pa.types.is_large_string(text.type)
    assert text.to_pylist() == ["ab", "cd"]


@pytest.mark.parametrize(
    ("texts", "style", "hint"),
    [
        (["1,234", "12,345.5"], Style(), r"thousands separators: --thousands ','\.$"),
        (["1,234"], Style(decimal=","), r"--thousands ',' --decimal '\.'"),
        (["1.234.567", "1.234,5"], Style(), r"--thousands '\.' --decimal ','"),
        (["1 234"], Style(), r"--thousands ' '\.$"),
        (["1,5", "2,25"], Style(), r"decimal commas: --decimal ','"),
        (["1.5"], Style(decimal=","), r"decimal points: --decimal '\.'"),
        (["$5", "$1,000"], Style(), r"remove the unit in '\$5'"),
        (["x", "12 %", "3 %"], Style(), r"remove the unit in '12 %'"),
        (["12 EUR"], Style(), "remove the unit"),
        (["20 °C"], Style(), "remove the unit"),
    ],
)
def test_a_hint_says_what_text_looks_like(
    texts: list[str], style: Style, hint: str
) -> None:
    assert re.search(hint, number_hint(texts, style))


@pytest.mark.parametrize("texts", [["abc"], ["12a", "12b"], ["1,5", "a", "b"], []])
def test_no_hint_without_a_reason(texts: list[str]) -> None:
    assert number_hint(texts, Style()) == ""
