"""calibrant predict: a table with predictions, in the order of its rows."""

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli._app import one_line_errors
from calibrant.cli._options import (
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    Model,
    QuietOption,
    Table,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    numbers,
    style_of,
)
from calibrant.cli._voice import Voice

__all__ = ["predict"]


@one_line_errors("No predictions were written.")
def predict(  # noqa: PLR0913  (one parameter for each option)
    model: Model,
    table: Table,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv, .csv.gz, .tsv or .parquet.",
            show_default="TABLE.predictions.csv",
        ),
    ] = None,
    coverage: Annotated[
        str, typer.Option(help="Of the intervals, with commas between them.")
    ] = "0.5,0.9",
    quantiles: Annotated[
        str | None, typer.Option(help="Levels of quantiles, as 0.05,0.5,0.95.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the input to write as well.",
            autocompletion=complete_columns,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse cells that do not fit rather than fill them in."
        ),
    ] = False,
    keep_formulas: Annotated[
        bool,
        typer.Option(
            "--keep-formulas",
            help="Write kept texts that a spreadsheet would run as they are.",
        ),
    ] = False,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write mean, std, intervals and quantiles of each row, in the order of the rows.

    The file is read in parts, so it may be larger than memory; the output appears only
    when it is complete. Columns are found by name; others than the model's are ignored.

    Example: calibrant predict model/ new.csv -o out.csv --coverage 0.9 --keep id
    """
    from calibrant.workflows.predict_table import predict_table

    voice = Voice(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    done = predict_table(
        model,
        table,
        Path(f"{_stem(table)}.predictions.csv") if out is None else out,
        coverage=numbers(coverage, option="--coverage"),
        quantiles=numbers(quantiles, option="--quantiles"),
        keep=column_names(keep, table, style),
        strict=strict,
        style=style,
        neutralize=not keep_formulas,
        progress=voice.progress,
    )
    voice.json(done.to_dict())
    voice.notes(done.notes)
    voice.say(f"{done.rows:,} rows: {', '.join(done.columns)}")
    voice.say(f"Predictions: {done.path}")


def _stem(table: Path) -> str:
    """Name of a file without what says how it is written."""
    return table.name.split(".")[0] or "table"
