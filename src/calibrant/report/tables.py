"""Every table of a reproduction, and the files they are written to."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from calibrant.benchmark.records import Record
from calibrant.report._arm_grids import arm_grid, shuffled_grid
from calibrant.report._comparison_grids import (
    agreement_grid,
    disagreement_grid,
    errata_grid,
)
from calibrant.report._files import write_text
from calibrant.report._paper_tables import paper_tables
from calibrant.report._verdict_grids import verdict_grid, verdict_sets_grid
from calibrant.report.grid import Grid, to_csv, to_latex, to_markdown

__all__ = [
    "agreement_grid",
    "arm_grid",
    "disagreement_grid",
    "errata_grid",
    "paper_tables",
    "shuffled_grid",
    "tables",
    "verdict_grid",
    "verdict_sets_grid",
    "write_grids",
]


def tables(records: Iterable[Record]) -> tuple[Grid, ...]:
    """Make all tables of numbers: Tables 1 to 4, agreement, and every model.

    Those on shuffled folds are there only if some were run.

    Parameters
    ----------
    records
        In any order; any may be missing.

    Returns
    -------
    tuple[Grid, ...]
        In the order in which a reader wants them.

    Examples
    --------
    >>> [grid.name for grid in tables([])][:5]
    ['table-1', 'table-2', 'table-3', 'table-4', 'agreement']
    """
    known = tuple(records)
    splits = {record.cell.split for record in known}
    grids = [*paper_tables(known), agreement_grid(known), disagreement_grid(known)]
    if "shuffled" in splits:
        grids += [shuffled_grid(known), arm_grid(known, shuffled=True)]
    if splits - {"shuffled"}:
        grids.append(arm_grid(known, shuffled=False))
    return tuple(grids)


def write_grids(folder: Path, grids: Sequence[Grid]) -> tuple[Path, ...]:
    """Write tables as Markdown, LaTeX and CSV, three files for each.

    Parameters
    ----------
    folder
        Made if it is not there; files with the same names are replaced.
    grids
        The tables; a file's name is the table's.
    """
    kinds = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}
    paths = []
    for grid in grids:
        for ending, render in kinds.items():
            path = folder / f"{grid.name}{ending}"
            paths.append(write_text(path, render(grid)))
    return tuple(paths)
