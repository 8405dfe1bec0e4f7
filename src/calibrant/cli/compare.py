"""calibrant compare: any model's predictions, measured and mended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli._app import command_line, one_line_errors
from calibrant.cli._options import (
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    QuietOption,
    RecalibratorOption,
    SeedOption,
    Table,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    style_of,
)
from calibrant.cli._voice import Voice

__all__ = ["compare"]


@one_line_errors("Nothing was written.")
def compare(
    table: Table,
    target: Annotated[
        str,
        typer.Option(
            help="Column with what came true.",
            autocompletion=complete_columns,
            show_default=False,
        ),
    ],
    mean: Annotated[
        str | None,
        typer.Option(help="Column of the means.", autocompletion=complete_columns),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(
            help="Column of the standard deviations.", autocompletion=complete_columns
        ),
    ] = None,
    quantile: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead, for each column of quantiles: LEVEL=COLUMN, as 0.05=q05."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns whose groups are looked at on their own.",
            autocompletion=complete_columns,
        ),
    ] = None,
    fix: Annotated[
        Path | None,
        typer.Option(
            help="Write the table with recalibrated columns here. Rows without a "
            "target are corrected too."
        ),
    ] = None,
    recalibrator: RecalibratorOption = "smooth",
    report: Annotated[
        Path, typer.Option(help="Page to write; none for no page.")
    ] = Path("comparison.html"),
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure the predictions of any model, and recalibrate them with --fix.

    Example: calibrant compare predictions.csv --target y --mean mu --std sigma
    """
    from calibrant.workflows.compare_table import compare_table
    from calibrant.workflows.table_screen import short_card

    voice = Voice(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    columns = column_names(by, table, style)
    done = compare_table(
        table,
        target=target,
        mean=mean,
        std=std,
        quantiles=_levels(quantile),
        by=columns,
        fix=fix,
        recalibrator=recalibrator or "smooth",
        report=None if str(report) == "none" else report,
        style=style,
        seed=seed,
        command=command_line(),
    )
    voice.json(done.to_dict())
    voice.notes(done.notes)
    if done.fixed is None or voice.verbose:
        voice.card(done.card)
    else:
        titles = ("as they are", "recalibrated")
        voice.show(short_card(done.card, done.fixed, titles=titles))
    voice.groups(done.card, columns)
    voice.say(done.words())
    if done.path is not None:
        voice.say(f"Recalibrated: {done.path}")
    if done.page is not None:
        voice.say(f"Report: {done.page}")


def _levels(texts: Sequence[str] | None) -> dict[str, float]:
    """Read LEVEL=COLUMN, or COLUMN=LEVEL, which is as clear."""
    from calibrant._checks import InputError

    found = {}
    for text in texts or ():
        first, sign, second = text.partition("=")
        for level, column in ((first, second), (second, first)):
            try:
                found[column] = float(level)
            except ValueError:
                continue
            break
        else:
            sign = ""
        if not sign:
            raise InputError(
                f"--quantile takes LEVEL=COLUMN, as 0.05=q05; got {text!r}."
            )
    return found
