"""Many jobs by one function: in this process, in several, or on a Dask cluster."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from calibrant._dask import SchedulerError, WorkerDiedError, run_on_dask
from calibrant.benchmark._processes import run_in_processes

__all__ = ["SchedulerError", "WorkerDiedError", "run_jobs"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    ready: Callable[[Job], bool] | None = None,
) -> Iterator[tuple[Job, Result | Exception]]:
    """Call ``function(job)`` for each job, and yield job and result as they come.

    An error that the function raises takes the place of the result, and the other jobs
    go on. So do they when a worker dies, out of memory or killed: its job is given to
    another one, and only a job that takes worker after worker with it is left, with a
    ``WorkerDiedError`` for a result. Workers compute on one thread each, and end when
    the iterator is closed or this process ends, however it ends.

    Parameters
    ----------
    function
        With several workers: at the top level of a module that they can import. The
        jobs and the results must be picklable then.
    jobs
        Taken one by one, each when a worker is free for it.
    workers
        Processes of this machine; 1 is this process itself, one job after another in
        their order.
    scheduler
        Address of a Dask scheduler, as ``"tcp://host:8786"``, instead of ``workers``.
    ready
        Asked just before a job is handed out; False leaves the job out.

    Yields
    ------
    tuple
        The job, and its result or error.

    Raises
    ------
    SchedulerError
        No worker can be started, or the scheduler cannot be reached.

    Examples
    --------
    >>> import math
    >>> list(run_jobs(math.sqrt, [4.0, 9.0, -1.0]))
    [(4.0, 2.0), (9.0, 3.0), (-1.0, ValueError('math domain error'))]
    """
    if workers < 1:
        raise SchedulerError(f"workers must be a whole number from 1, got {workers!r}.")
    if scheduler is not None and workers > 1:
        raise SchedulerError(
            "workers counts processes of this machine, and a scheduler has workers of "
            f"its own: give one of the two, got workers={workers} and {scheduler!r}."
        )
    wanted = (job for job in jobs if ready is None or ready(job))
    if scheduler is not None:
        return run_on_dask(function, wanted, address=scheduler)
    if workers > 1:
        return run_in_processes(function, wanted, workers=workers)
    return ((job, _outcome(function, job)) for job in wanted)


def _outcome(function: Callable[[Job], Result], job: Job) -> Result | Exception:
    try:
        return function(job)
    except Exception as error:  # noqa: BLE001 - the function's own, whatever it is
        return error
