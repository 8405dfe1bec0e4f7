"""How the text of a table is written: what parts cells, and what a number is."""

import dataclasses
from dataclasses import dataclass

from calibrant.tables._errors import input_error, shown

__all__ = ["MISSING", "Style"]

#: Cells that mean "nothing is known", whatever the case.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "#n/a", "<na>", "nat")

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class Style:
    r"""How a text file is written; what is None is found out from its first lines.

    Parameters
    ----------
    delimiter
        One character between two cells; ``"tab"`` is understood too.
    decimal
        ``"."`` or ``","``.
    thousands
        A character that groups digits and means nothing, such as ``","`` or ``"'"``.
    missing
        Cells that mean "missing" besides :data:`MISSING`, such as ``"-999"``; also
        for the numbers of a Parquet file.
    usual_decimal
        The decimal mark of a file whose first lines do not tell.

    Examples
    --------
    >>> Style(delimiter="tab", missing=("-999",)).delimiter
    '\t'
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    usual_decimal: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            named = _NAMED.get(str(self.delimiter).lower(), self.delimiter)
            object.__setattr__(self, "delimiter", named)
        given: object = self.missing
        missing = (given,) if isinstance(given, str) else self.missing
        object.__setattr__(self, "missing", tuple(map(str, missing)))
        self._check_delimiter()
        self._check_numbers()

    def found(self, *, delimiter: str | None, decimal: str) -> "Style":
        """Return the same style with what was None filled in."""
        return dataclasses.replace(
            self,
            delimiter=self.delimiter or delimiter,
            decimal=self.decimal or decimal,
        )

    def _check_delimiter(self) -> None:
        mark = self.delimiter
        if mark is None or mark == "\t":
            return
        if not _is_mark(mark, but="\"'.-+") or not mark.isascii():
            raise input_error(
                "the delimiter must be one character such as ',', ';', '|' or 'tab', "
                f"got {shown(str(mark))}."
            )

    def _check_numbers(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise input_error(
                f"the decimal mark must be '.' or ',', got {shown(str(self.decimal))}."
            )
        mark = self.thousands
        if mark is None:
            return
        if not _is_mark(mark, but='"+-'):
            raise input_error(
                "the thousands mark must be one character such as ',', '.', ' ' or "
                f'"\'", got {shown(str(mark))}.'
            )
        if mark == self.decimal:
            raise input_error(
                f"the decimal and the thousands mark must differ, both are {mark!r}."
            )


def _is_mark(mark: object, *, but: str) -> bool:
    """Tell whether something is one character that belongs to no number or word."""
    if not isinstance(mark, str) or len(mark) != 1 or mark in but:
        return False
    return not mark.isalnum() and mark not in "\r\n\0"
