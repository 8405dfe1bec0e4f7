"""A reproduction on one screen."""

from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from calibrant.paper.grid import Grid
from calibrant.paper.reproduce import Reproduction
from calibrant.paper.statistics import by_arm
from calibrant.paper.tables import arm_overview, error_overview, verdict_overview

_STYLES = {"holds": "green", "does not hold": "red", "within noise": "yellow"}
_SHORTEST = 12
# The paper's own sets take a dozen lines, and so may others.
_LINES = 12


def screen(done: Reproduction, *, width: int = 80) -> RenderableType:
    """Return calibration errors and verdicts as a text for one screen."""
    results = by_arm(done.records)
    run = [verdict for verdict in done.verdicts if verdict.verdict != "not run"]
    names = {verdict.name for verdict in run}
    grids = [
        _without_paper(error_overview(results)),
        _shortened(arm_overview(results)),
        verdict_overview([v for v in done.verdicts if v.name in names]),
        verdict_overview(run, "own"),
    ]
    return Group(
        *(_table(grid, width) for grid in grids if grid.rows),
        Text(f"{len(done.records)} cells, {done.added} of them new."),
    )


def _shortened(grid: Grid) -> Grid:
    left = len(grid.rows) - _LINES
    if left <= 0:
        return grid
    notes = (f"The report has {left} more.", *grid.notes)
    return replace(grid, rows=grid.rows[:_LINES], notes=notes)


def _without_paper(grid: Grid) -> Grid:
    """Leave the paper's numbers to the report."""
    kept = [i for i, column in enumerate(grid.columns) if column.title != "paper"]
    columns = [grid.columns[i] for i in kept]
    return replace(
        grid,
        columns=tuple(replace(c, title=c.group or c.title) for c in columns),
        rows=tuple(tuple(row[i] for i in kept) for row in grid.rows),
    )


def _table(grid: Grid, width: int) -> Table:
    table = Table(
        title=grid.title,
        title_justify="left",
        caption=" ".join((grid.caption, *grid.notes)),
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    headings = [column.title.replace(", ", "\n") for column in grid.columns]
    widths = [_widest(grid, i, text) for i, text in enumerate(headings)]
    # Three blanks between columns, two at each end.
    first = max(_SHORTEST, width - sum(wide + 3 for wide in widths[1:]) - 4)
    widths[0] = min(widths[0], first)
    for heading, column, wide in zip(headings, grid.columns, widths, strict=True):
        table.add_column(
            heading,
            justify="right" if column.numeric else "left",
            width=wide,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in grid.rows:
        table.add_row(
            *(Text(entry.text, style=_STYLES.get(entry.text, "")) for entry in row)
        )
    return table


def _widest(grid: Grid, column: int, heading: str) -> int:
    texts = [*heading.splitlines(), *(row[column].text for row in grid.rows)]
    return max(map(len, texts))
