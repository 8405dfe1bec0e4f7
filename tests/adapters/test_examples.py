"""Every example as a user runs it, and what it prints.

Examples that train others' models are elsewhere: those that need pandas 2 in
``tests/interop``, those that need nothing beyond the development environment where
their subject is tested.
"""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from calibrant import QuantileRegularizer, evaluate, load, recalibrate
from last_line import assert_calibrated, coverages

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: Not an adapter but a small program with options, a table and a page.
LONG = "demonstration.py"
MOST_LINES = 40

Run = Callable[[str], str]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run an example in an empty folder, with torch as it is for users.

    It must end with a model that is calibrated on unseen rows.
    """
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)

    def run(name: str) -> str:
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        text = capsys.readouterr().out
        assert_calibrated(text)
        return text

    return run


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_tested(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.name != LONG:
        assert len(text.splitlines()) <= MOST_LINES
    tests = (each.read_text("utf-8") for each in (ROOT / "tests").rglob("test_*.py"))
    assert any(path.name in each for each in tests)


def test_plain_pytorch(run: Run) -> None:
    base, _, regularized, _ = coverages(run("train_plain_pytorch.py"))
    assert abs(regularized - 90) < abs(base - 90)


def test_held_out_rows_widen_an_overfitted_spread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.set_default_dtype(torch.float32)
    runpy.run_path(str(ROOT / "examples" / "train_held_out.py"), run_name="__main__")
    base, regularized = coverages(capsys.readouterr().out)
    assert base + 5 < regularized < 90


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.:FutureWarning")
@pytest.mark.parametrize("name", ["lightning", "accelerate", "skorch"])
def test_training_in_the_stack_of(name: str, run: Run) -> None:
    pytest.importorskip(name)
    # train_lightning.py, train_accelerate.py, train_skorch.py
    run(f"train_{name}.py")


def test_a_skorch_net_can_be_recalibrated() -> None:
    pytest.importorskip("skorch")
    scope = runpy.run_path(str(ROOT / "examples" / "train_skorch.py"))
    torch.set_default_dtype(torch.float32)
    x = torch.rand(900, 2)
    y = x[:, 0] + torch.empty(900).exponential_()
    net = scope["RegularizedNet"](
        lambda: torch.nn.Linear(2, 2),
        QuantileRegularizer,
        optimizer=torch.optim.Adam,
        lr=0.02,
        max_epochs=20,
        train_split=None,
        verbose=0,
    )
    model = recalibrate(net, x[:500].numpy(), y[:500].numpy(), random_state=0)
    plain = net.fit(x[:500].numpy(), y[:500].numpy())
    law = plain.predict_distribution(x[500:].numpy())
    after = model.evaluate(x[500:].numpy(), y[500:])
    assert after["calibration_error"] < evaluate(law, y[500:])["calibration_error"] / 2
    assert 0.85 < after["coverage_90"] < 0.97


def test_scikit_learn(run: Run) -> None:
    text = run("search_with_scikit_learn.py")
    assert "calibratedregressor__strength" in text


def test_quantile_boosting(run: Run) -> None:
    text = run("recalibrate_quantile_boosting.py")
    plain, recalibrated = coverages(text)
    assert abs(recalibrated - 90) < abs(plain - 90) / 2
    before, after = map(float, re.findall(r"mean CRPS ([\d.]+)\.", text))
    assert after < 1.05 * before


def test_time_order(run: Run) -> None:
    text = run("fit_time_ordered.py")
    random, ordered = coverages(text)
    assert re.findall(r"(\d+) warnings", text) == ["1", "0"]
    assert random < ordered


def test_tensorboard(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run("log_to_tensorboard.py")
    events = EventAccumulator(str(tmp_path / "runs")).Reload()
    loss = events.Scalars("loss")
    assert [point.step for point in loss] == list(range(1, len(loss) + 1))
    assert len(events.Scalars("held_out/score")) == len(loss)
    assert {point.value for point in events.Scalars("training")} == {1, 2, 3}
    # Strengths are compared out of fold; the model itself has held-out rows.
    last = [point.step for point in events.Scalars("training") if point.value == 3]
    error = events.Scalars("held_out/calibration_error")
    assert [point.step for point in error] == last
    floor = events.Scalars("held_out/calibration_floor")
    assert len({point.value for point in floor}) == 1
    assert 0 < floor[0].value < 0.1


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
def test_mlflow(run: Run, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    before = mlflow.get_tracking_uri()
    try:
        run("log_to_mlflow.py")
    finally:
        mlflow.set_tracking_uri(before)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (found,) = client.search_runs(["0"])
    metrics = found.data.metrics
    error, floor = metrics["calibration_error"], metrics["calibration_floor"]
    assert 0 < error < 5 * floor
    loss = client.get_metric_history(found.info.run_id, "loss")
    assert [point.step for point in loss] == list(range(1, len(loss) + 1))
    assert loss[-1].value < loss[0].value
    assert metrics["training"] == 1
    assert metrics["held_out/calibration_error"] > 0
    # A tenth of the 1,800 of 3,000 rows that are not kept for the map.
    assert metrics["held_out/calibration_floor"] == pytest.approx(3.325 / 180)
    assert mlflow.active_run() is None


def test_torchrun(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "fit_with_torchrun.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", example],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The 90 % intervals covered") == 1
    assert_calibrated(done.stdout)
    assert load(tmp_path / "model").fitted_parameters_["distributed"]
