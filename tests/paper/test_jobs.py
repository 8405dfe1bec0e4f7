"""Which cells are trained together, and what they measure."""

import dataclasses
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

from calibrant import CalibratedRegressor
from calibrant.data import DataSet
from calibrant.paper.jobs import (
    SideBySide,
    data_of,
    fit_side_by_side,
    jobs_of,
    run_job,
    split_of,
)
from calibrant.paper.ledger import Cell, Record
from calibrant.paper.plan import Plan, Study
from calibrant.training.history import InterruptedWarning
from calibrant.training.loop import Trainer

SCRIPT = Path(__file__).parents[2] / "bench" / "plain_protocol.py"
random = np.random.default_rng(0)
X = random.normal(size=(60, 3))
Y = X[:, 0] + 0.3 * random.normal(size=60)
PARTS = [np.arange(0, 40), np.arange(20, 60), np.arange(10, 50)]


def records_of(study: Study) -> list[Record]:
    jobs = jobs_of(study.cells(), set(), seed=0)
    return [record for job in jobs for record in run_job(job, 0)]


def timeless(record: Record) -> Record:
    return dataclasses.replace(record, seconds=0.0, finished="")


def test_jobs_cover_each_missing_cell_once(tiny_plan: Plan) -> None:
    cells = tiny_plan.cells()
    jobs = jobs_of(cells, set(), seed=5)
    assert sorted(cell for job in jobs for cell in job.cells) == sorted(cells)
    assert jobs_of(cells, set(jobs[0].cells), seed=5) == jobs[1:]
    assert jobs_of(cells, set(cells), seed=5) == []


def test_all_folds_and_repeats_that_agree_are_one_stack(
    tables: tuple[str, str],
) -> None:
    study = Study(data=tables[:1], networks=("mc_dropout",), folds=2, repeats=5)
    base, regularized = jobs_of(study.cells(), set(), seed=0)
    assert base.stack == "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1"
    # Regularized and not are compared on the same weights and batches.
    assert base.seed == regularized.seed
    done = {cell for cell in study.cells() if cell.repeat == 0}
    more = jobs_of(study.cells(), done, seed=0)
    assert {cell.repeat for job in more for cell in job.cells} == {1, 2, 3, 4}


def test_ensembles_are_stacked_by_whole_repeats(tables: tuple[str, str]) -> None:
    study = Study(
        data=tables[:1], networks=("deep_ensemble",), folds=2, repeats=3, strengths=(0,)
    )
    first, second = jobs_of(study.cells(), set(), seed=0)
    assert (first.stack, second.stack) == ("0.0 0.1 1.0 1.1", "2.0 2.1")
    assert first.seed != second.seed


def test_another_seed_shuffles_and_trains_anew() -> None:
    cell = Cell(data="yacht", split="shuffled", network="mc_dropout", folds=4)
    first, other = split_of(cell, 40, 0), split_of(cell, 40, 1)
    assert not np.array_equal(first.test, other.test)
    again = dataclasses.replace(cell, network="default")
    assert np.array_equal(first.test, split_of(again, 40, 0).test)
    (one,), (two,) = jobs_of([cell], set(), seed=0), jobs_of([cell], set(), seed=1)
    assert one.seed != two.seed


def test_the_fixed_split_is_that_of_year() -> None:
    cell = Cell(data="year_msd", split="fixed", folds=1, network="mc_dropout")
    split = split_of(cell, 515_345, 0)
    assert len(split.train) == 463_715
    assert (split.test[0], split.test[-1]) == (463_715, 515_344)


def test_the_same_seed_gives_the_same_numbers(tiny_plan: Plan) -> None:
    job = jobs_of(tiny_plan.cells(), set(), seed=5)[0]
    before = torch.get_num_threads()
    first, second = run_job(job, 5), run_job(job, 5)
    assert list(map(timeless, first)) == list(map(timeless, second))
    assert {record.threads for record in run_job(job, 5, threads=2)} == {2}
    assert torch.get_num_threads() == before


def test_a_default_cell_is_the_estimator(tables: tuple[str, str]) -> None:
    study = Study(
        data=tables[:1],
        networks=("default",),
        strengths=(1.0,),
        epochs=(3,),
        recalibrations=("out_of_fold",),
        folds=2,
    )
    record, _ = records_of(study)
    data = data_of(tables[0])
    split = split_of(record.cell, 40, 0)
    model = CalibratedRegressor(
        epochs=3, strength=1.0, recalibrate_on="out_of_fold", random_state=record.seed
    ).fit(data.x[split.train], data.y[split.train])
    predictive = model.predict_distribution(data.x[split.test])
    y = torch.from_numpy(data.y[split.test])
    assert record.nll == pytest.approx(float(-predictive.log_prob(y).mean()))
    rmse = float((predictive.mean - y).square().mean().sqrt())
    assert record.rmse == pytest.approx(rmse)
    levels = np.arange(1, 21) / 20
    observed = (predictive.cdf(y).numpy()[:, None] <= levels).mean(0)
    error = 100 * ((observed - levels) ** 2).sum()
    assert record.calibration_error == pytest.approx(error)
    assert np.array(record.curve) / 20 == pytest.approx(observed)
    assert record.floor == pytest.approx(100 * 399 / 120 / 20 * (1 + 19 / 22))


@pytest.mark.parametrize("regularizer", ["conditional", "cramer_von_mises"])
def test_the_regularizer_makes_a_difference(
    regularizer: str, tables: tuple[str, str]
) -> None:
    base = Study(
        data=tables[:1], networks=("mc_dropout",), strengths=(0,), epochs=(3,), folds=2
    )
    other = dataclasses.replace(base, regularizers=(regularizer,), strengths=())
    first, second = records_of(base)[0], records_of(other)[0]
    assert first.seed == second.seed
    assert first.nll != second.nll
    assert second.cell.regularizer == regularizer


def paper(network: Any = "deep_ensemble", **changes: Any) -> CalibratedRegressor:
    return CalibratedRegressor.paper(network, **changes)


def fitted(
    model: CalibratedRegressor,
    y: np.ndarray[Any, Any] = Y,
    parts: list[Any] = PARTS,
    **options: Any,
) -> dict[int, SideBySide]:
    data = DataSet(name="own", x=X, y=y, features=("a", "b", "c"), target="y")
    return fit_side_by_side(model, data, parts, **{"seed": 1, "epochs": (3,)} | options)


@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout"])
def test_a_stack_of_one_is_the_estimator(network: str) -> None:
    model = paper(network, random_state=4, epochs=3)
    seed = int(check_random_state(4).randint(2**31 - 1))
    alone = model.fit(X[PARTS[0]], Y[PARTS[0]]).predict_distribution(X)
    stacked = fitted(model, parts=PARTS[:1], seed=seed)[3].distribution(X, 0)
    # The whole table brings the inputs to order 1, so the last digits differ.
    torch.testing.assert_close(stacked.mean, alone.mean, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(stacked.stddev, alone.stddev, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("change", [100.0, 1e149])
def test_a_model_knows_its_own_rows_only(change: float) -> None:
    changed = Y.copy()
    changed[55] += change
    before, after = fitted(paper())[3], fitted(paper(), changed)[3]
    for number in (0, 2):  # their rows end before 50
        first, other = before.distribution(X, number), after.distribution(X, number)
        assert torch.equal(first.mean, other.mean)
    mean = after.distribution(X, 1).mean
    assert mean.isfinite().all()
    assert not torch.equal(before.distribution(X, 1).mean, mean)


def test_an_earlier_epoch_is_a_shorter_training() -> None:
    both, short = fitted(paper(), epochs=(2, 5)), fitted(paper(), epochs=(2,))
    assert sorted(both) == [2, 5]
    first, same, last = (
        found.distribution(X, 1).mean for found in (both[2], short[2], both[5])
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, last)


def test_masks_of_each_row_are_those_of_ordinary_dropout() -> None:
    models = fitted(paper("mc_dropout"))[3]
    twins = np.repeat(X[:1], 4000, axis=0)
    assert models.distribution(twins, 0).mean.unique().numel() == 1

    def own(seed: int) -> torch.Tensor:
        masks = torch.Generator().manual_seed(seed)
        return models.distribution(twins, 0, masks=masks).mean

    assert own(0).unique().numel() > 100
    assert torch.equal(own(0), own(0))
    assert not torch.equal(own(0), own(1))
    # Ten passes of a quarter dropped: the mean of rows is that of many passes.
    error = own(0).std() / 4000**0.5
    assert abs(own(0).mean() - own(1).mean()) < 5 * error * 2**0.5


def test_an_interruption_leaves_no_half_trained_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = []
    original = Trainer.step

    def step(self: Trainer, *arguments: Any) -> Any:
        steps.append(arguments)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Trainer, "step", step)
    with (
        pytest.warns(InterruptedWarning, match="after 1 of 3 epochs"),
        pytest.raises(KeyboardInterrupt),
    ):
        fitted(paper())


@pytest.mark.slow
def test_plain_modules_and_the_stack_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    torch.set_default_dtype(torch.float32)  # as outside of the tests
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "yacht", "--repeats", "2"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    torch.set_num_threads(threads)
    shown = capsys.readouterr().out.splitlines()
    plain = [float(line[18:].split("±")[0]) for line in shown]
    study = Study(data=("yacht",), networks=("mc_dropout",), strengths=(0,), repeats=2)
    records = records_of(study)
    ours = [
        sum(getattr(record, name) for record in records) / len(records)
        for name in ("calibration_error", "rmse", "nll")
    ]
    # Deviations over repeats are about 7, 0.17 and 0.02.
    allowed = (25, 0.6, 0.1)
    assert all(abs(a - b) <= c for a, b, c in zip(ours, plain, allowed, strict=True))
