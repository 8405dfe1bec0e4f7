"""Records for pages: two folds of a model, and a pair of base and regularized."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from calibrant.paper.ledger import LEVELS, Cell, Record

__all__ = ["at", "five", "folds", "measured", "pair", "record"]


def measured(cell: Cell, **numbers: Any) -> Record:
    """A record of 40 test rows whose curve is the diagonal, but for some numbers."""
    error = numbers.get("calibration_error", 10.0)
    values: dict[str, Any] = {
        "train_rows": 160,
        "test_rows": 40,
        "calibration_error": error,
        "floor": 8.3,
        "randomized_calibration_error": error,
        "spread_calibration_error": error,
        "mean_calibration_error": error,
        "rmse": 1.0,
        "nll": 1.5,
        "crps": 0.5,
        "sharpness": 0.8,
        "coverage": 0.9,
        "curve": tuple(range(2, 2 * LEVELS + 1, 2)),
        "seed": 7,
        "stack": "1",
        "threads": 1,
        "versions": "torch 2",
        "host": "a machine",
        "seconds": 90.0,
        "finished": "2026-01-01T00:00:00+00:00",
    }
    return Record(cell=cell, **values | numbers)


def record(
    data: str = "concrete",
    network: str = "mc_dropout",
    *,
    strength: float = 0.0,
    error: float = 10.0,
    rmse: float = 1.0,
    fold: int = 0,
) -> Record:
    cell = Cell(
        data=data,
        folds=2,
        network=network,
        regularizer="cumulative_kl" if strength else "none",
        strength=strength,
        fold=fold,
    )
    return measured(cell, calibration_error=error, rmse=rmse)


def folds(one: Record) -> list[Record]:
    return [replace(one, cell=replace(one.cell, fold=fold)) for fold in range(2)]


def pair(data: str, base: float, regularized: float, **more: Any) -> list[Record]:
    return [
        *folds(record(data, error=base)),
        *folds(record(data, strength=20.0, error=regularized, **more)),
    ]


def at(records: Iterable[Record], **cell: Any) -> list[Record]:
    return [replace(r, cell=replace(r.cell, **cell)) for r in records]


def five(records: Iterable[Record]) -> list[Record]:
    """The same with five folds, each a bit other than the next."""
    return [
        replace(
            r,
            cell=replace(r.cell, folds=5, fold=fold),
            calibration_error=r.calibration_error * (1 + 0.01 * fold),
        )
        for r in list(records)[::2]
        for fold in range(5)
    ]
