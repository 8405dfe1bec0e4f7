"""Who holds a claim: a process, and whether it still lives."""

import os
import sys
from pathlib import Path

__all__ = ["Owner", "is_alive", "this_process"]

#: Process id, and when it started; pids come again, the pair does not.
Owner = tuple[int, str]


def this_process() -> Owner:
    """Return the process that asks."""
    pid = os.getpid()
    return pid, _started(pid) or ""


def is_alive(owner: Owner) -> bool:
    """Say whether a process of this host still runs."""
    pid, started = owner
    if started:
        return _started(pid) == started
    return _exists(pid)


def _started(pid: int) -> str | None:
    """Return when a process started where the system tells it, None if it is dead."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the state comes right after it.
    state, *rest = status.rpartition(")")[2].split()
    # A zombie has been killed and only waits for its parent to notice.
    return None if state in "ZX" else rest[18]


if sys.platform == "win32":  # pragma: no cover

    def _exists(pid: int) -> bool:
        import ctypes

        # os.kill(pid, 0) would send Ctrl-C there.
        synchronize, still_running = 0x00100000, 0x00000102
        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(synchronize, False, pid)
        if not handle:
            return False
        state = kernel.WaitForSingleObject(handle, 0)
        kernel.CloseHandle(handle)
        return bool(state == still_running)

else:

    def _exists(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # it lives, and is somebody else's
            return True
        return True
