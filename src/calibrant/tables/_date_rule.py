"""How a column of dates enters the matrix."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from calibrant.tables._calendar import PARTS, POSITION, part_values
from calibrant.tables._cells import FloatArray
from calibrant.tables._dates import parse_dates
from calibrant.tables._description import Description, damaged
from calibrant.tables._reading import Filling, Reading
from calibrant.tables._words import moment

__all__ = ["DateRule"]

FURTHEST = 3e11
"""Seconds from 1970 to beyond the years that are read."""


@dataclass(frozen=True, kw_only=True)
class DateRule:
    """The position in days, waves of month, weekday and hour, and what was missing.

    Parameters
    ----------
    low, high
        The range in training, in seconds since 1970.
    fill
        What a missing value becomes: the median of training.
    flag
        Whether a 0/1 column says which values are missing.
    parts
        The features, from :data:`PARTS` and in its order.
    day_first
        How 3/4/2020 is read.
    """

    low: float
    high: float
    fill: float
    flag: bool
    parts: tuple[str, ...]
    day_first: bool

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return (*(f"{name}: {part}" for part in self.parts), *flags)

    def encode(
        self, name: str, cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        dates = parse_dates(cells, reading.style, order=self.day_first)
        values, absent = reading.filled(
            name,
            dates.parsed,
            cells=cells,
            filling=Filling(
                noun="date",
                value=self.fill,
                said=f"the median {moment(self.fill)}",
                known=self.flag,
            ),
        )
        if POSITION in self.parts:
            limits = (self.low, self.high)
            detail = f"{moment(self.low)} to {moment(self.high)}"
            reading.mark_outside(
                name, values, cells=cells, limits=limits, detail=detail
            )
        for place, part in enumerate(self.parts):
            out[:, place] = part_values(part, values, first=self.low)
        if self.flag:
            out[:, -1] = absent

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON."""
        return {**asdict(self), "parts": list(self.parts)}

    @classmethod
    def from_dict(cls, content: Description) -> "DateRule":
        """Check a stranger's description and return what it says."""
        rule = cls(
            low=content.number("low", most=FURTHEST),
            high=content.number("high", most=FURTHEST),
            fill=content.number("fill", most=FURTHEST),
            flag=content.truth("flag"),
            parts=content.texts("parts", most=len(PARTS)),
            day_first=content.truth("day_first"),
        )
        ordered = tuple(part for part in PARTS if part in rule.parts)
        if not rule.low <= rule.high or ordered != rule.parts:
            raise damaged(f"the range or the parts of {content.where}")
        if not (rule.parts or rule.flag):
            raise damaged(f"{content.where} gives no columns")
        return rule
