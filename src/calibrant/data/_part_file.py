"""The unfinished file of a download, and what the server said of it."""

import contextlib
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from calibrant.data.cache import VARIABLE

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where two may disturb each other
    fcntl = None  # type: ignore[assignment]

__all__ = ["DiskError", "DownloadError", "PartFile", "discard", "open_part"]


class DownloadError(OSError):
    """A download did not succeed. The text says why and what to do."""


class DiskError(DownloadError):
    """The folder for data does not take the file."""


class PartFile:
    """The bytes that are there so far; every write goes behind them.

    Parameters
    ----------
    path
        Of the unfinished file.
    file
        Open for appending, without a buffer, so that a killed process loses nothing.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path, self._file = path, file
        self.size = file.seek(0, os.SEEK_END)

    @property
    def version(self) -> str:
        """The server's mark of the version that the bytes belong to, or nothing."""
        try:
            return _mark(self.path).read_text("utf-8")
        except (OSError, ValueError):
            return ""

    def restart(self, version: str) -> None:
        """Drop all bytes, and note the version that the next ones belong to."""
        with self._writing():
            self._file.truncate(0)
            self.size = 0
            _mark(self.path).write_text(version, "utf-8")

    def write(self, content: bytes) -> None:
        """Append; what the disk took before an error stays and counts."""
        rest = memoryview(content)
        with self._writing():
            while rest:
                written = self._file.write(rest)
                self.size += written
                rest = rest[written:]

    def sync(self) -> None:
        """Wait until the disk has everything."""
        with self._writing():
            os.fsync(self._file.fileno())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskError(
                f"{self.path} could not be written: {error}. Its {self.size:,} bytes "
                "are kept, and the next download goes on behind them: make room, or "
                f"set the environment variable {VARIABLE} to a folder on another disk."
            ) from error


@contextlib.contextmanager
def open_part(path: Path) -> Iterator[PartFile]:
    """Open or make the unfinished file, for this process alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = FileIO(path, "ab")
    except OSError as error:
        raise DiskError(
            f"the folder for data must be writable, and {path.parent} is not: {error}. "
            f"Set the environment variable {VARIABLE} to another folder."
        ) from error
    with file:
        _lock(file, path)
        yield PartFile(path, file)


def discard(path: Path) -> None:
    """Remove an unfinished file and the mark beside it."""
    path.unlink(missing_ok=True)
    _mark(path).unlink(missing_ok=True)


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.version")


def _lock(file: FileIO, path: Path) -> None:
    # The system lets go of it when the process ends, however it ends.
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DownloadError(
            f"another process is writing {path}. Wait until it is done."
        ) from None
    except OSError:
        pass  # some network file systems have no locks
