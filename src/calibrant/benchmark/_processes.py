"""Jobs in processes of this machine, which may die."""

import contextlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, TypeVar

from calibrant._dask import SchedulerError, WorkerDiedError
from calibrant.benchmark._worker import HELLO, work

__all__ = ["run_in_processes"]

Job = TypeVar("Job")
Result = TypeVar("Result")

#: So often may a job's worker die.
LIVES = 3
#: Seconds that a worker has to end by itself.
PATIENCE = 5.0
# Read by the libraries when they load, so that it must be there before the process.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)


def run_in_processes(
    function: Callable[[Job], Result], jobs: Iterator[Job], *, workers: int
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield each job with its result as they come, ``workers`` at a time.

    A pool of the standard library breaks as a whole when one process of it dies, hence
    a pipe to each worker here.
    """
    pool: _Pool[Job, Result] = _Pool(function, jobs)
    try:
        while pool.fill(workers):
            for worker in pool.wait():
                finished = pool.receive(worker)
                if finished is not None:
                    yield finished
    finally:
        pool.stop()


@dataclass(eq=False)
class _Task(Generic[Job]):
    """A job, and how many of its workers have died."""

    job: Job
    deaths: int = 0


@dataclass(eq=False)
class _Worker(Generic[Job]):
    """A process, the pipe to it and what it works on."""

    process: BaseProcess
    connection: "Connection[Any, Any]"
    task: _Task[Job]
    started: bool = False


class _Pool(Generic[Job, Result]):
    """Workers, of which each has a task."""

    def __init__(self, function: Callable[[Job], Result], jobs: Iterator[Job]) -> None:
        self._function = function
        self._jobs = jobs
        self._again: deque[_Task[Job]] = deque()
        self._workers: list[_Worker[Job]] = []
        self._failed_starts = 0

    def fill(self, workers: int) -> bool:
        """Start the workers that lack, and say whether there are any."""
        while len(self._workers) < workers and (task := self._next()) is not None:
            self._start(task)
        return bool(self._workers)

    def wait(self) -> list[_Worker[Job]]:
        """Wait until a worker has something to say, or has died; return all such."""
        talking = wait([worker.connection for worker in self._workers])
        return [worker for worker in self._workers if worker.connection in talking]

    def receive(self, worker: _Worker[Job]) -> tuple[Job, Result | Exception] | None:
        """Return a job with its outcome, None if there is none yet."""
        task = worker.task
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury(worker)
        if message == HELLO:
            worker.started = True
            self._failed_starts = 0
            return None
        # Now, so that it does not wait for what is done with the result.
        following = self._next()
        if following is None:
            self._end(worker)
        else:
            self._give(worker, following)
        return task.job, ForkingPickler.loads(message)

    def stop(self) -> None:
        """End all workers in the middle of their jobs."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in list(self._workers):
            self._end(worker)

    def _next(self) -> _Task[Job] | None:
        if self._again:
            return self._again.popleft()
        for job in self._jobs:
            return _Task(job)
        return None

    def _start(self, task: _Task[Job]) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work, args=(theirs, self._function), daemon=True
        )
        # Our copy of their end is closed: the pipe breaks when the worker dies.
        with theirs, _environment(_ONE_THREAD):
            process.start()
        self._workers.append(_Worker(process, ours, task))
        self._give(self._workers[-1], task)

    def _give(self, worker: _Worker[Job], task: _Task[Job]) -> None:
        worker.task = task
        content = ForkingPickler.dumps(task.job)
        with contextlib.suppress(OSError):  # it is dead, as receiving will tell
            worker.connection.send_bytes(content)

    def _bury(self, worker: _Worker[Job]) -> tuple[Job, Exception] | None:
        """Do a dead worker's job again, unless it is the job that kills."""
        self._end(worker)
        task, cause = worker.task, _cause(worker.process.exitcode)
        if worker.started:
            task.deaths += 1
        else:
            self._failed_starts += 1
        if self._failed_starts == LIVES:
            raise SchedulerError(
                f"workers must be able to start, and {LIVES} of them {cause} before. "
                "Their own words are above; in a script, start the work under "
                "if __name__ == '__main__':, since workers import the script."
            )
        if task.deaths == LIVES:
            return task.job, WorkerDiedError(
                f"{LIVES} workers in a row {cause} at this job: {task.job!r}."
            )
        self._again.append(task)
        return None

    def _end(self, worker: _Worker[Job]) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join(PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return f"were killed by signal {-code} (9 is often a lack of memory)"
    return f"ended with exit code {code}"


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
