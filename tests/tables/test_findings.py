"""What is unusual in new rows: counted, placed and said; and when it is too much."""

from typing import Any

import pyarrow as pa
import pytest

from calibrant.errors import InputError
from calibrant.tables import Roles, Style, TableEncoder
from calibrant.tables.columns import Findings

TRAINING: dict[str, list[Any]] = {
    "age": [18, 65, 40, 40],
    "color": ["red", "blue", "red", "blue"],
    "size": ["s", "m", "l", "s"],
    "day": ["2020-01-01", "2020-01-02", "2020-01-04", "2020-01-05"],
    "ok": ["yes", "no", "no", "no"],
    "y": [1, 2, 3, 4],
}
USUAL: dict[str, list[Any]] = {
    name: [cells[0]] * 10 for name, cells in TRAINING.items() if name != "y"
}


def encoder() -> TableEncoder:
    table = pa.table({**TRAINING, "size": ["s", "m", "s", "m"]})
    table = table.append_column("rank", pa.array(["a", "b", "c", "a"]))
    table = pa.concat_tables([table, table])
    return TableEncoder.learn(
        table, target="y", roles=Roles(), style=Style(), name="own.csv"
    )


def find(first_row: int = 1, **changes: Any) -> Findings:
    findings = Findings()
    columns = {**USUAL, "rank": ["a"] * 10, **changes}
    table = pa.table(columns)
    encoder().encode(table, name="new.csv", first_row=first_row, findings=findings)
    return findings


def put(column: str, places: dict[int, Any]) -> dict[str, list[Any]]:
    cells = list(USUAL[column]) if column in USUAL else ["a"] * 10
    for place, cell in places.items():
        cells[place] = cell
    return {column: cells if column != "age" else [str(cell) for cell in cells]}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            put("age", {2: "97", 5: "17.5"}),
            "2 rows have 'age' outside 18 to 65 as seen in training, the first is row "
            "3 (97).",
        ),
        (
            put("age", {9: "66"}),
            "1 row has 'age' outside 18 to 65 as seen in training, ",
        ),
        (
            put("age", {2: "abc", 4: "inf"}),
            "2 rows have 'age' that is no number and was taken as missing, the first "
            "is row 3 ('abc').",
        ),
        (
            {"age": [None, *[20] * 9]},
            "1 row has no 'age', which training always had, filled with the median 40, "
            "row 1.",
        ),
        (
            put("color", {3: "mauve", 4: "pink"}),
            "2 rows have 'color' with a value unknown from training, taken as 'blue', "
            "the first is row 4 ('mauve').",
        ),
        (
            put("rank", {3: "z"}),
            "1 row has 'rank' with a value unknown from training, taken as none of the "
            "levels, row 4 ('z').",
        ),
        (
            put("rank", {1: None, 2: "?"}),
            "2 rows have no 'rank', which training always had, taken as none of the "
            "levels, the first is row 2.",
        ),
        (
            put("day", {0: "2019-12-31 12:00"}),
            "1 row has 'day' outside 2020-01-01 to 2020-01-05 as seen in training, row "
            "1 (2019-12-31 12:00).",
        ),
        (
            put("day", {0: "soon"}),
            "1 row has 'day' that is no date and was taken as missing, row 1 ('soon').",
        ),
        (
            put("day", {0: None}),
            "1 row has no 'day', which training always had, filled with the median "
            "2020-01-03, row 1.",
        ),
        (
            put("ok", {7: "maybe"}),
            "1 row has 'ok' that is no yes-or-no value and was taken as missing, row 8 "
            "('maybe').",
        ),
        (
            put("ok", {7: None}),
            "1 row has no 'ok', which training always had, filled with the more common "
            "no, row 8.",
        ),
    ],
)
def test_the_sentences(changes: Any, line: str) -> None:
    lines = find(**changes).lines()
    assert len(lines) == 1
    assert lines[0].startswith(f"new.csv: {line}")


def test_long_cells_are_cut_and_stay_on_one_line() -> None:
    (line,) = find(**put("age", {0: "a\nb" * 100})).lines()
    assert "\n" not in line
    assert len(line) < 200


def test_rows_are_counted_on_over_batches() -> None:
    learned, findings = encoder(), Findings()
    cells = {**USUAL, "rank": ["a"] * 10, **put("age", {4: "99", 7: "abc", 8: "x"})}
    start = 1
    for batch in pa.table(cells).to_batches(max_chunksize=3):
        learned.encode(batch, name="new.csv", first_row=start, findings=findings)
        start += batch.num_rows
    whole = find(**put("age", {4: "99", 7: "abc", 8: "x"}))
    assert findings.found == whole.found
    assert [found.row for found in findings.found] == [8, 5]


def test_rows_outside_anywhere_are_counted_once() -> None:
    changes = {**put("age", {2: 97, 3: 98}), **put("day", {3: "2021-01-01"})}
    findings = find(**changes)
    assert findings.rows_outside == 2
    assert findings.lines()[-1] == (
        "new.csv: 2 of 10 rows are outside what training saw in at least one column; "
        "trust their intervals less."
    )


def test_all_bad_is_an_error() -> None:
    with pytest.raises(
        InputError,
        match=r"^new.csv, row 1, column 'age': a number was expected, got 'abc' \(10 "
        r"of 10 cells are no numbers\)\. Correct the file",
    ):
        find(age=["abc"] * 10)
    with pytest.raises(InputError, match=r"row 3, .* got '1,5' \(6 of 8 .* --decimal"):
        find(age=[None, None, *["1,5"] * 6, "20", "21"])
    with pytest.raises(InputError, match=r"a date was expected, got 'x' \(10 of 10"):
        find(day=["x"] * 10)


@pytest.mark.parametrize("bad", [4, 5])
def test_half_is_not_too_much(bad: int) -> None:
    cells = ["abc"] * bad + ["20"] * bad + [None] * (10 - 2 * bad)
    assert find(age=cells).found[0].count == bad


def test_few_rows_that_are_all_bad() -> None:
    learned = encoder()
    row = {name: cells[:1] for name, cells in {**USUAL, "rank": ["a"]}.items()}
    table = pa.table({**row, "age": ["abc"]})
    with pytest.raises(InputError, match=r"got 'abc' \(1 of 1 cells"):
        learned.encode(table, name="new.csv")
    # The last rows of a long file are no reason to give up.
    learned.encode(table, name="new.csv", first_row=9)


def test_strict_refuses_one_bad_cell() -> None:
    table = pa.table({**USUAL, "rank": ["a"] * 10, **put("age", {6: "abc"})})
    with pytest.raises(
        InputError, match=r"^new.csv, row 7, column 'age': a number .* 'abc'\. Correct"
    ):
        encoder().encode(table, name="new.csv", strict=True)
