"""calibrant recalibrate: a model's calibration, refreshed with recent rows."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.commands import _console as cli

if TYPE_CHECKING:
    from calibrant.commands.table_model import TableModel
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Style

__all__ = ["TableRecalibration", "recalibrate", "recalibrate_table"]

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
        Scorecards on the recent rows; after, each row was predicted with a calibration
        that it had no part in.
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
        return cli.plain_dict(
            model=self.folder,
            report=self.page,
            words=self.words(),
            notes=self.notes,
            before=self.before,
            after=self.after,
        )


def recalibrate_table(
    model: "TableModel | str | os.PathLike[str]",
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    out: str | os.PathLike[str] | None = None,
    *,
    recalibrator: str | None = None,
    style: "Style | None" = None,
    seed: int = 0,
    overwrite: bool = False,
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
    overwrite
        Replace a model that is in the folder.
    style, seed, command
        As for :func:`evaluate_table`.
    """
    from calibrant.commands import measuring
    from calibrant.estimators.pool import cross_fitted
    from calibrant.report.contents import OwnReport
    from calibrant.report.own_page import own_page
    from calibrant.storage import check_writable

    loaded = measuring.as_model(model)
    if out is not None:
        check_writable(out, overwrite=overwrite)
    source = loaded.open(table, style=style)
    labeled = measuring.read_labeled(loaded, source, seed=seed)
    x, y = labeled.x, labeled.y - loaded.line(labeled.x)
    folds = measuring.cross_fit_folds(x, seed, what=source.name)
    regressor = loaded.regressor.refresh(x, y, recalibrator=recalibrator)
    before = measuring.measure(loaded.distribution(x), labeled, seed=seed)
    corrected = [
        loaded.regressor.refresh(
            x[folds != fold], y[folds != fold], recalibrator=recalibrator
        ).model_.distribution(x)
        for fold in range(folds.max() + 1)
    ]
    honest = loaded.moved(cross_fitted(corrected, folds), x)
    after = measuring.measure(honest, labeled, seed=seed)
    trained, _, _ = str(loaded.about.get("plan", "members as loaded")).partition(";")
    refreshed = replace(loaded, regressor=regressor).with_about(
        plan=f"{trained};{regressor.plan_.partition(';')[2]}",
        recalibrated={
            "table": source.name,
            "sha256": measuring.checksum(source),
            "rows": len(y),
            "command": command,
        },
        scorecard=measuring.summary(after.card, _CROSS_FITTED),
    )
    notes = (*measuring.seen_notes(loaded, source), *before.notes)
    done = TableRecalibration(refreshed, before.card, after.card, notes)
    if out is None:
        return done
    contents = OwnReport(
        kind="recalibrate",
        card=after.card,
        predictions=after.predictions,
        source=source.name,
        target=loaded.target,
        unseen=_UNSEEN,
        settings=refreshed.settings(command),
        before=before.card,
        columns=loaded.encoder.lines,
        notes=notes,
    )
    folder = refreshed.save(out, page=own_page(contents), overwrite=overwrite)
    return replace(done, folder=folder, page=folder / "report.html")


@cli.command(
    "The model is as it was.",
    model=cli.MODEL,
    table=cli.TABLE,
    out=cli.option(
        Path,
        "Folder for the new model and its report.",
        show_default="MODEL-recalibrated",
    ),
    recalibrator=cli.RECALIBRATOR,
    seed=cli.SEED,
    overwrite=cli.OVERWRITE,
    **cli.STYLE,
)
def recalibrate(console: cli.Console, **given: Any) -> None:  # noqa: ANN401
    """Learn a model's calibration again from recent rows, without training.

    Shows the calibration before and after; that of after is measured on rows that had
    no part in it.

    Example: calibrant recalibrate model/ recent.csv --out model2/
    """
    model: Path = given["model"]
    given["out"] = given["out"] or model.with_name(
        f"{model.resolve().name}-recalibrated"
    )
    done = recalibrate_table(**given, command=cli.command_line())
    console.json(done.to_dict())
    console.notes(done.notes)
    console.cards(done.before, done.after, titles=("before", "after"))
    console.say(done.words())
    console.say(f"Model:  {done.folder}")
    console.say(f"Report: {done.page}")
