"""The bytes of a text file, unpacked if needed, and counted while they pass."""

import codecs
import gzip
import os
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["ByteStream", "NoTextError", "is_packed"]


class NoTextError(Exception):
    """There are bytes that no text has."""


def is_packed(path: Path) -> bool:
    """Tell whether the file is compressed by gzip, whatever it is called."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


class ByteStream:
    """What :mod:`pyarrow` reads from: a file that knows how far it is.

    Parameters
    ----------
    path
        Of the file.
    packed
        Unpack it on the way.
    """

    def __init__(self, path: Path, *, packed: bool) -> None:
        self._raw = path.open("rb")
        self._size = max(os.fstat(self._raw.fileno()).st_size, 1)
        self._file = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._shares = [0.0]
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.taken = 0
        self.odd_quotes = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, count: int) -> bytes:
        """Return the next bytes whatever they are; none at the end."""
        return self._file.read(count)

    def read(self, count: int) -> bytes:
        """Return the next bytes if they are text in UTF-8; none at the end."""
        data = self.take(count)
        try:
            # Looking for bytes above 127 is many times faster than decoding.
            if not data.isascii() or self._decoder.getstate()[0]:
                self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise NoTextError("it is not text in UTF-8") from error
        if b"\0" in data:
            raise NoTextError("it holds NUL bytes")
        self.taken += len(data)
        self.odd_quotes ^= data.count(b'"') % 2 == 1
        self._shares.append(min(self._raw.tell() / self._size, 1.0))
        return data

    def share(self, blocks: int) -> float:
        """Return the part of the file that the first so many calls of ``read`` gave.

        pyarrow reads many blocks ahead of the one that it hands out.
        """
        return self._shares[min(blocks, len(self._shares) - 1)]

    @property
    def closed(self) -> bool:
        """Whether there is nothing to read any more."""
        return self._raw.closed

    def close(self) -> None:
        """Give the file back to the system."""
        self._file.close()
        self._raw.close()
