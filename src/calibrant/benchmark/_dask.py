"""Jobs on a Dask cluster."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from calibrant.benchmark._scheduler_errors import SchedulerError, WorkerDiedError
from calibrant.benchmark._worker import call

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["run_on_dask"]

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Seconds to wait for the scheduler, and for the first worker.
PATIENCE = 10


def run_on_dask(
    function: Callable[[Job], Result], jobs: Iterator[Job], *, address: str
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield each job with its result as they come, two at a time for each thread.

    The second one is there when the first ends; more results would only wait in memory.
    """
    client = _connect(address)
    from distributed import as_completed

    with contextlib.closing(client):
        running: dict[object, Job] = {}
        finished = as_completed(loop=client.loop)

        def fill() -> None:
            # Asked each time: a cluster grows, and workers die.
            room = 2 * max(1, sum(client.nthreads().values())) - len(running)
            for job in itertools.islice(jobs, max(0, room)):
                future = client.submit(call, function, job, pure=False)
                running[future.key] = job
                finished.add(future)

        fill()
        for future in finished:
            job = running.pop(future.key)
            outcome = _outcome(future, address)
            future.release()
            fill()
            yield job, outcome


def _connect(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError:
        raise SchedulerError(
            "scheduler needs Dask, which is not installed: "
            'pip install "calibrant[dask]"'
        ) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SchedulerError(
            f"scheduler must be the address of a Dask scheduler that runs, as "
            f"tcp://host:8786, and nobody answers at {address!r} ({error}). Start one "
            "with: dask scheduler"
        ) from error
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise SchedulerError(
            f"the Dask cluster at {address} has no workers. Start one on each machine, "
            f"with this library installed: dask worker {address}"
        ) from None
    return client


def _outcome(future: "Future[Result]", address: str) -> Result | Exception:
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise SchedulerError(
            f"the connection to the Dask scheduler at {address} was lost. What was "
            "finished before is safe: start the scheduler and run the same command "
            "again."
        )
    try:
        return future.result()
    except KilledWorker as error:
        return WorkerDiedError(f"this job's workers died again and again. {error}")
    except Exception as error:  # noqa: BLE001 - the function's own, whatever it is
        return error
