"""What a record from a file must be to make sense, column by column."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from reprlib import repr as short

from calibrant.benchmark._ledger_error import LedgerError
from calibrant.benchmark.records import Cell, Record

__all__ = ["check_sense"]

#: A column, what it must be, its value, and whether it is that.
_Found = tuple[str, str, object, bool]

_CHOICES = {
    "split": ("unshuffled", "shuffled", "fixed"),
    "network": ("mc_dropout", "deep_ensemble", "default"),
    "recalibration": ("none", "isotonic", "out_of_fold"),
}
_FINITE = (
    "calibration_error",
    "floor",
    "randomized_calibration_error",
    "spread_calibration_error",
    "mean_calibration_error",
    "seconds",
)
_MAY_BE_ENDLESS = ("rmse", "crps", "sharpness")


def check_sense(record: Record) -> None:
    """Refuse a record that no run can have written.

    Parameters
    ----------
    record
        Of the right types, from a file that anyone may have edited.

    Raises
    ------
    LedgerError
        The text names the first column that is wrong.
    """
    for check in _CHECKS:
        for name, rule, value, fits in check(record):
            if not fits:
                raise LedgerError(f"{name} must be {rule}, got {short(value)}.")


def _cell(record: Record) -> Iterator[_Found]:
    cell = record.cell
    yield "data", "the name of a set or a path", cell.data, bool(cell.data)
    for name, choices in _CHOICES.items():
        value = getattr(cell, name)
        yield name, f"one of {', '.join(choices)}", value, value in choices
    yield from _folds(cell)
    strength = cell.strength
    finite = 0 <= strength < math.inf
    yield "strength", "finite and at least 0", strength, finite
    yield "epochs", "at least 1", cell.epochs, cell.epochs >= 1
    yield "repeat", "at least 0", cell.repeat, cell.repeat >= 0


def _folds(cell: Cell) -> Iterator[_Found]:
    if cell.split == "fixed":
        yield "folds", "1 for the fixed split", cell.folds, cell.folds == 1
    yield "folds", "at least 1", cell.folds, cell.folds >= 1
    inside = 0 <= cell.fold < cell.folds
    yield "fold", f"from 0 to {cell.folds - 1}", cell.fold, inside


def _rows(record: Record) -> Iterator[_Found]:
    for name in ("train_rows", "test_rows", "threads"):
        value = getattr(record, name)
        yield name, "at least 1", value, value >= 1
    edges = (0, *record.curve, record.test_rows)
    rising = all(low <= high for low, high in pairwise(edges))
    rule = f"counts that never fall, from 0 to the {record.test_rows} test rows"
    yield "curve", rule, " ".join(map(str, record.curve)), rising


def _numbers(record: Record) -> Iterator[_Found]:
    for name in _FINITE:
        value = getattr(record, name)
        yield name, "finite and at least 0", value, 0 <= value < math.inf
    for name in _MAY_BE_ENDLESS:
        value = getattr(record, name)
        yield name, "at least 0", value, value >= 0
    nll, coverage = record.nll, record.coverage
    yield "nll", "a number or inf, not -inf", nll, nll > -math.inf
    yield "coverage", "a share from 0 to 1", coverage, 0 <= coverage <= 1


_CHECKS: tuple[Callable[[Record], Iterator[_Found]], ...] = (_cell, _rows, _numbers)
