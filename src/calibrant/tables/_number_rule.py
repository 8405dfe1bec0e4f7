"""How a column of numbers enters the matrix."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from calibrant.tables._cells import FloatArray
from calibrant.tables._description import Description, damaged
from calibrant.tables._numbers import parse_numbers
from calibrant.tables._reading import Filling, Reading
from calibrant.tables._words import written

__all__ = ["NumberRule"]


@dataclass(frozen=True, kw_only=True)
class NumberRule:
    """The value, and whether it was missing.

    Parameters
    ----------
    low, high
        The range in training.
    fill
        What a missing value becomes: the median of training.
    flag
        Whether a 0/1 column says which values are missing.
    value
        Whether the value itself is a column; not if training saw only one.
    """

    low: float
    high: float
    fill: float
    flag: bool
    value: bool = True

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return ((name,) if self.value else ()) + flags

    def encode(
        self, name: str, cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        values, absent = reading.filled(
            name,
            parse_numbers(cells, reading.style),
            cells=cells,
            filling=Filling(
                noun="number",
                value=self.fill,
                said=f"the median {written(self.fill)}",
                known=self.flag,
            ),
        )
        limits = (self.low, self.high)
        detail = f"{written(self.low)} to {written(self.high)}"
        reading.mark_outside(name, values, cells=cells, limits=limits, detail=detail)
        if self.value:
            out[:, 0] = values
        if self.flag:
            out[:, -1] = absent

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Description) -> "NumberRule":
        """Check a stranger's description and return what it says."""
        rule = cls(
            low=content.number("low"),
            high=content.number("high"),
            fill=content.number("fill"),
            flag=content.truth("flag"),
            value=content.truth("value"),
        )
        if not rule.low <= rule.high or not (rule.flag or rule.value):
            raise damaged(f"the range or the columns of {content.where}")
        return rule
