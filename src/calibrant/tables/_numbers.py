"""Cells as numbers: text with points, commas and groups of digits, or typed ones."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._cells import (
    BoolArray,
    FloatArray,
    Parsed,
    as_text,
    failed_cells,
    family,
    to_numpy,
    try_cast,
)
from calibrant.tables.style import Style

__all__ = ["parse_numbers"]

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Programs write several characters for the same mark.
GROUPS = {" ": "[ \u00a0\u202f]", "'": "['\u2019]"}
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def parse_numbers(cells: pa.Array, style: Style) -> Parsed:
    """Return the cells of a plain array as numbers; infinite ones are bad."""
    kind = family(cells.type)
    if kind in ("number", "boolean"):
        text, values = cells, _typed(cells)
    else:
        text = as_text(cells)
        values = _from_text(text, style)
    bad = None
    finite = np.isfinite(values)
    if not finite.all():
        bad = _bad(text, values, finite, style)
        values = np.where(finite, values, np.nan)
    values = _without_tokens(values, style, cells.type)
    return Parsed(values + 0.0, bad)  # + 0.0 makes -0.0 a 0.0


def _bad(
    text: pa.Array, values: FloatArray, finite: BoolArray, style: Style
) -> BoolArray | None:
    if family(text.type) == "text":
        return failed_cells(text, ~finite, style)
    infinite = np.isinf(values)
    return infinite if infinite.any() else None


def _typed(cells: pa.Array) -> FloatArray:
    kind = cells.type
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        # The base of an integer of the same width, in units per second.
        width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        values = to_numpy(pc.cast(cells.cast(width), pa.float64(), safe=False))
        return np.asarray(values / UNITS[kind.unit], dtype=np.float64)
    values = to_numpy(pc.cast(cells, pa.float64(), safe=False))
    return np.asarray(values, dtype=np.float64)


def _from_text(text: pa.Array, style: Style) -> FloatArray:
    """Read all cells at once, and only if one fails look for which."""
    text = _with_points(text, style)
    numbers = try_cast(text, pa.float64())
    if numbers is None:
        nothing = pa.scalar(None, text.type)
        good = pc.match_substring_regex(text, NUMBER)
        numbers = pc.cast(pc.if_else(good, text, nothing), pa.float64())
    return np.asarray(to_numpy(numbers), dtype=np.float64)


def _with_points(text: pa.Array, style: Style) -> pa.Array:
    """Remove groups and make decimal commas points; null where this cannot be."""
    if style.thousands:
        text = _without_groups(text, style.thousands, style.decimal or ".")
    if style.decimal == ",":
        # 1.5 where commas are expected would be a guess.
        pointed = pc.match_substring(text, ".")
        if pc.any(pointed).as_py():
            text = pc.if_else(pointed, pa.scalar(None, text.type), text)
        text = _commas_to_points(text)
    return text


def _without_groups(text: pa.Array, mark: str, decimal: str) -> pa.Array:
    marks = GROUPS.get(mark, re.escape(mark))
    grouped = pc.match_substring_regex(text, marks)
    if not pc.any(grouped).as_py():
        return text
    # 1,5 is not 15: only groups of three digits (or two, in India) count.
    form = (
        rf"^[+-]?\d{{1,3}}({marks}\d{{2,3}})*{marks}\d{{3}}({re.escape(decimal)}\d*)?$"
    )
    joined = pc.replace_substring_regex(text, marks, "")
    joined = pc.if_else(
        pc.match_substring_regex(text, form), joined, pa.scalar(None, text.type)
    )
    return pc.if_else(grouped, joined, text)


def _commas_to_points(text: pa.Array) -> pa.Array:
    """Replace bytes in place of the text, 20 times faster than cell by cell."""
    text = pa.concat_arrays([text, text.slice(0, 0)])  # own buffers from offset 0
    validity, offsets, content = text.buffers()
    changed = bytes(content or b"").translate(bytes.maketrans(b",", b"."))
    return pa.Array.from_buffers(
        text.type, len(text), [validity, offsets, pa.py_buffer(changed)]
    )


def _without_tokens(values: FloatArray, style: Style, kind: pa.DataType) -> FloatArray:
    """Make numbers that mean "missing", such as -999, missing."""
    for token in style.missing:
        number = _from_text(pa.array([token.strip()]), style)[0]
        if pa.types.is_floating(kind):
            with np.errstate(over="ignore"):  # -99999 is none of the half floats
                number = np.float64(np.dtype(kind.to_pandas_dtype()).type(number))
        equal = values == number
        if equal.any():
            values = np.where(equal, np.nan, values)
    return values
