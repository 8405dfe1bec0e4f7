"""calibrant predict: a table with predictions, in the order of its rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._terminal import say
from calibrant.cli._app import for_the_shell, one_line_errors
from calibrant.cli._options import (
    RUN,
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    Model,
    QuietOption,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    numbers,
    style_of,
)
from calibrant.cli._voice import Voice

if TYPE_CHECKING:
    from calibrant.tables import Style
    from calibrant.workflows.predict_table import TablePrediction

__all__ = ["predict"]

_INTERRUPTED = 130


@one_line_errors("No predictions were written.")
def predict(
    model: Model,
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV (also .gz) or Parquet file, or a folder of such files.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv, .csv.gz, .tsv or .parquet; for a folder another "
            "folder.",
            show_default="TABLE.predictions.csv, or FOLDER.predictions",
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
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, tcp://host:8786, whose workers do the "
            "files of a folder instead. All must see model, files and output under "
            "the same paths: a shared file system is needed.",
            rich_help_panel=RUN,
        ),
    ] = None,
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

    A folder of files gives a folder of predictions. The same command goes on after an
    interruption: it leaves out what this model has finished with these options.

    Example: calibrant predict model/ new.csv -o out.csv --coverage 0.9 --keep id
    """
    from calibrant.workflows.predict_table import predict_table

    voice = Voice(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    place = _default(table) if out is None else out
    try:
        done = predict_table(
            model,
            table,
            place,
            coverage=numbers(coverage, option="--coverage"),
            quantiles=numbers(quantiles, option="--quantiles"),
            keep=_kept(keep, table, style),
            strict=strict,
            style=style,
            neutralize=not keep_formulas,
            progress=voice.progress,
            scheduler=scheduler,
        )
    except KeyboardInterrupt:
        if not table.is_dir():
            raise
        say(
            f"calibrant: interrupted. Finished files are in {place}; the same command "
            "goes on.",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED) from None
    _tell(done, voice)


def _tell(done: "TablePrediction", voice: Voice) -> None:
    from calibrant.tables.wording import amount

    voice.json(done.to_dict())
    voice.notes(done.notes)
    before = f", {len(done.skipped):,} finished before" if done.skipped else ""
    count = len(done.files) + len(done.skipped)
    files = f"{amount(count, 'file')}{before}, " if count else ""
    voice.say(f"{files}{done.rows:,} rows: {', '.join(done.columns)}")
    voice.say(f"Predictions: {done.path}")
    for failure in done.failures:
        say(f"calibrant: {for_the_shell(failure)}", err=True)
    if done.failures:
        raise typer.Exit(2)


def _default(table: Path) -> Path:
    """Where predictions go if nobody says where."""
    if table.is_dir():
        return Path(f"{table.resolve().name}.predictions")
    return Path(f"{_stem(table)}.predictions.csv")


def _kept(keep: list[str] | None, table: Path, style: "Style") -> tuple[str, ...]:
    """Read names of columns; those of a folder are the columns of its first file."""
    if keep and table.is_dir():
        from calibrant.workflows._folder_files import tables_in

        table = tables_in(table)[0]
    return column_names(keep, table, style)


def _stem(table: Path) -> str:
    """Name of a file without what says how it is written."""
    return table.name.split(".")[0] or "table"
