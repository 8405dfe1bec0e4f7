"""Workers that are local processes: they end when they should, and only then."""

import math
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from calibrant.benchmark import _processes
from calibrant.benchmark._worker import _end_with_parent, call, work
from calibrant.benchmark.schedulers import SchedulerError, run_jobs
from patience import HANGS, HEEDFUL

HERE = Path(__file__).parent


SLEEPERS = f"""
{HEEDFUL}
import sys, worker_jobs

if __name__ == "__main__":
    from calibrant.benchmark.schedulers import run_jobs
    try:
        list(run_jobs(worker_jobs.sleep, [sys.argv[1]] * 2, workers=2))
    except KeyboardInterrupt:
        sys.exit(77)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("end", ["SIGKILL", "SIGINT"])
def test_workers_end_with_their_parent(tmp_path: Path, end: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLEEPERS)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(HERE)},
    )
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert parent.poll() is None
        time.sleep(0.01)
    parent.send_signal(getattr(signal, end))
    expected = 77 if end == "SIGINT" else -getattr(signal, end)
    assert parent.wait(HANGS) == expected
    for child in [int(path.stem) for path in tmp_path.glob("*.pid")]:
        # They are nobody's children now, and end when they notice.
        while is_running(child):
            time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_a_worker_that_refuses_to_end_is_killed(
    functions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_processes, "PATIENCE", 0.05)
    jobs = [(number, str(tmp_path)) for number in (0, 1)]
    results = run_jobs(functions.refuse_to_end, jobs, workers=2)
    assert next(results) == (jobs[0], 0)
    stubborn = int((tmp_path / "mark").read_text())
    assert is_running(stubborn)
    results.close()  # type: ignore[attr-defined]
    assert not is_running(stubborn)


def test_workers_that_cannot_start_are_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", module)
    exec("def double(job):\n    return 2 * job", vars(module))
    with pytest.raises(
        SchedulerError, match=r"3 of them ended with exit code 1 before\..*__main__"
    ):
        list(run_jobs(module.double, [4.0], workers=2))
    assert "No module named 'only_here'" in capfd.readouterr().err


def test_a_worker_ends_when_its_pipe_does(functions: Any) -> None:
    """In this process, where coverage sees it."""

    class Pipe:
        def __init__(self) -> None:
            self.sent: list[bytes] = []

        def send_bytes(self, content: bytes) -> None:
            self.sent.append(content)

        def recv_bytes(self) -> bytes:
            if len(self.sent) == 1:
                return bytes(_processes.ForkingPickler.dumps(3))
            raise EOFError

    before = signal.getsignal(signal.SIGINT)
    pipe = Pipe()
    try:
        work(pipe, functions.square)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    assert pipe.sent[0] == b""
    assert _processes.ForkingPickler.loads(pipe.sent[1]) == 9
    assert call(functions.square, 4) == 16


def test_a_worker_watches_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    _end_with_parent()  # this process was started by no other of ours
    told: list[object] = []

    class Parent:
        def join(self) -> None:
            told.append("it has ended")

    monkeypatch.setattr("multiprocessing.parent_process", Parent)
    monkeypatch.setattr(os, "_exit", told.append)
    _end_with_parent()
    assert told == ["it has ended", 1]


def test_no_torch_is_loaded_to_limit_its_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert call(math.sqrt, 4.0) == 2.0
