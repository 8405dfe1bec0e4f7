"""What runs in a worker's process: one job after another, until the parent is gone.

Nothing large is imported here: a worker starts as fast as its function loads.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from calibrant._call import call

__all__ = ["HELLO", "call", "work"]

Job = TypeVar("Job")

#: The first message of a worker that has started; no answer is empty.
HELLO = b""


def work(connection: "Connection[Any, Any]", function: Callable[[Job], object]) -> None:
    """Answer each job that comes with its result, or the error that it raised."""
    # Ctrl-C reaches all processes of a terminal; the parent decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent has closed its end
        connection.send_bytes(HELLO)
        while True:
            connection.send_bytes(_answer(function, connection.recv_bytes()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Not sys.exit: the main thread may be deep in a computation.
        os._exit(1)


def _answer(function: Callable[[Job], object], content: bytes) -> bytes:
    try:
        job: Job = ForkingPickler.loads(content)
        return bytes(ForkingPickler.dumps(call(function, job)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return _pack(error)


def _pack(error: Exception) -> bytes:
    try:
        content = bytes(ForkingPickler.dumps(error))
        ForkingPickler.loads(content)
    except Exception:  # noqa: BLE001 - errors of any make, which may not travel
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            stand_in.add_note(note)
        return bytes(ForkingPickler.dumps(stand_in))
    return content
