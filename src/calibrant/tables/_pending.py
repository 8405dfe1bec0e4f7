"""A file that is written under a hidden name and renamed when it is complete."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from calibrant.tables._errors import input_error

__all__ = ["PendingFile"]


class PendingFile:
    """A file that nobody sees before it is complete.

    Parameters
    ----------
    target
        Where it appears in the end.
    name
        How messages call it.
    """

    def __init__(self, target: Path, name: str) -> None:
        self._target = target
        self._name = name
        # Cut, because file systems take 255 bytes for a name; at random, so that what
        # a killed process left is never in the way.
        start = target.name.encode()[:100].decode(errors="ignore")
        self._part = target.with_name(f".{start}.{secrets.token_hex(8)}.part")
        self._stream: BinaryIO | None = None

    @property
    def stream(self) -> BinaryIO:
        """What to write to."""
        if self._stream is None:
            raise input_error(
                f"{self._name}: write inside of a with block, as in "
                "'with TableWriter(path) as writer'."
            )
        return self._stream

    def open(self) -> None:
        """Make the hidden file."""
        try:
            self._stream = self._part.open("xb")
        except OSError as error:
            raise input_error(
                f"{self._name}: the file cannot be written: {error.strerror}."
            ) from error

    def keep(self) -> None:
        """Make the file safe on the disk and give it its name."""
        stream = self.stream
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()
        self._part.replace(self._target)
        self._stream = None
        _sync_folder(self._target.parent)

    def discard(self) -> None:
        """Remove the hidden file if it is still there."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            with contextlib.suppress(OSError):
                self._part.unlink()
            self._stream = None


def _sync_folder(folder: Path) -> None:
    # Not all systems let a folder be opened; the file itself is safe by then.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
