"""A model's calibration, refreshed with recent rows."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._checks import InputError
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.estimators.pool import cross_fitted
from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import coverage_sentence
from calibrant.report.own_page import own_page
from calibrant.storage import check_writable
from calibrant.tables import Style
from calibrant.workflows._labeled import Labeled, read_labeled
from calibrant.workflows._making import checksum, seen_notes, summary
from calibrant.workflows._model import as_model
from calibrant.workflows.measured import (
    Measured,
    measure,
    own_report,
)
from calibrant.workflows.table_model import TableModel, settings_of

__all__ = ["TableRecalibration", "recalibrate_table"]

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

    model: TableModel
    before: Scorecard
    after: Scorecard
    notes: tuple[str, ...]
    folder: Path | None = None
    page: Path | None = None

    def words(self) -> str:
        """Say in plain words what has changed."""
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
    model: TableModel | str | os.PathLike[str],
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    out: str | os.PathLike[str] | None = None,
    *,
    recalibrator: str | None = None,
    style: Style | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
    command: str | None = None,
) -> TableRecalibration:
    """Learn a model's calibration again from recent rows, without training.

    The networks stay as they are; all of them make one law, with one map that the
    recent rows have taught.

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
    loaded = as_model(model)
    if out is not None:
        check_writable(out, overwrite=overwrite)
    source = loaded.open(table, style=style)
    labeled = read_labeled(loaded, source, seed=seed, progress=progress)
    if len(labeled.y) < _FEWEST:
        raise InputError(
            f"{source.name}: at least {_FEWEST} rows with a target are needed to "
            f"refresh a calibration, got {len(labeled.y)}. A few hundred are good."
        )
    regressor = loaded.regressor.refresh(
        labeled.x, labeled.y - loaded.line(labeled.x), recalibrator=recalibrator
    )
    before = measure(loaded.distribution(labeled.x), labeled, seed=seed)
    after = _after(loaded, labeled, recalibrator, seed)
    refreshed = loaded.with_regressor(
        regressor,
        recalibrated={
            "table": source.name,
            "sha256": checksum(source),
            "rows": len(labeled.y),
            "command": command,
        },
        scorecard=summary(after.card, _CROSS_FITTED),
    )
    notes = (*seen_notes(loaded, source), *before.notes)
    done = TableRecalibration(refreshed, before.card, after.card, notes)
    if out is None:
        return done
    settings = settings_of(
        refreshed.about, regressor.strength_, refreshed.trend
    ) | _said(command)
    contents = own_report(
        "recalibrate",
        after,
        source=source.name,
        target=loaded.target,
        unseen=_UNSEEN,
        settings=settings,
        before=before.card,
        columns=loaded.encoder.lines,
        notes=notes,
    )
    folder = refreshed.save(out, page=own_page(contents), overwrite=overwrite)
    return TableRecalibration(
        **{**vars(done), "folder": folder, "page": folder / "report.html"}
    )


def _said(command: str | None) -> dict[str, str]:
    return {} if command is None else {"Command": command}


def _after(
    model: TableModel, labeled: Labeled, recalibrator: str | None, seed: int
) -> Measured:
    """Measure the new calibration on rows that had no part in it."""
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
