"""calibrant recalibrate: a model's calibration, refreshed without training."""

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli._app import command_line, one_line_errors
from calibrant.cli._options import (
    DecimalOption,
    DelimiterOption,
    ForceOption,
    JsonOption,
    MissingOption,
    Model,
    QuietOption,
    RecalibratorOption,
    SeedOption,
    Table,
    ThousandsOption,
    VerboseOption,
    style_of,
)
from calibrant.cli._voice import Voice

__all__ = ["recalibrate"]


@one_line_errors("The model is as it was.")
def recalibrate(
    model: Model,
    table: Table,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the new model and its report.",
            show_default="MODEL-recalibrated",
        ),
    ] = None,
    recalibrator: RecalibratorOption = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Learn a model's calibration again from recent rows, without training.

    Shows the calibration before and after; that of after is measured on rows that had
    no part in it.

    Example: calibrant recalibrate model/ recent.csv --out model2/
    """
    from calibrant.workflows.recalibrate_table import recalibrate_table
    from calibrant.workflows.table_screen import short_card

    voice = Voice(json, quiet, verbose)
    place = model.with_name(f"{model.resolve().name}-recalibrated")
    done = recalibrate_table(
        model,
        table,
        place if out is None else out,
        recalibrator=recalibrator,
        style=style_of(delimiter, decimal, thousands, missing),
        seed=seed,
        overwrite=force,
        progress=voice.progress,
        command=command_line(),
    )
    voice.json(done.to_dict())
    voice.notes(done.notes)
    voice.show(short_card(done.before, done.after, titles=("before", "after")))
    if voice.verbose:
        voice.card(done.after)
    voice.say(done.words())
    voice.say(f"Model:  {done.folder}")
    voice.say(f"Report: {done.page}")
