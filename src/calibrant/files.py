"""Files that are replaced in one step."""

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(target: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there; folders above it are made.

    On an error, such as a full disk, a file that was there stays as it was.

    Parameters
    ----------
    target
        The file.
    content
        All of it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # At random, so that what a killed process left is never in the way.
    new = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.new")
    try:
        with new.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    except BaseException:  # also KeyboardInterrupt
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
