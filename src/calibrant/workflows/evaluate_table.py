"""How a model does on a table with known targets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant._checks import InputError
from calibrant.metrics.floors import coverage_range
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own_page import write_own_page
from calibrant.tables import Style
from calibrant.workflows._given import as_names
from calibrant.workflows._labeled import read_labeled
from calibrant.workflows._making import seen_notes
from calibrant.workflows._model import as_model
from calibrant.workflows._page_path import page_path
from calibrant.workflows.measured import (
    judgment,
    measure,
    own_report,
)
from calibrant.workflows.table_model import TableModel, settings_of

__all__ = ["Requirement", "TableEvaluation", "evaluate_table"]


@dataclass(frozen=True)
class Requirement:
    """Coverage that was asked for, and what was found.

    Attributes
    ----------
    coverage, tolerance
        What was asked for.
    at_least
        Whether too much coverage is fine.
    held
        Share of rows within their intervals of that coverage.
    rows
        Number of rows.
    """

    coverage: float
    tolerance: float
    at_least: bool
    held: float
    rows: int

    @property
    def met(self) -> bool:
        """Whether the coverage is within the tolerance."""
        gap = self.held - self.coverage
        # A share exactly at the tolerance is within it, whatever its rounding.
        low = gap >= -self.tolerance - 1e-9
        return low and (self.at_least or gap <= self.tolerance + 1e-9)

    def words(self) -> str:
        """Say whether it is met, and what chance alone would do."""
        low, high = coverage_range(self.coverage, self.rows)
        held = f"{100 * self.held:.1f} % of {self.rows:,} rows"
        said = "met" if self.met else "NOT met"
        least = f"{100 * (self.coverage - self.tolerance):g}"
        most = f"{100 * (self.coverage + self.tolerance):g}"
        asked = f"at least {least} %" if self.at_least else f"{least} to {most} %"
        return (
            f"Requirement {said}: the {100 * self.coverage:g} % intervals covered "
            f"{held}; asked for: {asked} (a perfect model shows {100 * low:.1f} to "
            f"{100 * high:.1f} %)."
        )


@dataclass(frozen=True)
class TableEvaluation:
    """What :func:`evaluate_table` gives.

    Attributes
    ----------
    card
        All numbers, each beside what a perfect model shows.
    notes
        What was unusual about the rows.
    page
        The report, if one was asked for.
    requirement
        Coverage that was asked for, if one was.
    """

    card: Scorecard
    notes: tuple[str, ...]
    page: Path | None = None
    requirement: Requirement | None = None

    def words(self) -> str:
        """Say in plain words whether the intervals can be trusted."""
        return judgment(self.card, which="row")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers."""
        asked = self.requirement
        return {
            "report": None if self.page is None else str(self.page),
            "words": self.words(),
            "notes": list(self.notes),
            "requirement": None if asked is None else {**vars(asked), "met": asked.met},
            "scorecard": self.card.to_dict(),
        }


def evaluate_table(
    model: TableModel | str | os.PathLike[str],
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    by: str | Sequence[str] = (),
    report: str | os.PathLike[str] | None = None,
    require_coverage: float | None = None,
    tolerance: float | None = None,
    at_least: bool = False,
    style: Style | None = None,
    seed: int = 0,
    progress: bool | None = None,
    command: str | None = None,
) -> TableEvaluation:
    """Measure a model on rows with known targets that it has not learned from.

    Parameters
    ----------
    model
        A :class:`TableModel`, or its folder.
    table
        A path of a CSV (also .gz) or Parquet file, a data frame, or columns by name,
        with the target. Of more than 100,000 rows a random choice is measured.
    by
        Columns whose groups are looked at on their own, used by the model or not.
    report
        Page to write; None for none.
    require_coverage, tolerance, at_least
        Ask that intervals of this coverage hold it within the tolerance (0.03), or,
        with ``at_least``, not less than it: see ``requirement`` of the result.
    style
        How a text file is written; None finds out.
    seed
        Of what is randomized in the measurement.
    progress
        Show progress; None for a terminal only.
    command
        What the report says that makes it again.
    """
    loaded = as_model(model)
    _check_requirement(require_coverage, tolerance)
    source = loaded.open(table, style=style)
    by = as_names(by, what="by")
    source.check_columns(by)
    page = page_path(report, [source.path])
    labeled = read_labeled(loaded, source, by=by, seed=seed, progress=progress)
    measured = measure(loaded.distribution(labeled.x), labeled, seed=seed)
    notes = (*seen_notes(loaded, source), *measured.notes)
    card = measured.card
    if page is not None:
        contents = own_report(
            "evaluate",
            measured,
            source=source.name,
            target=loaded.target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings=settings_of(loaded.about, loaded.regressor.strength_, loaded.trend)
            | ({"Command": command} if command else {}),
            columns=loaded.encoder.lines,
            notes=notes,
        )
        write_own_page(page, contents)
    requirement = None
    if require_coverage is not None:
        held = float((abs(2 * card.rows["pit"] - 1) <= require_coverage).mean())
        limit = 0.03 if tolerance is None else tolerance
        requirement = Requirement(require_coverage, limit, at_least, held, card.n)
    return TableEvaluation(card, notes, page, requirement)


def _check_requirement(coverage: float | None, tolerance: float | None) -> None:
    if coverage is not None:
        hint = " Write 0.9 for 90 %." if coverage >= 1 else ""
        if not 0 < coverage < 1:
            raise InputError(
                f"the coverage that is required must lie strictly between 0 and 1, got "
                f"{coverage:g}.{hint}"
            )
    elif tolerance is not None:
        raise InputError(
            "a tolerance belongs to a coverage that is required, got it alone."
        )
    if tolerance is not None and not 0 <= tolerance < 1:
        raise InputError(
            f"the tolerance must be in [0, 1), as 0.03 for 3 points, got {tolerance:g}."
        )
