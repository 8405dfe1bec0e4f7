"""Jobs on a Dask cluster."""

import contextlib
import itertools
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
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
#: Seconds between looks at the connection.
LOOK = 1.0


def run_on_dask(
    function: Callable[[Job], Result], jobs: Iterator[Job], *, address: str
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield each job with its result as they come, two at a time for each thread.

    The second one is there when the first ends; more results would only wait in memory.
    An address that cannot be one is refused at once, before anyone is asked.
    """
    _check_address(address)
    return _results(function, jobs, address)


def _results(
    function: Callable[[Job], Result], jobs: Iterator[Job], address: str
) -> Iterator[tuple[Job, Result | Exception]]:
    with contextlib.closing(_connect(address)) as client:
        suspects: list[Job] = []
        for job, outcome in _run(client, function, jobs, address):
            if isinstance(outcome, WorkerDiedError):
                suspects.append(job)
            else:
                yield job, outcome
        # Dask blames all jobs that a dead worker had. Alone, each shows what it does.
        for job in suspects:
            yield from _run(client, function, iter([job]), address)


def _run(
    client: "Client",
    function: Callable[[Job], Result],
    jobs: Iterator[Job],
    address: str,
) -> Iterator[tuple[Job, Result | Exception]]:
    running: dict[object, tuple[Job, Future[Result]]] = {}
    finished: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()

    def fill() -> None:
        room = max(0, _room(client, address) - len(running))
        for job in itertools.islice(jobs, room):
            future = client.submit(call, function, job, pure=False)
            # Held on to, since Dask drops what nobody has a hold of.
            running[future.key] = job, future
            future.add_done_callback(finished.put)

    fill()
    while running:
        future = _wait(finished, client, address)
        outcome = _outcome(future, address)
        job, _ = running.pop(future.key)
        fill()
        yield job, outcome


def _room(client: "Client", address: str) -> int:
    # Asked each time: a cluster grows, and workers die.
    try:
        threads: dict[str, int] = client.nthreads()
    except OSError as error:
        raise _lost(address) from error
    return 2 * max(1, sum(threads.values()))


def _wait(
    finished: "queue.SimpleQueue[Future[Result]]", client: "Client", address: str
) -> "Future[Result]":
    # Dask's own wait goes on for ever when the scheduler has said goodbye.
    while True:
        try:
            return finished.get(timeout=LOOK)
        except queue.Empty:
            if client.status not in ("running", "connecting"):
                raise _lost(address) from None


def _check_address(address: str) -> None:
    """Refuse what Dask could not connect to, whoever runs."""
    try:
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise SchedulerError(
            "scheduler needs Dask, which is not installed: "
            'pip install "calibrant[dask]"'
        ) from None
    try:
        scheme, place = parse_address(address)
        get_backend(scheme)
        # A cluster inside of this process has a name of its own, without a port.
        host, port = (place, 1) if scheme == "inproc" else parse_host_port(place)
        if address.split() != [address] or not host or not 0 < port < 65536:
            raise ValueError("it needs a host, and a port from 1 to 65535")
    except (ValueError, TypeError, ImportError) as error:
        raise SchedulerError(
            "scheduler must be the address of a Dask scheduler, as tcp://host:8786, "
            f"got {address!r}: {error}."
        ) from None


def _connect(address: str) -> "Client":
    try:
        client = _client(address)
    except (OSError, ValueError, TypeError, ImportError) as error:
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


def _client(address: str) -> "Client":
    from distributed import Client

    client = Client.__new__(Client)
    try:
        Client.__init__(client, address, timeout=PATIENCE, set_as_default=False)
    except BaseException:  # also KeyboardInterrupt
        # One half built would close itself at the end of the process, when its thread
        # is gone, and wait for it in vain.
        with contextlib.suppress(Exception):
            client.close(timeout=PATIENCE)
        raise
    return client


def _outcome(future: "Future[Result]", address: str) -> Result | Exception:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        return WorkerDiedError(f"this job's workers died again and again. {error}")
    except Exception as error:
        # What the function raised comes with this status, and other errors are Dask's.
        if future.status != "error" and isinstance(error, (CancelledError, OSError)):
            raise _lost(address) from error
        return error


def _lost(address: str) -> SchedulerError:
    return SchedulerError(
        f"the connection to the Dask scheduler at {address} was lost. What was "
        "finished before is safe: start the scheduler and run the same command again."
    )
