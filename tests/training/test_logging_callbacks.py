"""Callbacks for TensorBoard and MLflow, with stand-ins for both packages."""

import copy
import gc
import pickle
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from calibrant import CalibratedRegressor, EpochState, InputError
from calibrant.training import MLflowLogger, TensorBoardLogger

NAMES = [
    "loss",
    "regularizer",
    "held_out/score",
    "held_out/calibration_error",
    "held_out/calibration_floor",
]

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + np.random.default_rng(1).normal(size=60)
CHEAP: dict[str, Any] = {
    "members": 2,
    "hidden": (4,),
    "epochs": 3,
    "recalibrator": None,
    "recalibrate_on": None,
    "random_state": 0,
}
# Two trainings, and what they show.
SWEEP = CHEAP | {
    "members": 1,
    "folds": 2,
    "recalibrate_on": "out_of_fold",
    "strength": "auto",
    "strength_grid": (0.0, 1.0),
}
SWEPT = NAMES[:3]


class Writer:
    """Stand-in for a SummaryWriter: name to steps and values."""

    made: list["Writer"] = []  # noqa: RUF012  (cleared by the fixture)

    def __init__(self, log_dir: str = "") -> None:
        self.folder = Path(log_dir)
        self.seen: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.flushed, self.closed = 0, False
        Writer.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        assert not self.closed
        assert isinstance(value, float | int)
        self.seen[name].append((step, value))

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.closed = True

    def steps(self, name: str) -> list[int]:
        return [step for step, _ in self.seen[name]]

    def values(self, name: str) -> list[float]:
        return [value for _, value in self.seen[name]]


class Store:
    """Stand-in for the module mlflow: runs with their metrics."""

    def __init__(self) -> None:
        self.active: str | None = None
        self.runs: dict[str, Writer] = defaultdict(Writer)
        self.MlflowClient = lambda: self

    def active_run(self) -> Any:
        if self.active is None:
            return None
        return SimpleNamespace(info=SimpleNamespace(run_id=self.active))

    def log_metrics(self, metrics: dict[str, float], *, step: int, run_id: str) -> None:
        for name, value in metrics.items():
            self.runs[run_id].add_scalar(name, value, step)

    def get_metric_history(self, run_id: str, name: str) -> list[Any]:
        kept = self.runs[run_id].seen.get(name, [])
        # A store may give them in any order.
        return [SimpleNamespace(step=step, value=value) for step, value in kept[::-1]]


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    Writer.made.clear()
    return Writer.made


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    monkeypatch.setitem(sys.modules, "mlflow", store)
    return store


def state(epoch: int, epochs: int = 3, **changes: Any) -> EpochState:
    numbers: dict[str, Any] = {
        "loss": 1.0 * epoch,
        "regularizer": 0.5,
        "held_out_score": 2.0,
        "held_out_calibration_error": 0.25,
        "network": nn.Identity(),
    }
    return EpochState(epoch=epoch, epochs=epochs, **(numbers | changes))


def fit(*callbacks: Any, **changes: Any) -> CalibratedRegressor:
    model = CalibratedRegressor().set_params(**(CHEAP | changes))
    return model.fit(X, Y, callbacks=callbacks)


def test_all_numbers_of_a_training_are_logged() -> None:
    writer = Writer()
    (history,) = fit(TensorBoardLogger(writer)).history_
    assert sorted(writer.seen) == sorted([*NAMES, "training"])
    assert all(writer.steps(name) == [1, 2, 3] for name in writer.seen)
    assert writer.values("loss") == history.loss
    assert writer.values("regularizer") == history.regularizer
    assert writer.values("held_out/score") == history.held_out_score
    errors = writer.values("held_out/calibration_error")
    assert errors == history.held_out_calibration_error
    assert writer.flushed == 0  # a writer that was handed in is the user's
    assert not writer.closed


def test_the_floor_is_that_of_the_rows_that_are_looked_at() -> None:
    writer = Writer()
    fit(TensorBoardLogger(writer), validation_share=0.2)
    # Of 60 rows to learn from a fifth.
    expected = (20**2 - 1) / (6 * 20 * 12)
    assert writer.values("held_out/calibration_floor") == pytest.approx([expected] * 3)


def test_without_held_out_rows_there_is_nothing_of_them() -> None:
    writer = Writer()
    TensorBoardLogger(writer, prefix="price/")(
        state(1, held_out_score=None, held_out_calibration_error=None)
    )
    assert list(writer.seen) == ["price/loss", "price/regularizer", "price/training"]


@pytest.mark.usefixtures("tensorboard")
@pytest.mark.parametrize("kind", ["writer", "folder", "mlflow"])
def test_the_model_stays_the_same(kind: str, tmp_path: Path, mlflow: Store) -> None:
    mlflow.active = "one"
    logger = {
        "writer": TensorBoardLogger(Writer()),
        "folder": TensorBoardLogger(tmp_path),
        "mlflow": MLflowLogger(),
    }[kind]
    settings = {"network": "mc_dropout", "epochs": 4, "patience": 1}
    alone = fit(**settings)
    before = torch.random.get_rng_state()
    watched = fit(logger, **settings)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert watched.history_ == alone.history_  # and so is not ended early
    assert np.array_equal(watched.predict_quantiles(X), alone.predict_quantiles(X))
    assert logger(state(1)) is None  # type: ignore[func-returns-value]


def test_a_sweep_in_one_writer_has_steps_that_go_on() -> None:
    writer = Writer()
    logger = TensorBoardLogger(writer)
    fit(logger, **SWEEP)
    assert writer.steps("loss") == [1, 2, 3, 4, 5, 6]
    assert writer.values("training") == [1, 1, 1, 2, 2, 2]
    fit(logger, **SWEEP)
    assert writer.steps("loss") == list(range(1, 13))
    assert writer.values("training")[-1] == 4


def test_a_sweep_in_a_folder_has_a_run_for_each_training(
    tmp_path: Path, tensorboard: list[Writer]
) -> None:
    logger = TensorBoardLogger(tmp_path / "deep" / "runs")
    fit(logger, **SWEEP)
    assert [each.folder.name for each in tensorboard] == ["training_1", "training_2"]
    for writer in tensorboard:
        assert writer.folder.parent == tmp_path / "deep" / "runs"
        assert sorted(writer.seen) == sorted(SWEPT)
        assert writer.steps("loss") == [1, 2, 3]
        assert writer.flushed == 3
        assert writer.closed
    assert tensorboard[0].values("loss") != tensorboard[1].values("loss")


def test_a_run_that_ends_early_is_closed_by_the_next_or_with_the_logger(
    tmp_path: Path, tensorboard: list[Writer]
) -> None:
    logger = TensorBoardLogger(str(tmp_path))
    logger(state(1))
    logger(state(2))
    (first,) = tensorboard
    assert not first.closed
    logger(state(1))
    assert first.closed
    assert not tensorboard[1].closed
    del logger
    gc.collect()
    assert tensorboard[1].closed


def test_clones_never_share_a_step_with_a_writer() -> None:
    writer = Writer()
    logger = TensorBoardLogger(writer)
    for own in (logger, copy.deepcopy(logger), copy.deepcopy(copy.deepcopy(logger))):
        fit(own)
    assert writer.steps("loss") == list(range(1, 10))


def test_clones_and_other_processes_never_share_a_run(
    tmp_path: Path, tensorboard: list[Writer]
) -> None:
    logger = TensorBoardLogger(tmp_path, prefix="a/")
    logger(state(1))
    copies = [copy.deepcopy(logger), pickle.loads(pickle.dumps(logger))]
    for each in copies:
        each(state(1))
    logger(state(2))
    folders = [each.folder.name for each in tensorboard]
    assert folders == ["training_1", "training_2", "training_3"]
    assert tensorboard[0].steps("a/loss") == [1, 2]
    assert repr(copies[1]) == repr(logger)


def test_a_writer_does_not_travel() -> None:
    with pytest.raises(InputError, match="Give it a folder instead"):
        pickle.dumps(TensorBoardLogger(Writer()))


@pytest.mark.parametrize("target", [None, 3, object()])
def test_a_wrong_target_is_one_clear_line(target: Any) -> None:
    with pytest.raises(InputError, match="must be a folder or a writer"):
        TensorBoardLogger(target)


def test_mlflow_logs_to_the_active_run_with_steps_that_go_on(mlflow: Store) -> None:
    mlflow.active = "one"
    fit(MLflowLogger(), **SWEEP)
    fit(MLflowLogger(), **SWEEP)
    run = mlflow.runs["one"]
    assert sorted(run.seen) == sorted([*SWEPT, "training"])
    assert run.steps("loss") == list(range(1, 13))
    assert run.values("training") == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    mlflow.active = "two"
    fit(MLflowLogger(), **SWEEP)
    assert mlflow.runs["two"].steps("loss") == list(range(1, 7))
    assert len(run.seen["loss"]) == 12


def test_mlflow_needs_a_run_and_takes_one_by_its_id(mlflow: Store) -> None:
    with pytest.raises(InputError, match=r"there is none.*mlflow\.start_run"):
        MLflowLogger()(state(1))
    assert not mlflow.runs
    logger = pickle.loads(pickle.dumps(MLflowLogger(run_id="far", prefix="a/")))
    logger(state(1))
    assert mlflow.runs["far"].steps("a/loss") == [1]
    assert repr(logger) == "MLflowLogger(run_id='far', prefix='a/')"


@pytest.mark.parametrize(
    ("package", "module"),
    [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    loggers = {"tensorboard": TensorBoardLogger(tmp_path), "mlflow": MLflowLogger()}
    text = rf"pip install 'calibrant\[{package}\]'"
    with pytest.raises(ModuleNotFoundError, match=text):
        loggers[package](state(1))
    assert not list(tmp_path.iterdir())
