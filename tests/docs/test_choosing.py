"""Tables of the pages on calibration and on what to choose are those of the results."""

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def choosing() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_choosing.py"))


def test_tables_are_up_to_date(choosing: dict[str, Any]) -> None:
    assert choosing["main"](["--check"]) == 0


def test_an_edit_by_hand_is_noticed(choosing: dict[str, Any]) -> None:
    text = "a\n<!-- choosing: state -->\ntyped\n<!-- end -->\nb"
    new = choosing["filled"](text, {"state": "All of it."})
    assert new == "a\n<!-- choosing: state -->\n\nAll of it.\n\n<!-- end -->\nb"
    assert choosing["filled"](new, {"state": "All of it."}) == new


def test_every_block_stands_on_the_page(choosing: dict[str, Any]) -> None:
    text = (DOCS / "choosing.md").read_text("utf-8")
    found = [name for _, name, _ in choosing["BLOCK"].findall(text)]
    assert sorted(found) == sorted(choosing["BLOCKS"])


def test_before_and_after_are_up_to_date() -> None:
    script = runpy.run_path(str(DOCS / "make_before_after.py"))
    assert script["main"](["--check"]) == 0
