"""What was known of a file when it was first used, kept beside it."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["SourceRecord", "read_array", "read_record", "write_array", "write_record"]


@dataclass(frozen=True, kw_only=True)
class SourceRecord:
    """SHA-256 of the file that was read, and of the numbers in it (hexadecimal)."""

    source_sha256: str
    array_sha256: str


def read_record(path: Path) -> SourceRecord | None:
    """Return the record, or None if there is none that can be read."""
    try:
        return SourceRecord(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_record(
    path: Path, source_sha256: str, array: npt.NDArray[np.float64]
) -> None:
    """Write a record, in one step."""
    record = SourceRecord(
        source_sha256=source_sha256, array_sha256=hashlib.sha256(array.data).hexdigest()
    )
    text = json.dumps(asdict(record), indent=1) + "\n"
    _place(path, lambda file: file.write(text.encode()))


def read_array(path: Path, sha256: str) -> npt.NDArray[np.float64] | None:
    """Return the array, or None if the file is not there or not as it was written."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        return None
    return array if hashlib.sha256(array.data).hexdigest() == sha256 else None


def write_array(path: Path, array: npt.NDArray[np.float64]) -> None:
    """Write an array as ``.npy``, in one step."""
    _place(path, lambda file: np.save(file, array, allow_pickle=False))


def _place(path: Path, write: Callable[[BinaryIO], object]) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with new.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:  # also KeyboardInterrupt
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
