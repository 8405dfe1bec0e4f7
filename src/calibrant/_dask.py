"""The way to a Dask scheduler, and what to say if there is none."""

import contextlib
from typing import TYPE_CHECKING

from calibrant.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SchedulerError", "check_address", "connect"]

#: Seconds to wait for the scheduler, and for the first worker.
PATIENCE = 10


class SchedulerError(InputError):
    """Workers cannot be reached or started. The text says why and what to do."""


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
