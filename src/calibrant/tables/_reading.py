"""One batch on its way into the matrix: where it is from, and what is unusual."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from calibrant.tables._cells import BoolArray, FloatArray, Parsed, cell_text
from calibrant.tables._errors import input_error, shown
from calibrant.tables._hints import number_hint
from calibrant.tables.findings import Findings, Found
from calibrant.tables.style import Style

__all__ = ["Filling", "Reading"]

FEW = 5
"""Bad cells that it takes to call a whole column of a batch bad."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """What stands in for cells that are missing or bad.

    Parameters
    ----------
    noun
        What a cell should be.
    value
        What it becomes.
    said
        The same in words.
    known
        Whether training had such cells, and the matrix has a flag for them.
    """

    noun: str
    value: float
    said: str
    known: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The batch, and one column of it at a time.

    Parameters
    ----------
    name, first_row, style
        Of the file; the number of the batch's first row; how its text is written.
    strict
        Whether a bad cell is an error.
    findings
        Where unusual things are written down; None forgets them.
    outside
        Shape ``(n,)``: rows outside the range of training, marked by each column.
    used
        Shape ``(n,)``: rows whose unusual things are written down; None for all.
    any_range
        Whether values outside of it are nothing unusual.
    """

    name: str
    first_row: int
    style: Style
    strict: bool
    findings: Findings | None
    outside: BoolArray
    used: BoolArray | None = None
    any_range: bool = False

    def note(
        self, what: str, column: str, mask: BoolArray, *, cells: pa.Array, detail: str
    ) -> None:
        """Write down that the masked rows of a column are unusual."""
        mask = mask if self.used is None else mask & self.used
        if self.findings is None or not mask.any():
            return
        place = int(np.argmax(mask))
        found = Found(
            what=what,
            column=column,
            name=self.name,
            count=int(mask.sum()),
            row=self.first_row + place,
            cell="" if what == "missing" else _short(cell_text(cells, place)),
            detail=detail,
        )
        self.findings.add(found)

    def filled(
        self, column: str, parsed: Parsed, *, cells: pa.Array, filling: Filling
    ) -> tuple[FloatArray, BoolArray]:
        """Return values without gaps, and where the gaps were."""
        if parsed.bad is not None:
            self._refuse_bad(column, parsed, cells=cells, noun=filling.noun)
            self.note("bad", column, parsed.bad, cells=cells, detail=filling.noun)
        absent = np.isnan(parsed.values)
        if not absent.any():
            return parsed.values, absent
        gone = absent if parsed.bad is None else absent & ~parsed.bad
        if not filling.known and gone.any():
            detail = f"filled with {filling.said}"
            self.note("missing", column, gone, cells=cells, detail=detail)
        return np.where(absent, filling.value, parsed.values), absent

    def mark_outside(
        self,
        column: str,
        values: FloatArray,
        *,
        cells: pa.Array,
        limits: tuple[float, float],
        detail: str,
    ) -> None:
        """Write down which values (without gaps) lie outside what training saw."""
        low, high = limits
        mask = (values < low) | (values > high)
        if mask.any() and not self.any_range:
            np.logical_or(self.outside, mask, out=self.outside)
            self.note("outside", column, mask, cells=cells, detail=detail)

    def _refuse_bad(
        self, column: str, parsed: Parsed, *, cells: pa.Array, noun: str
    ) -> None:
        bad = parsed.bad_count
        given = bad + parsed.good_count
        small = self.first_row == 1 and len(cells) < FEW and bad == given
        most = (bad >= FEW and 2 * bad > given) or small
        if not (self.strict or most) or parsed.bad is None:
            return
        place = int(np.argmax(parsed.bad))
        cell = cell_text(cells, place)
        share = f" ({bad:,} of {given:,} cells are no {noun}s)" if most else ""
        hint = number_hint([cell], self.style) if noun == "number" else ""
        raise input_error(
            f"{self.name}, row {self.first_row + place:,}, column {shown(column)}: a "
            f"{noun} was expected, got {shown(cell)}{share}. "
            f"{hint or 'Correct the file, or leave the cell empty if it is unknown.'}"
        )


def _short(cell: str) -> str:
    return cell if len(cell) <= 80 else cell[:79] + "…"
