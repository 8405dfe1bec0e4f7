"""Tables in memory: data frames, arrow tables, and columns by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from calibrant.tables._errors import input_error, one_line, shown
from calibrant.tables._header import checked_names
from calibrant.tables._missing import tidy_typed
from calibrant.tables.style import Style

__all__ = ["FrameReader"]


class FrameReader:
    """A table in memory.

    Parameters
    ----------
    table
        A data frame of pandas or of any library that speaks arrow, an arrow table, or
        a mapping of column names to arrays.
    name
        How messages call it.
    style
        Which cells mean "missing".
    """

    def __init__(self, table: object, name: str, style: Style) -> None:
        names, arrays = _columns(table, name)
        self.columns = checked_names(names, name)
        _check_lengths(self.columns, arrays, name)
        places = [str(place) for place in range(len(arrays))]
        self._table = pa.Table.from_arrays(arrays, places)
        self.rows: int | None = self._table.num_rows
        self.style = style.found(delimiter=None, decimal=".")

    def empty(self, places: Sequence[int]) -> pa.RecordBatch:
        """Return a batch of no rows with the columns at these places."""
        kinds = [self._table.schema.field(place).type for place in places]
        return self._tidy([pa.array([], kind) for kind in kinds], places)

    def parts(
        self, places: Sequence[int], rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches of at most ``rows`` rows, and the share of them so far."""
        count = 0
        for batch in self._table.select(list(places)).to_batches(max_chunksize=rows):
            count += batch.num_rows
            share = count / max(self._table.num_rows, 1)
            yield self._tidy(batch.columns, places), share

    def _tidy(
        self, arrays: Sequence[pa.Array], places: Sequence[int]
    ) -> pa.RecordBatch:
        cells = [tidy_typed(array, self.style) for array in arrays]
        return pa.RecordBatch.from_arrays(cells, [self.columns[p] for p in places])


def _columns(table: object, name: str) -> tuple[list[str], list[pa.Array]]:
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return list(table.schema.names), list(table.columns)
    if isinstance(table, Mapping):
        names = list(map(str, table))
        return names, [
            _array(v, n, name) for n, v in zip(names, table.values(), strict=True)
        ]
    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(
        table, "columns"
    ):
        return _pandas(table, name)
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return _columns(pa.table(table), name)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise input_error(f"{name} is no table: {one_line(error)}.") from error
    raise input_error(
        "a table must be the path of a file, a data frame, an arrow table or a mapping "
        f"of column names to arrays, got {type(table).__name__}."
    )


def _pandas(
    frame: Any,  # noqa: ANN401  (pandas need not be installed)
    name: str,
) -> tuple[list[str], list[pa.Array]]:
    names = [str(column) for column in frame.columns]
    series = [frame.iloc[:, place] for place in range(len(names))]
    return names, [_array(v, n, name) for n, v in zip(names, series, strict=True)]


def _array(values: object, column: str, name: str) -> pa.Array:
    """Return one column as arrow; one of mixed types as text, as a file would hold."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping):
        raise _no_column(values, column, name)
    is_series = hasattr(values, "iloc")
    plain: Any = values
    if not is_series and not isinstance(values, list):
        plain = np.asarray(values)
    if getattr(plain, "ndim", 1) != 1:
        raise _no_column(plain, column, name)
    try:
        return pa.array(plain, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        cells = [None if _is_nothing(value) else str(value) for value in plain]
        return pa.array(cells, pa.string())


def _is_nothing(value: object) -> bool:
    """Tell None, NaN, NaT and NA from values, without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _no_column(values: object, column: str, name: str) -> Exception:
    shape = getattr(values, "shape", None)
    what = f"an array of shape {tuple(shape)}" if shape else type(values).__name__
    return input_error(
        f"{name}, column {shown(column)}: a column must be a list or an array of one "
        f"dimension, got {what}."
    )


def _check_lengths(names: Sequence[str], arrays: Sequence[pa.Array], name: str) -> None:
    for column, array in zip(names, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise input_error(
                f"{name}: columns must have the same length, and {shown(names[0])} has "
                f"{len(arrays[0]):,} rows and {shown(column)} {len(array):,}."
            )
