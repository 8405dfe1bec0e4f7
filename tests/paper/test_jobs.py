"""Which cells are trained together."""

import numpy as np

from calibrant.paper.jobs import jobs_of, split_of
from calibrant.paper.ledger import Cell
from calibrant.paper.plan import Plan, Study


def test_jobs_cover_each_missing_cell_once(tiny_plan: Plan) -> None:
    cells = tiny_plan.cells()
    jobs = jobs_of(cells, set(), seed=5)
    assert sorted(cell for job in jobs for cell in job.cells) == sorted(cells)
    done = set(jobs[0].cells)
    rest = jobs_of(cells, done, seed=5)
    assert rest == jobs[1:]
    assert jobs_of(cells, set(cells), seed=5) == []


def test_all_folds_and_repeats_that_agree_are_one_stack(
    tables: tuple[str, str],
) -> None:
    study = Study(data=tables[:1], networks=("mc_dropout",), folds=2, repeats=5)
    base, regularized = jobs_of(study.cells(), set(), seed=0)
    assert base.stack == "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1"
    # Regularized and not are compared on the same weights and batches.
    assert base.seed == regularized.seed
    assert base != regularized


def test_ensembles_are_stacked_by_whole_repeats(tables: tuple[str, str]) -> None:
    study = Study(
        data=tables[:1], networks=("deep_ensemble",), folds=2, repeats=3, strengths=(0,)
    )
    first, second = jobs_of(study.cells(), set(), seed=0)
    assert (first.stack, second.stack) == ("0.0 0.1 1.0 1.1", "2.0 2.1")
    assert first.seed != second.seed


def test_more_repeats_leave_what_is_done_alone(tables: tuple[str, str]) -> None:
    few = Study(data=tables[:1], networks=("mc_dropout",), folds=2, repeats=1)
    many = Study(data=tables[:1], networks=("mc_dropout",), folds=2, repeats=3)
    done = set(few.cells())
    jobs = jobs_of(many.cells(), done, seed=0)
    assert {cell.repeat for job in jobs for cell in job.cells} == {1, 2}


def test_another_seed_shuffles_and_trains_anew() -> None:
    cell = Cell(data="yacht", split="shuffled", network="mc_dropout", folds=4)
    first, other = split_of(cell, 40, 0), split_of(cell, 40, 1)
    assert not np.array_equal(first.test, other.test)
    assert np.array_equal(first.test, split_of(cell, 40, 0).test)
    again = Cell(data="yacht", split="shuffled", network="default", folds=4)
    assert np.array_equal(first.test, split_of(again, 40, 0).test)
    (one,), (two,) = jobs_of([cell], set(), seed=0), jobs_of([cell], set(), seed=1)
    assert one.seed != two.seed


def test_the_fixed_split_is_that_of_year() -> None:
    cell = Cell(data="year_msd", split="fixed", folds=1, network="mc_dropout")
    split = split_of(cell, 515_345, 0)
    assert len(split.train) == 463_715
    assert split.test[0] == 463_715
    assert split.test[-1] == 515_344
