"""Members that are trained by the workers of a Dask cluster: the same model."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.base import clone

from calibrant import InputError, load
from calibrant._dask import SchedulerError, WorkerDiedError
from calibrant.estimator import CalibratedRegressor
from calibrant.estimator._elsewhere import (
    Elsewhere,
    Untrained,
    _explained,
    _groups,
    _Strength,
)
from calibrant.estimator._group import Group, GroupJob, Stack, train_group
from calibrant.estimator._state import described
from calibrant.estimator.side_by_side import fit_side_by_side
from calibrant.networks.deep_ensemble import DeepEnsemble
from calibrant.networks.heads import GaussianHead, StudentTHead
from calibrant.networks.mc_dropout import MCDropout
from calibrant.training import DivergedError, TrainingData
from patience import HANGS
from small_cluster import small_cluster

Make = Callable[..., CalibratedRegressor]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
ADDRESS = "tcp://127.0.0.1:8786"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with small_cluster() as cluster:
        yield cluster


@pytest.fixture
def address(cluster: Any) -> str:
    return str(cluster.scheduler_address)


def assert_same(one: CalibratedRegressor, other: CalibratedRegressor) -> None:
    """Compare all that two models store, but for the cut of their histories."""
    (arrays, about), (others, other_about) = described(one), described(other)
    assert arrays.keys() == others.keys()
    for name, values in arrays.items():
        assert torch.equal(values, others[name]), name
    best = [
        [epoch for history in each.pop("history") for epoch in history["best_epoch"]]
        for each in (about, other_about)
    ]
    assert best[0] == best[1]
    assert about == other_about


@pytest.mark.parametrize(
    "settings",
    [
        {"members": 5, "folds": 5, "epochs": 8},
        {"members": 98, "recalibrate_on": None, "patience": None, "hidden": (5, 7),
         "device": "cpu"},
        {"members": 12, "adversarial": 0.05, "gradient_clip": 0.1, "loss": "crps"},
        {"members": 26, "recalibrate_on": "out_of_bag", "head": "laplace",
         "gradient_clip": 0.1},
        {"members": 3, "strength": "auto", "strength_grid": (0, 1, 5)},
        {"members": 8, "strength": "auto", "strength_grid": (0, 2), "folds": 3,
         "recalibrate_on": "held_out", "strength_rule": "nll"},
        {"network": "mc_dropout", "passes": 2, "members": 3},
        {"head": StudentTHead(), "target_transform": "box_cox", "members": 12,
         "recalibrator": None, "epochs": 2},
    ],
    ids=["folds", "one", "adversarial", "bags", "sweep", "held_out", "dropout", "head"],
)  # fmt: skip
def test_the_model_is_the_same_bit_for_bit(
    settings: dict[str, Any], cheap: Make, line: Rows, address: str
) -> None:
    here = cheap(**settings).fit(*line)
    there = cheap(**settings, scheduler=address).fit(*line)
    assert_same(here, there)


def test_members_with_fewer_rows_are_the_same_too(
    cheap: Make, line: Rows, address: str
) -> None:
    """Members are padded to the longest, whose rows change how sums are rounded."""
    x, y = line
    groups = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 5, 5])
    weights = np.linspace(0.5, 2, 60)
    settings = {"members": 13, "folds": 4, "epochs": 8, "gradient_clip": None}
    models = [
        cheap(**settings, scheduler=each).fit(x, y, weights, groups=groups)
        for each in (None, address)
    ]
    assert len(models[1].history_) == 3
    assert len({len(each.best_epoch) for each in models[1].history_}) > 1
    assert_same(*models)


def test_one_more_comes_along_if_its_rows_are_needed() -> None:
    untrained = Untrained()
    untrained.network = DeepEnsemble(1, members=24)
    rows, x, y = [torch.arange(2)] * 24, torch.zeros(5, 1), torch.zeros(24, 5)
    untrained.data = TrainingData(x=x, y=y, rows=rows)
    first, last = tuple(range(16)), tuple(range(16, 24))
    assert [each.members for each in _groups(untrained, clipped=True)] == [first, last]
    held_out = [torch.arange(3)] * 24
    held_out[20] = torch.arange(4)
    untrained.data = TrainingData(x=x, y=y, rows=rows, held_out=held_out)
    groups = _groups(untrained, clipped=True)
    assert [each.members for each in groups] == [(*first, 20), last]
    assert [each.own for each in groups] == [first, last]
    held_out[3], held_out[20] = held_out[20], held_out[3]
    untrained.data = TrainingData(x=x, y=y, rows=rows, held_out=held_out)
    groups = _groups(untrained, clipped=True)
    assert [each.members for each in groups] == [first, (3,) * 16 + last]
    assert [each.own for each in groups] == [first, last]


def test_what_would_not_be_the_same_stays_whole() -> None:
    untrained = Untrained()
    x, y = torch.zeros(5, 1), torch.zeros(24, 5)
    untrained.data = TrainingData(x=x, y=y, rows=[torch.arange(2)] * 24)
    for network in (
        MCDropout(1, members=24, dropout=0.5),
        DeepEnsemble(1, members=24, head=StudentTHead()),
    ):
        untrained.network = network
        (group,) = _groups(untrained, clipped=True)
        assert group.own == tuple(range(24))


def test_many_clipped_members_are_cut_into_larger_tasks() -> None:
    untrained = Untrained()
    untrained.network = DeepEnsemble(1, members=100)
    x, y = torch.zeros(5, 1), torch.zeros(100, 5)
    untrained.data = TrainingData(x=x, y=y, rows=[torch.arange(2)] * 100)
    assert [each.count for each in _groups(untrained, clipped=True)] == [64, 36]
    counts = [each.count for each in _groups(untrained, clipped=False)]
    assert counts == [16, 16, 16, 16, 16, 20]


def test_a_training_that_diverges_is_told_alike(
    cheap: Make, line: Rows, address: str
) -> None:
    settings: dict[str, Any] = {
        "learning_rate": 1e30,
        "gradient_clip": None,
        "patience": None,
        "recalibrate_on": None,
    }
    texts = []
    for scheduler in (None, address):
        with pytest.raises(DivergedError, match=r"member \d of 2") as caught:
            cheap(**settings, scheduler=scheduler).fit(*line)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_members_keep_their_numbers_in_an_error(
    cheap: Make, line: Rows, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: Any, **__: Any) -> None:
        raise DivergedError("the loss of member 2 of 3 is not finite.")

    monkeypatch.setattr("calibrant.estimator._group.train", diverge)
    with pytest.raises(DivergedError, match=r"the loss of member (2|18) of 24 is"):
        cheap(members=12, scheduler=address).fit(*line)
    with pytest.raises(DivergedError, match="of 24"):
        cheap(members=12, scheduler=address, strength="auto").fit(*line)


def test_a_strength_that_has_diverged_gets_no_more_tasks() -> None:
    jobs = [GroupJob(strength, "{}", Group((0,), 0, 1)) for strength in (0.0, 1.0)]
    elsewhere = Elsewhere.__new__(Elsewhere)
    elsewhere._tried = {
        0.0: _Strength((jobs[0],), {}, [DivergedError("too much")]),
        1.0: _Strength((jobs[1],), {}, []),
    }
    assert list(elsewhere._wanted()) == [jobs[1]]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scheduler": "nonsense"}, "as tcp://host:8786, got 'nonsense'"),
        ({"scheduler": 8786}, "got 8786"),
        ({"callbacks": [print]}, "callbacks look at a training in this process"),
        ({"distributed": True}, "got a scheduler and distributed=True"),
        ({"network": lambda features: features}, "network must be a name or numbers"),
        ({"loss": lambda *parts: parts[1]}, "loss must be .* leave the scheduler out"),
        ({"head": type("Mine", (GaussianHead,), {})()}, "head must be a name"),
        ({"schedule": lambda share: 1 - share}, "schedule must be a name"),
    ],
    ids=["address", "number", "callbacks", "torchrun", "network", "loss", "head",
         "schedule"],
)  # fmt: skip
def test_what_no_worker_could_be_told_is_refused(
    settings: dict[str, Any], said: str, cheap: Make, line: Rows
) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=said):
        cheap(**({"scheduler": ADDRESS} | settings)).fit(*line)


def test_models_side_by_side_have_no_scheduler(cheap: Make, line: Rows) -> None:
    pytest.importorskip("distributed")
    model = cheap(recalibrate_on=None, patience=None, scheduler=ADDRESS)
    with pytest.raises(InputError, match=f"got scheduler='{ADDRESS}'"):
        fit_side_by_side(model, *line, [np.arange(60)], seed=0)


def test_an_interruption_takes_the_tasks_back(
    cheap: Make, line: Rows, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Elsewhere, "_take", ctrl_c)
    model = cheap(members=12, strength="auto", scheduler=cluster.scheduler_address)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*line)
    assert not hasattr(model, "model_")
    until = time.monotonic() + HANGS
    while cluster.scheduler.tasks:  # the scheduler forgets them a moment later
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_scheduler_is_no_part_of_a_stored_model(
    cheap: Make, line: Rows, address: str, tmp_path: Path
) -> None:
    model = cheap(epochs=1, scheduler=address).fit(*line)
    assert clone(model).get_params()["scheduler"] == address
    assert "scheduler" not in model.fitted_parameters_
    folder = model.save(tmp_path / "model")
    assert "scheduler" not in (folder / "model.json").read_text()
    again = load(folder)
    assert again.scheduler is None
    again.save(tmp_path / "again")
    stored = [
        (tmp_path / name / "model.json").read_bytes() for name in ("model", "again")
    ]
    assert stored[0] == stored[1]


def test_progress_counts_tasks(
    cheap: Make, line: Rows, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"strength": "auto", "strength_grid": (0, 1)}
    cheap(epochs=1, members=12, progress=True, scheduler=address, **grid).fit(*line)
    shown = capsys.readouterr().err
    assert "training" in shown
    assert "4/4" in shown


def test_errors_of_workers_say_what_to_do(
    cheap: Make, line: Rows, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = GroupJob(2.0, "{}", Group((3, 4, 9), 0, 2))
    died = _explained(WorkerDiedError("Dask says so."), job)
    assert isinstance(died, SchedulerError)
    assert "training of members 4 to 5 with strength 2 ended its workers" in str(died)
    missing = _explained(ModuleNotFoundError("No module named 'calibrant'"), job)
    assert "Install calibrant on every machine" in str(missing)
    other = MemoryError("none left")
    assert _explained(other, job) is other

    def fail(*_: Any, **__: Any) -> None:
        raise other

    monkeypatch.setattr("calibrant.estimator._group.train", fail)
    with pytest.raises(MemoryError, match="none left"):
        cheap(scheduler=address).fit(*line)


def test_workers_of_another_version_are_refused() -> None:
    nothing = np.zeros(0)
    stack = Stack(
        settings=json.dumps({"version": "0.0"}),
        weights={},
        x=nothing,
        y=nothing,
        y_of=(),
        rows=(),
        held_out=None,
        row_weights=None,
        source=nothing,
    )
    with pytest.raises(SchedulerError, match=r"must have calibrant 0\.0, and one has"):
        train_group(GroupJob(1.0, "{}", Group((0,), 0, 1)), stack)
