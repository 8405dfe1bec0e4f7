"""Files that appear whole or not at all, and their checksums."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["new_file", "replace_file", "replacing", "sha256_of"]


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that must not exist yet; its bytes are on the disk at the end."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a file beside ``target`` that takes its place at the end.

    Missing folders above it are made. On an error, such as a full disk, a file that was
    there stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # A random name, so that what a killed process left is never in the way.
    new = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.new")
    try:
        with new_file(new) as file:
            yield file
        new.replace(target)
    except BaseException:  # also KeyboardInterrupt
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def replace_file(target: Path, content: bytes) -> None:
    """Write a whole file in one step, see :func:`replacing`."""
    with replacing(target) as file:
        file.write(content)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
