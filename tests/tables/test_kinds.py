"""Which kind a column is, and what is said about it."""

import datetime
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.tables import Column, Roles, Style, TableEncoder
from calibrant.tables.columns import ValueRule


def learn(cells: Any, style: Style | None = None, **roles: Any) -> Column:
    """Learn a column "a" beside a feature "x" and the target "y"."""
    column = cells if isinstance(cells, pa.Array) else pa.array(cells)
    numbers = pa.array(np.arange(len(column)) % 3 / 3)
    encoder = TableEncoder.learn(
        pa.table({"a": column, "x": numbers, "y": numbers}),
        target="y",
        roles=Roles(**roles),
        style=style or Style(),
        name="own.csv",
    )
    return encoder.columns[0]


def check(column: Column, kind: str, done: str) -> None:
    assert (column.kind, column.done) == (kind, done)


HUNDRED = [str(number % 7) for number in range(100)]


COUNTER = "; another whole number in every row: --drop it if it is an identifier"
ALIKE = (
    "3 whole numbers beyond 2^53 that are alike to 16 digits; name it in --categorical "
    "if they are names"
)
#: Kind, cells, and what is said; "@" stands for " filled with the ", and "~" for
#: "left out: the same value in all these rows, ".
KINDS: list[tuple[str, Any, str]] = [
    ("number", ["1", "2", "2"], "number"),
    ("number", [1, 2, 2], "number"),
    ("number", ["3", "4", None, "NA"], "number; 2 missing@median 3.5 and flagged"),
    (
        "number",
        [*HUNDRED[:95], *["abc"] * 5],
        "number; 5 bad cells (5.0 %, first 'abc' in row 96)@median 3 and flagged",
    ),
    (
        "number",
        [*HUNDRED[:95], "", *["inf"] * 4],
        "number; 4 bad cells (4.0 %, first 'inf' in row 97) and 1 missing@median 3 and "
        "flagged",
    ),
    (
        "number",
        ["7", None, "7"],
        "number: only a flag for missing; 1 missing@median 7 and flagged",
    ),
    ("number", list(range(20)), f"number{COUNTER}"),
    ("number", [2**60 + 100 * i for i in range(30)], f"number{COUNTER}"),
    ("number", [f"$ {n % 9}" for n in range(30)], "number; '$ 0' is read as 0"),
    (
        "number",
        ["12 %", "3 %", "NA"],
        "number; '12 %' is read as 12; 1 missing@median 7.5 and flagged",
    ),
    ("number", ["1.234,5", "2,5"], "number; '1.234,5' is read as 1234.5"),
    ("number", [*["999"] * 95, "26,700"], "number; '26,700' is read as 26700"),
    ("constant", ["7", "7.0"], "~7"),
    ("constant", ["a", "a"], "~'a'"),
    ("constant", [True, True], "~yes"),
    ("constant", ["no", "no"], "~no"),
    ("constant", ["2020-01-01", "2020-01-01"], "~2020-01-01"),
    ("empty", [None, None], "left out: all cells are missing"),
    ("empty", ["NA", None], "left out: all cells are missing"),
    ("empty", [math.nan] * 2, "left out: no cell has a value that can be used"),
    ("boolean", ["Yes", "no", "T", "off"], "boolean"),
    (
        "boolean",
        [True, False, None, True],
        "boolean; 1 missing@more common yes and flagged",
    ),
    (
        "date",
        ["2020-01-01", "2020-01-02", None],
        "date: position; 1 missing@median 2020-01-01 12:00:00 and flagged",
    ),
    (
        "date",
        ["2020-01-01", None],
        "date: only a flag for missing; 1 missing@median 2020-01-01 and flagged",
    ),
    (
        "date",
        ["3/4/2020", "3/5/2020"],
        "date: position; read as month/day/year, though day first would fit, too",
    ),
    ("date", ["13.4.2020", "14.4.2020 6:00"], "date: position, hour"),
    (
        "unsupported",
        [[1], [2]],
        "left out: cells of type list<item: int64> are not supported",
    ),
    ("category", ["a", "b", "a", "b", "b"], "category: 2 levels, one column"),
    ("category", ["a", "b", "c"] * 2, "category: 3 levels, one column each"),
    (
        "category",
        ["a", "a", "b", "b", "c", "d", None],
        "category: 2 levels, one column each; 2 rare ones as 'other'; 1 missing as a "
        "level of their own",
    ),
    (
        "category",
        ["a", "a", "b"],
        "category: 1 level, one column; 1 rare one as 'other'",
    ),
    (
        "category",
        ["1,5", "2,5"] * 2,
        "category: 2 levels, one column; it looks like numbers with decimal commas: "
        "--decimal ','",
    ),
    ("text", ["a", "b", "c"], "left out: 3 different texts, none of them in 2 rows"),
    (
        "identifier",
        [f"name{number}" for number in range(30)],
        "left out: 30 different texts in 30 rows; looks like an identifier",
    ),
    (
        "text",
        [f"a nice place, no. {number}" for number in range(30)],
        "left out: 30 different texts in 30 rows",
    ),
    (
        "text",
        [f"name {number % 25}" for number in range(40)],
        "left out: 25 different texts in 40 rows",
    ),
    ("identifier", [2**60 + i % 3 for i in range(9)], f"left out: {ALIKE}"),
    ("identifier", [str(2**60 + i) for i in range(3)], f"left out: {ALIKE}"),
]


@pytest.mark.parametrize(("kind", "cells", "done"), KINDS)
def test_kind_and_what_is_said(kind: str, cells: Any, done: str) -> None:
    done = done.replace("~", "left out: the same value in all these rows, ")
    check(learn(cells), kind, done.replace("@", " filled with the "))


def test_rows_are_those_of_the_file() -> None:
    table = pa.table({"a": [*HUNDRED[:19], "abc"], "y": range(20)})
    encoder = TableEncoder.learn(
        table,
        target="y",
        roles=Roles(),
        style=Style(),
        name="own.csv",
        rows=np.arange(20) * 10 + 5,
    )
    assert "'abc' in row 195" in encoder.columns[0].done


@pytest.mark.parametrize(
    ("good", "kind"), [(90, "number"), (89, "text"), (50, "text"), (49, "text")]
)
def test_ninety_percent_of_numbers_are_needed(good: int, kind: str) -> None:
    cells = [f"{number}.5" for number in range(good)]
    cells += [f"text {number}" for number in range(100 - good)]
    column = learn(cells)
    assert column.kind == kind
    if 50 <= good < 90:
        assert column.done == (
            f"left out: {good}.0 % numbers, the rest text such as 'text 0' in row "
            f"{good + 1}: clean it, or --drop it"
        )


def test_a_mix_of_dates_is_named() -> None:
    first = datetime.date(2020, 1, 1)
    days = [str(first + datetime.timedelta(days=day)) for day in range(60)]
    column = learn([*days, *["late"] * 40])
    assert re.match(r"left out: 60.0 % dates, .* 'late' in row 61", column.done)


def test_rare_levels_need_a_share_of_the_rows() -> None:
    cells = ["a"] * 1000 + ["b"] * 996 + ["c"] * 4  # 0.2 % of 2000 are 4
    assert learn(cells).features == ("a = a", "a = b", "a = c")
    assert learn([*cells[:-1], "b"]).features == ("a = a", "a = b", "a is other")


@pytest.mark.parametrize(("forced", "levels"), [(False, 50), (True, 200)])
def test_many_levels_are_mean_targets(forced: bool, levels: int) -> None:
    roles = {"categorical": ("a",)} if forced else {}
    few = learn([f"n{number:03d}" for number in range(levels)] * 3, **roles)
    assert len(few.features) == levels
    cells = [f"n{n:03d}" for n in range(levels + 1)] * 3 + ["x", "x" * 201, None]
    many = learn(cells, **roles)
    check(
        many,
        "category",
        f"category: {levels + 2} levels, by their mean target; 1 rare one as the mean "
        "of all; 1 missing as well, and flagged",
    )
    once = learn([f"n{number}" for number in range(300)], categorical=("a",))
    check(once, "text", "left out: 300 different texts, none of them in 2 rows")
    assert many.features == ("a: mean target", "a: known share", "a is missing")


@pytest.mark.parametrize("cells", [[1, 2] * 3, [1.0, 2.0] * 3, ["1", "2"] * 3])
def test_numbers_can_be_called_categories(cells: list[Any]) -> None:
    column = learn(cells, categorical=("a",))
    assert (column.kind, column.features) == ("category", ("a = 2",))


def test_forced_categories_of_other_kinds() -> None:
    assert learn([True, False], categorical=("a",)).kind == "boolean"
    assert learn(["NA", "-9"], Style(missing=("-9",)), categorical=("a",)).kind == (
        "empty"
    )
    assert learn(["01", "1"] * 2, categorical=("a",)).features == ("a = 1",)


YEAR = [str(datetime.date(2020, 1, 1) + datetime.timedelta(day)) for day in range(99)]


def test_the_time_column_keeps_its_position() -> None:
    column = learn(YEAR, time="a")
    assert column.features[0] == "a: position"
    check(column, "time", "orders the rows; date: position, month, weekday")


@pytest.mark.parametrize("cells", [range(2000, 2030), ["2019", "2020.5"]])
def test_a_time_in_numbers_is_a_feature_and_no_identifier(cells: Any) -> None:
    column = learn(list(cells), time="a")
    assert column.features == ("a",)
    check(column, "time", "orders the rows; number")


@pytest.mark.parametrize(
    ("cells", "roles", "done"),
    [
        ([True, False], {}, "not a feature"),
        (["a", "b"], {}, "not a feature"),
        (YEAR[:1] * 2, {}, "not a feature"),
        (YEAR, {"drop": "a"}, "not a feature, as you asked"),
    ],
)
def test_a_time_column_that_is_no_feature(
    cells: list[Any], roles: dict[str, Any], done: str
) -> None:
    column = learn(cells, time="a", **roles)
    assert not column.used
    check(column, "time", f"orders the rows; {done}")


def test_huge_numbers_have_a_median() -> None:
    column = learn(["1.6e308", "1.7e308", None])
    assert isinstance(column.rule, ValueRule)
    assert column.rule.fill == pytest.approx(1.65e308)
