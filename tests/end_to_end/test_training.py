"""Training with the regularizer calibrates held-out predictions; without, it does not.

The problem is that of the demonstration, and misspecified: a network that predicts
Gaussians meets few rows of skewed, heteroscedastic noise, and over-fits.
"""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from calibrant import ConditionalRegularizer, QuantileRegularizer
from calibrant.metrics import expected_calibration_error

SCRIPT = Path(__file__).parents[2] / "examples" / "demonstration.py"
SEEDS = range(4)
EPOCHS = 60


@pytest.fixture(scope="module")
def demonstration() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def errors(
    demonstration: SimpleNamespace, regularizer: nn.Module | None
) -> list[float]:
    return [demonstration.train(regularizer, seed, EPOCHS).error for seed in SEEDS]


@pytest.fixture(scope="module")
def base(demonstration: SimpleNamespace) -> Iterator[list[float]]:
    # Before the fixture of each test has set it: the same precision as there.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield errors(demonstration, None)
    torch.set_default_dtype(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "regularizer",
    [
        QuantileRegularizer(),
        QuantileRegularizer(sort="neural"),
        QuantileRegularizer("cramer_von_mises"),
        ConditionalRegularizer(),
    ],
    ids=["hard", "neural", "cramer_von_mises", "conditional"],
)
def test_regularized_training_lowers_the_held_out_error(
    base: list[float], regularizer: nn.Module, demonstration: SimpleNamespace
) -> None:
    regularized = errors(demonstration, regularizer)
    floor = 100 * expected_calibration_error(demonstration.TEST_ROWS)
    assert min(base) > 10 * floor  # there is something to mend
    assert all(r < b for r, b in zip(regularized, base, strict=True))
    assert sum(regularized) < 0.5 * sum(base)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_bit_for_bit(
    demonstration: SimpleNamespace,
) -> None:
    first, second = (
        demonstration.train(QuantileRegularizer(), 3, 5).pit for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.slow
def test_the_demonstration_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "folder"
    arguments = ["--out", str(out), "--repeats", "2", "--epochs", "2"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out
    assert "A perfectly calibrated model would show" in printed
    assert "conditional" in printed
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
