"""calibrant recalibrate: a model's calibration, refreshed with recent rows."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.commands._console import (
    Console,
    command_line,
    one_line_errors,
    short_card,
)
from calibrant.commands._options import (
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
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.commands.measuring import Labeled, Measured
    from calibrant.commands.table_model import TableModel
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Style

__all__ = ["TableRecalibration", "recalibrate", "recalibrate_table"]

_FOLDS = 5
#: So that four of five folds have the rows that a map needs.
_FEWEST = 25
_CROSS_FITTED = "recent rows, each by a calibration that it had no part in"
_UNSEEN = (
    "Before: as the model predicted them. After: each fifth of the rows with a "
    "calibration that the other four fifths have taught."
)


@dataclass(frozen=True)
class TableRecalibration:
    """What :func:`recalibrate_table` gives.

    Attributes
    ----------
    model
        The model with its new calibration.
    before, after
        Scorecards on the recent rows. That of after is honest: each row was predicted
        with a calibration that it had no part in.
    notes
        What was unusual about the rows.
    folder, page
        Where model and report were written, if they were.
    """

    model: "TableModel"
    before: "Scorecard"
    after: "Scorecard"
    notes: tuple[str, ...]
    folder: Path | None = None
    page: Path | None = None

    def words(self) -> str:
        """Say in plain words what has changed."""
        from calibrant.metrics.verdict import coverage_sentence

        before, after = (
            coverage_sentence(card, whose="Your", which="recent row")
            for card in (self.before, self.after)
        )
        return f"Before: {before} After: {after}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model as plain dictionaries, lists and numbers."""
        return {
            "model": None if self.folder is None else str(self.folder),
            "report": None if self.page is None else str(self.page),
            "words": self.words(),
            "notes": list(self.notes),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
        }


def recalibrate_table(
    model: "TableModel | str | os.PathLike[str]",
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    out: str | os.PathLike[str] | None = None,
    *,
    recalibrator: str | None = None,
    style: "Style | None" = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
    command: str | None = None,
) -> TableRecalibration:
    """Learn a model's calibration again from recent rows, without training.

    The networks stay as they are; all of them make one predictive distribution, with
    one map that the recent rows have taught.

    Parameters
    ----------
    model
        A :class:`TableModel`, or its folder; it stays as it is unless ``out`` is the
        same folder.
    table
        Recent rows with their targets, 25 or more, which the model was not trained
        on: a path, a data frame, or columns by name.
    out
        Folder for the new model and its report; None writes nothing.
    recalibrator
        A name from ``RECALIBRATORS``; None for the model's own.
    style
        How a text file is written; None finds out.
    seed
        Of folds and of what is randomized in the measurement.
    overwrite
        Replace a model that is in the folder.
    progress
        Show progress; None for a terminal only.
    command
        What the report says that makes it again.
    """
    from calibrant.commands import measuring
    from calibrant.report.own_page import own_page
    from calibrant.storage import check_writable

    loaded = measuring.as_model(model)
    if out is not None:
        check_writable(out, overwrite=overwrite)
    source = loaded.open(table, style=style)
    labeled = measuring.read_labeled(loaded, source, seed=seed, progress=progress)
    if len(labeled.y) < _FEWEST:
        raise InputError(
            f"{source.name}: at least {_FEWEST} rows with a target are needed to "
            f"refresh a calibration, got {len(labeled.y)}. A few hundred are good."
        )
    regressor = loaded.regressor.refresh(
        labeled.x, labeled.y - loaded.line(labeled.x), recalibrator=recalibrator
    )
    before = measuring.measure(loaded.distribution(labeled.x), labeled, seed=seed)
    after = _after(loaded, labeled, recalibrator, seed)
    refreshed = loaded.with_regressor(
        regressor,
        recalibrated={
            "table": source.name,
            "sha256": measuring.checksum(source),
            "rows": len(labeled.y),
            "command": command,
        },
        scorecard=measuring.summary(after.card, _CROSS_FITTED),
    )
    notes = (*measuring.seen_notes(loaded, source), *before.notes)
    done = TableRecalibration(refreshed, before.card, after.card, notes)
    if out is None:
        return done
    contents = measuring.own_report(
        "recalibrate",
        after,
        source=source.name,
        target=loaded.target,
        unseen=_UNSEEN,
        settings=measuring.settings_lines(refreshed, command),
        before=before.card,
        columns=loaded.encoder.lines,
        notes=notes,
    )
    folder = refreshed.save(out, page=own_page(contents), overwrite=overwrite)
    return replace(done, folder=folder, page=folder / "report.html")


def _after(
    model: "TableModel", labeled: "Labeled", recalibrator: str | None, seed: int
) -> "Measured":
    """Measure the new calibration on rows that had no part in it."""
    import numpy as np

    from calibrant.commands.measuring import measure
    from calibrant.estimators.folds import Blocks, linked_rows
    from calibrant.estimators.pool import cross_fitted

    x, y = labeled.x, labeled.y - model.line(labeled.x)
    labels = linked_rows(x, None)
    count = min(_FOLDS, int(labels.max()) + 1)
    folds = Blocks(labels).folds(count, np.random.default_rng(seed))
    refreshed = [
        model.regressor.refresh(
            x[folds != fold], y[folds != fold], recalibrator=recalibrator
        )
        for fold in range(count)
    ]
    corrected = [regressor.model_.distribution(x) for regressor in refreshed]
    after = model.moved(cross_fitted(corrected, folds), x)
    return measure(after, labeled, seed=seed)


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
    console = Console(json, quiet, verbose)
    place = model.with_name(f"{model.resolve().name}-recalibrated")
    done = recalibrate_table(
        model,
        table,
        place if out is None else out,
        recalibrator=recalibrator,
        style=style_of(delimiter, decimal, thousands, missing),
        seed=seed,
        overwrite=force,
        progress=console.progress,
        command=command_line(),
    )
    console.json(done.to_dict())
    console.notes(done.notes)
    console.show(short_card(done.before, done.after, titles=("before", "after")))
    if console.verbose:
        console.card(done.after)
    console.say(done.words())
    console.say(f"Model:  {done.folder}")
    console.say(f"Report: {done.page}")
