"""calibrant evaluate: how a model does on a table with known targets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._terminal import say
from calibrant.commands._console import Console, command_line, one_line_errors
from calibrant.commands._options import (
    ByOption,
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
    style_of,
)
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.commands.table_model import TableModel
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Style

__all__ = ["Requirement", "TableEvaluation", "evaluate", "evaluate_table"]

_GATE = "For monitoring: exit code 1 if it is not met"


@dataclass(frozen=True)
class Requirement:
    """Coverage that was asked for, and what was found.

    Attributes
    ----------
    coverage, tolerance
        What was asked for.
    at_least
        Whether too much coverage is fine.
    covered
        Share of rows within their intervals of that coverage.
    rows
        Number of rows.
    """

    coverage: float
    tolerance: float
    at_least: bool
    covered: float
    rows: int

    @property
    def met(self) -> bool:
        """Whether the coverage is within the tolerance."""
        gap = self.covered - self.coverage
        # A share exactly at the tolerance is within it, whatever its rounding.
        low = gap >= -self.tolerance - 1e-9
        return low and (self.at_least or gap <= self.tolerance + 1e-9)

    def words(self) -> str:
        """Say whether it is met, and what chance alone would do."""
        from calibrant.metrics.floors import coverage_range

        low, high = coverage_range(self.coverage, self.rows)
        covered = f"{100 * self.covered:.1f} % of {self.rows:,} rows"
        said = "met" if self.met else "NOT met"
        least = f"{100 * (self.coverage - self.tolerance):g}"
        most = f"{100 * (self.coverage + self.tolerance):g}"
        asked = f"at least {least} %" if self.at_least else f"{least} to {most} %"
        return (
            f"Requirement {said}: the {100 * self.coverage:g} % intervals covered "
            f"{covered}; asked for: {asked} (a perfect model shows {100 * low:.1f} to "
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

    card: "Scorecard"
    notes: tuple[str, ...]
    page: Path | None = None
    requirement: Requirement | None = None

    def words(self) -> str:
        """Say in plain words whether the intervals can be trusted."""
        from calibrant.commands.measuring import judgment

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
    model: "TableModel | str | os.PathLike[str]",
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    by: str | Sequence[str] = (),
    report: str | os.PathLike[str] | None = None,
    require_coverage: float | None = None,
    tolerance: float | None = None,
    at_least: bool = False,
    style: "Style | None" = None,
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
        Ask that intervals of this coverage cover it within the tolerance (0.03), or,
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
    from calibrant.commands import measuring
    from calibrant.report.own_page import write_own_page

    loaded = measuring.as_model(model)
    _check_requirement(require_coverage, tolerance)
    source = loaded.open(table, style=style)
    by = measuring.as_names(by, what="by")
    source.check_columns(by)
    page = measuring.page_path(report, [source.path])
    labeled = measuring.read_labeled(
        loaded, source, by=by, seed=seed, progress=progress
    )
    measured = measuring.measure(loaded.distribution(labeled.x), labeled, seed=seed)
    notes = (*measuring.seen_notes(loaded, source), *measured.notes)
    card = measured.card
    if page is not None:
        contents = measuring.own_report(
            "evaluate",
            measured,
            source=source.name,
            target=loaded.target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings=measuring.settings_lines(loaded, command),
            columns=loaded.encoder.lines,
            notes=notes,
        )
        write_own_page(page, contents)
    requirement = None
    if require_coverage is not None:
        covered = float((abs(2 * card.rows["pit"] - 1) <= require_coverage).mean())
        limit = 0.03 if tolerance is None else tolerance
        requirement = Requirement(require_coverage, limit, at_least, covered, card.n)
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


@one_line_errors("Nothing was written.")
def evaluate(
    model: Model,
    table: Table,
    by: ByOption = None,
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
    console = Console(json, quiet, verbose)
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
        progress=console.progress,
        command=command_line(),
    )
    console.json(done.to_dict())
    console.notes(done.notes)
    console.card(done.card, columns)
    console.say(done.words())
    if done.page is not None:
        console.say(f"Report: {done.page}")
    if done.requirement is not None:
        console.say(done.requirement.words())
        if not done.requirement.met:
            if console.silent:
                say(f"calibrant: {done.requirement.words()}", err=True)
            raise typer.Exit(1)
