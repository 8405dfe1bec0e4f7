"""Files of a report: whole, or as they were."""

from pathlib import Path

from calibrant._checks import InputError
from calibrant.files import replace_file

__all__ = ["write_bytes", "write_text"]


def write_text(path: Path, text: str) -> Path:
    """Write a text as UTF-8, in one step; see ``write_bytes``.

    Parameters
    ----------
    path
        The file.
    text
        Its lines end as they do here, on any system.
    """
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file in one step: a full disk leaves the one that was there.

    Parameters
    ----------
    path
        The file; folders above it are made.
    content
        All of it.
    """
    try:
        replace_file(path, content)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}. A file that was there is as "
            "it was."
        ) from error
    return path
