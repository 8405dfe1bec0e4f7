"""Predictions of any model, as the columns of a table hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.tables import Source, read_target
from calibrant.tables.wording import amount

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Foreign", "read_predictions"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Foreign:
    """Predicted laws of the rows of a table.

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

    def law(self, rows: Rows) -> AbstractDistribution:
        """Laws of some rows, batch shape ``(k,)``."""
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
            "say where the predictions are: columns of mean and std, or two or more "
            "columns of quantiles with their levels."
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
            f"{values[row]:g} ({amount(int(bad.sum()), 'such row')}). Mend it."
        )
