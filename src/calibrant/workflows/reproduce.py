"""Run a plan and write all that can be read about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from calibrant._checks import InputError
from calibrant.benchmark.errata import ERRATA
from calibrant.benchmark.jobs import Job
from calibrant.benchmark.ledger import Ledger, read_csv
from calibrant.benchmark.plan import Plan, read_plan
from calibrant.benchmark.records import Record
from calibrant.benchmark.run import Outcome, check_plan, run
from calibrant.benchmark.verdict import Verdict
from calibrant.benchmark.verdicts import verdicts
from calibrant.report.figures import write_figures
from calibrant.report.page import write_page
from calibrant.report.tables import (
    errata_grid,
    tables,
    verdict_grid,
    verdict_sets_grid,
    write_grids,
)

__all__ = ["Reproduction", "Workers", "report", "reproduce", "write_report"]

_LIBRARIES = ("matplotlib", "jinja2", "plotly")
LEDGER, RESULTS, PLAN, PAGE = "ledger.sqlite", "results.csv", "plan.toml", "report.html"


@dataclass(frozen=True)
class Workers:
    """Who does the work: local processes, or the workers of a Dask scheduler."""

    processes: int = 1
    scheduler: str | None = None
    threads: int = 1


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
    failures: Sequence[tuple[Job, Exception]] = ()
    added: int = 0


def reproduce(
    plan: Plan,
    folder: Path,
    *,
    workers: Workers | None = None,
    resume_from: Path | None = None,
    progress: bool | None = None,
) -> Reproduction:
    """Run what a plan asks for and the folder does not have yet; then report.

    The folder gets the ledger, ``results.csv`` (the same, compact), tables as Markdown,
    LaTeX and CSV, figures as SVG and PNG, and ``report.html``.

    Parameters
    ----------
    plan
        What to run.
    folder
        Where everything goes; what is finished there is not run again.
    workers
        Who does the work; by default this process.
    resume_from
        ``results.csv`` of another run, whose cells count as finished, as do those of
        the folder's own.
    progress
        Show progress; None for a terminal only.
    """
    who = workers or Workers()
    _check_libraries()
    # Read before a ledger is made: what cannot be read must not be overwritten. The
    # folder's own is read as well, since it may have come without its ledger.
    known = [
        record
        for path in (folder / RESULTS, resume_from)
        if path is not None and (path == resume_from or path.exists())
        for record in read_csv(path)
    ]
    with Ledger(folder / LEDGER) as ledger:
        ledger.add(known)
        check_plan(plan, ledger)
        (folder / PLAN).write_text(str(plan), encoding="utf-8")
        try:
            outcome = run(
                plan,
                ledger,
                workers=who.processes,
                scheduler=who.scheduler,
                threads=who.threads,
                progress=progress,
            )
        finally:
            ledger.export_csv(folder / RESULTS)
        records = ledger.records()
    if not records:
        reasons = "; ".join(f"{job}: {error}" for job, error in outcome.failures[:3])
        raise InputError(f"nothing could be finished. {reasons}")
    return write_report(folder, records, plan=plan, outcome=outcome)


def _check_libraries() -> None:
    """Say before hours of work, not after them, what the report will miss."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise InputError(
            f"the report needs {', '.join(missing)}, which this environment lacks. "
            'Install what it draws with: pip install "calibrant[report]".'
        )


def report(folder: Path) -> Reproduction:
    """Report what is finished in a folder; nothing is trained.

    Parameters
    ----------
    folder
        Of an earlier ``reproduce``, or one that holds a ``results.csv`` alone.
    """
    if (folder / LEDGER).exists():
        with Ledger(folder / LEDGER, read_only=True) as ledger:
            records = ledger.records()
    else:
        records = read_csv(folder / RESULTS)
    path = folder / PLAN
    plan = read_plan(path) if path.exists() else None
    return write_report(folder, records, plan=plan)


def write_report(
    folder: Path,
    records: Sequence[Record],
    *,
    plan: Plan | None = None,
    outcome: Outcome | None = None,
) -> Reproduction:
    """Write tables, figures and the page from records; nothing is trained.

    Parameters
    ----------
    folder
        Where to write.
    records
        What was measured, all of it or in part.
    plan
        What was asked for, to be printed.
    outcome
        How the run went.
    """
    if not records:
        raise InputError(
            f"{folder} holds no finished cells. Run `calibrant reproduce` first."
        )
    judged = verdicts(records)
    grids = tables(records)
    write_grids(folder / "tables", [verdict_grid(judged), *grids, errata_grid()])
    sets = [verdict_sets_grid(each) for each in judged if each.sets]
    write_grids(folder / "tables" / "verdicts", sets)
    write_figures(records, folder / "figures")
    failures = outcome.failures if outcome else []
    about = {} if plan is None else {"Plan of the last run": str(plan)}
    if failures:
        about["Failed"] = "\n".join(f"{job}: {error}" for job, error in failures)
    page = write_page(
        folder / PAGE,
        records=records,
        grids=grids,
        verdicts=judged,
        errata=ERRATA,
        about=about,
    )
    return Reproduction(
        page, records, judged, failures, outcome.added if outcome else 0
    )
