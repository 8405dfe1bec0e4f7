"""Parts of a description from a stranger's file, each checked before it is used."""

import math
from collections.abc import Sequence
from typing import Any

from calibrant.errors import InputError
from calibrant.tables._errors import input_error, one_line

__all__ = ["Description", "damaged"]

LONGEST = 100_000
"""Characters of a text that a description may hold."""


def damaged(what: str) -> InputError:
    """Return the error for a description that cannot be used."""
    return input_error(
        f"the description of the columns in the model is damaged: {one_line(what)}. "
        "Fit the model again, or get the folder once more."
    )


class Description:
    """A mapping whose entries are asked for by type.

    Parameters
    ----------
    content
        From JSON, of whatever kind.
    where
        What the mapping stands for, named in errors.
    """

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, dict):
            raise damaged(f"{where} must be a mapping, got {type(content).__name__}")
        self._content: dict[Any, Any] = content
        self.where = where

    def has(self, key: str) -> bool:
        """Whether there is such an entry."""
        return key in self._content

    def _get(self, key: str) -> object:
        if key not in self._content:
            raise damaged(f"{self.where} has no {key!r}")
        return self._content[key]

    def _wrong(self, key: str, wanted: str) -> InputError:
        value = self._content[key]
        simple = isinstance(value, str | int | float) and len(str(value)) < 60
        got = repr(value) if simple else f"a {type(value).__name__}"
        return damaged(f"{key!r} of {self.where} must be {wanted}, got {got}")

    def text(self, key: str) -> str:
        """Return a text that is not absurdly long."""
        value = self._get(key)
        if not isinstance(value, str) or len(value) > LONGEST:
            raise self._wrong(key, f"a text of at most {LONGEST:,} characters")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of some texts."""
        value = self.text(key)
        if value not in choices:
            raise self._wrong(key, f"one of {', '.join(choices)}")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text or None."""
        return None if self._get(key) is None else self.text(key)

    def truth(self, key: str) -> bool:
        """Return true or false."""
        value = self._get(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def count(self, key: str) -> int:
        """Return a whole number of at least 0."""
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        if not 0 <= value < 2**63:
            raise self._wrong(key, "a whole number of at least 0")
        return value

    def number(self, key: str, *, most: float = math.inf) -> float:
        """Return a finite number of a size of at most ``most``."""
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a finite number")
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(key, "a finite number") from None
        if not math.isfinite(number) or abs(number) > most:
            raise self._wrong(key, "a finite number in its range")
        return number

    def entries(self, key: str, *, most: int) -> list[Any]:
        """Return a list of at most ``most`` entries of any kind."""
        value = self._get(key)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(key, f"a list of at most {most:,} entries")
        return value

    def texts(self, key: str, *, most: int) -> tuple[str, ...]:
        """Return at most ``most`` different texts."""
        values = self.entries(key, most=most)
        good = all(isinstance(each, str) and len(each) <= LONGEST for each in values)
        if not good or len(set(values)) < len(values):
            raise self._wrong(key, "a list of different texts")
        return tuple(values)

    def part(self, key: str) -> "Description":
        """Return an entry that is a mapping itself."""
        return Description(self._get(key), f"{key!r} of {self.where}")
