"""Run a plan and write all that can be read about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files import replace_file
from calibrant.paper.claims import Verdict, verdicts
from calibrant.paper.figures import write_figures
from calibrant.paper.jobs import Job
from calibrant.paper.ledger import Ledger, Record, read_csv
from calibrant.paper.page import write_page
from calibrant.paper.plan import Plan, read_plan
from calibrant.paper.published import errata
from calibrant.paper.run import Outcome, check_plan, run
from calibrant.paper.statistics import by_arm
from calibrant.paper.tables import (
    errata_grid,
    tables,
    verdict_grid,
    verdict_sets_grid,
    write_grids,
)

_LIBRARIES = ("matplotlib", "jinja2", "plotly")
_RESULTS, _PLAN, _PAGE = "results.csv", "plan.toml", "report.html"


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction leaves.

    Attributes
    ----------
    page
        The report.
    records
        All records of the ledger.
    verdicts
        On the claims of the paper.
    failures
        Jobs that failed, and why.
    added
        Cells that this run has added.
    """

    page: Path
    records: Sequence[Record]
    verdicts: Sequence[Verdict]
    failures: Sequence[tuple[Job, str]] = ()
    added: int = 0


def reproduce(
    plan: Plan,
    folder: Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    resume_from: Path | None = None,
    progress: bool | None = None,
) -> Reproduction:
    """Run what a plan asks for and the folder does not have yet; then report.

    The folder gets ``results.csv`` (every finished cell, at once), tables as Markdown,
    LaTeX and CSV, figures as SVG and PNG, and ``report.html``.

    Parameters
    ----------
    plan
        What to run.
    folder
        Where everything goes; what is finished there is not run again.
    workers, scheduler, threads
        Who does the work, by default this process: see ``calibrant.paper.run.run``.
    resume_from
        ``results.csv`` of another run, whose cells count as finished.
    progress
        Show progress; None for a terminal only.
    """
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        # Before hours of work, not after them.
        raise InputError(
            f"the report needs {', '.join(missing)}, which this environment lacks. "
            'Install what it draws with: pip install "calibrant[report]".'
        )
    known = [] if resume_from is None else read_csv(resume_from)
    with Ledger(folder / _RESULTS) as ledger:
        check_plan(plan, ledger, known)
        ledger.add(known)
        replace_file(folder / _PLAN, str(plan).encode())
        outcome = run(
            plan,
            ledger,
            workers=workers,
            scheduler=scheduler,
            threads=threads,
            progress=progress,
        )
        records = ledger.records()
    if not records:
        reasons = "; ".join(f"{job}: {error}" for job, error in outcome.failures[:3])
        raise InputError(f"nothing could be finished. {reasons}")
    return write_report(folder, records, plan=plan, outcome=outcome)


def report(folder: Path) -> Reproduction:
    """Report what is finished in a folder; nothing is trained.

    Parameters
    ----------
    folder
        Of an earlier ``reproduce``, or one that holds a ``results.csv`` alone.
    """
    records = read_csv(folder / _RESULTS)
    path = folder / _PLAN
    plan = read_plan(path) if path.exists() else None
    return write_report(folder, records, plan=plan)


def write_report(
    folder: Path,
    records: Sequence[Record],
    *,
    plan: Plan | None = None,
    outcome: Outcome | None = None,
) -> Reproduction:
    """Write tables, figures and the page from records; nothing is trained."""
    if not records:
        raise InputError(
            f"{folder} holds no finished cells. Run `calibrant reproduce` first."
        )
    results, judged = by_arm(records), verdicts(records)
    grids = tables(results)
    write_grids(folder / "tables", [verdict_grid(judged), *grids, errata_grid()])
    sets = [verdict_sets_grid(verdict) for verdict in judged if verdict.sets]
    write_grids(folder / "tables" / "verdicts", sets)
    write_figures(results, folder / "figures")
    failures = outcome.failures if outcome else []
    about = {} if plan is None else {"Plan of the last run": str(plan)}
    if failures:
        about["Failed"] = "\n".join(f"{job}: {error}" for job, error in failures)
    page = write_page(
        folder / _PAGE,
        records=records,
        grids=grids,
        verdicts=judged,
        errata=errata(),
        about=about,
    )
    added = outcome.added if outcome else 0
    return Reproduction(page, records, judged, failures, added)
