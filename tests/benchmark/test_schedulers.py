"""One function, many jobs: the same results wherever they run, whoever dies."""

import importlib
import math
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from calibrant import _dask
from calibrant.benchmark import _processes
from calibrant.benchmark._worker import _answer, _pack
from calibrant.benchmark.schedulers import SchedulerError, WorkerDiedError, run_jobs
from patience import HANGS, HEEDFUL

HERE = Path(__file__).parent
Options = dict[str, Any]
# Any port: that of a second cluster on this machine would be a warning.
QUIET = ":0"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dask, "PATIENCE", HANGS)


@pytest.fixture(scope="module")
def cluster(functions: Any) -> Iterator[Any]:  # noqa: ARG001 - it changes the path
    distributed = pytest.importorskip("distributed")
    settings = importlib.import_module("dask").config.set(
        {
            # So that a job that kills is found out soon.
            "distributed.scheduler.allowed-failures": 1,
            # A worker that starts again on a busy machine is not lost after 15 s.
            "distributed.deploy.lost-worker-timeout": "1 hour",
        }
    )
    with (
        settings,
        distributed.LocalCluster(
            processes=True,
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=QUIET,
            silence_logs="CRITICAL",
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(params=["this process", "processes", "dask"])
def where(request: pytest.FixtureRequest) -> Options:
    if request.param == "dask":
        return {"scheduler": request.getfixturevalue("cluster").scheduler_address}
    return {"workers": 1 if request.param == "this process" else 2}


@pytest.fixture(params=["processes", "dask"])
def elsewhere(request: pytest.FixtureRequest) -> Options:
    if request.param == "dask":
        return {"scheduler": request.getfixturevalue("cluster").scheduler_address}
    return {"workers": 2}


def test_results_and_errors_are_the_same_everywhere(
    functions: Any, where: Options
) -> None:
    asked = []

    def ready(job: int) -> bool:
        asked.append(job)
        return job != 2

    found = dict(run_jobs(functions.reciprocal, range(5), ready=ready, **where))
    assert asked == [0, 1, 2, 3, 4]
    error = found.pop(0)
    assert type(error) is ZeroDivisionError
    assert str(error) == "division by zero"
    assert found == {1: 1.0, 3: 1 / 3, 4: 0.25}


def test_no_jobs_are_no_results(where: Options) -> None:
    assert list(run_jobs(math.sqrt, [], **where)) == []


def test_this_process_takes_one_job_after_another() -> None:
    taken = []

    def jobs() -> Iterator[float]:
        for job in (4.0, 9.0, 16.0):
            taken.append(job)
            yield job

    results = run_jobs(math.sqrt, jobs())
    assert taken == []
    assert next(results) == (4.0, 2.0)
    assert taken == [4.0]
    assert list(results) == [(9.0, 3.0), (16.0, 4.0)]


def test_jobs_are_taken_when_there_is_room(functions: Any, elsewhere: Options) -> None:
    taken = []

    def jobs() -> Iterator[int]:
        for job in range(50):
            taken.append(job)
            yield job

    room = 2 if "workers" in elsewhere else 4
    results = run_jobs(functions.square, jobs(), **elsewhere)
    assert taken == []
    for seen, (job, result) in enumerate(results, 1):
        assert result == job * job
        assert len(taken) <= seen + room
        if seen == 10:
            break
    results.close()  # type: ignore[attr-defined]


def test_a_dead_worker_costs_nothing(
    functions: Any, elsewhere: Options, tmp_path: Path
) -> None:
    jobs = [(number, str(tmp_path)) for number in range(6)]
    found = dict(run_jobs(functions.die_once, jobs, **elsewhere))
    assert found == {job: job[0] ** 2 for job in jobs}
    assert (tmp_path / "tried-2").exists()


def test_a_job_that_kills_is_given_up_alone(
    functions: Any, elsewhere: Options, tmp_path: Path
) -> None:
    jobs = [(number, str(tmp_path)) for number in range(4)]
    found = dict(run_jobs(functions.die_always, jobs, **elsewhere))
    error = found.pop(jobs[2])
    assert type(error) is WorkerDiedError
    if "workers" in elsewhere:
        assert "3 workers in a row were killed by signal 9" in str(error)
        assert len(list(tmp_path.glob("died-*"))) == 3
    assert found == {job: job[0] ** 2 for job in jobs if job[0] != 2}


def test_an_error_brings_its_traceback_along(
    functions: Any, elsewhere: Options
) -> None:
    found = dict(run_jobs(functions.awkward, [0, 1], **elsewhere))
    assert found[0] == 0
    assert isinstance(found[1], Exception)
    assert "1 and 2" in str(found[1])
    assert "raise AwkwardError(job, 2)" in "".join(found[1].__notes__)


def test_workers_compute_on_one_thread(functions: Any, elsewhere: Options) -> None:
    before = dict(os.environ)
    assert list(run_jobs(functions.threads, [0], **elsewhere)) == [(0, (0, "1", 1))]
    assert dict(os.environ) == before


def test_a_worker_that_leaves_is_dead_too(
    functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_processes, "LIVES", 1)
    ((job, error),) = run_jobs(functions.leave, [3], workers=2)
    assert job == 3
    assert isinstance(error, WorkerDiedError)
    assert "ended with exit code 3" in str(error)


def test_what_cannot_travel_is_told(functions: Any) -> None:
    pack, unpack = _processes.ForkingPickler.dumps, _processes.ForkingPickler.loads
    assert unpack(_answer(functions.square, pack(3))) == 9
    result = unpack(_answer(functions.not_for_travel, pack(3)))
    assert "cannot pickle 'generator' object" in str(result)
    error = unpack(_answer(functions.hopeless, pack(3)))
    assert type(error) is RuntimeError
    assert str(error) == "ValueError: no luck with 3"
    assert "raise error" in error.__notes__[0]
    assert isinstance(unpack(_answer(functions.square, b"not a job")), Exception)
    error = unpack(_pack(ValueError(lambda: 3)))
    assert str(error).startswith("ValueError: <function")


def test_wrong_options_are_told() -> None:
    with pytest.raises(SchedulerError, match="workers must be a whole number from 1"):
        run_jobs(math.sqrt, [1.0], workers=0)
    with pytest.raises(SchedulerError, match="give one of the two"):
        run_jobs(math.sqrt, [1.0], workers=2, scheduler="tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nonsense", "missing port"),
        ("tcp://host", "missing port"),
        ("http://x", "unknown address scheme 'http'"),
        ("http://x:8", "unknown address scheme 'http'"),
        ("tcp://tcp://x:8", "unknown address scheme"),
        ("tcp://x:port", "invalid literal"),
        ("tcp://:8786", "needs a host"),
        ("tcp://x:0", "a port from 1 to 65535"),
        ("tcp://x:65536", "a port from 1 to 65535"),
        ("tcp://my host:8786", "needs a host"),
        ("inproc://", "needs a host"),
        ("", "missing port"),
        (8786, "expected str"),
    ],
)
def test_what_is_no_address_is_told_at_once(
    address: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", None)
    rule = re.escape(f"as tcp://host:8786, got {address!r}: ")
    with pytest.raises(SchedulerError, match=f"{rule}.*{reason}"):
        run_jobs(math.sqrt, [1.0], scheduler=address)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "127.0.0.1:9", "tcp://[::1]:9"]
)
def test_a_scheduler_that_is_not_there_is_told(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "PATIENCE", 0.3)
    with pytest.raises(
        SchedulerError, match=re.escape(f"nobody answers at '{address}'")
    ):
        next(run_jobs(math.sqrt, [1.0], scheduler=address))


ALONE = f"""
{HEEDFUL}
import math, sys
from calibrant import _dask
from calibrant.benchmark.schedulers import SchedulerError, run_jobs

_dask.PATIENCE = float(sys.argv[2])
try:
    next(run_jobs(math.sqrt, [1.0], scheduler=sys.argv[1]))
except (SchedulerError, KeyboardInterrupt) as error:
    kept = error  # with it all that its traceback holds lives until the end
    print(type(error).__name__, flush=True)
"""


def alone(address: str, patience: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", ALONE, address, str(patience)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# The second fails while the client is being built, since there is no certificate.
@pytest.mark.parametrize("address", ["nonsense", "tls://127.0.0.1:9"])
def test_after_the_error_the_process_ends_in_silence(address: str) -> None:
    pytest.importorskip("distributed")
    with alone(address, 60) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "SchedulerError\n"
        # A half-built client would wait for 120 s.
        assert process.communicate(timeout=HANGS) == ("", "")
        assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_nobody_has_to_wait_for_a_scheduler() -> None:
    pytest.importorskip("distributed")
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        alone(f"tcp://127.0.0.1:{silent.getsockname()[1]}", 60) as process,
    ):
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=HANGS) == ("KeyboardInterrupt\n", "")
        assert process.returncode == 0


def test_a_cluster_of_this_process_has_an_address_too() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=QUIET
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("inproc://")
        assert list(run_jobs(math.sqrt, [4.0], scheduler=address)) == [(4.0, 2.0)]


def test_a_cluster_without_workers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    connect = _dask._client

    def connected(address: str) -> Any:
        client = connect(address)
        monkeypatch.setattr(_dask, "PATIENCE", 0.1)  # for workers, once it is there
        return client

    monkeypatch.setattr(_dask, "_client", connected)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=QUIET) as empty,
        pytest.raises(SchedulerError, match=r"has no workers\. .*: dask worker tcp://"),
    ):
        next(run_jobs(math.sqrt, [1.0], scheduler=empty.scheduler_address))


CLUSTER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        processes=False,
        protocol="tcp://",
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=":0",
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def test_a_scheduler_that_goes_away_is_told(functions: Any) -> None:
    pytest.importorskip("distributed")
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=os.environ | {"PYTHONPATH": str(HERE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        results = run_jobs(functions.nap, [0.0, 600.0], scheduler=address)
        assert next(results) == (0.0, 0.0)
        process.kill()
        process.wait()
        with pytest.raises(SchedulerError, match=f"at {address} was lost"):
            next(results)


def test_a_last_worker_that_dies_is_told_and_a_new_one_goes_on(
    functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "PATIENCE", HANGS)
    short = importlib.import_module("dask").config.set({"calibrant.patience": 0.01})

    def worker(address: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        return subprocess.Popen(
            [*command, *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
            stderr=subprocess.DEVNULL,
        )

    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=QUIET) as cluster,
        short,
    ):
        address = cluster.scheduler_address
        with worker(address) as last:
            results = run_jobs(functions.nap, [0.0, 600.0], scheduler=address)
            assert next(results) == (0.0, 0.0)
            last.kill()
            last.wait()
            with pytest.raises(SchedulerError, match=r"are gone.*for 0\.01 s.*is safe"):
                next(results)
        with worker(address) as new:
            again = list(run_jobs(functions.nap, [0.1], scheduler=address))
            assert again == [(0.1, 0.1)]
            new.kill()


class Gone:
    """A client or a future whose scheduler has gone."""

    def __init__(self, status: str, error: Exception) -> None:
        self.status = status
        self.error = error

    def result(self, timeout: float) -> None:
        assert timeout > 0
        raise self.error

    def nthreads(self) -> None:
        raise self.error


def test_every_way_to_lose_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "LOOK", 0.01)
    gone: Any = Gone("closed", ConnectionResetError("reset"))
    with pytest.raises(SchedulerError, match="was lost"):
        _dask._room(gone, "address")
    with pytest.raises(SchedulerError, match="was lost"):
        _dask._wait(queue.SimpleQueue(), gone, "address")
    for error in (CancelledError(), TimeoutError()):
        gone = Gone("cancelled", error)
        with pytest.raises(SchedulerError, match="was lost"):
            _dask._outcome(gone, gone, "address")
        gone = Gone("error", error)
        assert _dask._outcome(gone, gone, "address") is error
    gone = Gone("running", OSError())
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Timer(0.05, finished.put, ("future",)).start()
    assert _dask._wait(finished, gone, "address") == "future"


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("distributed", "distributed.comm.addressing"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SchedulerError, match=r'pip install "calibrant\[dask\]"'):
        next(run_jobs(math.sqrt, [1.0], scheduler="tcp://127.0.0.1:8786"))


def test_what_is_shared_outlives_a_worker(
    functions: Any, cluster: Any, tmp_path: Path
) -> None:
    jobs = [(number, str(tmp_path)) for number in range(4)]
    shared = bytes(20_000_000)  # more than Dask sends without a warning
    found = dict(
        _dask.run_on_dask(
            functions.die_once_and_add,
            iter(jobs),
            address=cluster.scheduler_address,
            shared=shared,
        )
    )
    assert found == {job: job[0] ** 2 + len(shared) for job in jobs}
    assert (tmp_path / "tried-2").exists()
