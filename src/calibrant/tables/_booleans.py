"""Cells as 0 and 1: yes and no, true and false, on and off."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._cells import (
    Parsed,
    as_text,
    failed_cells,
    family,
    to_numpy,
)
from calibrant.tables.style import Style

__all__ = ["parse_booleans"]

WORDS = {
    **dict.fromkeys(("true", "yes", "t", "y", "on"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n", "off"), 0.0),
}
# Typed columns of other programs; a column of 0 and 1 alone is one of numbers.
DIGITS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def parse_booleans(cells: pa.Array, style: Style, *, digits: bool) -> Parsed:
    """Return the cells of a plain array as 0 and 1; ``digits`` count if so asked."""
    if family(cells.type) == "boolean":
        values = to_numpy(pc.cast(cells, pa.float64()))
        return Parsed(np.asarray(values, dtype=np.float64), None)
    text = as_text(cells)
    words = {**WORDS, **DIGITS} if digits else WORDS
    keys = pa.array(list(words), text.type)
    found = pc.index_in(pc.utf8_lower(text), value_set=keys)
    table = np.array([*words.values(), np.nan])
    values = table[to_numpy(pc.fill_null(found, len(words)))]
    return Parsed(values, failed_cells(text, np.isnan(values), style))
