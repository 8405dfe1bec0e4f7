"""Center and scale of columns, read in blocks of rows: no second copy of the table."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "center_and_scale"]

Array = npt.NDArray[np.float64]

#: Rows that are looked at at once.
BLOCK = 65_536


def center_and_scale(
    values: npt.NDArray[np.floating[Any]], rows: npt.NDArray[np.int64] | None = None
) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, 1 for a column that is constant.

    Parameters
    ----------
    values
        Shape ``(n, d)``, finite and of any size; computed with in float64.
    rows
        Numbers of the rows that count; all of them if left out.

    Examples
    --------
    >>> center, scale = center_and_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> center.tolist(), scale.tolist()
    ([2.0, 5.0], [1.0, 1.0])
    """
    count = len(values) if rows is None else len(rows)

    def blocks() -> Iterator[Array]:
        for start in range(0, count, BLOCK):
            part = slice(start, start + BLOCK)
            chosen = values[part] if rows is None else values[rows[part]]
            yield chosen.astype(np.float64, copy=False)

    largest = np.max([np.abs(block).max(0) for block in blocks()], axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of 1e200 are not finite
    center = sum((block / unit).sum(0) for block in blocks()) / count
    # Near 0; what rounding has left of it must not count as spread.
    rest = sum((block / unit - center).sum(0) for block in blocks()) / count
    squares = (np.square(block / unit - center - rest).sum(0) for block in blocks())
    scale = np.sqrt(sum(squares) / count)
    varies = scale > 8 * np.finfo(float).eps
    return center * unit, np.where(varies, scale * unit, 1.0)
