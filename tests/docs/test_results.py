"""Tables of README and docs are those of the results."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "make_results.py"


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    return runpy.run_path(str(SCRIPT))


def test_tables_are_up_to_date(script: dict[str, object]) -> None:
    main = script["main"]
    assert callable(main)
    assert main(["--check"]) == 0


def test_an_edit_by_hand_is_noticed(script: dict[str, object]) -> None:
    filled = script["filled"]
    assert callable(filled)
    text = "a\n<!-- results: overview -->\ntyped\n<!-- end -->\nb"
    new = filled(text, {"overview": "| x |"})
    assert new == "a\n<!-- results: overview -->\n\n| x |\n\n<!-- end -->\nb"
    assert filled(new, {"overview": "| x |"}) == new
