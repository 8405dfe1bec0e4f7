"""Groups of rows from one column: quantiles of numbers, or names."""

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.metrics._counts import (
    Floats,
    Integers,
    cells_between,
    check_count,
    quantile_edges,
)

__all__ = ["Grouping", "Key", "group_rows"]

Key = ArrayLike | npt.NDArray[np.object_]
#: A column with no more distinct values makes one group of each.
_FEW = 8
_MISSING = "missing"
#: More names than these (identifiers) make groups too small to say anything.
_MOST_NAMES = 50
_OTHER = "other"


class Grouping(NamedTuple):
    """Code of each row ``(n,)``, and label, low and high of each code."""

    codes: Integers
    labels: tuple[str, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def group_rows(key: Key, *, bins: int, n: int, name: str = "key") -> Grouping:
    """Cut ``n`` rows into groups; see ``calibration_by`` for the rules."""
    check_count(bins, name="bins")
    column = key.detach().cpu().numpy() if isinstance(key, Tensor) else np.asarray(key)
    if column.shape != (n,):
        raise InputError(
            f"{name} must have one value for each of the {n} PIT values, shape ({n},), "
            f"got {column.shape}."
        )
    if column.dtype.kind in "biuf":
        return _group_numbers(column.astype(np.float64), bins)
    if column.dtype.kind == "O":
        return _group_objects(column, bins)
    if column.dtype.kind in "SU":
        return _group_names(column.tolist())
    raise InputError(
        f"{name} must hold numbers or names, got dtype {column.dtype}. Convert dates "
        "to numbers or to the names of periods."
    )


def _group_objects(column: npt.NDArray[np.generic], bins: int) -> Grouping:
    """Numbers where every known value is one, else names."""
    values = [None if _is_missing(value) else value for value in column.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, Real | np.bool_ | Decimal) for value in known):
        numbers = [math.nan if value is None else float(value) for value in values]
        return _group_numbers(np.array(numbers), bins)
    return _group_names(values)


def _is_missing(value: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA from values."""
    equal: object = value == value
    # NaN is not equal to itself; of NA one cannot tell, and it refuses bool().
    return value is None or not isinstance(equal, bool | np.bool_) or not equal


def _group_names(values: Sequence[object]) -> Grouping:
    names = [_MISSING if value is None else str(value) for value in values]
    counts = Counter(names)
    if len(counts) > _MOST_NAMES:
        # By name where equally common, so that the order of rows does not matter.
        common = sorted(counts, key=lambda name: (-counts[name], name))
        kept = set(common[: _MOST_NAMES - 1])
        names = [name if name in kept else _OTHER for name in names]
    labels, codes = np.unique(names, return_inverse=True)
    nothing = (None,) * len(labels)
    return Grouping(codes.astype(np.int64), tuple(labels.tolist()), nothing, nothing)


def _group_numbers(column: Floats, bins: int) -> Grouping:
    missing = np.isnan(column)
    known = column[~missing]
    ordered = np.sort(known)
    edges = _group_edges(ordered, bins)
    # One sort gives the groups' ends too: each is a run of the ordered values.
    cuts = np.searchsorted(ordered, edges, side="right")
    starts = [0, *cuts] if len(known) else []
    ends = [
        (float(ordered[start]), float(ordered[stop - 1]))
        for start, stop in zip(starts, [*cuts, len(known)], strict=False)
    ]
    all_codes = np.full(len(column), len(ends), dtype=np.int64)
    all_codes[~missing] = cells_between(known, edges)
    labels = [f"{a:.6g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in ends]
    low: list[float | None] = [a for a, _ in ends]
    high: list[float | None] = [b for _, b in ends]
    if missing.any():
        low, high, labels = [*low, None], [*high, None], [*labels, _MISSING]
    return Grouping(all_codes, tuple(labels), tuple(low), tuple(high))


def _group_edges(ordered: Floats, bins: int) -> Floats:
    """Largest value of each group but the last, ascending and distinct."""
    last = np.flatnonzero(ordered[1:] > ordered[:-1])
    edges: Floats = ordered[last]
    if len(last) < max(_FEW, bins):
        return edges
    edges = np.unique(quantile_edges(ordered, bins))
    inner: Floats = edges[edges < ordered[-1]]
    return inner
