"""Bad input of every kind: one clear line and no file, or a note and a good file.

``docs/bad_input.md`` holds the lines; ``python docs/make_bad_input.py`` writes them.
"""

from pathlib import Path

import pytest

from bad_input import CASES, GROUPS, Case
from bad_input.case import printed, run_case
from bad_input.page import page, row

PAGE = Path(__file__).parents[2] / "docs" / "bad_input.md"


@pytest.fixture(scope="module")
def listed() -> list[str]:
    """Return the lines of the table in the docs."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(("| ", "|-"))]


def _expected(case: Case) -> object:
    if not case.defect:
        return pytest.param(case, id=case.kind)
    mark = pytest.mark.xfail(reason=case.defect)
    return pytest.param(case, id=case.kind, marks=mark)


@pytest.mark.parametrize("case", [_expected(case) for case in CASES])
def test_bad_input(
    case: Case,
    small_model: Path,
    sound_predictions: str,
    tmp_path: Path,
    listed: list[str],
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
    if not case.foreign:
        assert row(case, text) in listed


def test_the_docs_list_every_kind_once(listed: list[str]) -> None:
    kinds = [case.kind for case in CASES]
    assert len(set(kinds)) == len(kinds)
    known = [case.kind for case in CASES if not case.defect]
    head = ("what is bad", "---")
    found = [line.strip("|").split("|")[0].strip() for line in listed]
    assert [kind for kind in found if kind not in head] == known
    assert len(known) >= 100


def test_the_docs_are_as_they_were_written() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = iter([line for line in text.splitlines() if line.startswith("| ")])
    groups = {}
    for heading, cases in GROUPS.items():
        next(lines)  # the head of the table
        groups[heading] = [next(lines) for case in cases if not case.defect]
    assert page(groups) == text


def test_a_bar_and_a_mark_do_not_break_the_table() -> None:
    case = Case(kind="k", command="info `m`|x", says="", code=0)
    assert row(case, "") == "| k | `` calibrant info `m`\\|x `` | 0 | nothing |"
    said = row(case, "Note: a|b\nNote: c")
    assert said.endswith("| 0 | `Note: a\\|b`<br>`Note: c` |")
