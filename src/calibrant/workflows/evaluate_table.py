"""How a model does on a table with known targets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant._checks import check_between
from calibrant.estimator.table_model import TableModel
from calibrant.metrics.bands import coverage_range
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own.page import write_own_page
from calibrant.tables import Style
from calibrant.workflows._labeled import read_labeled
from calibrant.workflows._making import settings_of
from calibrant.workflows._model import as_model
from calibrant.workflows._page_path import page_path
from calibrant.workflows.measured import (
    column_lines,
    judgment,
    measure,
    own_report,
)

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
        asked = f"{100 * self.coverage:g} %"
        span = "at least" if self.at_least else "within"
        bound = (
            f"{100 * (self.coverage - self.tolerance):g} %"
            if self.at_least
            else f"{100 * self.tolerance:g} points of it"
        )
        said = "met" if self.met else "NOT met"
        return (
            f"Requirement {said}: the {asked} intervals held {held}, {span} {bound} "
            f"was asked for (a perfect model shows {100 * low:.1f} to "
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
        return judgment(self.card, which="rows")

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


def evaluate_table(  # noqa: PLR0913  (one parameter for each option of the command)
    model: TableModel | str | os.PathLike[str],
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    by: Sequence[str] = (),
    report: str | os.PathLike[str] | None = None,
    require_coverage: float | None = None,
    tolerance: float = 0.03,
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
        Ask that intervals of this coverage hold it within the tolerance, or, with
        ``at_least``, not less than it: see ``requirement`` of the result.
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
    if require_coverage is not None:
        check_between(require_coverage, 0, 1, name="the coverage that is required")
    source = loaded.open(table, style=style)
    source.check_columns(by)
    page = page_path(report, [source.path])
    labeled = read_labeled(loaded, source, by=tuple(by), seed=seed, progress=progress)
    measured = measure(loaded.law(labeled.x), labeled, seed=seed)
    card = measured.card
    if page is not None:
        contents = own_report(
            "evaluate",
            measured,
            source=source.name,
            target=loaded.target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings=settings_of(loaded) | ({"Command": command} if command else {}),
            columns=column_lines(loaded.encoder),
            notes=measured.notes,
        )
        write_own_page(page, contents)
    requirement = None
    if require_coverage is not None:
        held = float((abs(2 * card.rows["pit"] - 1) <= require_coverage).mean())
        requirement = Requirement(require_coverage, tolerance, at_least, held, card.n)
    return TableEvaluation(card, measured.notes, page, requirement)
