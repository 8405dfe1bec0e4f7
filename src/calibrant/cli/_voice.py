"""What a command prints: for people, for machines, or nothing."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant._terminal import escaped, say, show
from calibrant.cli._app import for_the_shell

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables.columns import ColumnLine

__all__ = ["Voice"]

#: More columns than that are for the report.
_MOST_COLUMNS = 40


@dataclass(frozen=True)
class Voice:
    """Prints results as they were asked for.

    Attributes
    ----------
    machine
        One JSON object, and nothing else.
    quiet
        Nothing.
    verbose
        All numbers.
    """

    machine: bool
    quiet: bool
    verbose: bool

    @property
    def progress(self) -> bool | None:
        """Whether to show bars: never if quiet, else on a terminal."""
        return False if self.quiet or self.machine else None

    @property
    def silent(self) -> bool:
        """Whether people get nothing to read."""
        return self.quiet or self.machine

    def json(self, content: dict[str, Any]) -> None:
        """Print the object, if that was asked for."""
        if self.machine:
            say(escaped(json.dumps(_plain(content), ensure_ascii=False)))

    def say(self, text: str = "") -> None:
        """Print a text for people."""
        if not self.silent:
            say(text)

    def notes(self, notes: Sequence[str]) -> None:
        """Say what was unusual, to people and beside the output."""
        if not self.silent:
            for note in notes:
                say(f"Note: {for_the_shell(note)}", err=True)

    def show(self, what: "RenderableType") -> None:
        """Print a table for people."""
        if not self.silent:
            show(what)

    def columns(self, columns: "Sequence[ColumnLine]") -> None:
        """Say what was done with each column."""
        if self.silent:
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(title="Columns", title_justify="left")
        for name in ("column", "kind", "what was done"):
            table.add_column(name, overflow="fold")
        shown = columns if self.verbose else columns[:_MOST_COLUMNS]
        for column in shown:
            style = "" if column.used or column.kind == "target" else "dim"
            cells = (_short(column.name), column.kind, column.done)
            table.add_row(*(Text(cell, style=style) for cell in cells))
        self.show(table)
        if len(shown) < len(columns):
            self.say(f"... and {len(columns) - len(shown)} more: see the report.")

    def groups(self, card: "Scorecard", columns: Sequence[str]) -> None:
        """Print the groups of columns that were asked for."""
        if self.silent:
            return
        from calibrant.workflows.table_screen import group_table

        for name in columns:
            self.show(group_table(name, card.groups[name]))

    def card(self, card: "Scorecard") -> None:
        """Print the numbers of a scorecard: the main ones, or all of them."""
        if self.silent:
            return
        if self.verbose:
            self.show(card)
            return
        from calibrant.workflows.table_screen import short_card

        self.show(short_card(card))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Replace what JSON does not know by null, and paths by text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)
