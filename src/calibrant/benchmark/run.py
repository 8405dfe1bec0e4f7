"""Run a plan: what is missing in the ledger, and nothing twice."""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from calibrant.benchmark._progress import JobProgress
from calibrant.benchmark.cells import run_job
from calibrant.benchmark.jobs import Job, data_of, jobs_of
from calibrant.benchmark.ledger import Ledger, LedgerError
from calibrant.benchmark.plan import Plan
from calibrant.benchmark.schedulers import run_jobs

__all__ = ["Outcome", "check_plan", "run"]

# Seconds between looks at what another process does.
_WAIT = 1.0


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
    failures: list[tuple[Job, Exception]] = field(default_factory=list)


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

    Records are written as soon as their stack is finished, by this process alone. A
    killed run goes on where it stopped; several runs on one ledger share the work.

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
    cells = plan.cells()
    check_plan(plan, ledger)
    outcome = Outcome(cells=len(cells))
    function = partial(run_job, plan_seed=plan.seed, threads=threads)
    failed: set[Job] = set()
    with JobProgress(shown=progress) as bar:
        while jobs := _missing(plan, ledger, failed):
            bar.begin(jobs)

            def ready(job: Job) -> bool:
                return _take(ledger, job)

            results = run_jobs(
                function, jobs, workers=workers, scheduler=scheduler, ready=ready
            )
            for job, result in results:
                if isinstance(result, Exception):
                    failed.add(job)
                    outcome.failures.append((job, result))
                else:
                    outcome.added += ledger.add(result)
                ledger.release(job.name)
                bar.finished(job)
            _wait_for_others(ledger, _missing(plan, ledger, failed), bar)
    return outcome


def check_plan(plan: Plan, ledger: Ledger) -> None:
    """Refuse to mix numbers of several seeds, or of a table that was changed.

    Parameters
    ----------
    plan
        What is to be run.
    ledger
        Where it goes; it remembers the plan's seed and its tables.
    """
    names = dict.fromkeys(cell.data for cell in plan.cells())
    facts = {f"data {name}": _fingerprint(name) for name in names}
    before = ledger.remember({"seed": str(plan.seed), **facts})
    if "seed" in before:
        raise LedgerError(
            f"{ledger.path} holds cells of seed {before['seed']}, and the plan has "
            f"seed {plan.seed}. Use another folder, or that seed."
        )
    if before:
        changed = ", ".join(sorted(name.removeprefix("data ") for name in before))
        raise LedgerError(
            f"{changed} changed since its cells in {ledger.path} were run. Use another "
            "folder, or put the former table back."
        )


def _fingerprint(name: str) -> str:
    data = data_of(name)
    digest = hashlib.sha256(data.x.tobytes())
    digest.update(data.y.tobytes())
    return digest.hexdigest()


def _missing(plan: Plan, ledger: Ledger, failed: set[Job]) -> list[Job]:
    jobs = jobs_of(plan.cells(), ledger.cells(), seed=plan.seed)
    return [job for job in jobs if job not in failed]


def _take(ledger: Ledger, job: Job) -> bool:
    """Claim a job, unless another process does it or has done it meanwhile."""
    if not ledger.claim(job.name):
        return False
    if set(job.cells) <= ledger.cells():
        ledger.release(job.name)
        return False
    return True


def _wait_for_others(ledger: Ledger, jobs: Iterable[Job], bar: JobProgress) -> None:
    """Wait until no other process holds one of these jobs, or it has ended."""
    names = {job.name for job in jobs}
    while held := names & ledger.holders().keys():
        bar.waiting(sorted({ledger.holders().get(name, 0) for name in held}))
        time.sleep(_WAIT)
