"""The measurement of a training step runs; times are not asserted."""

import json
import math
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "bench" / "training_step.py"
SMALL = [
    "--members",
    "2",
    "--hidden",
    "4",
    "--batch",
    "8",
    "--steps",
    "1",
    "--rounds",
    "1",
    "--threads",
    "1",
]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_measures_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *SMALL, "--json", str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "target" in capsys.readouterr().out
    written = json.loads(out.read_text("utf-8"))
    assert written["settings"]["members"] == 2
    assert len(written["results"]) == 8
    assert all(math.isfinite(each["ratio"]) for each in written["results"])


def test_the_file_is_optional(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPT))["main"](SMALL)
    assert "ratio" in capsys.readouterr().out
