"""The code on every page runs, block after block, as a reader would run it."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from calibrant.distributions import DISTRIBUTIONS
from calibrant.learners import HEADS, NETWORKS
from calibrant.metrics import METRICS
from calibrant.recalibration import RECALIBRATORS
from calibrant.registry import SORTERS
from calibrant.regularizers import REGULARIZERS
from calibrant.scores import SCORES
from calibrant.training import SCHEDULES
from calibrant.transforms import TRANSFORMS
from last_line import assert_calibrated

TABLES = (
    *(DISTRIBUTIONS, HEADS, METRICS, NETWORKS, RECALIBRATORS),
    *(REGULARIZERS, SCHEDULES, SCORES, SORTERS, TRANSFORMS),
)

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^( *)```(python|sh)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
# They take minutes to hours, and have tests of their own.
TOO_LONG = ("reproduce",)


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, code and line of each block; the text of an example is no block."""
    text = page.read_text("utf-8")
    return [
        (found[2], textwrap.dedent(found[3]), text.count("\n", 0, found.start()) + 2)
        for found in BLOCK.finditer(text)
        if "--8<--" not in found[3]
    ]


def commands(block: str) -> Iterator[list[str]]:
    """Arguments of the lines that call our command; others are for the reader."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["calibrant"] and words[1] not in TOO_LONG:
            yield words[1:]


def call(arguments: list[str]) -> None:
    """Run a command; a requirement that is not met is an answer, too."""
    run = subprocess.run(
        [sys.executable, "-m", "calibrant", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    right = {0, 1} if "--require-coverage" in arguments else {0}
    assert run.returncode in right, f"{arguments}\n{run.stdout}\n{run.stderr}"


@pytest.fixture
def _as_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    torch.set_default_dtype(torch.float32)  # the fixture of all tests sets it back
    tables = [(table, set(table)) for table in TABLES]
    yield
    for table, names in tables:  # a page may have added parts of its own
        for name in set(table) - names:
            del table[name]


@pytest.mark.usefixtures("_as_a_reader")
@pytest.mark.parametrize(
    "page", [each for each in PAGES if blocks(each)], ids=lambda page: page.name
)
def test_its_code_runs(page: Path) -> None:
    # A class that a page defines must be found by its module's name.
    scope: dict[str, object] = {"__name__": f"page_{page.stem}"}
    for language, code, line in blocks(page):
        if language == "python":
            # Lines as in the page, so that a traceback points there.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), scope)
        else:
            for arguments in commands(code):
                call(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_says_what_it_is(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text("utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(fences[::2])
    assert not any(fences[1::2])


@pytest.mark.usefixtures("_as_a_reader")
@pytest.mark.parametrize(
    ("name", "models"),
    [("README.md", 2), ("docs/quick_start_pytorch.md", 2)],
)
def test_a_page_shows_calibrated_models(
    name: str, models: int, capsys: pytest.CaptureFixture[str]
) -> None:
    scope: dict[str, object] = {}
    for language, code, _ in blocks(ROOT / name):
        if language == "python":
            exec(compile(code, name, "exec"), scope)
    said = capsys.readouterr().out.splitlines()
    verdicts = [line for line in said if "90 % intervals" in line]
    assert len(verdicts) == models
    for verdict in verdicts:
        assert_calibrated(verdict)


def test_no_two_commands_of_the_readme_write_one_model() -> None:
    code = "".join(code for _, code, _ in blocks(ROOT / "README.md"))
    places = re.findall(r"--out (\w+)|\.save\(\"(\w+)\"", code)
    names = [one or other for one, other in places]
    assert len(names) == len(set(names)) >= 3
