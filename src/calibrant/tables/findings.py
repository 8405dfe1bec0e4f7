"""What was unusual in new rows, counted, with the first place of each."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from calibrant.tables._errors import shown
from calibrant.tables._words import amount

__all__ = ["Findings", "Found"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """One unusual thing of one column.

    Parameters
    ----------
    what
        ``"bad"``, ``"unknown"``, ``"outside"`` or ``"missing"``.
    column, name
        Of the column and of its file.
    count
        How many rows have it.
    row
        The first of them; 1 is the first one below the header.
    cell
        What stands there; nothing for missing cells.
    detail
        What was expected, or what was done.
    """

    what: str
    column: str
    name: str
    count: int
    row: int
    cell: str
    detail: str

    def line(self) -> str:
        """Return this as a sentence."""
        return f"{self.name}: {_SENTENCES[self.what](self)}"


class Findings:
    """Collects what was unusual while new rows were encoded.

    One object goes through all batches of a file; see :meth:`TableEncoder.encode`.

    Examples
    --------
    >>> findings = Findings()
    >>> findings.add(Found(what="outside", column="age", name="new.csv", count=2,
    ...     row=12, cell="97", detail="18 to 65"))
    >>> print(*findings.lines())
    new.csv: 2 rows have 'age' outside 18 to 65 as seen in training, the first is \
row 12 (97).
    """

    def __init__(self) -> None:
        self.rows = 0
        """Rows that were encoded."""
        self.rows_outside = 0
        """Rows with a value outside the range of training in any column."""
        self._found: dict[tuple[str, str], Found] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def found(self) -> tuple[Found, ...]:
        """Everything unusual, the same things together, by their first row."""
        kinds = list(_SENTENCES)
        return tuple(
            sorted(
                self._found.values(),
                key=lambda each: (kinds.index(each.what), each.row, each.column),
            )
        )

    def add(self, found: Found) -> None:
        """Add to the count; the first place stays."""
        key = (found.what, found.column)
        before = self._found.get(key)
        if before is None:
            self._found[key] = found
        else:
            self._found[key] = replace(before, count=before.count + found.count)

    def merge(self, other: "Findings") -> None:
        """Add all of ``other``, which was collected later."""
        self.rows += other.rows
        self.rows_outside += other.rows_outside
        for found in other.found:
            self.add(found)

    def lines(self) -> list[str]:
        """Return one plain sentence for each thing and column, [] if all was usual."""
        lines = [found.line() for found in self.found]
        outside = [found for found in self.found if found.what == "outside"]
        if len(outside) > 1:
            lines.append(
                f"{outside[0].name}: {self.rows_outside:,} of "
                f"{amount(self.rows, 'row')} are outside what training saw in at "
                "least one column; trust their intervals less."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON."""
        return {
            "rows": self.rows,
            "rows_outside": self.rows_outside,
            "found": [asdict(found) for found in self.found],
        }


def _have(found: Found) -> str:
    return f"{amount(found.count, 'row')} {'has' if found.count == 1 else 'have'}"


def _first(found: Found) -> str:
    place = (
        f"row {found.row:,}" if found.count == 1 else f"the first is row {found.row:,}"
    )
    if not found.cell:
        return place
    return f"{place} ({found.cell if found.what == 'outside' else shown(found.cell)})"


def _bad(found: Found) -> str:
    return (
        f"{_have(found)} {shown(found.column)} that is no {found.detail} and was taken "
        f"as missing, {_first(found)}."
    )


def _unknown(found: Found) -> str:
    return (
        f"{_have(found)} {shown(found.column)} with a value unknown from training, "
        f"{found.detail}, {_first(found)}."
    )


def _outside(found: Found) -> str:
    return (
        f"{_have(found)} {shown(found.column)} outside {found.detail} as seen in "
        f"training, {_first(found)}."
    )


def _missing(found: Found) -> str:
    return (
        f"{_have(found)} no {shown(found.column)}, which training always had, "
        f"{found.detail}, {_first(found)}."
    )


_SENTENCES: Mapping[str, Any] = {
    "bad": _bad,
    "unknown": _unknown,
    "outside": _outside,
    "missing": _missing,
}
