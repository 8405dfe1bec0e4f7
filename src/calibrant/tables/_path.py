"""Which file a path means, and whether a table can be in it."""

import os
import stat
from pathlib import Path

from calibrant.tables._errors import close_names, input_error, listed, shortened

__all__ = [
    "PARQUET",
    "TEXT",
    "cannot_read",
    "ending",
    "file_name",
    "locate_file",
    "user_path",
]

TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
_READ = "Tables are read from .csv, .tsv, .txt (also with .gz behind it) and .parquet."
_EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


def ending(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Return the suffix in lower case without ``.gz``, and whether that was there.

    >>> ending("a/B.CSV.gz")
    ('.csv', True)
    """
    name = Path(path).name.lower()
    packed = name.endswith(".gz")
    return Path(name.removesuffix(".gz")).suffix, packed


def user_path(path: str | os.PathLike[str], *, what: str) -> Path:
    """Return what the user wrote as a path, with ``~`` for the home folder."""
    given: object = os.fspath(path)
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise input_error(f"{what} must be the path of a file, got {path!r}.")
    try:
        return Path(given).expanduser()
    except RuntimeError:  # no such user
        return Path(given)


def file_name(path: str | os.PathLike[str]) -> str:
    """Return a path for messages: as the user wrote it, unless it is absurdly long."""
    return shortened(os.fspath(path), 300)


def locate_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that may hold a table, or say why it cannot."""
    place = user_path(path, what="a table")
    name = file_name(path)
    try:
        about = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise input_error(_missing(place, name)) from None
    except OSError as error:
        raise cannot_read(name, error) from error
    if stat.S_ISDIR(about.st_mode):
        raise input_error(f"{name}: this is a folder. {_in_folder(place)}")
    _check_ending(place, name)
    if not stat.S_ISREG(about.st_mode):
        raise input_error(
            f"{name}: this is no regular file, and a table is read more than once. "
            "Save it to a file first."
        )
    if about.st_size == 0:
        raise input_error(f"{name}: the file is empty.")
    return place


def cannot_read(name: str, error: BaseException) -> Exception:
    """Make the error for a file that the system does not hand out."""
    reason = getattr(error, "strerror", None) or error
    return input_error(f"{name}: the file cannot be read: {reason}.")


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _missing(place: Path, name: str) -> str:
    if place.is_symlink():
        return f"{name}: this is a link to a file that is not there."
    close = close_names(place.name, _names_in(place.parent))
    if close:
        return f"{name}: there is no such file. Did you mean {listed(close)}?"
    if not place.parent.is_dir():
        return f"{name}: there is no such file, nor the folder {place.parent}."
    return f"{name}: there is no such file. Check the path."


def _in_folder(place: Path) -> str:
    names = _names_in(place)
    if any(ending(name)[0] in PARQUET for name in names):
        return "A folder of Parquet files cannot be read yet; name one file in it."
    tables = [name for name in names if ending(name)[0] in TEXT]
    return f"Name a file in it, such as {listed(tables[:1])}." if tables else _READ


def _check_ending(place: Path, name: str) -> None:
    suffix, packed = ending(place)
    if suffix in TEXT or (suffix in PARQUET and not packed):
        return
    if suffix in _EXCEL:
        raise input_error(
            f"{name}: this is a spreadsheet. Save the sheet as CSV UTF-8."
        )
    if suffix in PARQUET:
        raise input_error(f"{name}: unpack the Parquet file first (gunzip).")
    what = "the name has no ending that tells what is in the file"
    if suffix:
        what = f"files that end in {shortened(suffix, 20)} are not read"
    raise input_error(f"{name}: {what}. {_READ}")
