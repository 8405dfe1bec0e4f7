"""The reference names every public part; pages made by scripts are up to date."""

import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant.distributions import DISTRIBUTIONS
from calibrant.learners import HEADS, NETWORKS
from calibrant.metrics import METRICS
from calibrant.recalibration import RECALIBRATORS
from calibrant.regularizers import REGULARIZERS
from calibrant.scores import SCORES
from calibrant.sorting import SORTERS
from calibrant.training import SCHEDULES
from calibrant.transforms import TRANSFORMS

DOCS = Path(__file__).parents[2] / "docs"
ROOMS = (
    *("commands", "distributions", "estimators", "learners", "metrics"),
    *("recalibration", "regularizers", "training"),
)
TABLES = {
    "DISTRIBUTIONS": DISTRIBUTIONS,
    "HEADS": HEADS,
    "METRICS": METRICS,
    "NETWORKS": NETWORKS,
    "RECALIBRATORS": RECALIBRATORS,
    "REGULARIZERS": REGULARIZERS,
    "SCHEDULES": SCHEDULES,
    "SCORES": SCORES,
    "SORTERS": SORTERS,
    "TRANSFORMS": TRANSFORMS,
}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_reference.py"))


def test_pages_are_up_to_date(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert script["main"](["--check"]) == 0, capsys.readouterr().out


def test_every_public_name_is_on_a_page() -> None:
    pages = "\n".join(
        path.read_text("utf-8")
        for path in (DOCS / "reference").glob("*.md")
        if path.name != "index.md"
    )
    index = (DOCS / "reference" / "index.md").read_text("utf-8")
    for name in calibrant.__all__:
        assert f"`{name}`" in index, name
    for package in (calibrant, *(import_module(f"calibrant.{room}") for room in ROOMS)):
        for name in package.__all__:
            if callable(getattr(package, name)):
                assert f".{name}\n" in pages, name
    for name, table in TABLES.items():
        assert f"## {name}\n" in pages, name
        for entry in table:
            assert f"`{entry}`" in pages, f"{name}[{entry!r}]"


def test_a_part_without_a_page_is_noticed(script: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match=r"new_room\.part.*see ROOMS"):
        script["room_of"]("calibrant.new_room.part")


@pytest.mark.parametrize("name", ["make_command_line", "make_examples"])
def test_pages_made_by_scripts_are_up_to_date(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(DOCS / f"{name}.py"))["main"]
    assert main(["--check"]) == 0, capsys.readouterr().out
