"""Bad input of every kind: one clear line and no file, or a note and a good file.

``docs/bad_input.md`` holds the lines; ``python docs/make_bad_input.py`` writes them.
Here exit codes and the words that matter are checked, not the whole wording.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bad_input import CASES, GROUPS, Case
from bad_input.case import TINY, printed, run_case, run_command
from bad_input.houses import houses
from bad_input.page import page, row
from bad_input.strangers import forged

PAGE = Path(__file__).parents[2] / "docs" / "bad_input.md"


@pytest.fixture(scope="module")
def listed() -> list[str]:
    """Return the lines of the table in the docs."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(("| ", "|-"))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_bad_input(
    case: Case, small_model: Path, sound_predictions: str, tmp_path: Path
) -> None:
    done = run_case(case, small_model, tmp_path)  # compares the files, too
    text = printed(case, done, tmp_path)
    assert done.code == case.code, text
    assert case.says in text
    assert "\x1b" not in done.out + done.err
    if case.code:
        assert text.startswith(("calibrant: ", "calibrant "))
        assert "\n" not in text
        assert done.err.endswith("\n")
        assert not done.out
        assert len(text) < 800
    if case.alike:
        out = (tmp_path / "out.csv").read_text(encoding="utf-8")
        assert out == sound_predictions


#: Sets the title, rings, turns red in one byte, and writes backwards.
HOSTILE = "a\x1b]0;b\x07\x9b31m\u202ec"


def _forged(path: Path) -> None:
    def edit(content: Any) -> None:
        described = content["description"]
        described["target"] = HOSTILE
        described["about"] |= {"table": HOSTILE, "changed": {HOSTILE: HOSTILE}}
        described["about"]["scorecard"] = {
            "rows": 20,
            "which": HOSTILE,
            "measures": {"coverage_90": {"value": 0.9, "low": 0.8, "high": 1.0}},
        }
        for column in described["encoder"]["columns"]:
            column["done"] = HOSTILE
        described["encoder"]["columns"][0]["name"] = HOSTILE

    forged(edit)(path)


def _cells(path: Path) -> None:
    lines = houses().splitlines()
    marked = [f"{line},{HOSTILE if n % 2 else 'x'}" for n, line in enumerate(lines[1:])]
    path.write_text("\n".join([f"{lines[0]},mark", *marked]) + "\n", encoding="utf-8")


def _bad_cell(path: Path) -> None:
    lines = houses().splitlines()
    lines[1] = ",".join(HOSTILE for _ in lines[1].split(","))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _plan(path: Path) -> None:
    name, data = json.dumps(HOSTILE), json.dumps(f"{HOSTILE}.csv")
    path.write_text(
        f"name = {name}\nseed = 1\n[[study]]\ndata = [{data}]\n", encoding="utf-8"
    )


@pytest.mark.parametrize("json_too", ["", " --json"])
@pytest.mark.parametrize(
    ("command", "make"),
    [
        ("info place", _forged),
        ("evaluate place houses.csv", _forged),
        ("evaluate model place.csv --by mark", _cells),
        ("predict model place.csv -o out.csv", _bad_cell),
        ("predict model place.csv -o out.csv --strict", _bad_cell),
        ("evaluate model place.csv", _bad_cell),
        (f"fit place.csv --target price --out new --drop id {TINY}", _cells),
        (f"fit place.csv --target mark --out new --drop id {TINY}", _cells),
        ("reproduce --plan place --print-plan", _plan),
        ("reproduce --plan place --out new", _plan),
        ("compare place.csv --target price --mean size --std mark", _cells),
    ],
)
def test_what_others_wrote_never_steers_the_terminal(
    command: str,
    make: Callable[[Path], None],
    json_too: str,
    small_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(small_model, tmp_path / "model")
    (tmp_path / "houses.csv").write_text(houses(), encoding="utf-8")
    make(tmp_path / ("place.csv" if "place.csv" in command else "place"))
    monkeypatch.chdir(tmp_path)
    done = run_command(command + json_too)
    assert done.out + done.err
    odd = {c for c in done.out + done.err if not c.isprintable() and c != "\n"}
    assert odd == set()
    if json_too and done.code == 0 and "plan" not in command:
        json.loads(done.out)


def test_the_docs_list_every_kind_once(listed: list[str]) -> None:
    kinds = [case.kind for case in CASES]
    assert len(set(kinds)) == len(kinds)
    head = ("what is bad", "---")
    found = [line.strip("|").split("|")[0].strip() for line in listed]
    assert [kind for kind in found if kind not in head] == kinds
    assert len(kinds) >= 100


def test_the_docs_are_as_they_were_written() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = iter([line for line in text.splitlines() if line.startswith("| ")])
    groups = {}
    for heading, cases in GROUPS.items():
        next(lines)  # the head of the table
        groups[heading] = [next(lines) for _ in cases]
    assert page(groups) == text


def test_a_bar_and_a_mark_do_not_break_the_table() -> None:
    case = Case(kind="k", command="info `m`|x", says="", code=0)
    assert row(case, "") == "| k | `` calibrant info `m`\\|x `` | 0 | nothing |"
    said = row(case, "Note: a|b\nNote: c")
    assert said.endswith("| 0 | `Note: a\\|b`<br>`Note: c` |")
