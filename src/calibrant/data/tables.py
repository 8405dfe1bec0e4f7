"""A table of numbers as features and target."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.data._errors import input_error
from calibrant.data.dataset import DataSet

if TYPE_CHECKING:
    from calibrant.tables import Source

__all__ = ["read_table"]

FloatArray = npt.NDArray[np.float64]


def read_table(
    path: Path, *, target: str | None = None, name: str | None = None
) -> DataSet:
    """Read a table with a header, and nothing but finite numbers below it.

    Parameters
    ----------
    path
        Of a CSV or Parquet file, as :func:`calibrant.tables.open_source` takes it.
    target
        Name of the target's column; None takes the last one.
    name
        What the data set is called; None takes the path.
    """
    from calibrant.tables import open_source, require_rows

    source = open_source(path)
    columns = source.columns
    if len(columns) < 2:
        raise input_error(
            f"{path} must have at least two columns, features and a target, got one: "
            f"{columns[0]!r:.60}."
        )
    place = columns[-1] if target is None else target
    source.check_columns([place])
    data = source.read()
    require_rows(data, name=source.name)
    table = {each: _numbers(source, data[each], each) for each in columns}
    features = tuple(each for each in columns if each != place)
    return DataSet(
        name=str(path) if name is None else name,
        title=Path(path.name.removesuffix(".gz")).stem,
        x=np.stack([table[each] for each in features], axis=1),
        y=table[place],
        features=features,
        target=place,
        description=f"Your own data, from {path}.",
        license="not stated",
        citation="",
        source=str(path),
    )


def _numbers(source: "Source", cells: Any, column: str) -> FloatArray:  # noqa: ANN401
    """Return a column of pyarrow as finite numbers, shape ``(n,)``."""
    from calibrant.tables import read_target

    values: FloatArray = read_target(
        cells, target=column, name=source.name, style=source.style, what="value"
    )
    gaps = np.isnan(values)
    if gaps.any():
        raise input_error(
            f"{source.name}, row {int(gaps.argmax()) + 1:,}, column {column!r:.60}: a "
            "value is missing. Drop the row or fill it in."
        )
    return values.copy()
