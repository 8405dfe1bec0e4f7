"""Options that several commands share, and how their texts are read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.tables import Style

__all__ = [
    "RUN",
    "ByOption",
    "DecimalOption",
    "DelimiterOption",
    "ForceOption",
    "JsonOption",
    "MissingOption",
    "Model",
    "QuietOption",
    "RecalibratorOption",
    "SeedOption",
    "Table",
    "ThousandsOption",
    "VerboseOption",
    "column_names",
    "complete_columns",
    "numbers",
    "style_of",
]

_FILE = "How the file is written"
_TALK = "How much is said"
RUN = "How it is run"


def _complete_recalibrators(incomplete: str) -> Iterator[str]:
    from calibrant.recalibration import RECALIBRATORS

    yield from (name for name in RECALIBRATORS if name.startswith(incomplete))


def complete_columns(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Complete with the columns of the table that stands on the command line."""
    table = ctx.params.get("table")
    if table is None:
        return
    from calibrant.tables import open_source

    try:
        columns = open_source(table).columns
    except (ValueError, OSError):  # completion must never disturb
        return
    yield from (name for name in columns if name.startswith(incomplete))


Table = Annotated[
    Path, typer.Argument(help="CSV (also .gz) or Parquet file.", show_default=False)
]
Model = Annotated[
    Path, typer.Argument(help="Folder that `calibrant fit` wrote.", show_default=False)
]
ByOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns whose groups are looked at on their own.",
        autocompletion=complete_columns,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object for machines.", rich_help_panel=_TALK
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_TALK
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print all numbers.", rich_help_panel=_TALK),
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="One seed, the same numbers.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace a model that is in the folder.")
]
RecalibratorOption = Annotated[
    str | None,
    typer.Option(
        help="beta, smooth, empirical, isotonic or scale; for fit also auto and none.",
        autocompletion=_complete_recalibrators,
        show_default=False,
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Between cells, if it is not found out.", rich_help_panel=_FILE),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(
        help="Decimal point, if it is not found out: . or ,", rich_help_panel=_FILE
    ),
]
ThousandsOption = Annotated[
    str | None,
    typer.Option(
        help="Mark between thousands, as in 1,234, left out of numbers.",
        rich_help_panel=_FILE,
    ),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A text that means that a value is missing, as -999. Empty cells, NA, NaN "
        "and null do anyway.",
        rich_help_panel=_FILE,
    ),
]


def style_of(
    delimiter: str | None,
    decimal: str | None,
    thousands: str | None,
    missing: Sequence[str] | None,
) -> "Style":
    """Make the style of a file from its options."""
    from calibrant.tables import Style

    known = {"\\t": "\t", "tab": "\t"}
    return Style(
        delimiter=None if delimiter is None else known.get(delimiter, delimiter),
        decimal=decimal,
        thousands=thousands,
        missing=tuple(missing or ()),
    )


def numbers(text: str | None, *, option: str) -> tuple[float, ...]:
    """Read comma-separated numbers, e.g. ``0.5,0.9``."""
    if text is None or not text.strip():
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} takes comma-separated numbers, e.g. 0.5,0.9; got {text!r}."
        ) from None


def column_names(
    values: Sequence[str] | None, table: Path, style: "Style"
) -> tuple[str, ...]:
    """Read names of columns, also several separated by commas."""
    if not values or not any("," in value for value in values):
        return tuple(values or ())
    from calibrant.tables import open_source

    columns = open_source(table, style=style).columns
    return tuple(
        name
        for value in values
        for name in ([value] if value in columns else value.split(","))
    )
