"""Rows as a matrix: values by hand, all types alike, and what a new file must have."""

import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tables import Findings, Roles, Style, TableEncoder


def learn(columns: Any, style: Style | None = None, **roles: Any) -> TableEncoder:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if "y" not in table.column_names:
        table = table.append_column("y", pa.array(range(table.num_rows)))
    return TableEncoder.learn(
        table, target="y", roles=Roles(**roles), style=style or Style(), name="own.csv"
    )


def encode(encoder: TableEncoder, columns: Any, **options: Any) -> list[list[float]]:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    matrix = encoder.encode(table, name="new.csv", **options)
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()
    values: list[list[float]] = matrix.tolist()
    return values


def test_numbers_are_filled_and_flagged() -> None:
    encoder = learn({"a": ["1", "2", None, "9"]})
    assert encoder.feature_names == ("a", "a is missing")
    assert encode(encoder, {"a": ["5", "", "x"]}) == [[5, 0], [2, 1], [2, 1]]
    assert encode(encoder, {"a": [5, None]}) == [[5, 0], [2, 1]]


def test_one_value_and_gaps_give_a_flag_alone() -> None:
    encoder = learn({"a": ["7", None], "b": [True, None], "c": ["on", None]})
    assert encoder.feature_names == ("a is missing", "b is missing", "c is missing")
    new = {"a": ["7", None], "b": [None, False], "c": ["off", "on"]}
    assert encode(encoder, new) == [[0, 1, 0], [1, 0, 0]]


def test_booleans() -> None:
    encoder = learn({"a": ["yes", "no", "no", None], "b": [True, False, True, True]})
    assert encoder.feature_names == ("a", "a is missing", "b")
    new = {"a": ["TRUE", "n", None, "1"], "b": ["off", "True", None, "0"]}
    assert encode(encoder, new) == [[1, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]]
    typed = {"a": [1, 0], "b": [1.0, 0.0]}
    assert encode(encoder, typed) == [[1, 0, 1], [0, 0, 0]]


def test_categories_have_a_column_each() -> None:
    encoder = learn({"a": ["r", "g", "b", "r", "g", "b", "r", None]})
    names = ("a = r", "a = b", "a = g", "a is missing")
    assert encoder.feature_names == names
    assert encode(encoder, {"a": ["g", None, "r", " b ", "mauve"]}) == [
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]


def test_unknown_and_rare_levels_are_other() -> None:
    encoder = learn({"a": ["r", "r", "g", "g", "rare"]})
    assert encoder.feature_names == ("a = g", "a = r", "a is other")
    assert encode(encoder, {"a": ["rare", "new", None, "r"]}) == [
        [0, 0, 1],
        [0, 0, 1],
        [0, 0, 1],
        [0, 1, 0],
    ]


def test_two_levels_need_one_column() -> None:
    encoder = learn({"a": ["m", "f", "m", "f", "m"]})
    assert encoder.feature_names == ("a = f",)
    assert encode(encoder, {"a": ["f", "m", "?", "x"]}) == [[1], [0], [0], [0]]


@pytest.mark.parametrize(
    ("training", "new"),
    [
        (["1", "2", "3"], pa.array([1, 2, 3])),
        (["1", "2", "3"], pa.array([1.0, 2.0, 3.0])),
        (["1.0", "2.0", "3.0"], pa.array([1.0, 2.0, 3.0])),
        ([1.0, 2.0, 3.0], pa.array(["1.0", "2.00", "3"])),
        ([1, 2, 3], pa.array(["1", "2", "3"]).dictionary_encode()),
        (["01", "02", "03"], pa.array(["01", "02", "03"], pa.large_string())),
        (["True", "False", "x"], pa.array(["true", "FALSE", "x"])),
    ],
)
def test_levels_match_by_their_text(training: Any, new: Any) -> None:
    encoder = learn({"a": training * 2}, categorical=("a",))
    assert encoder.encode(pa.table({"a": new}), name="new").sum(axis=1).tolist() == (
        [1, 1, 1]
    )
    np.testing.assert_array_equal(
        encoder.encode(pa.table({"a": new}), name="new"),
        encoder.encode(pa.table({"a": training}), name="new"),
    )


def test_leading_zeros_are_kept() -> None:
    encoder = learn({"zip": ["01234", "1234", "99"] * 2}, categorical=("zip",))
    assert encoder.feature_names == ("zip = 01234", "zip = 1234", "zip = 99")
    assert encode(encoder, {"zip": pa.array([1234])}) == [[0, 1, 0]]


def test_dates_by_hand() -> None:
    days = ["2020-01-06", "2020-01-20", "2020-04-09", None]
    encoder = learn({"d": days})
    assert encoder.feature_names == (
        *("d: position", "d: month (sin)", "d: month (cos)"),
        *("d: weekday (sin)", "d: weekday (cos)", "d is missing"),
    )
    week = 2 * math.pi * 3 / 7
    found = encode(encoder, {"d": ["9.4.2020", "x"]})
    april = [94, 1, 0, math.sin(week), math.cos(week), 0]
    np.testing.assert_allclose(found, [april, [14, 0, 1, 0, 1, 1]], atol=1e-12)


def test_that_rows_are_later_than_in_training_is_no_news() -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(day) for day in range(90)]
    encoder = learn({"d": days, "a": range(90)}, time="d")
    assert encoder.needed == ("d", "a")
    findings = Findings()
    late = {"d": [datetime.date(2030, 1, 1)], "a": [0]}
    encode(encoder, late, findings=findings)
    assert findings.lines() == []


def mixed(rows: int = 60) -> dict[str, pa.Array]:
    generator = np.random.default_rng(0)
    numbers = np.round(generator.normal(size=rows) * 1e3, 4).tolist()
    first = datetime.datetime(2019, 12, 30, 6)
    moments = [first + datetime.timedelta(hours=37 * row) for row in range(rows)]
    gap = [None if row % 7 == 0 else number for row, number in enumerate(numbers)]
    return {
        "float": pa.array(gap),
        "integer": pa.array([row % 11 for row in range(rows)], pa.int32()),
        "large": pa.array([2**53 + row for row in range(rows)], pa.uint64()),
        "decimal": pa.array([decimal.Decimal(row % 13) / 4 for row in range(rows)]),
        "truth": pa.array([None if row == 5 else row % 3 == 0 for row in range(rows)]),
        "moment": pa.array(moments, pa.timestamp("ms")),
        "day": pa.array([moment.date() for moment in moments]),
        "color": pa.array([["red", "blue", None][row % 3] for row in range(rows)]),
        "code": pa.array([row % 5 for row in range(rows)]),
        "y": pa.array(numbers),
    }


def as_texts(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return {
        name: pa.array([text(value) for value in cells.to_pylist()])
        for name, cells in columns.items()
    }


def test_typed_and_text_tables_give_the_same_matrix() -> None:
    typed, texts = mixed(), as_texts(mixed())
    first = learn(typed, categorical=("code",))
    second = learn(texts, categorical=("code",))
    assert first.columns == second.columns
    assert len(first.feature_names) == 27
    matrices = [
        encoder.encode(pa.table(columns), name="new")
        for encoder in (first, second)
        for columns in (typed, texts)
    ]
    for matrix in matrices[1:]:
        np.testing.assert_array_equal(matrix, matrices[0])


def test_a_round_trip_changes_no_bit() -> None:
    encoder = learn(
        mixed(),
        Style(decimal=".", missing=("-999",)),
        categorical=("code",),
        drop="day",
    )
    text = json.dumps(encoder.to_dict(), allow_nan=False)
    again = TableEncoder.from_dict(json.loads(text))
    assert again == encoder
    assert again.to_dict() == encoder.to_dict()
    table = pa.table(mixed())
    assert (
        again.encode(table, name="new").tobytes()
        == encoder.encode(table, name="new").tobytes()
    )


CELLS = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(
        ["1", "2.5", "-1e308", "a", "b", "yes", "no", "2020-01-01", "1/2/2020"]
    ),
)


@given(st.lists(CELLS, min_size=1, max_size=30), st.lists(CELLS, max_size=30))
def test_any_text_is_encoded_or_refused(
    training: list[str | None], new: list[str | None]
) -> None:
    varied = pa.array(range(len(training) + 1))
    column = pa.array([*training, "1"], pa.string())
    encoder = learn({"a": column, "b": varied})
    table = pa.table({"a": pa.array(new, pa.string()), "b": pa.array([0] * len(new))})
    findings = Findings()
    refused = ""
    try:
        matrix = encoder.encode(table, name="new.csv", findings=findings)
    except InputError as error:
        refused = str(error)
    if refused:
        assert "column 'a': a" in refused
        return
    assert np.isfinite(matrix).all()
    assert len(findings.lines()) >= len(findings.found)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(again.encode(table, name="new.csv"), matrix)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_batches_and_chunks_give_the_same(size: int) -> None:
    encoder, table = learn(mixed()), pa.table(mixed())
    batches = table.to_batches(max_chunksize=size)
    expected = encoder.encode(table, name="new")
    one_by_one = [encoder.encode(batch, name="new") for batch in batches]
    np.testing.assert_array_equal(np.concatenate(one_by_one), expected)
    chunks = pa.Table.from_batches(batches)
    np.testing.assert_array_equal(encoder.encode(chunks, name="new"), expected)
    chunked = learn(chunks)
    assert chunked == encoder


def test_feature_names_are_unique() -> None:
    encoder = learn(
        {"a": [1, 2, None], "a is missing": [1, 2, 3], "a is missing (2)": [1, 2, 4]}
    )
    assert encoder.feature_names == (
        *("a", "a is missing", "a is missing (3)", "a is missing (2)"),
    )


def test_the_style_of_a_new_file() -> None:
    encoder = learn({"a": ["1.5", "2.5", "-9"]}, Style(missing=("-9",)))
    new = {"a": ["2,5", "-9"]}
    assert encode(encoder, new, style=Style(decimal=",")) == [[2.5, 0], [2.0, 1]]


def test_units_and_thousands_of_training_are_kept() -> None:
    table = pa.table(
        {"a": ["$26,700", "$999"], "b": ["1.234,5", "2,5"], "y": ["5 %", "6 %"]}
    )
    encoder = learn(table)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert encoder.columns[2].done == (
        "the target, to be predicted; '5 %' is read as 5"
    )
    new = {"a": ["$1,000", "7"], "b": ["1.000", "3,5"]}
    assert encode(again, new) == [[1000, 1000], [7, 3.5]]
    assert encode(again, {"a": [1, 2], "b": [1.5, 2.5]}) == [[1, 1.5], [2, 2.5]]
    style = again.style_for(Style(decimal="."), "y")
    assert (style.decimal, style.unit) == (".", "%")


def test_huge_numbers_stay_finite() -> None:
    encoder = learn({"a": ["-1.7e308", "1.7e308", None]})
    assert encode(encoder, {"a": ["1e308", None, "1e999"]})[1:] == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ({"Age": [1], "b": [1]}, r"^new.csv: .* no column 'age'. Did you mean 'Age'\?"),
        ({"x": [1]}, r"there are no columns 'age', 'b'. There are 'x'"),
        (
            {"age": [[1]], "b": [1]},
            r"^new.csv, column 'age': a number was expected, got cells of type list",
        ),
    ],
)
def test_a_new_file_without_what_is_needed(new: Any, text: str) -> None:
    encoder = learn({"age": [1, 2], "b": [1, 2]})
    with pytest.raises(InputError, match=text):
        encode(encoder, new)


@pytest.mark.parametrize(
    ("columns", "roles", "text"),
    [
        (
            {"a": [1, 2], "b": [1, 1]},
            {"drop": "a"},
            r"^own.csv must have a column to predict from, and none is left \('a': "
            r"left out, as you asked; 'b': left out: the same value in all these rows",
        ),
        ({"y": [1, 2]}, {}, "must have a column besides the target 'y', and it has"),
        ({name: [1, 1] for name in "abcde"}, {}, r"; and 2 more\)"),
        ({"a": pa.array([], pa.int64())}, {}, "must have rows to learn from"),
    ],
)
def test_nothing_to_learn_from(columns: Any, roles: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        learn(columns, **roles)


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ({"drop": ("ids",)}, r"no column 'ids'\. Did you mean 'id'\?"),
        ({"categorical": ("zzz",)}, r"no column 'zzz'\. There are 'id', 'a'"),
        ({"time": "when"}, "no column 'when'"),
        ({"group": "who"}, "no column 'who'"),
        ({"drop": ("y",)}, "'y' is the target and cannot be named for drop, too"),
        ({"categorical": "y"}, "'y' is the target and cannot be named for categorical"),
        ({"time": "y"}, "'y' is the target and cannot be named for time"),
        ({"drop": "id", "categorical": "id"}, "either dropped or used, .* for 'id'"),
        ({"drop": "id", "group": "id"}, "either dropped or used"),
    ],
)
def test_roles_that_do_not_fit(roles: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        learn({"id": [1, 2], "a": [1, 2]}, **roles)


def many_levels(rows: int = 1200, levels: int = 100) -> tuple[pa.Table, Any, Any]:
    """Return a table whose target is an effect of its level and noise."""
    generator = np.random.default_rng(3)
    level = generator.integers(levels, size=rows)
    effect = generator.normal(size=levels) * 3
    y = 10 + effect[level] + generator.normal(size=rows)
    cells = [f"level {number}" for number in level]
    return pa.table({"a": cells, "y": y}), level, effect


def test_mean_targets_are_close_to_the_effects_of_levels() -> None:
    table, level, effect = many_levels()
    encoder = learn(table)
    assert encoder.uses_target
    x = encoder.encode(table, name="new")
    assert np.corrcoef(x[:, 0], effect[level])[0, 1] > 0.98
    assert ((x[:, 1] > 0.8) & (x[:, 1] < 1)).all()
    own = encoder.encode_training(table, name="new", labels=np.arange(1200))
    assert np.corrcoef(own[:, 0], effect[level])[0, 1] > 0.95
    findings = Findings()
    new = pa.table({"a": ["level 3", "other", None]})
    unknown = encoder.encode(new, name="new.csv", findings=findings)
    np.testing.assert_allclose(unknown[1:], [[x[:, 0].mean(), 0]] * 2, atol=0.1)
    assert [found.what for found in findings.found] == ["unknown", "missing"]
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert again.encode(table, name="new").tobytes() == x.tobytes()


@pytest.mark.parametrize("linked", [1, 3])
def test_no_row_sees_its_own_target(linked: int) -> None:
    table, _, _ = many_levels()
    labels = np.arange(1200) // linked
    encoder = learn(table)
    before = encoder.encode_training(table, name="new", labels=labels, seed=5)
    again = encoder.encode_training(table, name="new", labels=labels, seed=5)
    assert before.tobytes() == again.tobytes()
    y = table["y"].to_numpy().copy()
    for row in (0, 17, 600):
        changed = y.copy()
        changed[row] += 1e6
        other = table.set_column(1, "y", pa.array(changed))
        after = encoder.encode_training(other, name="new", labels=labels, seed=5)
        same = labels == labels[row]
        assert after[same].tobytes() == before[same].tobytes()
        assert not np.array_equal(after, before)


def test_huge_targets_have_finite_means() -> None:
    table, _, _ = many_levels()
    huge = table["y"].to_numpy() * 1e306
    table = table.set_column(1, "y", pa.array(huge))
    own = learn(table).encode_training(table, name="new", labels=np.arange(1200))
    assert np.isfinite(own).all()


def test_levels_that_mean_nothing_say_nothing() -> None:
    table, _, _ = many_levels()
    noise = np.random.default_rng(0).normal(size=1200)
    table = table.set_column(1, "y", pa.array(noise))
    own = learn(table).encode_training(table, name="new", labels=np.arange(1200))
    assert abs(np.corrcoef(own[:, 0], noise)[0, 1]) < 0.1
    assert own[:, 1].mean() < 0.3
