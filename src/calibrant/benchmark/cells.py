"""Train a job and measure its cells."""

import math
import os
import platform
import time
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._version import __version__
from calibrant.benchmark.jobs import MEMBERS, Job, data_of, seed_of, split_of
from calibrant.benchmark.plan import CONDITIONAL
from calibrant.benchmark.records import LEVELS, NO_REGULARIZER, Cell, Record
from calibrant.benchmark.side_by_side import fit_side_by_side
from calibrant.data import DataSet, Split
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators.folds import SerialDependenceWarning
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.metrics.calibration import (
    calibration_error,
    coverage,
    expected_calibration_error,
    paper_calibration_error,
)
from calibrant.metrics.groups import calibration_by
from calibrant.metrics.pit import detect_grid, recorded_pit
from calibrant.recalibration.maps import IsotonicRecalibrator

__all__ = ["run_job"]

_INTERVAL = 0.9
_QUARTILES = 4

Array = npt.NDArray[np.float64]


def run_job(job: Job, plan_seed: int, threads: int = 1) -> list[Record]:
    """Train all models of a job and measure each of its cells.

    Parameters
    ----------
    job
        What to train.
    plan_seed
        Seed of the plan, which shuffled folds come from.
    threads
        Threads of torch; small networks gain little by more than one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _records(job, plan_seed)
    finally:
        torch.set_num_threads(before)


def _records(job: Job, plan_seed: int) -> list[Record]:
    started = time.perf_counter()
    data = data_of(job.arm.data)
    splits = {
        (cell.repeat, cell.fold): split_of(cell, len(data.y), plan_seed)
        for cell in job.cells
    }
    fit = _default if job.arm.network == "default" else _paper
    measured = fit(job, data, splits)
    share = (time.perf_counter() - started) / len(measured)
    shared: dict[str, Any] = {
        "seed": job.seed,
        "stack": job.stack,
        "threads": torch.get_num_threads(),
        "versions": _versions(),
        "host": _host(),
        "seconds": round(share, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for cell, numbers in measured.items():
        _refuse_nan(cell, numbers)
    return [
        Record(cell=cell, **numbers, **shared) for cell, numbers in measured.items()
    ]


def _refuse_nan(cell: Cell, numbers: dict[str, Any]) -> None:
    for name, value in numbers.items():
        if isinstance(value, float) and math.isnan(value):
            raise ArithmeticError(
                f"the {name} of fold {cell.fold} in repeat {cell.repeat} is not a "
                "number: a prediction has overflowed."
            )


Splits = dict[tuple[int, int], Split]
Measured = dict[Cell, dict[str, Any]]


def _paper(job: Job, data: DataSet, splits: Splits) -> Measured:
    """Train the paper's networks of all repeats and folds side by side."""
    fitted = fit_side_by_side(
        _paper_model(job.arm),
        data.x,
        data.y,
        [splits[model].train for model in job.models],
        seed=job.seed,
        epochs=sorted({cell.epochs for cell in job.cells}),
    )
    numbers = {model: number for number, model in enumerate(job.models)}
    measured = {}
    for cell in job.cells:
        model = (cell.repeat, cell.fold)
        split, trained = splits[model], fitted[cell.epochs]
        # The paper's passes drop units of each row on its own, as ordinary dropout
        # does. Masks that all rows share leave RMSE and NLL as they are on average,
        # but rows then err together, and calibration errors grow.
        masks = torch.Generator().manual_seed(seed_of(job.seed, "passes", model))
        law = trained.distribution(data.x[split.test], numbers[model], masks=masks)
        if cell.recalibration == "isotonic":
            # The paper's map: of the PIT values of the rows that were learned from.
            seen = trained.distribution(
                data.x[split.train], numbers[model], masks=masks
            )
            law = _isotonic(law, seen, data.y[split.train])
        measured[cell] = _measures(law, cell, data, split)
    return measured


def _paper_model(arm: Cell) -> CalibratedRegressor:
    changes: dict[str, Any] = {}
    if arm.regularizer == CONDITIONAL:
        changes["conditional"] = ("spread", "mean")
    elif arm.regularizer != NO_REGULARIZER:
        changes["regularizer"] = arm.regularizer
    network: Any = arm.network
    return CalibratedRegressor.paper(
        network, strength=arm.strength, members=MEMBERS[network], **changes
    )


def _isotonic(
    law: AbstractDistribution, seen: AbstractDistribution, y: Array
) -> AbstractDistribution:
    # By PIT values alone, as in the paper: ``fit`` may widen predictions first.
    pit = seen.pit(torch.from_numpy(y))
    corrected: Any = IsotonicRecalibrator(floor=0).fit_pit(pit)
    result: AbstractDistribution = corrected.transform(law)
    return result


def _default(job: Job, data: DataSet, splits: Splits) -> Measured:
    """Fit our default; its own folds are its stack, so there is one model."""
    cell, split = job.arm, splits[job.models[0]]
    model = CalibratedRegressor(
        strength=cell.strength,
        epochs=cell.epochs,
        recalibrate_on=cell.recalibration,
        random_state=job.seed,
    )
    with warnings.catch_warnings():
        # The plan has decided how rows are cut, whatever their order tells.
        warnings.simplefilter("ignore", SerialDependenceWarning)
        model.fit(data.x[split.train], data.y[split.train])
    law = model.predict_distribution(data.x[split.test])
    return {each: _measures(law, each, data, split) for each in job.cells}


def _measures(
    law: AbstractDistribution, cell: Cell, data: DataSet, split: Split
) -> dict[str, Any]:
    """All numbers of one cell."""
    y = torch.from_numpy(data.y[split.test])
    n, fitted_on = len(split.test), len(split.train)
    plain = law.cdf(y)
    # What the target is rounded to, the whole column tells best.
    generator = torch.Generator().manual_seed(0)
    pit = recorded_pit(law, y, detect_grid(data.y), generator=generator)
    floor = expected_calibration_error(n, levels=LEVELS)
    if cell.recalibration != "none":
        # Noise of a map through order statistics, to first order in 1 / fitted_on.
        floor *= 1 + (n - 1) / (fitted_on + 2)
    mean, spread = law.mean, law.stddev
    levels = torch.arange(1, LEVELS + 1, dtype=torch.float64) / LEVELS
    return {
        "train_rows": fitted_on,
        "test_rows": n,
        "calibration_error": paper_calibration_error(plain),
        "floor": 100 * floor,
        "randomized_calibration_error": 100 * calibration_error(pit),
        "spread_calibration_error": _by_quartiles(pit, spread),
        "mean_calibration_error": _by_quartiles(pit, mean),
        "rmse": float((mean - y).square().mean().sqrt()),
        "nll": float(-law.log_prob(y).mean()),
        "crps": float(law.crps(y).mean()),
        "sharpness": float(spread.mean()),
        "coverage": coverage(law, y, level=_INTERVAL),
        "curve": tuple((plain.unsqueeze(1) <= levels).sum(0).tolist()),
    }


def _by_quartiles(pit: torch.Tensor, key: torch.Tensor) -> float:
    """Mean calibration error within the quartiles of a key, in the paper's unit."""
    groups = calibration_by(pit, key.numpy(), bins=_QUARTILES)
    return 100 * float(np.mean([group.calibration_error for group in groups]))


def _versions() -> str:
    parts = {"calibrant": __version__, "python": platform.python_version()}
    parts |= {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return ", ".join(f"{name} {number}" for name, number in parts.items())


def _host() -> str:
    """Kind of machine, not its name."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
