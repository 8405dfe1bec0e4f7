"""Columns of whatever type as plain arrays of a few families, and as text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._missing import tokens_of
from calibrant.tables.style import Style

__all__ = [
    "BoolArray",
    "FloatArray",
    "Parsed",
    "as_text",
    "cell_text",
    "failed_cells",
    "family",
    "plain",
    "to_numpy",
    "try_cast",
    "whole",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

LARGE = 2**30
"""Bytes of text above which offsets of 32 bits may not do."""


PROBE = 256


@dataclass(frozen=True)
class Parsed:
    """What the cells of a column mean.

    Parameters
    ----------
    values
        Shape ``(n,)``; NaN where a cell is missing or bad.
    bad
        Shape ``(n,)``: cells that are there but do not fit; None if all do.
    """

    values: FloatArray
    bad: BoolArray | None

    @property
    def bad_count(self) -> int:
        """How many cells do not fit."""
        return 0 if self.bad is None else int(self.bad.sum())

    @property
    def good_count(self) -> int:
        """How many cells have a value."""
        return int(len(self.values) - np.isnan(self.values).sum())


def plain(array: pa.Array) -> pa.Array:
    """Undo encodings (dictionary, run ends, views, extensions) of an array."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif pa.types.is_string_view(kind):
            array = pc.cast(array, pa.large_string())
        else:
            return array


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array or its chunks as one plain array."""
    if not isinstance(column, pa.ChunkedArray):
        return plain(column)
    chunks = [plain(chunk) for chunk in column.chunks]
    if not chunks:
        return plain(pa.array([], column.type))
    if pa.types.is_string(chunks[0].type) and column.nbytes > LARGE:
        chunks = [pc.cast(chunk, pa.large_string()) for chunk in chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def family(kind: pa.DataType) -> str:
    """Return text, number, boolean, date, null or other for a plain arrow type."""
    types = pa.types
    tests = {
        "text": (types.is_string, types.is_large_string),
        "number": (
            *(types.is_integer, types.is_floating, types.is_decimal),
            *(types.is_duration, types.is_time),
        ),
        "boolean": (types.is_boolean,),
        "date": (types.is_timestamp, types.is_date),
        "null": (types.is_null,),
    }
    for name, is_kind in tests.items():
        if any(test(kind) for test in is_kind):
            return name
    return "other"


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Return an arrow array as numpy; nulls of floats become NaN."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def try_cast(text: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return text cast to a type, None if a cell cannot be.

    The first cells are tried alone, because a cast goes on after a failure and each
    cell that fails costs a hundred times one that does not.
    """
    try:
        pc.cast(text.slice(0, PROBE), kind)
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None


def as_text(cells: pa.Array) -> pa.Array:
    """Return the text form: no outer spaces, whole numbers without a point."""
    kind = cells.type
    if family(kind) == "text":
        return pc.utf8_trim_whitespace(cells)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _float_text(cells)
    if pa.types.is_duration(kind):
        cells = pc.cast(cells, pa.int64())
    return pc.cast(cells, pa.string())


def _float_text(cells: pa.Array) -> pa.Array:
    if pa.types.is_decimal(cells.type) or pa.types.is_float16(cells.type):
        cells = pc.cast(cells, pa.float64(), safe=False)
    numbers = to_numpy(cells)
    integral = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**62)
    integers = pa.array(np.where(integral, numbers, 0).astype(np.int64))
    mask = pa.array(integral)
    text = pc.if_else(mask, pc.cast(integers, pa.string()), pc.cast(cells, pa.string()))
    return pc.if_else(pa.array(np.isnan(numbers)), pa.scalar(None, pa.string()), text)


def cell_text(cells: pa.Array, place: int) -> str:
    """Return one cell as its text form."""
    return str(as_text(cells.slice(place, 1))[0].as_py())


def failed_cells(text: pa.Array, failed: BoolArray, style: Style) -> BoolArray | None:
    """Return which of the cells without a value are bad, and not just missing."""
    places = np.flatnonzero(failed)
    if not places.size:
        return None
    taken = pc.utf8_lower(pc.utf8_trim_whitespace(text.take(pa.array(places))))
    tokens = pa.array(tokens_of(style), taken.type)
    absent = pc.or_(pc.is_null(taken), pc.is_in(taken, value_set=tokens))
    places = places[~to_numpy(absent)]
    if not places.size:
        return None
    bad = np.zeros(len(failed), dtype=np.bool_)
    bad[places] = True
    return bad
