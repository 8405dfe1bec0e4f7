"""calibrant evaluate: how a model does on rows with known targets."""

from pathlib import Path
from typing import Annotated

import typer

from calibrant._terminal import say
from calibrant.cli._app import command_line, one_line_errors
from calibrant.cli._options import (
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    Model,
    QuietOption,
    SeedOption,
    Table,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    style_of,
)
from calibrant.cli._voice import Voice

__all__ = ["evaluate"]

_GATE = "For monitoring: exit code 1 if it is not met"


@one_line_errors("Nothing was written.")
def evaluate(
    model: Model,
    table: Table,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns whose groups are looked at on their own.",
            autocompletion=complete_columns,
        ),
    ] = None,
    report: Annotated[
        Path, typer.Option(help="Page to write; none for no page.")
    ] = Path("evaluation.html"),
    require_coverage: Annotated[
        float | None,
        typer.Option(
            help="Coverage that intervals must show, as 0.9.", rich_help_panel=_GATE
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="How far off it may be, on both sides.",
            rich_help_panel=_GATE,
            show_default="0.03",
        ),
    ] = None,
    at_least: Annotated[
        bool,
        typer.Option(
            "--at-least", help="More coverage is fine as well.", rich_help_panel=_GATE
        ),
    ] = False,
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure a model on rows with known targets, and write a report.

    Example: calibrant evaluate model/ labeled.csv --by region --require-coverage 0.9
    """
    from calibrant.workflows.evaluate_table import evaluate_table

    voice = Voice(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    columns = column_names(by, table, style)
    done = evaluate_table(
        model,
        table,
        by=columns,
        report=None if str(report) == "none" else report,
        require_coverage=require_coverage,
        tolerance=tolerance,
        at_least=at_least,
        style=style,
        seed=seed,
        progress=voice.progress,
        command=command_line(),
    )
    voice.json(done.to_dict())
    voice.notes(done.notes)
    voice.card(done.card)
    voice.groups(done.card, columns)
    voice.say(done.words())
    if done.page is not None:
        voice.say(f"Report: {done.page}")
    if done.requirement is not None:
        voice.say(done.requirement.words())
        if not done.requirement.met:
            if voice.silent:
                say(f"calibrant: {done.requirement.words()}", err=True)
            raise typer.Exit(1)
