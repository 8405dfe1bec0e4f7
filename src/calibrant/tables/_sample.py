"""A column of the training rows while its kind is found out."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._cells import Parsed, as_text, cell_text
from calibrant.tables._errors import shortened, shown
from calibrant.tables._missing import tokens_of
from calibrant.tables._words import amount, percent
from calibrant.tables.column import Column, Rule
from calibrant.tables.style import Style

__all__ = ["Sample", "median"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The cells, and what else is needed to learn from them.

    Parameters
    ----------
    name
        Of the column.
    cells
        A plain array of shape ``(n,)``.
    style
        How its text is written.
    rows
        The rows' numbers in the file, shape ``(n,)``; None counts from 1.
    """

    name: str
    cells: pa.Array
    style: Style
    rows: npt.NDArray[np.int64] | None = None

    def row(self, place: int) -> int:
        """Return the number in the file of a place in the cells."""
        return place + 1 if self.rows is None else int(self.rows[place])

    @cached_property
    def _counts(self) -> pa.Table:
        """How often each text occurs; missing ones left out."""
        found = pc.value_counts(as_text(self.cells))
        texts, counts = found.field("values"), found.field("counts")
        tokens = pa.array(tokens_of(self.style), texts.type)
        absent = pc.is_in(pc.utf8_lower(texts), value_set=tokens)
        keep = pc.and_not(pc.is_valid(texts), absent)
        return pa.table({"text": texts.filter(keep), "count": counts.filter(keep)})

    @property
    def different(self) -> int:
        """How many different texts there are."""
        return int(self._counts.num_rows)

    @property
    def given(self) -> int:
        """How many cells are not missing."""
        return int(pc.sum(self._counts["count"]).as_py() or 0)

    def common(self, most: int) -> dict[str, int]:
        """Return how often the most common texts occur, the first of them first."""
        keys = [("count", "descending"), ("text", "ascending")]
        places = pc.select_k_unstable(self._counts, k=most, sort_keys=keys)
        found = self._counts.take(places)
        return dict(zip(*(each.to_pylist() for each in found.columns), strict=True))

    def left_out(self, kind: str, reason: str) -> Column:
        """Return a column that is not used."""
        missing = len(self.cells) - self.given if kind != "unsupported" else 0
        done = f"left out: {reason}"
        return Column(name=self.name, kind=kind, done=done, missing=missing)

    def column(self, kind: str, parsed: Parsed, *, done: str, rule: Rule) -> Column:
        """Return a column that is used, with what was missing or bad in it."""
        bad = parsed.bad_count
        place = 0 if parsed.bad is None else int(np.argmax(parsed.bad))
        return Column(
            name=self.name,
            kind=kind,
            done=done,
            missing=len(parsed.values) - parsed.good_count - bad,
            bad=bad,
            bad_row=self.row(place) if bad else None,
            bad_cell=shortened(cell_text(self.cells, place)) if bad else None,
            rule=rule,
        )

    def gaps(self, parsed: Parsed, fill: str) -> str:
        """Say what was done with missing and bad cells, nothing if there are none."""
        bad, total = parsed.bad_count, len(parsed.values)
        missing = total - parsed.good_count - bad
        parts = []
        if parsed.bad is not None:
            place = int(np.argmax(parsed.bad))
            cell = shown(cell_text(self.cells, place))
            first = f"{percent(bad, bad + parsed.good_count)}, first {cell}"
            parts.append(
                f"{amount(bad, 'bad cell')} ({first} in row {self.row(place):,})"
            )
        if missing:
            parts.append(f"{missing:,} missing")
        if not parts:
            return ""
        return f"; {' and '.join(parts)} filled with {fill} and flagged"


def median(values: npt.NDArray[np.float64]) -> float:
    """Return the median without gaps, also where a sum of two would be infinite."""
    ordered = np.sort(values[~np.isnan(values)])
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(low / 2 + high / 2) if low != high else float(low)
