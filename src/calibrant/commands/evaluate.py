"""calibrant evaluate: how a model does on a table with known targets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calibrant._terminal import say
from calibrant.commands import _console as cli
from calibrant.errors import InputError
from calibrant.text import percent

if TYPE_CHECKING:
    from calibrant.commands.table_model import TableModel
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Style

__all__ = ["Requirement", "TableEvaluation", "evaluate", "evaluate_table"]

_GATE = "For monitoring: exit code 1 if it is not met"


@dataclass(frozen=True)
class Requirement:
    """Coverage that was asked for, and what was found."""

    coverage: float
    tolerance: float
    at_least: bool  # too much coverage is fine
    covered: float  # share of rows within their intervals
    rows: int

    def __post_init__(self) -> None:
        if not 0 < self.coverage < 1:
            hint = " Write 0.9 for 90 %." if self.coverage >= 1 else ""
            raise InputError(
                f"the coverage that is required must lie strictly between 0 and 1, got "
                f"{self.coverage:g}.{hint}"
            )
        if not 0 <= self.tolerance < 1:
            raise InputError(
                f"the tolerance must be in [0, 1), as 0.03 for 3 points, got "
                f"{self.tolerance:g}."
            )

    @property
    def met(self) -> bool:
        """Whether the coverage is within the tolerance."""
        gap = self.covered - self.coverage
        # A share exactly at the tolerance is within it, whatever its rounding.
        low = gap >= -self.tolerance - 1e-9
        return low and (self.at_least or gap <= self.tolerance + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dictionary."""
        return {**vars(self), "met": self.met}

    def words(self) -> str:
        """Say whether it is met, and what chance alone would do."""
        from calibrant.metrics.floors import coverage_range

        low, high = coverage_range(self.coverage, self.rows)
        least = f"{100 * (self.coverage - self.tolerance):g}"
        most = f"{100 * (self.coverage + self.tolerance):g}"
        asked = f"at least {least} %" if self.at_least else f"{least} to {most} %"
        return (
            f"Requirement {'met' if self.met else 'NOT met'}: the "
            f"{100 * self.coverage:g} % intervals covered {percent(self.covered)} of "
            f"{self.rows:,} rows; asked for: {asked} (a perfect model shows "
            f"{100 * low:.1f} to {100 * high:.1f} %)."
        )


@dataclass(frozen=True)
class TableEvaluation:
    """What :func:`evaluate_table` gives.

    Attributes
    ----------
    card
        Each metric next to its expected value under perfect calibration.
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
        return cli.plain_dict(
            report=self.page,
            words=self.words(),
            notes=self.notes,
            requirement=self.requirement,
            scorecard=self.card,
        )


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
    command
        What the report says that makes it again.
    """
    from calibrant.commands import measuring
    from calibrant.report.contents import OwnReport
    from calibrant.report.own_page import write_own_page

    loaded = measuring.as_model(model)
    limit = 0.03 if tolerance is None else tolerance
    if require_coverage is not None:
        Requirement(require_coverage, limit, at_least, 0.0, 1)  # checks them
    elif tolerance is not None:
        raise InputError(
            "a tolerance belongs to a coverage that is required, got it alone."
        )
    source = loaded.open(table, style=style)
    by = measuring.as_names(by, what="by")
    source.check_columns(by)
    page = measuring.page_path(report, source.path)
    labeled = measuring.read_labeled(loaded, source, by=by, seed=seed)
    measured = measuring.measure(loaded.distribution(labeled.x), labeled, seed=seed)
    notes = (*measuring.seen_notes(loaded, source), *measured.notes)
    card = measured.card
    if page is not None:
        contents = OwnReport(
            kind="evaluate",
            card=card,
            predictions=measured.predictions,
            source=source.name,
            target=loaded.target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings=loaded.settings(command),
            columns=loaded.encoder.lines,
            notes=notes,
        )
        write_own_page(page, contents)
    requirement = None
    if require_coverage is not None:
        covered = float((abs(2 * card.rows["pit"] - 1) <= require_coverage).mean())
        requirement = Requirement(require_coverage, limit, at_least, covered, card.n)
    return TableEvaluation(card, notes, page, requirement)


@cli.command(
    "Nothing was written.",
    model=cli.MODEL,
    table=cli.TABLE,
    by=cli.BY,
    report=cli.page_option("evaluation.html"),
    require_coverage=cli.option(
        float, "Coverage that intervals must show, as 0.9.", panel=_GATE
    ),
    tolerance=cli.option(
        float, "How far off it may be, on both sides.", panel=_GATE, show_default="0.03"
    ),
    at_least=cli.flag("More coverage is fine as well.", "--at-least", panel=_GATE),
    seed=cli.SEED,
    **cli.STYLE,
)
def evaluate(console: cli.Console, **given: Any) -> None:  # noqa: ANN401
    """Measure a model on rows with known targets, and write a report.

    Example: calibrant evaluate model/ labeled.csv --by region --require-coverage 0.9
    """
    given["by"] = cli.column_names(given["by"], given["table"], given["style"])
    done = evaluate_table(**given, command=cli.command_line())
    console.json(done.to_dict())
    console.notes(done.notes)
    console.cards(done.card, by=given["by"])
    console.say(done.words())
    if done.page is not None:
        console.say(f"Report: {done.page}")
    if done.requirement is not None:
        console.say(done.requirement.words())
        if not done.requirement.met:
            if console.silent:
                say(f"calibrant: {done.requirement.words()}", err=True)
            raise typer.Exit(1)
