"""What a command prints: results for people or for machines, errors on one line."""

import functools
import json
import math
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from calibrant._terminal import escaped, printable, say, show
from calibrant.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from calibrant.metrics.groups import GroupCalibration
    from calibrant.metrics.scorecard import Measure, Scorecard
    from calibrant.tables.columns import ColumnLine

__all__ = [
    "INTERRUPTED",
    "Console",
    "command_line",
    "for_the_shell",
    "group_table",
    "one_line_errors",
    "short_card",
]

Parameters = ParamSpec("Parameters")

INTERRUPTED = 130
#: More columns and groups than that are for the report.
_MOST_COLUMNS, _MOST_GROUPS = 40, 20
#: How parameters are called on the command line, by their names in Python.
_OPTIONS = {
    "overwrite": "--force",
    "time": "--time-column",
    "groups": "--group",
    "bounds": "--lower and --upper {}",
    "seed": "--seed",
    "mean": "--mean",
    "std": "--std",
    "quantiles": "--quantile LEVEL=COLUMN",
    "recalibrator": "--recalibrator {}",
    "random_state": "--set random_state",
    **{
        name: f"--set {name}={{}}"
        for name in ("folds", "gradient_clip", "patience", "recalibrate_on")
    },
}
_NAMED = re.compile(rf"\b({'|'.join(_OPTIONS)})=(\"\w+\"|[\w.]*\w|\([^)]*\))?")
_SHOWN = {
    "coverage_50": "rows within the 50 % interval",
    "coverage_90": "rows within the 90 % interval",
    "calibration_error": "calibration error",
    "width_90": "mean width of the 90 % interval",
    "r2": "R2 (variance explained)",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "crps": "CRPS (lower is better)",
    "nll": "negative log likelihood (lower is better)",
}


def for_the_shell(message: object) -> str:
    """Return a message on one line, with options where it names parameters.

    >>> for_the_shell("It exists already. Pass overwrite=True.")
    'It exists already. Pass --force.'
    """
    text = " ".join(str(message).split())
    return _NAMED.sub(
        lambda found: _OPTIONS[found[1]].format((found[2] or "").strip('"')), text
    )


def one_line_errors(
    nothing_yet: str,
) -> Callable[[Callable[Parameters, None]], Callable[Parameters, None]]:
    """Let a command end with one line and exit code 2 for a mistake of the user.

    Parameters
    ----------
    nothing_yet
        What to say after an interruption.
    """

    def decorate(
        command: Callable[Parameters, None],
    ) -> Callable[Parameters, None]:
        @functools.wraps(command)
        def told(*args: Parameters.args, **options: Parameters.kwargs) -> None:
            warnings.formatwarning = _short_warning
            try:
                command(*args, **options)
            except KeyboardInterrupt:
                say(f"calibrant: interrupted. {nothing_yet}", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                raise  # the reader has left, see run
            except (ValueError, OSError, RuntimeError) as error:
                if not _is_for_the_user(error):
                    raise
                say(f"calibrant: {for_the_shell(error)}", err=True)
                raise typer.Exit(2) from None

        return told

    return decorate


def _is_for_the_user(error: Exception) -> bool:
    """Whether the text says what the user can do, so that no traceback is needed."""
    if isinstance(error, OSError | InputError):
        return True
    from calibrant.training.history import DivergedError

    return isinstance(error, DivergedError)


def _short_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Warnings speak to the user here, whom places in our files do not help."""
    return printable(f"calibrant: {for_the_shell(message)}\n")


def command_line() -> str | None:
    """Return the command as it was typed, or None if this is not its process."""
    if Path(sys.argv[0]).name not in ("calibrant", "calibrant.exe", "__main__.py"):
        return None
    return shlex.join(["calibrant", *sys.argv[1:]])


@dataclass(frozen=True)
class Console:
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
    def silent(self) -> bool:
        """Whether people get nothing to read."""
        return self.quiet or self.machine

    @property
    def progress(self) -> bool | None:
        """Whether to show bars: never if silent, else on a terminal."""
        return False if self.silent else None

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
        listed = columns if self.verbose else columns[:_MOST_COLUMNS]
        for column in listed:
            style = "" if column.used or column.kind == "target" else "dim"
            name = column.name if len(column.name) <= 40 else f"{column.name[:37]}..."
            cells = (name, column.kind, column.done)
            table.add_row(*(Text(cell, style=style) for cell in cells))
        self.show(table)
        if len(listed) < len(columns):
            self.say(f"... and {len(columns) - len(listed)} more: see the report.")

    def card(self, card: "Scorecard", columns: Sequence[str] = ()) -> None:
        """Print a scorecard, the main numbers or all, and the groups of columns."""
        if self.silent:
            return
        self.show(card if self.verbose else short_card(card))
        for name in columns:
            self.show(group_table(name, card.groups[name]))


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Replace what JSON does not know by null, and paths by text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def short_card(*cards: "Scorecard", titles: tuple[str, ...] = ("value",)) -> "Table":
    """Return the main numbers of one or several scorecards of the same rows.

    Parameters
    ----------
    *cards
        The scorecards.
    titles
        What their columns are called.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column(f"on {cards[0].n:,} rows")
    for title in (*titles, "perfect calibration"):
        table.add_column(title, justify="right")
    for name, words in _SHOWN.items():
        measures = [card.measure(name) for card in cards]
        table.add_row(words, *map(_value, measures), _range(measures[0]))
    return table


def group_table(name: str, groups: "Sequence[GroupCalibration]") -> "Table":
    """Return how many rows of each group its 90 % intervals covered.

    Parameters
    ----------
    name
        Of the column.
    groups
        Its groups, as a scorecard has them.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    table.add_column(Text(f"{name!r:.40}"))
    for title in ("rows", "within the 90 % interval", "perfect calibration"):
        table.add_column(title, justify="right")
    for group in groups[:_MOST_GROUPS]:
        low, high = group.range_90
        style = "" if low <= group.coverage_90 <= high else "yellow"
        table.add_row(
            Text(f"{group.label:.40}"),
            f"{group.rows:,}",
            Text(f"{100 * group.coverage_90:.1f} %", style=style),
            f"{100 * low:.1f} % to {100 * high:.1f} %",
        )
    if len(groups) > _MOST_GROUPS:
        table.caption = f"The report has {len(groups) - _MOST_GROUPS} more."
    return table


def _value(measure: "Measure") -> "Text":
    """Return a number, in yellow if hardly any perfect model shows it."""
    from rich.text import Text

    value, low, high = measure.value, measure.low, measure.high
    if value != value:
        return Text("-")
    odd = low is not None and high is not None and value > high
    if measure.kind == "coverage":  # a small error is no fault
        odd |= low is not None and value < low
    return Text(_number(measure, value), style="yellow" if odd else "")


def _range(measure: "Measure") -> str:
    if measure.low is None or measure.high is None:
        return ""
    return f"{_number(measure, measure.low)} to {_number(measure, measure.high)}"


def _number(measure: "Measure", value: float) -> str:
    return f"{100 * value:.1f} %" if measure.kind == "coverage" else f"{value:.4g}"
