"""The target and the time column: numbers, or a line that names the cell."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant._checks import InputError
from calibrant.tables.style import Style
from calibrant.tables.target import read_target, read_times


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
        (["1,234", "2"], r"got '1,234'\. It looks like .* --thousands ','"),
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
