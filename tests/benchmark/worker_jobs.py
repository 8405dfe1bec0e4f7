"""Jobs for workers to import: pytest's own modules have no name that they could."""

import os
import signal
import sys
import time
from pathlib import Path


class AwkwardError(Exception):
    """Cannot be unpickled: its arguments are not those that it was made with."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def square(job: int) -> int:
    return job * job


def reciprocal(job: int) -> float:
    """The first that come are the last to end."""
    time.sleep(max(0.0, 0.1 * (3 - job)))
    return 1 / job


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def awkward(job: int) -> int:
    if job == 1:
        raise AwkwardError(job, 2)
    return job


def hopeless(job: int) -> int:
    error = ValueError(f"no luck with {job}")
    error.secret = not_for_travel(job)  # type: ignore[attr-defined]
    raise error


def not_for_travel(job: int) -> object:
    return (each for each in range(job))


def die_once(job: tuple[int, str]) -> int:
    """Job number 2 kills its worker the first time."""
    number, folder = job
    mark = Path(folder) / f"tried-{number}"
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_always(job: tuple[int, str]) -> int:
    """Job number 2 kills every worker, and leaves a mark for each."""
    number, folder = job
    if number == 2:
        (Path(folder) / f"died-{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def refuse_to_end(job: tuple[int, str]) -> int:
    """Job number 1 never ends, and 0 waits until it is sure of that."""
    number, folder = job
    mark = Path(folder) / "mark"
    if number == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        mark.with_suffix(".new").write_text(str(os.getpid()))
        mark.with_suffix(".new").rename(mark)
    while number == 1 or not mark.exists():
        time.sleep(0.01)
    return number


def leave(job: int) -> int:
    sys.exit(job)


def threads(job: int) -> tuple[int, str | None, int]:
    import torch

    return job, os.environ.get("OMP_NUM_THREADS"), torch.get_num_threads()


def sleep(folder: str) -> None:
    """Say who it is that sleeps."""
    new = Path(folder) / f"{os.getpid()}.new"
    new.touch()
    new.rename(Path(folder) / f"{os.getpid()}.pid")
    time.sleep(600)


def die_once_and_add(job: tuple[int, str], shared: bytes) -> int:
    """Job number 2 kills its worker, with what all share, the first time."""
    return die_once(job) + len(shared)
