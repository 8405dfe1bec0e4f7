"""The page of benchmarks is that of the runs."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "make_benchmarks.py"


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    return runpy.run_path(str(SCRIPT))


def test_page_and_readme_are_up_to_date(script: dict[str, object]) -> None:
    main = script["main"]
    assert callable(main)
    assert main(["--check"]) == 0


def test_each_run_has_its_column_and_misses_are_told(
    script: dict[str, object],
) -> None:
    runs, contests = script["runs"], script["contests"]
    assert callable(runs)
    assert callable(contests)
    found = runs()
    key = next(iter(found[-1]["contests"]))
    found[-1]["contests"][key] |= {"met": False, "text": "0.123x"}
    found[0]["contests"][key] |= {"met": True, "text": "0.456x"}
    row = list(contests(found))[2]
    assert "0.123x" in row
    assert "0.456x" in row
    assert row.endswith("| **not always** |")
