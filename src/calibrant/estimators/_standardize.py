"""Center, scale and reach of columns, read in blocks: no second copy of the table."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "center_and_scale", "feature_limits", "usual_range"]

Array = npt.NDArray[np.float64]

#: Rows that are looked at at once.
BLOCK = 65_536
# Fewer values cannot tell what is usual.
_FEWEST = 50
# Values beyond any reason are at most this share, or this one if all are one code.
_MOST, _MOST_CODES = 1 / 200, 1 / 10
# The gap before them, in distances of the farthest other value; for a code as -9999;
# and on a logarithmic scale, which spares heavy tails.
_GAP, _GAP_CODE, _LOG_GAP = 100, 10, 2.5


def center_and_scale(
    values: npt.NDArray[np.floating[Any]],
    rows: npt.NDArray[np.int64] | None = None,
    limits: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, 1 for a column that is constant.

    Parameters
    ----------
    values
        Shape ``(n, d)``, finite and of any size; computed with in float64.
    rows
        Numbers of the rows that count; all of them if left out.
    limits
        Least and largest value of each column, to which the others are clipped.

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
            block = chosen.astype(np.float64, copy=False)
            yield block if limits is None else block.clip(*limits)

    largest = np.max([np.abs(block).max(0) for block in blocks()], axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of 1e200 are not finite
    center = sum((block / unit).sum(0) for block in blocks()) / count
    # Near 0; what rounding has left of it must not count as spread.
    rest = sum((block / unit - center).sum(0) for block in blocks()) / count
    squares = (np.square(block / unit - center - rest).sum(0) for block in blocks())
    scale = np.sqrt(sum(squares) / count)
    varies = scale > 8 * np.finfo(float).eps
    return center * unit, np.where(varies, scale * unit, 1.0)


def feature_limits(values: Array) -> tuple[Array, Array]:
    """Least and largest value of each column that a network is shown.

    They are the usual range of the column, and as much again on both sides: a wild
    cell must not decide the scale, nor a wild new row its prediction. Without wild
    cells no row that was learned from is touched.

    Parameters
    ----------
    values
        Shape ``(n, d)``, finite.

    Examples
    --------
    >>> x = np.linspace(0, 1, 101)[:, None]
    >>> x[7] = 1e12
    >>> feature_limits(x)
    (array([-1.]), array([2.]))
    """
    low, high = values.min(0), values.max(0)
    # Most columns have no tail worth sorting them for.
    sample = values[:: max(1, len(values) // 10_000)]
    most = float(np.finfo(np.float64).max)
    with np.errstate(over="ignore", invalid="ignore"):
        inner = np.quantile(sample, [0.1, 0.9], axis=0)
        for column in np.flatnonzero(high - low > 8 * (inner[1] - inner[0])):
            low[column], high[column] = usual_range(values[:, column])
        width = high - low
        return (low - width).clip(-most, most), (high + width).clip(-most, most)


def usual_range(values: Array) -> tuple[float, float]:
    r"""Return the least and largest of the values ``(n,)`` that are within reason.

    Beyond any reason are a few values that a huge gap parts from all others:
    :math:`10^{12}` among numbers of order 1, or a code for missing as -9999. With d the
    distance to the median, and largest d of the others D, the gap is 100 D or more, and
    2.5 Z or more in :math:`z = \operatorname{arsinh}(d / \text{median } d)`, whose
    largest value Z of the others heavy tails make large. For a number of nines alone a
    gap of 10 D is enough.

    Examples
    --------
    >>> usual_range(np.append(np.linspace(20, 80, 100), [-9999.0, 1e12]))
    (20.0, 80.0)
    """
    # Halves, because the difference of two numbers of 1e308 is none.
    middle = np.partition(values, len(values) // 2)[len(values) // 2] / 2
    distances = np.abs(values / 2 - middle)
    order = np.argsort(distances)
    usual, distances = values[order], distances[order]
    with np.errstate(over="ignore"):
        while cut := _wild(usual, distances):
            usual, distances = usual[:-cut], distances[:-cut]
    return float(usual.min()), float(usual.max())


def _wild(values: Array, distances: Array) -> int:
    """Count the last values that are beyond any reason; both ``(n,)`` by distance."""
    count = len(values)
    if count < _FEWEST:
        return 0
    most = int(_MOST_CODES * count)
    far = distances[-most - 1 :]
    gaps = np.diff(far)
    for place in np.flatnonzero(gaps > _GAP_CODE * far[:-1]):
        wild = most - int(place)
        same = far[place] > 0 and bool((values[-wild:] == values[-1]).all())
        if same and _is_code(values[-1]):
            return wild
        few = wild <= max(1, _MOST * count)
        if few and gaps[place] > _GAP * far[place] and _alone(distances, wild):
            return wild
    return 0


def _is_code(value: float) -> bool:
    """Whether a number is written in nines alone, as -999 or 99.9."""
    digits = f"{abs(value):.15g}".replace(".", "")
    return len(digits) > 1 and set(digits) == {"9"}


def _alone(distances: Array, wild: int) -> bool:
    rest = distances[:-wild][distances[:-wild] > 0]
    if len(rest) < _FEWEST:
        return False
    last, first = np.arcsinh(distances[[-wild - 1, -wild]] / np.median(rest))
    return bool(first - last > _LOG_GAP * last)
