"""What a command takes and prints: options, results, and errors on one line."""

import functools
import inspect
import json
import math
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from calibrant._terminal import escaped, printable, say, show
from calibrant.errors import InputError
from calibrant.text import percent, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from calibrant.metrics.groups import GroupCalibration
    from calibrant.metrics.scorecard import Measure, Scorecard
    from calibrant.tables import ColumnLine, Style

INTERRUPTED = 130
#: More columns and groups than that are for the report.
_MOST_COLUMNS, _MOST_GROUPS = 40, 20

# Options ---------------------------------------------------------------------------

REQUIRED = inspect.Parameter.empty
_FILE = "How the file is written"
_TALK = "How much is said"
RUN = "How it is run"


class Option(NamedTuple):
    """A parameter of a command: its annotation for typer, default, and how to read."""

    annotation: Any
    default: Any
    read: Callable[[Any], Any] | None


def option(
    kind: Any,  # noqa: ANN401  (a type)
    text: str,
    *flags: str,
    default: Any = None,  # noqa: ANN401
    panel: str | None = None,
    read: Callable[[Any], Any] | None = None,
    **more: Any,  # noqa: ANN401  (what typer takes)
) -> Option:
    """Describe an option; ``read`` makes of its value what Python takes."""
    if default is None:
        kind = kind | None
    info = typer.Option(*flags, help=text, rich_help_panel=panel, **more)
    return Option(Annotated[kind, info], default, read)


def flag(text: str, *names: str, **more: Any) -> Option:  # noqa: ANN401
    """Describe an option without a value."""
    return option(bool, text, *names, default=False, **more)


def argument(
    text: str,
    kind: Any = Path,  # noqa: ANN401  (a type)
    default: Any = REQUIRED,  # noqa: ANN401
    **more: Any,  # noqa: ANN401  (what typer takes)
) -> Option:
    """Describe what stands on the command line without a name."""
    return Option(Annotated[kind, typer.Argument(help=text, **more)], default, None)


def columns(kind: Any, text: str, *flags: str, **more: Any) -> Option:  # noqa: ANN401
    """Describe an option that names columns of the table, which the shell completes."""
    return option(kind, text, *flags, autocompletion=complete_columns, **more)


def complete_columns(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Complete with the columns of the table that stands on the command line."""
    table = ctx.params.get("table")
    if table is None:
        return
    from calibrant.tables import open_source

    try:
        names = open_source(table).columns
    except (ValueError, OSError):  # completion must never disturb
        return
    yield from (name for name in names if name.startswith(incomplete))


def numbers(flag: str) -> Callable[[str | None], tuple[float, ...]]:
    """Return what reads comma-separated numbers, e.g. ``0.5,0.9``."""

    def read(text: str | None) -> tuple[float, ...]:
        try:
            return tuple(float(part) for part in (text or "").split(",") if text)
        except ValueError:
            raise InputError(
                f"{flag} takes comma-separated numbers, e.g. 0.5,0.9; got {text!r}."
            ) from None

    return read


def column_names(
    values: Sequence[str] | None, table: Path, style: "Style"
) -> tuple[str, ...]:
    """Read names of columns, also several separated by commas."""
    if not values or not any("," in value for value in values):
        return tuple(values or ())
    from calibrant.tables import open_source

    known = open_source(table, style=style).columns
    parts = [[value] if value in known else value.split(",") for value in values]
    return tuple(name for part in parts for name in part)


def page_option(name: str) -> Option:
    """Describe the option for a report."""
    return option(
        Path,
        "Page to write; none for no page.",
        default=Path(name),
        read=lambda path: None if str(path) == "none" else path,
    )


TABLE = argument("CSV (also .gz) or Parquet file.", show_default=False)
MODEL = argument("Folder that `calibrant fit` wrote.", show_default=False)
BY = columns(list[str], "Columns whose groups are looked at on their own.")
SEED = option(int, "One seed, the same numbers.", default=0, min=0, max=2**32 - 1)
OVERWRITE = flag("Replace a model that is in the folder.", "--force")
RECALIBRATOR = option(
    str,
    "beta, smooth, empirical, isotonic or scale; for fit also auto and none.",
    show_default=False,
)
SCHEDULER = option(
    str,
    "Address of a Dask scheduler, tcp://host:8786, whose workers do the work instead.",
    panel=RUN,
)
#: How a text file is written; a command that has them gets a ``style``.
STYLE = {
    "delimiter": option(str, "Between cells, if it is not found out.", panel=_FILE),
    "decimal": option(
        str, "Decimal point, if it is not found out: . or ,", panel=_FILE
    ),
    "thousands": option(
        str, "Mark between thousands, as in 1,234, left out of numbers.", panel=_FILE
    ),
    "missing": option(
        list[str],
        "A text that means that a value is missing, as -999. Empty cells, NA, NaN and "
        "null do anyway.",
        panel=_FILE,
    ),
}
_CONSOLE = {
    "json": flag("Print one JSON object for machines.", "--json", panel=_TALK),
    "quiet": flag("Print nothing but errors.", "--quiet", "-q", panel=_TALK),
    "verbose": flag("Print all numbers.", "--verbose", "-v", panel=_TALK),
}

# Commands --------------------------------------------------------------------------


def command(
    nothing_yet: str = "", **options: Option
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which gets a ``Console`` and its options by name.

    A mistake of the user ends it with one line and exit code 2. After an interruption
    ``nothing_yet`` is said, in which an option stands as ``{out}``.
    """
    shown = {**options, **_CONSOLE}
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default, _) in shown.items()
    ]

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(body)
        def run(**given: Any) -> None:  # noqa: ANN401
            console = Console(*(given.pop(name) for name in _CONSOLE))
            warnings.formatwarning = _short_warning
            try:
                values = {
                    name: value if read is None else read(value)
                    for name, value in given.items()
                    for read in (shown[name].read,)
                }
                if "delimiter" in values:
                    style = _style(*(values.pop(name) for name in STYLE))
                    values["style"] = style
                body(console, **values)
            except KeyboardInterrupt as stop:
                said = str(stop) or nothing_yet.format_map(given)
                say(f"calibrant: interrupted. {said}", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                raise  # the reader has left, see app.run
            except (ValueError, OSError, RuntimeError) as error:
                if not _is_for_the_user(error):
                    raise
                say(f"calibrant: {for_the_shell(error)}", err=True)
                raise typer.Exit(2) from None

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _style(
    delimiter: str | None,
    decimal: str | None,
    thousands: str | None,
    missing: list[str] | None,
) -> "Style":
    from calibrant.tables import Style

    known = {"\\t": "\t", "tab": "\t", None: None}
    return Style(
        delimiter=known.get(delimiter, delimiter),
        decimal=decimal,
        thousands=thousands,
        missing=tuple(missing or ()),
    )


def _is_for_the_user(error: Exception) -> bool:
    """Whether the text says what the user can do, so that no traceback is needed."""
    if isinstance(error, OSError | InputError):
        return True
    from calibrant.training.history import DivergedError

    return isinstance(error, DivergedError)


def _short_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Warnings speak to the user here, whom places in our files do not help."""
    return printable(f"calibrant: {for_the_shell(message)}\n")


#: How parameters are called on the command line, by their names in Python.
_FLAGS: Mapping[str, str] = {
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
_NAMED = re.compile(rf"\b({'|'.join(_FLAGS)})=(\"\w+\"|[\w.]*\w|\([^)]*\))?")


def for_the_shell(message: object) -> str:
    """Return a message on one line, with options where it names parameters.

    >>> for_the_shell("It exists already. Pass overwrite=True.")
    'It exists already. Pass --force.'
    """
    text = " ".join(str(message).split())
    return _NAMED.sub(
        lambda found: _FLAGS[found[1]].format((found[2] or "").strip('"')), text
    )


def command_line() -> str | None:
    """Return the command as it was typed, or None if this is not its process."""
    if Path(sys.argv[0]).name not in ("calibrant", "calibrant.exe", "__main__.py"):
        return None
    return shlex.join(["calibrant", *sys.argv[1:]])


# Results ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Console:
    """Prints results: one JSON object for a ``machine``, nothing, or all numbers."""

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
            say(escaped(json.dumps(plain(content), ensure_ascii=False)))

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
        show(table)
        if len(listed) < len(columns):
            say(f"... and {len(columns) - len(listed)} more: see the report.")

    def cards(
        self,
        *cards: "Scorecard",
        titles: Sequence[str] = ("value",),
        by: Sequence[str] = (),
    ) -> None:
        """Print the main numbers of scorecards of the same rows, or all of the last.

        Groups are those of the first.
        """
        if self.silent:
            return
        show(cards[-1] if self.verbose else short_card(*cards, titles=titles))
        for name in by:
            show(group_table(name, cards[0].groups[name]))


def plain_dict(**content: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a dictionary that JSON can hold."""
    return {name: plain(value) for name, value in content.items()}


def plain(value: Any) -> Any:  # noqa: ANN401
    """Make JSON of a value: null for what is not finite, text for paths."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


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


def short_card(*cards: "Scorecard", titles: Sequence[str] = ("value",)) -> "Table":
    """Return the main numbers of one or several scorecards of the same rows."""
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
    """Return how many rows of each group of a column its 90 % intervals covered."""
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
        covered = Text(percent(group.coverage_90), style=style)
        table.add_row(
            Text(f"{group.label:.40}"), f"{group.rows:,}", covered, span(low, high)
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
    text = percent(value) if measure.kind == "coverage" else f"{value:.4g}"
    return Text(text, style="yellow" if odd else "")


def _range(measure: "Measure") -> str:
    if measure.low is None or measure.high is None:
        return ""
    if measure.kind == "coverage":
        return span(measure.low, measure.high)
    return f"{measure.low:.4g} to {measure.high:.4g}"
