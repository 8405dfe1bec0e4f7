"""A stranger's description of the columns: used as it is, or refused in one line."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calibrant._checks import InputError
from calibrant.tables.encoder import TableEncoder
from calibrant.tables.roles import Roles
from calibrant.tables.style import Style

TABLE = pa.table(
    {
        "number": ["1", "2", None, *["3"] * 17, "x"],
        "truth": ["yes", "no", *["no"] * 19],
        "color": ["r", "g", "g", *["r"] * 17, "rare"],
        "day": ["2020-01-01", *["2020-01-02"] * 20],
        "id": range(21),
        "y": range(21),
    }
)
NUMBER, TRUTH, COLOR, DAY, ID = range(5)


def description() -> dict[str, Any]:
    encoder = TableEncoder.learn(
        TABLE, target="y", roles=Roles(drop=("id",)), style=Style(), name="own.csv"
    )
    content: dict[str, Any] = json.loads(json.dumps(encoder.to_dict()))
    return content


CONTENT = description()


def damaged(change: Callable[[Any], None], text: str) -> None:
    content = copy.deepcopy(CONTENT)
    change(content)
    with pytest.raises(InputError, match=text) as caught:
        TableEncoder.from_dict(content)
    assert "the description of the columns in the model is damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_was_written_is_read() -> None:
    assert TableEncoder.from_dict(CONTENT).to_dict() == CONTENT


@pytest.mark.parametrize("content", [None, [], "text", 5])
def test_no_mapping(content: Any) -> None:
    with pytest.raises(InputError, match="damaged: it must be a mapping, got"):
        TableEncoder.from_dict(content)


@pytest.mark.parametrize("key", sorted(CONTENT))
def test_a_missing_entry(key: str) -> None:
    damaged(lambda content: content.pop(key), f"it has no '{key}'")


@pytest.mark.parametrize("key", sorted(CONTENT["columns"][0]))
def test_a_missing_entry_of_a_column(key: str) -> None:
    damaged(lambda content: content["columns"][0].pop(key), f"column 1 has no '{key}'")


@pytest.mark.parametrize("place", [NUMBER, TRUTH, COLOR, DAY])
def test_a_missing_entry_of_a_rule(place: int) -> None:
    for key in CONTENT["columns"][place]["rule"]:
        damaged(
            lambda content, key=key: content["columns"][place]["rule"].pop(key),
            f"'rule' of column {place + 1} has no '{key}'",
        )


@pytest.mark.parametrize("wrong", [None, [], {}, float("nan"), 1e999, -1, "?", 2.5])
@pytest.mark.parametrize("place", [NUMBER, TRUTH, COLOR, DAY])
def test_values_of_the_wrong_type(place: int, wrong: Any) -> None:
    for key, right in CONTENT["columns"][place]["rule"].items():
        if isinstance(right, list) and wrong == []:
            continue  # no rare levels are fine
        numbers = isinstance(right, float) and isinstance(wrong, float | int)
        if numbers and abs(wrong) < 10:
            continue  # another number is a number
        damaged(
            lambda content, key=key: content["columns"][place]["rule"].update(
                {key: wrong}
            ),
            f"'{key}' of 'rule' of column {place + 1} must be|the range|the filling",
        )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(version=2), "'version' must be 1"),
        (lambda c: c.update(version=True), "must be a whole number, got True"),
        (lambda c: c.update(decimal="x"), "decimal mark must be"),
        (lambda c: c.update(thousands=3), "'thousands' of it must be a text"),
        (lambda c: c.update(missing=["a", 1]), "must be a list of different texts"),
        (lambda c: c.update(missing=["a"] * 2), "must be a list of different texts"),
        (lambda c: c.update(missing=["a"] * 2000), "at most 1,000 entries, got a list"),
        (lambda c: c.update(columns={}), "'columns' of it must be a list"),
        (lambda c: c.update(columns=[]), "must have different names, and one must be"),
        (lambda c: c["columns"].append(c["columns"][0]), "must have different names"),
        (
            lambda c: c["columns"].append(None),
            "column 7 must be a mapping, got NoneType",
        ),
        (
            lambda c: c["columns"][0].update(kind="exec"),
            "must be one of number, boolean",
        ),
        (
            lambda c: c["columns"][ID].update(used=True),
            "'dropped', which cannot be used",
        ),
        (lambda c: c["columns"][0].update(used=1), "must be true or false, got 1"),
        (
            lambda c: c["columns"][0].update(rule=None),
            "'rule' of column 1 must be a map",
        ),
        (lambda c: c["columns"][0].update(missing=-1), "a whole number of at least 0"),
        (lambda c: c["columns"][0].update(missing=2**70), "a whole number of at least"),
        (
            lambda c: c["columns"][0].update(missing=1.5),
            "must be a whole number, got 1.5",
        ),
        (lambda c: c["columns"][0].update(name="n" * 200_000), "at most 100,000 char"),
        (lambda c: c["columns"][0].update(bad_cell=None), "'bad_cell' of column 1"),
        (lambda c: c["columns"][0]["rule"].update(low=10**400), "must be a finite num"),
        (lambda c: c["columns"][0]["rule"].update(low=True), "must be a finite number"),
        (lambda c: c["columns"][0]["rule"].update(low=9), "the range or the columns"),
        (
            lambda c: c["columns"][0]["rule"].update(flag=False, value=False),
            "the range or the columns",
        ),
        (lambda c: c["columns"][TRUTH]["rule"].update(fill=0.5), "the filling or"),
        (
            lambda c: c["columns"][COLOR]["rule"].update(levels=["a"] * 201),
            "at most 200 entries",
        ),
        (
            lambda c: c["columns"][COLOR]["rule"].update(levels=[]),
            "the levels of 'rule'",
        ),
        (lambda c: c["columns"][COLOR]["rule"].update(other=False), "the levels of"),
        (
            lambda c: c["columns"][COLOR]["rule"].update(
                levels=["a"], other=False, rare=[]
            ),
            "the levels of",
        ),
        (lambda c: c["columns"][DAY]["rule"].update(parts=["soul"]), "the parts of"),
        (
            lambda c: c["columns"][DAY]["rule"].update(
                parts=["hour (sin)", "position"]
            ),
            "the parts of",
        ),
        (lambda c: c["columns"][DAY]["rule"].update(parts=[]), "gives no columns"),
        (lambda c: c["columns"][DAY]["rule"].update(high=1e300), "in its range"),
        (
            lambda c: c["columns"][DAY]["rule"].update(low=2e11),
            "the range or the parts",
        ),
    ],
)
def test_other_damage(change: Callable[[Any], None], text: str) -> None:
    damaged(change, text)


def test_deep_nesting_is_refused_calmly() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    damaged_content = {**CONTENT, "target": deep}
    with pytest.raises(InputError, match=r"'target' of it must be a text .* a list"):
        TableEncoder.from_dict(damaged_content)
