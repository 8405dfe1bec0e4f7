"""How text is written: what may be told, and the words of messages."""

import subprocess
import sys
from typing import Any

import pytest

from calibrant._checks import InputError
from calibrant.tables import Style
from calibrant.tables._errors import (
    close_names,
    listed,
    one_line,
    shortened,
    shown,
)


def test_names_of_delimiters_are_understood() -> None:
    assert Style(delimiter="Tab").delimiter == "\t"
    assert Style(delimiter="\\t").delimiter == "\t"
    assert Style(delimiter="semicolon").delimiter == ";"
    assert Style(delimiter="~").delimiter == "~"


def test_one_token_may_stand_alone() -> None:
    given: Any = "-999"
    assert Style(missing=given).missing == ("-999",)
    numbers: Any = [-1, "x"]
    assert Style(missing=numbers).missing == ("-1", "x")


def test_only_what_is_open_is_filled_in() -> None:
    style = Style(delimiter=";", missing=("x",))
    assert style.found(delimiter=",", decimal=",") == Style(
        delimiter=";", decimal=",", missing=("x",)
    )


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"delimiter": ""}, r"delimiter must be one character .* got ''"),
        ({"delimiter": ",,"}, r"delimiter must be one character .* got ',,'"),
        ({"delimiter": "a"}, r"delimiter must be one"),
        ({"delimiter": '"'}, r"delimiter must be one"),
        ({"delimiter": "\n"}, r"delimiter must be one"),
        ({"delimiter": "§"}, r"delimiter must be one"),
        ({"delimiter": 7}, r"delimiter must be one"),
        ({"decimal": ";"}, r"decimal mark must be '.' or ',', got ';'"),
        ({"thousands": "1"}, r"thousands mark must be one character .* got '1'"),
        ({"thousands": "  "}, r"thousands mark must be one"),
        ({"decimal": ",", "thousands": ","}, r"must differ, both are ','"),
    ],
    ids=range(11),
)
def test_wrong_marks_are_refused(options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        Style(**options)


def test_the_words_of_a_stranger_are_short_and_on_one_line() -> None:
    assert shortened("a" * 60) == "a" * 60
    assert shortened("a" * 61) == "a" * 57 + "..."
    assert shown("a\nb\x1b[0m") == r"'a\nb\x1b[0m'"
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([str(i) for i in range(1_500)], 1) == "'0' and 1,499 more"
    assert one_line("a\n  b.") == "a b"


def test_close_names_whatever_the_case() -> None:
    assert close_names("PRICE", ["size", " price "]) == [" price "]
    assert close_names("x" * 10_000, ["x" * 9_999]) == ["x" * 9_999]
    assert close_names("a", ["b"]) == []


def test_a_style_loads_neither_torch_nor_pyarrow() -> None:
    code = (
        "import sys; from calibrant.tables import Style; Style();"
        "sys.exit('torch' in sys.modules or 'pyarrow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_source_does_not_load_torch() -> None:
    code = (
        "import sys; from calibrant.tables import open_source, TableWriter;"
        "open_source({'a': [1]}).read(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
