"""Many jobs by one function on a Dask cluster."""

import contextlib
import itertools
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, TypeVar

from calibrant._call import call, same
from calibrant._checks import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = [
    "SchedulerError",
    "WorkerDiedError",
    "check_address",
    "connect",
    "explained",
    "run_on_dask",
]

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Seconds to wait for the scheduler, and for the first worker.
PATIENCE = 10
#: Seconds between looks at the connection and at the workers.
LOOK = 1.0
#: Seconds to fetch a result before a look at the workers: it may be lost with one.
FETCH = 60.0
#: Seconds without a worker after which a run ends, unless ``calibrant.patience`` in
#: Dask's configuration says others. Nannies and batch systems start new ones in less.
WORKERLESS = 300.0


class SchedulerError(InputError):
    """Workers cannot be reached or started. The text says why and what to do."""


class WorkerDiedError(RuntimeError):
    """A job took its worker down with it, again and again."""


def explained(error: Exception) -> Exception:
    """Return an error that says what to do where a machine lacks this library."""
    # Dask's own is for a scheduler that cannot read what it is sent.
    if isinstance(error, ImportError) or "different environments" in str(error):
        return SchedulerError(
            "scheduler and workers must load this library, and one cannot: "
            f"{' '.join(str(error).split())} Install calibrant on every machine of the "
            "cluster, in the same version as here."
        )
    return error


def run_on_dask(
    function: Callable[..., Result],
    jobs: Iterator[Job],
    *,
    address: str,
    shared: object = None,
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield each job with its result as they come, two at a time for each thread.

    The second one is there when the first ends; more results would only wait in memory.
    An address that cannot be one is refused at once, before anyone is asked. Closing
    the iterator takes all jobs back that have not begun. When all workers are gone and
    none comes for 300 s, or as long as ``calibrant.patience`` of Dask's configuration
    says (``DASK_CALIBRANT__PATIENCE`` in the environment), that is a
    ``SchedulerError``.

    Parameters
    ----------
    function
        At the top level of a module that the workers can import. It is called with a
        job, and with what is shared if anything is.
    jobs
        Taken one by one, each when there is room for it.
    address
        Of a Dask scheduler, as ``"tcp://host:8786"``.
    shared
        What all jobs need. It goes to the scheduler once, and to each worker once.
    """
    check_address(address)
    return _results(function, jobs, address, shared)


def _results(
    function: Callable[..., Result], jobs: Iterator[Job], address: str, shared: object
) -> Iterator[tuple[Job, Result | Exception]]:
    with contextlib.closing(connect(address)) as client:
        more = () if shared is None else (_held(client, shared),)
        suspects: list[Job] = []
        for job, outcome in _run(client, function, jobs, address, more):
            if isinstance(outcome, WorkerDiedError):
                suspects.append(job)
            else:
                yield job, outcome
        # Dask blames all jobs that a dead worker had. Alone, each shows what it does.
        for job in suspects:
            yield from _run(client, function, iter([job]), address, more)


def _held(client: "Client", shared: object) -> "Future[object]":
    """Let the cluster hold something that is made again if its worker dies."""
    import dask

    # Dask advises to scatter large data, which a dead worker would take along.
    largest = {"distributed.admin.large-graph-warning-threshold": "1 PB"}
    with dask.config.set(largest):
        return client.submit(same, shared, pure=False)


def _run(
    client: "Client",
    function: Callable[..., Result],
    jobs: Iterator[Job],
    address: str,
    more: tuple["Future[object]", ...] = (),
) -> Iterator[tuple[Job, Result | Exception]]:
    running: dict[object, tuple[Job, Future[Result]]] = {}
    finished: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()

    def fill() -> None:
        room = max(0, _room(client, address) - len(running))
        for job in itertools.islice(jobs, room):
            future = client.submit(call, function, job, *more, pure=False)
            # Held on to, since Dask drops what nobody has a hold of.
            running[future.key] = job, future
            future.add_done_callback(finished.put)

    fill()
    while running:
        future = _wait(finished, client, address)
        outcome = _outcome(future, client, address)
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
    # Dask's own wait goes on for ever when the scheduler has said goodbye, and when
    # the last worker has.
    since = None
    while True:
        try:
            return finished.get(timeout=LOOK)
        except queue.Empty:
            if client.status not in ("running", "connecting"):
                raise _lost(address) from None
            since = _without_workers(client, address, since)


def _without_workers(
    client: "Client", address: str, since: float | None
) -> float | None:
    """When the last worker was found to be gone, None if one is there."""
    import dask

    try:
        if client.nthreads():
            return None
    except OSError:  # the status of the client will tell
        return None
    now = time.monotonic()
    patience = float(dask.config.get("calibrant.patience", WORKERLESS))
    if since is not None and now - since >= patience:
        raise SchedulerError(
            f"all workers of the Dask cluster at {address} are gone, and none has come "
            f"for {patience:g} s. What was written before is safe: start one with "
            f"`dask worker {address}` and run the same again. To wait longer, set "
            "DASK_CALIBRANT__PATIENCE to a number of seconds."
        )
    return now if since is None else since


def check_address(address: str) -> None:
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


def connect(address: str) -> "Client":
    """Return a client of a Dask scheduler that has workers, or say what lacks.

    Parameters
    ----------
    address
        Of the scheduler, as ``"tcp://host:8786"``.
    """
    check_address(address)
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


def _outcome(
    future: "Future[Result]", client: "Client", address: str
) -> Result | Exception:
    from distributed import KilledWorker

    since = None
    while True:
        try:
            return future.result(timeout=FETCH)
        except KilledWorker as error:
            return WorkerDiedError(f"this job's workers died again and again. {error}")
        except Exception as error:
            # What the function raised comes with this status, and others are Dask's.
            if future.status == "error":
                return error
            # Lost with its worker, it is made again by another.
            if isinstance(error, TimeoutError) and future.status != "cancelled":
                since = _without_workers(client, address, since)
            elif isinstance(error, (CancelledError, OSError)):
                raise _lost(address) from error
            else:
                return error


def _lost(address: str) -> SchedulerError:
    return SchedulerError(
        f"the connection to the Dask scheduler at {address} was lost. What was "
        "written before is safe: start the scheduler and run the same again."
    )
