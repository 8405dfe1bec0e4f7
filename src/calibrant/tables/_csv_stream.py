"""The bytes of a text file, unpacked if needed, and counted while they pass."""

import codecs
import gzip
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from calibrant.tables._errors import input_error

__all__ = ["ByteStream", "NoTextError", "is_packed"]

#: Bytes that any gzip file may become, and times its size that it may above them: more
#: than any table needs, and few enough that a small file cannot fill the memory.
MOST_UNPACKED = 1 << 26
MOST_TIMES = 200


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
        self._path, self._raw = path, path.open("rb")
        self._size = max(os.fstat(self._raw.fileno()).st_size, 1)
        self._file = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._shares = [0.0]
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._most = max(MOST_UNPACKED, MOST_TIMES * self._size) if packed else None
        self._unpacked = 0
        self.taken = 0
        self.quotes = 0

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
        data = self._file.read(count)
        self._unpacked += len(data)
        if self._most is not None and self._unpacked > self._most:
            raise input_error(
                f"{self._path}: a gzip file may become {MOST_TIMES} times its size, "
                "and this one becomes more. If you trust it, unpack it yourself "
                "(gunzip) and give the unpacked file."
            )
        return data

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
        self.quotes += data.count(b'"')
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
