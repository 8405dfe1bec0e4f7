"""The reference names every public part; pages made by scripts are up to date."""

import runpy
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant.registry import Table

DOCS = Path(__file__).parents[2] / "docs"


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
        part = getattr(calibrant, name)
        if isinstance(part, Table):
            assert f"## {name}\n" in pages, name
            for entry in part:
                assert f"`{entry}`" in pages, f"{name}[{entry!r}]"
        elif callable(part):
            assert f".{name}\n" in pages, name


def test_a_part_without_a_page_is_noticed(script: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match=r"new_room\.part.*see ROOMS"):
        script["room_of"]("calibrant.new_room.part")


@pytest.mark.parametrize("name", ["make_command_line", "make_examples"])
def test_pages_made_by_scripts_are_up_to_date(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(DOCS / f"{name}.py"))["main"]
    assert main(["--check"]) == 0, capsys.readouterr().out
