"""Parts as text: plain JSON with the name of the format and its version."""

import json
from collections.abc import Mapping
from typing import Any

from calibrant._checks import InputError
from calibrant._table import Table

__all__ = ["PartFormat"]

_VERSION = 1


class PartFormat:
    """How the parts of one table are written and read.

    A part is known by its name in the table, and its class makes it again by
    ``from_state(options, state)``.

    Parameters
    ----------
    table
        Where the parts stand; its ``kind`` is the name of the format.
    table_name
        What the table is called, for an error text.
    """

    def __init__(self, table: Table[Any], table_name: str) -> None:
        self._table, self._table_name = table, table_name
        self._format = f"calibrant {table.kind}"
        self._source = f"a {table.kind}'s to_json()"

    def write(
        self, name: str, *, options: Mapping[str, object], state: Mapping[str, object]
    ) -> str:
        """Write a part; floats keep every bit, since Python prints them so."""
        content = {
            "format": self._format,
            "version": _VERSION,
            "name": name,
            "options": options,
            "state": state,
        }
        return json.dumps(content, allow_nan=False)

    def read(self, text: str) -> Any:  # noqa: ANN401  (a part of the table)
        """Read what :meth:`write` wrote, or say what is wrong with it."""
        content = self._parsed(text)
        if content.get("format") != self._format:
            raise InputError(
                f"text must be {self._source}, with format {self._format!r}; this is "
                f"other JSON, its format is {content.get('format')!r}."
            )
        version = content.get("version")
        if version != _VERSION:
            raise InputError(
                f"the text has version {version!r} of the format, this calibrant reads "
                f"{_VERSION}. Install the calibrant that wrote it, or a newer one."
            )
        name = content.get("name")
        if not isinstance(name, str) or name not in self._table:
            raise InputError(
                f"the text holds a {self._table.kind} called {name!r}, there are "
                f"{', '.join(self._table)}. Put your own into {self._table_name} "
                "before."
            )
        try:
            return self._table[name].from_state(content["options"], content["state"])
        except (
            *(LookupError, TypeError, ValueError, AttributeError),
            *(ArithmeticError, RuntimeError),
        ) as error:
            own = isinstance(error, InputError)
            reason = str(error).rstrip(".") if own else "its numbers are not as written"
            raise InputError(
                f"the text for {name!r} is damaged: {reason}. Write it again with "
                "to_json()."
            ) from error

    def _parsed(self, text: str) -> dict[str, object]:
        try:
            content = json.loads(text, parse_constant=_refuse)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"text must be what {self._source} gave, complete; it cannot be read "
                f"as JSON: {error}."
            ) from error
        if not isinstance(content, dict):
            raise InputError(
                f"text must be what {self._source} gave, got JSON of a "
                f"{type(content).__name__}."
            )
        return content


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")
