"""Run a plan: what is missing in the ledger, here, in processes, or on a cluster."""

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

from calibrant._dask import SchedulerError, connect
from calibrant._progress import Bar
from calibrant._terminal import say
from calibrant.files import replace_file
from calibrant.paper.jobs import Job, data_of, job_seed, jobs_of, run_job
from calibrant.paper.ledger import Ledger, LedgerError, Record
from calibrant.paper.plan import Plan

#: A job with its records, or with why it failed.
Result = tuple[Job, list[Record] | str]

# So often may workers die, most often for a lack of memory.
_DEATHS = 3
# Without a terminal, progress is one line for each of so many parts of the work.
_LINES = 20


@dataclass
class Outcome:
    """How a run went.

    Attributes
    ----------
    cells, added
        Cells of the plan, and those that this run has added to the ledger.
    failures
        Jobs that failed, and why. Their cells are not in the ledger, and the same
        command tries them again.
    """

    cells: int
    added: int = 0
    failures: list[tuple[Job, str]] = field(default_factory=list)


def run(
    plan: Plan,
    ledger: Ledger,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Outcome:
    """Run all cells of a plan that the ledger does not have.

    Records are written as soon as their stack is finished, by this process alone, so
    that a killed run goes on where it stopped.

    Parameters
    ----------
    plan
        What to run.
    ledger
        Where finished cells are.
    workers
        Local processes; with 1 the work is done in this process.
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``: its workers do the
        work instead. They need calibrant and the data.
    threads
        Threads of each worker. Numbers depend on it in their last digits.
    progress
        Show progress: a bar on a terminal, else lines; None for a terminal only.
    """
    if workers < 1 or (scheduler is not None and workers > 1):
        raise SchedulerError(
            "workers must be at least 1, and 1 beside a scheduler, which has workers "
            f"of its own, got workers={workers} and scheduler={scheduler!r}."
        )
    check_plan(plan, ledger)
    outcome = Outcome(cells=len(plan.cells()))
    function = partial(_attempt, plan_seed=plan.seed, threads=threads)
    failed: set[Job] = set()
    deaths = 0
    while jobs := _missing(plan, ledger, failed):
        with _Progress(jobs, shown=progress) as bar:
            try:
                for job, result in _results(function, jobs, workers, scheduler):
                    if isinstance(result, str):
                        failed.add(job)
                        outcome.failures.append((job, result))
                    else:
                        outcome.added += ledger.add(result)
                    bar.finished(job)
            except BrokenExecutor as error:
                deaths += 1
                if deaths == _DEATHS:
                    raise SchedulerError(
                        f"workers died {_DEATHS} times, most often for a lack of "
                        f"memory ({' '.join(str(error).split())[:200]}). What is "
                        "finished is kept: run the same command with fewer workers."
                    ) from error
    return outcome


def check_plan(plan: Plan, ledger: Ledger, more: Sequence[Record] = ()) -> None:
    """Refuse to mix numbers of several seeds, or of a table that was changed."""
    for record in (*ledger.records(), *more):
        if not _has_seed(record, plan.seed):
            raise LedgerError(
                f"the finished cells for {ledger.path} have another seed than the "
                f"plan, which has seed {plan.seed}. Use another folder, or their seed."
            )
    path = ledger.path.with_name("data.json")
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = {cell.data: "" for cell in plan.cells()}
    for name in found:
        data = data_of(name)
        digest = hashlib.sha256(data.x.tobytes())
        digest.update(data.y.tobytes())
        found[name] = digest.hexdigest()
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
        models = [tuple(map(int, name.split("."))) for name in record.stack.split()]
    except ValueError:
        return False
    return job_seed(record.cell, models, seed) == record.seed  # type: ignore[arg-type]


def _missing(plan: Plan, ledger: Ledger, failed: set[Job]) -> list[Job]:
    jobs = jobs_of(plan.cells(), ledger.cells(), seed=plan.seed)
    return [job for job in jobs if job not in failed]


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
    if scheduler is not None:
        yield from _on_cluster(function, jobs, scheduler)
    elif workers == 1:
        yield from map(function, jobs)
    else:
        function = partial(function, parent=os.getpid())
        yield from _parallel(
            function, jobs, "loky", n_jobs=workers, inner_max_num_threads=1
        )


def _on_cluster(
    function: Callable[..., Result], jobs: Sequence[Job], address: str
) -> Iterator[Result]:
    with contextlib.closing(connect(address)) as client:
        try:
            yield from _parallel(function, jobs, "dask", client=client)
        except Exception as error:  # Dask's own: errors of jobs are results
            raise SchedulerError(
                f"the Dask cluster at {address} cannot go on: "
                f"{' '.join(str(error).split())} What is finished is kept: see that "
                "its workers have calibrant, and run the same command again."
            ) from error


def _parallel(
    function: Callable[..., Result],
    jobs: Sequence[Job],
    backend: str,
    **options: object,
) -> Iterator[Result]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend, **options):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
    results: Iterator[Result] = pool(delayed(function)(job) for job in jobs)
    yield from results


class _Progress(contextlib.AbstractContextManager["_Progress"]):
    """A bar with the time left on a terminal, lines otherwise."""

    def __init__(self, jobs: Sequence[Job], *, shown: bool | None) -> None:
        terminal = sys.stderr.isatty()
        self._lines = bool(shown) and not terminal
        self._total, self._done = sum(job.cost for job in jobs), 0.0
        self._jobs, self._finished = len(jobs), 0
        self._bar = Bar(
            "starting",
            ("share", "elapsed", "left"),
            total=self._total,
            shown=terminal and shown is not False,
        )
        self._line(f"{len(jobs)} stacks to train")

    def __enter__(self) -> "_Progress":
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)

    def finished(self, job: Job) -> None:
        """Move on by one job."""
        before = int(_LINES * self._done / self._total)
        self._done += job.cost
        self._finished += 1
        self._bar.show(completed=self._done, description=str(job))
        if int(_LINES * self._done / self._total) > before:
            share = self._done / self._total
            self._line(f"{share:4.0%}  {self._finished} of {self._jobs}, last: {job}")

    def _line(self, text: str) -> None:
        if self._lines:
            say(text, err=True)
