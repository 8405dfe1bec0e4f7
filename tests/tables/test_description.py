"""An untrusted description of the columns: used as it is, or refused in one line."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from calibrant.errors import InputError
from calibrant.tables import Roles, Style, TableEncoder

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
COLOR, DAY, ID = range(2, 5)


def description() -> dict[str, Any]:
    encoder = TableEncoder.learn(
        TABLE, target="y", roles=Roles(drop=("id",)), style=Style(), name="own.csv"
    )
    content: dict[str, Any] = json.loads(json.dumps(encoder.to_dict()))
    return content


CONTENT = description()


def damaged(content: Any, text: str = "damaged: ") -> None:
    with pytest.raises(InputError, match=text) as caught:
        TableEncoder.from_dict(content)
    assert "the description of the columns in the model is damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_was_written_is_read() -> None:
    assert TableEncoder.from_dict(CONTENT).to_dict() == CONTENT


def paths(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every entry of JSON."""
    keys = range(len(content)) if isinstance(content, list) else content
    for key in keys if isinstance(content, list | dict) else ():
        yield (*path, key)
        yield from paths(content[key], (*path, key))


@pytest.mark.parametrize("path", list(paths(CONTENT)), ids=str)
def test_every_entry_must_be_there_and_of_its_type(path: tuple[Any, ...]) -> None:
    *above, key = path
    content = copy.deepcopy(CONTENT)
    parent = content
    for step in above:
        parent = parent[step]
    right = parent[key]
    for wrong in ([], {}, float("nan"), 1e999, 10**400, -1, 2.5, "?", True):
        number = isinstance(right, float) and type(wrong) in (int, float)
        optional = right is None and wrong == "?"  # a text that may be missing
        same = type(wrong) is type(right) or (number and abs(wrong) < 10)
        if not same and not optional:
            parent[key] = wrong
            damaged(content)
    if isinstance(key, str):
        del parent[key]
        damaged(content)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(version=1), "'version' must be 2"),
        (lambda c: c["style"].update(decimal="x"), "decimal mark must be"),
        (lambda c: c["style"].update(missing=["a", 1]), "'missing' must be .*, got 1"),
        (lambda c: c.update(columns=[]), "must have different names, and one must be"),
        (lambda c: c["columns"].append(c["columns"][0]), "must have different names"),
        (lambda c: c["columns"].append(None), "NoneType"),
        (
            lambda c: c["columns"][0].update(kind="exec"),
            "'kind' must be one of number, .*, got 'exec'",
        ),
        (
            lambda c: c["columns"][ID].update(rule=c["columns"][0]["rule"]),
            "'dropped', which cannot be used",
        ),
        (lambda c: c["columns"][0]["rule"].update(low=9), "the range or the parts"),
        (lambda c: c["columns"][0]["rule"].update(flag=False, parts=[]), "the range"),
        *[
            (lambda c, new=new: c["columns"][COLOR]["rule"].update(new), "the levels")
            for new in (
                {"levels": []},
                {"other": False},
                {"levels": ["a"], "other": False, "rare": []},
            )
        ],
        *[
            (lambda c, new=new: c["columns"][DAY]["rule"].update(new), text)
            for new, text in (
                ({"parts": ["soul"]}, "'parts' must be .*, got 'soul'"),
                ({"parts": []}, "do not fit"),
                ({"high": 1e300}, "do not fit"),
                ({"low": 2e11}, "do not fit"),
            )
        ],
    ],
)
def test_other_damage(change: Callable[[Any], None], text: str) -> None:
    content = copy.deepcopy(CONTENT)
    change(content)
    damaged(content, text)


@pytest.mark.parametrize("content", [None, [], "text", 5])
def test_no_mapping(content: Any) -> None:
    damaged(content)
