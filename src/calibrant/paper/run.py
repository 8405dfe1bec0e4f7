"""Run what a plan asks for, in processes or on a cluster, and report what is there."""

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant._dask import SchedulerError, connect
from calibrant._progress import Bar
from calibrant._terminal import say
from calibrant.errors import InputError
from calibrant.files import replace_file
from calibrant.paper.claims import Verdict, verdicts
from calibrant.paper.figures import write_figures
from calibrant.paper.jobs import Job, data_of, job_seed, jobs_of, run_job
from calibrant.paper.ledger import Ledger, LedgerError, Record, read_csv
from calibrant.paper.page import write_page
from calibrant.paper.plan import Plan, read_plan
from calibrant.paper.results import by_arm
from calibrant.paper.tables import (
    arm_overview,
    errata_grid,
    error_overview,
    tables,
    to_screen,
    verdict_grid,
    verdict_overview,
    write_grids,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

#: A job with its records, or with why it failed.
Result = tuple[Job, list[Record] | str]

_LIBRARIES = ("matplotlib", "jinja2", "plotly")
_RESULTS, _PLAN, _PAGE = "results.csv", "plan.toml", "report.html"
# So often may workers die, most often for a lack of memory.
_DEATHS = 3
# Without a terminal, progress is one line for each of so many parts of the work.
_LINES = 20


@dataclass
class Outcome:
    """How a run went.

    Attributes
    ----------
    added
        Cells that this run has added to the ledger.
    failures
        Jobs that failed, and why. Their cells are not in the ledger, and the same
        command tries them again.
    """

    added: int = 0
    failures: list[tuple[Job, str]] = field(default_factory=list)


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

    def screen(self) -> "RenderableType":
        """Return calibration errors and verdicts for one screen."""
        from rich.console import Group

        results = by_arm(self.records)
        run = [verdict for verdict in self.verdicts if verdict.verdict != "not run"]
        grids = [
            error_overview(results, paper=False),
            arm_overview(results),
            verdict_overview(run),
            verdict_overview(run, "own"),
        ]
        return Group(
            *(to_screen(grid) for grid in grids if grid.rows),
            f"{len(self.records)} cells, {self.added} of them new.",
        )


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
    workers
        Local processes; with 1 the work is done in this process.
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``: its workers do the
        work instead. They need calibrant and the data.
    threads
        Threads of each process; numbers depend on it in the last digits.
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
        _check_plan(plan, ledger, known)
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
    return _write_report(folder, records, plan, outcome)


def report(folder: Path) -> Reproduction:
    """Report what is finished in a folder; nothing is trained.

    Parameters
    ----------
    folder
        Of an earlier ``reproduce``, or one that holds a ``results.csv`` alone.
    """
    path = folder / _PLAN
    plan = read_plan(path) if path.exists() else None
    return _write_report(folder, read_csv(folder / _RESULTS), plan, Outcome())


def _write_report(
    folder: Path, records: Sequence[Record], plan: Plan | None, outcome: Outcome
) -> Reproduction:
    """Write tables, figures and the page."""
    if not records:
        raise InputError(
            f"{folder} holds no finished cells. Run `calibrant reproduce` first."
        )
    results, judged = by_arm(records), verdicts(records)
    grids = tables(results)
    write_grids(folder / "tables", [verdict_grid(judged), *grids, errata_grid()])
    write_figures(results, folder / "figures")
    about = {} if plan is None else {"Plan of the last run": str(plan)}
    if outcome.failures:
        about["Failed"] = "\n".join(f"{job}: {e}" for job, e in outcome.failures)
    page = write_page(
        folder / _PAGE, records=records, grids=grids, verdicts=judged, about=about
    )
    return Reproduction(page, records, judged, outcome.failures, outcome.added)


def run(
    plan: Plan,
    ledger: Ledger,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Outcome:
    """Run all cells of a plan that the ledger does not have; see ``reproduce``.

    Records are written as soon as their stack is finished, by this process alone, so
    that a killed run goes on where it stopped.
    """
    if workers < 1 or (scheduler is not None and workers > 1):
        raise SchedulerError(
            "workers must be at least 1, and 1 beside a scheduler, which has workers "
            f"of its own, got workers={workers} and scheduler={scheduler!r}."
        )
    _check_plan(plan, ledger)
    outcome, deaths = Outcome(), 0
    function = partial(_attempt, plan_seed=plan.seed, threads=threads)

    def missing() -> list[Job]:
        failed = {job for job, _ in outcome.failures}
        jobs = jobs_of(plan.cells(), ledger.cells(), seed=plan.seed)
        return [job for job in jobs if job not in failed]

    while jobs := missing():
        try:
            with _progress(jobs, shown=progress) as finished:
                for job, result in _results(function, jobs, workers, scheduler):
                    if isinstance(result, str):
                        outcome.failures.append((job, result))
                    else:
                        outcome.added += ledger.add(result)
                    finished(job)
        except BrokenExecutor as error:
            deaths += 1
            if deaths == _DEATHS:
                raise SchedulerError(
                    f"workers died {_DEATHS} times, most often for a lack of memory "
                    f"({' '.join(str(error).split())[:200]}). What is finished is "
                    "kept: run the same command with fewer workers."
                ) from error
    return outcome


def _check_plan(plan: Plan, ledger: Ledger, more: Sequence[Record] = ()) -> None:
    """Refuse to mix numbers of several seeds, or of a table that was changed."""
    for record in (*ledger.records(), *more):
        if not _has_seed(record, plan.seed):
            raise LedgerError(
                f"the finished cells for {ledger.path} have another seed than the "
                f"plan, which has seed {plan.seed}. Use another folder, or their seed."
            )
    path = ledger.path.with_name("data.json")
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = {}
    for name in dict.fromkeys(cell.data for cell in plan.cells()):
        data = data_of(name)
        content = data.x.tobytes() + data.y.tobytes()
        found[name] = hashlib.sha256(content).hexdigest()
    changed = [name for name in found if known.get(name, found[name]) != found[name]]
    if changed:
        raise LedgerError(
            f"{', '.join(changed)} changed since its cells in {ledger.path} were run. "
            "Use another folder, or put the former table back."
        )
    if known | found != known:
        replace_file(path, json.dumps(known | found, indent=1).encode())


def _has_seed(record: Record, seed: int) -> bool:
    """Whether a record comes from a plan of this seed: its own was derived from it."""
    try:
        parts = [name.split(".") for name in record.stack.split()]
        models = [(int(repeat), int(fold)) for repeat, fold in parts]
    except ValueError:
        return False
    return job_seed(record.cell, models, seed) == record.seed


def _attempt(
    job: Job, plan_seed: int, threads: int, parent: int | None = None
) -> Result:
    """Run a job, in any process; an error is a text, since not all errors travel."""
    if parent is not None:
        _end_with(parent)
    try:
        return job, run_job(job, plan_seed, threads)
    except Exception as error:  # noqa: BLE001 - whatever it is, other jobs go on
        return job, str(error) or type(error).__name__


@cache
def _end_with(parent: int) -> None:
    """End this worker once its parent is gone, which may have been killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        # Not sys.exit: the main thread may be deep in a computation.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _results(
    function: Callable[..., Result],
    jobs: Sequence[Job],
    workers: int,
    scheduler: str | None,
) -> Iterator[Result]:
    """Yield each job with its result, as they come."""
    if scheduler is None and workers == 1:
        yield from map(function, jobs)
        return
    from joblib import Parallel, delayed, parallel_config

    with contextlib.ExitStack() as stack:
        options: dict[str, object] = {"backend": "loky", "n_jobs": workers}
        if scheduler is not None:
            client = stack.enter_context(contextlib.closing(connect(scheduler)))
            options = {"backend": "dask", "client": client}
        else:
            options["inner_max_num_threads"] = 1
            function = partial(function, parent=os.getpid())
        with parallel_config(**options):
            pool = Parallel(return_as="generator_unordered", batch_size=1)
        try:
            yield from pool(delayed(function)(job) for job in jobs)
        except Exception as error:  # errors of jobs are results
            if scheduler is None:
                raise
            raise SchedulerError(
                f"the Dask cluster at {scheduler} cannot go on: "
                f"{' '.join(str(error).split())} What is finished is kept: see that "
                "its workers have calibrant, and run the same command again."
            ) from error


@contextlib.contextmanager
def _progress(
    jobs: Sequence[Job], *, shown: bool | None
) -> Iterator[Callable[[Job], None]]:
    """A bar with the time left on a terminal, lines otherwise."""
    terminal = sys.stderr.isatty()
    lines = bool(shown) and not terminal
    total, done, number = sum(job.cost for job in jobs), 0.0, 0

    def finished(job: Job) -> None:
        nonlocal done, number
        before = int(_LINES * done / total)
        done, number = done + job.cost, number + 1
        bar.show(completed=done, description=str(job))
        if lines and int(_LINES * done / total) > before:
            say(
                f"{done / total:4.0%}  {number} of {len(jobs)}, last: {job}",
                err=True,
            )

    if lines:
        say(f"{len(jobs)} stacks to train", err=True)
    columns = ("share", "elapsed", "left")
    drawn = terminal and shown is not False
    with Bar("starting", columns, total=total, shown=drawn) as bar:
        yield finished
