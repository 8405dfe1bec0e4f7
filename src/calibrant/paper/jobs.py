"""Cells that are trained together as one stack, and how they are measured."""

import copy
import hashlib
import math
import os
import platform
import time
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import groupby
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from calibrant._version import __version__
from calibrant.data import (
    DataSet,
    Split,
    load,
    shuffled_folds,
    unshuffled_folds,
    year_split,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators.base import Table
from calibrant.estimators.folds import Blocks, Design, SerialDependenceWarning
from calibrant.estimators.networks import Networks, fit_networks
from calibrant.estimators.regressor import CalibratedRegressor, training_device
from calibrant.metrics.calibration import (
    calibration_error,
    coverage,
    expected_calibration_error,
    paper_calibration_error,
)
from calibrant.metrics.groups import calibration_by
from calibrant.metrics.pit import detect_grid, recorded_pit
from calibrant.paper.ledger import LEVELS, NO_REGULARIZER, Cell, Record
from calibrant.paper.plan import CONDITIONAL
from calibrant.recalibration.maps import IsotonicRecalibrator
from calibrant.training import EpochState

#: Networks of each model.
MEMBERS = {"mc_dropout": 1, "deep_ensemble": 5}
# Networks that are trained side by side. Some twenty fill the caches; a larger stack is
# slower per network, and a killed run loses more.
_STACK = 25
# Work of a model, in networks: adversarial steps take 2.5 times as long as others, and
# the default trains 25 smaller networks.
_COSTS = {"mc_dropout": 1.0, "deep_ensemble": 12.5, "default": 12.0}
# Starting a training and measuring its cells, in rows that are learned from.
_OVERHEAD = 5_000.0
_INTERVAL = 0.9
_QUARTILES = 4

Array = npt.NDArray[np.float64]
#: Repeat and fold.
Place = tuple[int, int]
Measured = dict[Cell, dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """What is trained at once, and all cells that come out of it.

    Attributes
    ----------
    cells
        Cells with the same data, splits, network and training. They differ by repeat
        and fold, by epochs, and by what is done after the training.
    seed
        Of the training. It does not depend on regularizer and strength, so that these
        are compared on the same initial weights and batches. It does depend on what is
        stacked: cells that a changed plan adds are another stack.
    """

    cells: tuple[Cell, ...]
    seed: int

    @property
    def arm(self) -> Cell:
        """Its first cell, for what all of them share."""
        return self.cells[0]

    @property
    def models(self) -> list[Place]:
        """Repeats and folds of its models."""
        return _models(self.cells)

    @property
    def stack(self) -> str:
        """What is trained side by side, as text."""
        return " ".join(f"{repeat}.{fold}" for repeat, fold in self.models)

    @property
    def cost(self) -> float:
        """Estimated work, in rows of a network that are learned from."""
        cell = self.arm
        rows = len(data_of(cell.data).y) * (1 - 1 / max(2, cell.folds))
        epochs = max(cell.epochs for cell in self.cells)
        work = rows * epochs * _COSTS[cell.network] * len(self.models)
        return work + _OVERHEAD * len(self.cells)

    def __str__(self) -> str:
        """Return what a progress bar says."""
        cell = self.arm
        name = PurePath(cell.data).name  # a long path would push the bar away
        return f"{name}, {cell.network}, {cell.regularizer} {cell.strength:g}"


def _models(cells: Iterable[Cell]) -> list[Place]:
    return sorted({(cell.repeat, cell.fold) for cell in cells})


@lru_cache(maxsize=2)
def data_of(name: str) -> DataSet:
    """Load a data set, once in a row."""
    return load(name)


@lru_cache(maxsize=64)
def _folds(
    split: str, rows: int, folds: int, repeat: int, seed: int
) -> tuple[Split, ...]:
    if split == "fixed":
        return year_split(rows)
    if split == "unshuffled":
        return unshuffled_folds(rows, folds)
    return shuffled_folds(rows, folds, seed=seed_of(seed, "folds", repeat))


def split_of(cell: Cell, rows: int, seed: int) -> Split:
    """Rows that a cell learns from, and those that it is tested on."""
    return _folds(cell.split, rows, cell.folds, cell.repeat, seed)[cell.fold]


def seed_of(*parts: object) -> int:
    """Derive a seed from anything, the same on every machine."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def job_seed(cell: Cell, models: Sequence[Place], seed: int) -> int:
    """Seed of the job that trains these models of a cell's arm."""
    models = list(models)
    return seed_of(seed, cell.data, cell.split, cell.folds, cell.network, models)


def jobs_of(cells: Iterable[Cell], done: Collection[Cell], *, seed: int) -> list[Job]:
    """Cut what is not done yet into jobs, in the order of the cells."""
    arms: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        if cell not in done:
            arms.setdefault(_training(cell), []).append(cell)
    return [
        Job(tuple(stack), job_seed(stack[0], _models(stack), seed))
        for arm in arms.values()
        for stack in _stacks(arm, seed)
    ]


def _training(cell: Cell) -> tuple[object, ...]:
    """All that the cells of a job share; the default is trained by itself."""
    shape = (cell.data, cell.split, cell.folds, cell.network)
    training = (*shape, cell.regularizer, cell.strength)
    if cell.network == "default":
        return (*training, cell.recalibration, cell.epochs, cell.repeat, cell.fold)
    return training


def _stacks(arm: list[Cell], seed: int) -> Iterator[list[Cell]]:
    """Cut cells into stacks of whole repeats that have equally many rows."""
    rows = len(data_of(arm[0].data).y)

    def size(cell: Cell) -> int:
        return len(split_of(cell, rows, seed).train)

    for _, same in groupby(sorted(arm, key=size), key=size):
        repeats: dict[int, list[Cell]] = {}
        for cell in sorted(same, key=lambda cell: (cell.repeat, cell.fold)):
            repeats.setdefault(cell.repeat, []).append(cell)
        widest = max(len({cell.fold for cell in found}) for found in repeats.values())
        together = max(1, _STACK // (MEMBERS.get(arm[0].network, _STACK) * widest))
        groups = list(repeats.values())
        for first in range(0, len(groups), together):
            yield [cell for group in groups[first : first + together] for cell in group]


def run_job(job: Job, plan_seed: int, threads: int = 1) -> list[Record]:
    """Train all models of a job and measure each of its cells."""
    started, before = time.perf_counter(), torch.get_num_threads()
    data = data_of(job.arm.data)
    splits = {
        (cell.repeat, cell.fold): split_of(cell, len(data.y), plan_seed)
        for cell in job.cells
    }
    fit = _default if job.arm.network == "default" else _paper
    torch.set_num_threads(threads)
    try:
        measured = fit(job, data, splits)
    finally:
        torch.set_num_threads(before)
    for cell, numbers in measured.items():
        for name, value in numbers.items():
            if isinstance(value, float) and math.isnan(value):
                raise ArithmeticError(
                    f"the {name} of fold {cell.fold} in repeat {cell.repeat} is not a "
                    "number: a prediction has overflowed."
                )
    versions = {"calibrant": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    shared: dict[str, Any] = {
        "seed": job.seed,
        "stack": job.stack,
        "threads": threads,
        "versions": ", ".join(f"{name} {text}" for name, text in versions.items()),
        # Kind of machine, not its name.
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seconds": round((time.perf_counter() - started) / len(measured), 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return [
        Record(cell=cell, **numbers, **shared) for cell, numbers in measured.items()
    ]


def _paper(job: Job, data: DataSet, splits: dict[Place, Split]) -> Measured:
    """Train the paper's networks of all repeats and folds side by side."""
    arm = job.arm
    settings: dict[str, Any] = {
        "network": arm.network,
        "strength": arm.strength,
        "members": MEMBERS[arm.network],
    }
    if arm.regularizer == CONDITIONAL:
        settings["conditional"] = ("spread", "mean")
    elif arm.regularizer != NO_REGULARIZER:
        settings["regularizer"] = arm.regularizer
    fitted = fit_side_by_side(
        CalibratedRegressor.paper(**settings),
        data,
        [splits[model].train for model in job.models],
        seed=job.seed,
        epochs=sorted({cell.epochs for cell in job.cells}),
    )
    measured = {}
    for cell in job.cells:
        model = (cell.repeat, cell.fold)
        split, number = splits[model], job.models.index(model)
        # The paper's passes drop units of each row on its own, as ordinary dropout
        # does. Masks that all rows share leave RMSE and NLL as they are on average,
        # but rows then err together, and calibration errors grow.
        masks = torch.Generator().manual_seed(seed_of(job.seed, "passes", model))
        predict = partial(fitted[cell.epochs].distribution, model=number, masks=masks)
        predictive = predict(data.x[split.test])
        if cell.recalibration == "isotonic":
            # The paper's map, of the PIT values of the rows that were learned from
            # and of them alone: ``fit`` may widen predictions first.
            seen = predict(data.x[split.train])
            pit = seen.pit(torch.from_numpy(data.y[split.train]))
            recalibrator: Any = IsotonicRecalibrator(floor=0).fit_pit(pit)
            predictive = recalibrator.transform(predictive)
        measured[cell] = _measures(predictive, cell, data, split)
    return measured


@dataclass(frozen=True)
class SideBySide:
    """Models with the same settings, each of which learned from rows of its own."""

    members: Networks
    size: int

    def distribution(
        self, x: Array, model: int, *, masks: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Distribution of rows ``(n, d)`` under one of the models, by its number.

        Dropout masks of each row and pass, as those of ordinary dropout, are drawn from
        ``masks``; None for masks that all rows share.
        """
        chosen = range(model * self.size, (model + 1) * self.size)
        return self.members.distribution(x, chosen, masks=masks)


def fit_side_by_side(
    model: CalibratedRegressor,
    data: DataSet,
    rows: Sequence[npt.NDArray[np.int64]],
    *,
    seed: int,
    epochs: Sequence[int],
) -> dict[int, SideBySide]:
    """Fit a model on many sets of rows at once: the folds and repeats of a benchmark.

    Each model standardizes, learns and predicts by its own rows alone, of which all
    have equally many; only the matrix products are shared. With a constant learning
    rate the model of fewer epochs is that of more epochs, looked at earlier, so one
    training gives the models after each of the epochs.
    """
    copies = int(model.members)
    found: dict[int, nn.Module] = {}

    def look(state: EpochState) -> None:
        if state.epoch in epochs:
            found[state.epoch] = copy.deepcopy(state.network)

    own = tuple(part for part in rows for _ in range(copies))
    recipe = model.recipe(float(model.strength), len(rows[0]))
    members, histories = fit_networks(
        Table(data.x, data.y, Blocks(np.arange(len(data.y)))),
        Design(own, np.empty(0, dtype=np.int64)),
        model.architecture(),
        replace(recipe, epochs=max(epochs)),
        seed=seed,
        validation_share=0.0,
        device=training_device(model),
        callbacks=[look],
    )
    if any(history.interrupted for history in histories):
        raise KeyboardInterrupt  # a model that is half trained is none of these
    found[max(epochs)] = members.networks[0]
    return {
        epoch: SideBySide(replace(members, networks=[network]), copies)
        for epoch, network in found.items()
    }


def _default(job: Job, data: DataSet, splits: dict[Place, Split]) -> Measured:
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
    predictive = model.predict_distribution(data.x[split.test])
    return {cell: _measures(predictive, cell, data, split) for cell in job.cells}


def _measures(
    predictive: AbstractDistribution, cell: Cell, data: DataSet, split: Split
) -> dict[str, Any]:
    """All numbers of one cell."""
    y = torch.from_numpy(data.y[split.test])
    n, fitted_on = len(split.test), len(split.train)
    plain = predictive.cdf(y)
    # What the target is rounded to, the whole column tells best.
    generator = torch.Generator().manual_seed(0)
    pit = recorded_pit(predictive, y, detect_grid(data.y), generator=generator)
    floor = expected_calibration_error(n, levels=LEVELS)
    if cell.recalibration != "none":
        # Noise of a map through order statistics, to first order in 1 / fitted_on.
        floor *= 1 + (n - 1) / (fitted_on + 2)
    mean, spread = predictive.mean, predictive.stddev
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
        "nll": float(-predictive.log_prob(y).mean()),
        "crps": float(predictive.crps(y).mean()),
        "sharpness": float(spread.mean()),
        "coverage": coverage(predictive, y, level=_INTERVAL),
        "curve": tuple((plain.unsqueeze(1) <= levels).sum(0).tolist()),
    }


def _by_quartiles(pit: torch.Tensor, key: torch.Tensor) -> float:
    """Mean calibration error within the quartiles of a key, in the paper's unit."""
    groups = calibration_by(pit, key.numpy(), bins=_QUARTILES)
    return 100 * float(np.mean([group.calibration_error for group in groups]))
