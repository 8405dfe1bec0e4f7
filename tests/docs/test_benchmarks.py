"""The page of benchmarks says what the runs say."""

import runpy
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.contest import Contest, Stated, at_least

SCRIPT = Path(__file__).parents[2] / "docs" / "make_benchmarks.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def run() -> dict[str, Any]:
    contest = Contest(
        work="the work",
        against="a peer",
        goal=at_least(2),
        ours=lambda: Stated(1.0),
        other=lambda: Stated(3.0),
        rounds=(2, 2),
        threads=(1, 2),
        once=True,
        note="something",
    )
    curve = {"panel": "a panel", "name": "a curve", "sizes": [1000, 2000]}
    curve |= {"seconds": [1.0, 2.0], "note": "bytes", "exponent": 1.02}
    profile = {"members": 5, "adversarial": True, "products": 0.5, "calls": 678.9}
    largest = [{"name": "aten::bmm", "calls": 14.0, "share": 0.4}]
    return {
        "started": "then",
        "finished": "later",
        "revision": "abc123",
        "machine": {
            "limits": {"sorts": 12.5},
            "kind": {"machine": "M", "threads": 2, "python": "3", "versions": {"a": 1}},
        },
        "contests": {"training: ensemble": asdict(contest.run())},
        "profiles": {"5": profile | {"largest": largest}},
        "growth": {"1": [curve | {"exponent_of_all": 0.87}]},
    }


def test_each_number_stands_on_the_page(
    script: dict[str, Any], run: dict[str, Any]
) -> None:
    text = script["page"]([run])
    expected = (
        "| the work | a peer | >= 2x | 3.00x [3 to 3] | yes |",
        "- the work, against a peer: something.",
        "| a panel | a curve | 1,000 to 2,000 | n^1.02 (n^0.87) |",
        "A panel: bytes.",
        "| sorts | 12.5 |",
        "50 % of the time in matrix products, 679 calls",
        "| `aten::bmm` | 14 | 40.0 % |",
        "Runs: then to later; code: abc123.",
    )
    for line in expected:
        assert line in text
    assert "Not always reached" not in text


def test_a_miss_is_told_with_its_reason(
    script: dict[str, Any], run: dict[str, Any]
) -> None:
    other = deepcopy(run)
    other["contests"]["training: ensemble"] |= {"met": False, "text": "1.50x"}
    text = script["page"]([run, other])
    assert "| 3.00x [3 to 3] | 1.50x [3 to 3] | **not always** |" in text
    assert "### Not always reached\n\n- the work: matrix products" in text


def test_page_and_readme_are_up_to_date(script: dict[str, Any]) -> None:
    assert script["main"](["--check"]) == 0
