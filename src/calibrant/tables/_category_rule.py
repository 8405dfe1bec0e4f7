"""How a column of categories enters the matrix."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables._cells import FloatArray, as_text, to_numpy
from calibrant.tables._description import Description, damaged
from calibrant.tables._errors import shown
from calibrant.tables._missing import tokens_of
from calibrant.tables._reading import Reading

__all__ = ["MOST_LEVELS", "MOST_RARE", "CategoryRule"]

MOST_LEVELS = 200
MOST_RARE = 1_000
"""Rare levels that are remembered, so that they are not called unknown."""

UNKNOWN, NOTHING = -2, -1
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class CategoryRule:
    """One column of 0 and 1 for each level; one in all if there are two.

    Parameters
    ----------
    levels
        The texts that have a column each, the most common first.
    rare
        Texts that training saw too seldom; they count as "other".
    other
        Whether "other" has a column: unknown levels go there, too.
    missing
        Whether missing cells have a column.
    """

    levels: tuple[str, ...]
    rare: tuple[str, ...]
    other: bool
    missing: bool

    @property
    def _slots(self) -> int:
        return len(self.levels) + self.other + self.missing

    @property
    def _skipped(self) -> int:
        # Of two columns the first one says nothing that the second does not.
        return 1 if self._slots == 2 else 0

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        names = [f"{name} = {level}" for level in self.levels]
        names += [f"{name} is other"] * self.other + [
            f"{name} is missing"
        ] * self.missing
        return tuple(names[self._skipped :])

    def encode(
        self, name: str, cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        encoded = as_text(cells).dictionary_encode()
        codes = self._codes(encoded.dictionary, reading)
        places = to_numpy(pc.fill_null(encoded.indices, len(codes) - 1))
        rows = codes[places]
        if rows.size and rows.min() < 0:
            rows = self._without_surprises(name, cells, reading, rows)
        out[:] = 0.0
        marked = np.flatnonzero(rows >= self._skipped)
        out[marked, rows[marked] - self._skipped] = 1.0

    def _codes(self, keys: pa.Array, reading: Reading) -> Codes:
        """Return the slot of every different text, and at the end of a null."""
        codes = np.full(len(keys) + 1, UNKNOWN)
        forms = (keys, _canonical(keys))
        for form, of in ((forms[0], self.levels), (forms[1], _plain(self.levels))):
            found = to_numpy(pc.fill_null(_index(form, of), UNKNOWN))
            codes[:-1] = np.where(codes[:-1] == UNKNOWN, found, codes[:-1])
        rare = to_numpy(pc.is_valid(_index(forms[1], _plain(self.rare))))
        codes[:-1][rare & (codes[:-1] == UNKNOWN)] = len(self.levels)
        tokens = tokens_of(reading.style)
        absent = to_numpy(pc.is_valid(_index(pc.utf8_lower(keys), tokens)))
        codes[:-1][absent] = NOTHING
        codes[-1] = NOTHING
        return codes

    def _without_surprises(
        self, name: str, cells: pa.Array, reading: Reading, rows: Codes
    ) -> Codes:
        unknown, nothing = rows == UNKNOWN, rows == NOTHING
        detail = f"taken as {self._refuge()}"
        if unknown.any():
            reading.note("unknown", name, unknown, cells=cells, detail=detail)
        if nothing.any() and not self.missing:
            reading.note("missing", name, nothing, cells=cells, detail=detail)
        other = len(self.levels) if self.other else NOTHING
        rows = np.where(unknown, other, rows)
        return np.where(nothing, self._slots - 1 if self.missing else other, rows)

    def _refuge(self) -> str:
        """Say as what a level that has no column counts."""
        if self.other:
            return "'other'"
        return shown(self.levels[0]) if self._skipped else "none of the levels"

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON."""
        return {**asdict(self), "levels": list(self.levels), "rare": list(self.rare)}

    @classmethod
    def from_dict(cls, content: Description) -> "CategoryRule":
        """Check a stranger's description and return what it says."""
        rule = cls(
            levels=content.texts("levels", most=MOST_LEVELS),
            rare=content.texts("rare", most=MOST_RARE),
            other=content.truth("other"),
            missing=content.truth("missing"),
        )
        if not rule.levels or rule._slots < 2 or (rule.rare and not rule.other):
            raise damaged(f"the levels of {content.where}")
        return rule


def _index(texts: pa.Array, among: tuple[str, ...]) -> pa.Array:
    return pc.index_in(texts, value_set=pa.array(among, texts.type))


def _canonical(texts: pa.Array) -> pa.Array:
    """Return 1.0 as 1 and True as true, as other programs write them."""
    texts = pc.replace_substring_regex(texts, r"^([+-]?\d+)\.0+$", r"\1")
    texts = pc.replace_substring_regex(texts, "^(?:TRUE|True)$", "true")
    return pc.replace_substring_regex(texts, "^(?:FALSE|False)$", "false")


def _plain(levels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_canonical(pa.array(levels, pa.string())).to_pylist())
