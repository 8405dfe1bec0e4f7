"""Predictions of any model, as the columns of a table hold them; their fix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant.commands.measuring import MOST_ROWS, style_notes
from calibrant.commands.predict import CHUNK, OutputOptions
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.errors import InputError
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.estimators.pool import fit_recorded, fresh_recalibrator
from calibrant.metrics.pit import detect_grid
from calibrant.tables import Source, TableWriter, read_target
from calibrant.tables.wording import amount

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Foreign", "Maps", "measurable", "read_predictions", "write_fixed"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
_FOLDS = 5
_FEWEST = 25


@dataclass(frozen=True)
class Foreign:
    """Predictive distributions of the rows of a table.

    Attributes
    ----------
    names
        Columns: mean and deviation, or quantiles in the order of their levels.
    values
        Their numbers, shape ``(n, columns)``.
    levels
        Of the quantiles; empty for means and deviations.
    crossed
        Number of rows whose quantiles had to be sorted.
    """

    names: tuple[str, ...]
    values: Array
    levels: tuple[float, ...]
    crossed: int = 0

    def predictive(self, rows: Rows) -> AbstractDistribution:
        """Distributions of some rows, batch shape ``(k,)``."""
        values = self.values[rows]
        if self.levels:
            return QuantileTable(self.levels, values)
        return Gaussian(values[:, 0], values[:, 1])


def read_predictions(
    source: Source,
    data: "pa.Table",
    *,
    mean: str | None,
    std: str | None,
    quantiles: Mapping[Any, Any] | None,
) -> Foreign:
    """Read the columns that hold predictions, all of them numbers without gaps.

    Parameters
    ----------
    source, data
        The table.
    mean, std, quantiles
        As for :func:`compare_table`.
    """
    if quantiles and (mean or std):
        raise InputError(
            "predictions are means and deviations, or quantiles, got both. Leave one "
            "of them out."
        )
    if quantiles:
        return _quantiles(source, data, _by_column(quantiles))
    if mean is None or std is None:
        raise InputError(
            "say where the predictions are: mean= and std=, or quantiles= for two or "
            "more columns."
        )
    values = _numbers(source, data, [mean, std])
    _refuse(source, std, values[:, 1] <= 0, values[:, 1], "must be above 0")
    return Foreign((mean, std), values, ())


def _by_column(quantiles: Mapping[Any, Any]) -> dict[str, float]:
    """Read columns and levels, whichever of them come first."""
    found = {}
    for first, second in quantiles.items():
        column, level = (first, second) if isinstance(first, str) else (second, first)
        if not isinstance(column, str) or not isinstance(level, Real):
            raise InputError(
                f"quantiles are columns and their levels, got {first!r}: {second!r}."
            )
        found[column] = float(level)
    return found


def _quantiles(
    source: Source, data: "pa.Table", quantiles: Mapping[str, float]
) -> Foreign:
    names = sorted(quantiles, key=lambda name: quantiles[name])
    levels = tuple(quantiles[name] for name in names)
    if len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise InputError(
            f"quantiles need two or more different levels, got {list(levels)}."
        )
    if not 0 < levels[0] <= levels[-1] < 1:
        raise InputError(
            f"levels of quantiles must lie strictly between 0 and 1, got "
            f"{list(levels)}. Write 0.05 for 5 %."
        )
    values = _numbers(source, data, names)
    ordered = np.sort(values, axis=1)
    crossed = int((ordered != values).any(1).sum())
    return Foreign(tuple(names), ordered, levels, crossed)


def _numbers(source: Source, data: "pa.Table", names: Sequence[str]) -> Array:
    source.check_columns(names)
    columns = []
    for name in names:
        column: Any = data[name]
        values = read_target(
            column, target=name, name=source.name, style=source.style, what="prediction"
        )
        _refuse(source, name, np.isnan(values), values, "must not be missing")
        columns.append(values)
    return np.stack(columns, axis=1)


def _refuse(
    source: Source,
    name: str,
    bad: npt.NDArray[np.bool_],
    values: Array,
    rule: str,
) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{source.name}, row {row + 1}, column {name!r}: a prediction {rule}, got "
            f"{values[row]:g} ({amount(int(bad.sum()), 'such row')}). Fix it."
        )


def measurable(
    source: Source, y: Array, foreign: Foreign, seed: int
) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows with a target, of very many a random choice, and notes."""
    rows = np.flatnonzero(~np.isnan(y))
    if not len(rows):
        raise InputError(f"{source.name} must have rows with a target, it has none.")
    notes = style_notes(source)
    if len(rows) < len(y):
        lost = amount(len(y) - len(rows), "row")
        notes.append(f"{lost} without a target: not measured.")
    if len(rows) > MOST_ROWS:
        notes.append(
            f"A random choice of {MOST_ROWS:,} of {len(rows):,} rows is measured."
        )
        random = np.random.default_rng(seed)
        rows = np.sort(random.choice(rows, MOST_ROWS, replace=False))
    if foreign.crossed:
        notes.append(f"Crossing quantiles in {amount(foreign.crossed, 'row')}: sorted.")
    return rows, tuple(notes)


class Maps:
    """Recalibration of rows by maps that they had no part in."""

    def __init__(
        self, foreign: Foreign, y: Array, recalibrator: str, seed: int
    ) -> None:
        self.foreign = foreign
        known = np.flatnonzero(~np.isnan(y))
        if len(known) < _FEWEST:
            raise InputError(
                f"at least {_FEWEST} rows with a target are needed to recalibrate, got "
                f"{len(known)}. A few hundred are good."
            )
        grid = detect_grid(y[known])
        self.maps = []
        # Rows with equal predictions may be copies of one row, and share a fold.
        labels = linked_rows(foreign.values[known], None)
        count = min(_FOLDS, int(labels.max()) + 1)
        folds = Blocks(labels).folds(count, np.random.default_rng(seed))
        # Rows without a target go by the last map, which all others have taught.
        self.fold = np.full(len(y), count)
        self.fold[known] = folds
        for rows in (*(known[folds != fold] for fold in range(count)), known):
            self.maps.append(
                fit_recorded(
                    fresh_recalibrator(recalibrator),
                    foreign.predictive(rows),
                    torch.from_numpy(y[rows]),
                    grid,
                    torch.Generator().manual_seed(seed),
                )
            )

    def predictive(self, rows: Rows) -> AbstractDistribution:
        """Recalibrated distributions of some rows, batch shape ``(k,)``."""
        plain = self.foreign.predictive(rows)
        folds = np.unique(self.fold[rows])
        members = [self.maps[fold].transform(plain) for fold in folds]
        own = folds[:, None] == self.fold[rows]
        return Mixture(members, torch.from_numpy(own.astype(np.float64)))


def write_fixed(
    writer: TableWriter,
    source: Source,
    data: "pa.Table",
    foreign: Foreign,
    maps: Maps,
) -> None:
    """Write the table with recalibrated columns behind its own."""
    import pyarrow as pa

    with writer as file:
        for start in range(0, data.num_rows, CHUNK):
            part = data.slice(start, CHUNK)
            rows = np.arange(start, start + part.num_rows)
            made = _corrected(foreign, maps.predictive(rows))
            taken = sorted(set(made) & set(data.column_names))
            if taken:
                raise InputError(
                    f"{source.name} must not have columns called as those that are "
                    f"made: {', '.join(taken)}. Rename them."
                )
            columns = {name: part[name].combine_chunks() for name in data.column_names}
            columns |= {name: pa.array(values) for name, values in made.items()}
            file.write(pa.RecordBatch.from_pydict(columns))


def _corrected(foreign: Foreign, predictive: AbstractDistribution) -> dict[str, Array]:
    """Return the recalibrated columns of a chunk of rows, each of shape ``(k,)``."""
    if foreign.levels:
        found = predictive.quantiles(foreign.levels).numpy()
        return {f"{n}_recalibrated": found[:, i] for i, n in enumerate(foreign.names)}
    numbers = OutputOptions((0.5, 0.9), (), ()).numbers(predictive)
    own = dict(zip(("mean", "std"), foreign.names, strict=True))
    return {f"{own.get(n, n)}_recalibrated": values for n, values in numbers.items()}
