"""Cells that are trained together, as one stack."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import PurePath

from calibrant.benchmark.records import Cell
from calibrant.data import (
    DataSet,
    Split,
    load,
    shuffled_folds,
    unshuffled_folds,
    year_split,
)

__all__ = ["Job", "data_of", "jobs_of", "seed_of", "split_of"]

#: Networks of each model.
MEMBERS = {"mc_dropout": 1, "deep_ensemble": 5}
# Networks that are trained side by side. Some twenty fill the caches; a larger stack is
# slower per network, and a killed run loses more.
_STACK = 25


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
    def models(self) -> list[tuple[int, int]]:
        """Repeats and folds of its models."""
        return sorted({(cell.repeat, cell.fold) for cell in self.cells})

    @property
    def stack(self) -> str:
        """What is trained side by side, as text."""
        return " ".join(f"{repeat}.{fold}" for repeat, fold in self.models)

    @property
    def name(self) -> str:
        """All that tells it from other jobs."""
        text = repr((self.seed, self.cells))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        """Return what a progress bar says."""
        cell = self.arm
        name = PurePath(cell.data).name  # a long path would push the bar away
        return f"{name}, {cell.network}, {cell.regularizer} {cell.strength:g}"


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
    """Rows that a cell learns from, and those that it is tested on.

    Parameters
    ----------
    cell
        The cell.
    rows
        Rows of its data set.
    seed
        Of the plan; each repeat is shuffled in its own way, the same for all models.
    """
    return _folds(cell.split, rows, cell.folds, cell.repeat, seed)[cell.fold]


def seed_of(*parts: object) -> int:
    """Derive a seed from anything, the same on every machine."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def jobs_of(cells: Iterable[Cell], done: Collection[Cell], *, seed: int) -> list[Job]:
    """Cut what is not done yet into jobs, in the order of the cells.

    Parameters
    ----------
    cells
        Those of a plan.
    done
        Those that are in the ledger.
    seed
        Of the plan.
    """
    arms: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        if cell not in done:
            arms.setdefault(_arm(cell), []).append(cell)
    return [
        Job(tuple(part), _job_seed(part, seed))
        for arm in arms.values()
        for part in _parts(arm, seed)
    ]


def _arm(cell: Cell) -> tuple[object, ...]:
    """All that the cells of a job share; the default is trained by itself."""
    alone = cell.network == "default"
    return (
        cell.data,
        cell.split,
        cell.folds,
        cell.network,
        cell.regularizer,
        cell.strength,
        (cell.recalibration, cell.epochs) if alone else None,
    )


def _parts(arm: list[Cell], seed: int) -> Iterable[list[Cell]]:
    """Cut the cells of an arm into stacks of models with equally many rows."""
    rows = len(data_of(arm[0].data).y)

    def size(cell: Cell) -> int:
        return len(split_of(cell, rows, seed).train)

    for _, same in groupby(sorted(arm, key=size), key=size):
        cells = sorted(same, key=lambda cell: (cell.repeat, cell.fold))
        yield from _stacks(cells)


def _stacks(cells: list[Cell]) -> Iterable[list[Cell]]:
    """Cut cells into stacks of whole repeats, as many as fit."""
    network = cells[0].network
    if network == "default":
        for _, same in groupby(cells, lambda cell: (cell.repeat, cell.fold)):
            yield list(same)
        return
    repeats = {
        number: list(same) for number, same in groupby(cells, lambda cell: cell.repeat)
    }
    widest = max(len({cell.fold for cell in each}) for each in repeats.values())
    together = max(1, _STACK // (MEMBERS[network] * widest))
    numbers = list(repeats)
    for first in range(0, len(numbers), together):
        chosen = numbers[first : first + together]
        yield [cell for number in chosen for cell in repeats[number]]


def _job_seed(cells: list[Cell], seed: int) -> int:
    first = cells[0]
    models = sorted({(cell.repeat, cell.fold) for cell in cells})
    return seed_of(seed, first.data, first.split, first.folds, first.network, models)
