"""The way to a Dask scheduler, and what to say if there is none."""

import contextlib
from typing import TYPE_CHECKING

from calibrant.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SchedulerError", "connect"]

#: Seconds to wait for the scheduler, and for the first worker.
PATIENCE = 10


class SchedulerError(InputError):
    """Workers cannot be reached or started. The text says why and what to do."""


def connect(address: str) -> "Client":
    """Return a client of the Dask scheduler at ``"tcp://host:8786"`` with workers."""
    try:
        from distributed import Client
    except ImportError:
        raise SchedulerError(
            "scheduler needs Dask, which is not installed: "
            'pip install "calibrant[dask]"'
        ) from None
    client = Client.__new__(Client)
    try:
        Client.__init__(client, address, timeout=PATIENCE, set_as_default=False)
        client.wait_for_workers(1, timeout=PATIENCE)
    except BaseException as error:  # also KeyboardInterrupt
        reached = getattr(client, "status", "") == "running"
        # One half built would close itself at the end of the process, when its thread
        # is gone, and wait for it in vain.
        with contextlib.suppress(Exception):
            client.close(timeout=PATIENCE)
        if reached and isinstance(error, TimeoutError):
            raise SchedulerError(
                f"the Dask cluster at {address} has no workers. Start one on each "
                f"machine, with this library installed: dask worker {address}"
            ) from None
        if isinstance(error, OSError | ValueError | TypeError | ImportError):
            raise SchedulerError(
                "scheduler must be the address of a Dask scheduler that runs, as "
                f"tcp://host:8786, got {address!r}: nobody answers there ({error}). "
                "Start one with: dask scheduler"
            ) from error
        raise
    return client
