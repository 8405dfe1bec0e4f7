"""How a column of yes and no enters the matrix."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from calibrant.tables._booleans import parse_booleans
from calibrant.tables._cells import FloatArray
from calibrant.tables._description import Description, damaged
from calibrant.tables._reading import Filling, Reading

__all__ = ["BooleanRule"]


@dataclass(frozen=True, kw_only=True)
class BooleanRule:
    """A column of 0 and 1, and whether it was missing.

    Parameters
    ----------
    fill
        What a missing value becomes: the more common one in training.
    flag
        Whether a 0/1 column says which values are missing.
    value
        Whether the value itself is a column; not if training saw only one.
    """

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
            parse_booleans(cells, reading.style, digits=True),
            cells=cells,
            filling=Filling(
                noun="yes-or-no value",
                value=self.fill,
                said=f"the more common {'yes' if self.fill else 'no'}",
                known=self.flag,
            ),
        )
        if self.value:
            out[:, 0] = values
        if self.flag:
            out[:, -1] = absent

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Description) -> "BooleanRule":
        """Check a stranger's description and return what it says."""
        rule = cls(
            fill=content.number("fill"),
            flag=content.truth("flag"),
            value=content.truth("value"),
        )
        if rule.fill not in (0.0, 1.0) or not (rule.flag or rule.value):
            raise damaged(f"the filling or the columns of {content.where}")
        return rule
