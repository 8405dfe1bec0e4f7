"""What a cell measures, against the estimator and by hand."""

import dataclasses

import numpy as np
import pytest
import torch

from calibrant import CalibratedRegressor
from calibrant.paper.jobs import data_of, jobs_of, run_job, split_of
from calibrant.paper.ledger import Record
from calibrant.paper.plan import Plan, Study


def records_of(study: Study, seed: int = 0) -> list[Record]:
    return [
        record
        for job in jobs_of(study.cells(), set(), seed=seed)
        for record in run_job(job, seed)
    ]


def timeless(record: Record) -> Record:
    return dataclasses.replace(record, seconds=0.0, finished="")


def test_the_same_seed_gives_the_same_numbers(tiny_plan: Plan) -> None:
    job = jobs_of(tiny_plan.cells(), set(), seed=5)[0]
    first, second = run_job(job, 5), run_job(job, 5)
    assert list(map(timeless, first)) == list(map(timeless, second))


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
    law = model.predict_distribution(data.x[split.test])
    y = torch.from_numpy(data.y[split.test])
    assert record.nll == pytest.approx(float(-law.log_prob(y).mean()))
    assert record.rmse == pytest.approx(float((law.mean - y).square().mean().sqrt()))
    pit = law.cdf(y).numpy()
    levels = np.arange(1, 21) / 20
    observed = (pit[:, None] <= levels).mean(0)
    error = 100 * ((observed - levels) ** 2).sum()
    assert record.calibration_error == pytest.approx(error)
    assert np.array(record.curve) / 20 == pytest.approx(observed)
    assert record.floor == pytest.approx(100 * 399 / 120 / 20 * (1 + 19 / 22))


def test_a_shorter_training_is_the_start_of_a_longer(tables: tuple[str, str]) -> None:
    study = Study(data=tables[:1], networks=("deep_ensemble",), folds=2)
    both = records_of(dataclasses.replace(study, epochs=(1, 3)))
    short = records_of(dataclasses.replace(study, epochs=(1,)))
    kept = [timeless(each) for each in both if each.cell.epochs == 1]
    assert sorted(kept, key=lambda each: each.cell) == sorted(
        map(timeless, short), key=lambda each: each.cell
    )


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


def test_threads_are_given_back(tables: tuple[str, str]) -> None:
    study = Study(data=tables[:1], networks=("mc_dropout",), epochs=(1,), folds=2)
    (job, *_) = jobs_of(study.cells(), set(), seed=0)
    before = torch.get_num_threads()
    assert {record.threads for record in run_job(job, 0, threads=2)} == {2}
    assert torch.get_num_threads() == before
