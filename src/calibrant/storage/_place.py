"""Where a folder goes, how it gets there in one step, and how its files are read."""

import contextlib
import hashlib
import os
import re
import secrets
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from calibrant.storage._error import StorageError
from calibrant.storage._manifest import (
    ARRAYS,
    MANIFEST,
    MOST_TEXT,
    PAGE,
    parse_manifest,
)

if sys.platform != "win32":
    import fcntl

__all__ = ["check_free", "former_version", "locate", "place_folder", "read_file"]


def locate(folder: str | os.PathLike[str]) -> Path:
    """Return the absolute path behind ``folder``, with all links followed."""
    try:
        given: object = os.fspath(folder)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given or "\0" in given:
        raise StorageError(f"folder must be a path, as text or Path, got {folder!r}.")
    return Path(os.path.realpath(given))


def check_free(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that is taken, and always one with files of somebody else."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise StorageError(
            f"folder must be a new path or a folder, and {target} is a file. Choose "
            "another name."
        )
    if not overwrite:
        raise StorageError(
            f"{target} exists already. Choose another name, or pass overwrite=True "
            "to replace it."
        )
    found = {path.name for path in target.iterdir()}
    foreign = sorted(found - {ARRAYS, MANIFEST, PAGE})
    if foreign or (found and not _is_ours(target)):
        what = ", ".join(map(repr, foreign[:3])) or "files that are not calibrant's"
        raise StorageError(
            f"{target} must be empty or written by calibrant to be overwritten, and it "
            f"holds {what}. Choose another name, or remove the files yourself."
        )


def read_file(path: Path, *, size: object = None) -> bytes:
    """Read a regular file of the size that is known, before which nothing is read.

    Parameters
    ----------
    path
        The file; a pipe or a device is refused at once.
    size
        Bytes that it must have; None for a text, which has a limit.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(
                    f"{path} must be a regular file, and it is a device, a pipe or a "
                    "socket. Copy the file itself."
                )
            if size is None and status.st_size > MOST_TEXT:
                raise StorageError(
                    f"{path} must have at most {MOST_TEXT} bytes, it has "
                    f"{status.st_size}: replaced or damaged. Copy it again."
                )
            if size is not None and status.st_size != size:
                raise StorageError(
                    f"{path} must have the {size} bytes that were written, it has "
                    f"{status.st_size}: truncated or replaced. Copy it again."
                )
            return file.read()
    except FileNotFoundError:
        raise StorageError(
            f"{path} is missing. A folder of calibrant holds {MANIFEST} and {ARRAYS}: "
            "copy both, or name another folder."
        ) from None
    except (OSError, MemoryError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}. It must be a file that you may read."
        ) from error


def _without_waiting(path: str, flags: int) -> int:
    # To open a pipe to which nobody writes would wait for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def place_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder beside ``target``, then rename it.

    A former ``target`` is renamed first and removed last. A process that is killed
    between the two renames leaves no ``target``, but both versions beside it, complete;
    the standard library has no call that exchanges two folders in one step. The reader
    then takes the former one, and the next save removes what was left. An error at
    this point brings the former one back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _tidied(target):
        new = _beside(target, "new")
        new.mkdir()
        try:
            for name, content in files.items():
                _write(new / name, content)
            _sync_folder(new)
            _swap(new, target)
        except BaseException:  # also KeyboardInterrupt
            with contextlib.suppress(OSError):
                _remove(new)
            raise


def former_version(target: Path) -> Path | None:
    """Return the version that was taken away to put a new one there, if it was not.

    Between these two steps, and after a process was killed there, both are beside it.
    """
    left = _leftovers(target)
    former = [path for path in left if path.suffix == ".old"]
    if not former or len(former) == len(left):
        return None
    with contextlib.suppress(OSError):  # put into place or removed just now
        return max(former, key=lambda path: path.stat().st_ctime_ns)
    return None


@contextlib.contextmanager
def _tidied(target: Path) -> Iterator[None]:
    """Remove what killed processes left, and keep others from removing what is new.

    All who write below one parent hold a lock on it, which ends with their process:
    who has it alone knows that what is there belongs to nobody.
    """
    if sys.platform == "win32":  # pragma: no cover
        yield
        return
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # others write, or a disk without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _tidy(target)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _tidy(target: Path) -> None:
    former = former_version(target)
    if former is not None and not os.path.lexists(target):
        former.rename(target)
    for path in _leftovers(target):
        with contextlib.suppress(OSError):  # something else has come into it
            _remove(path)


def _leftovers(target: Path) -> list[Path]:
    """Return what stands beside ``target`` while it is written, or since then."""
    ours = re.compile(rf"{re.escape(_start(target))}[0-9a-f]{{16}}\.(old|new)")
    try:
        return [path for path in target.parent.iterdir() if ours.fullmatch(path.name)]
    except OSError:
        return []


def _is_ours(target: Path) -> bool:
    manifest = target / MANIFEST
    try:
        parse_manifest(read_file(manifest), where=str(manifest))
    except StorageError:
        return False
    return True


def _start(target: Path) -> str:
    # Cut, because file systems take 255 bytes for a name; others may start alike.
    name = target.name
    if len(name) > 40:
        name = f"{name[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return f".{name}.calibrant-"


def _beside(target: Path, role: str) -> Path:
    # At random, so that what a killed process left is never in the way.
    return target.parent / f"{_start(target)}{secrets.token_hex(8)}.{role}"


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # Not all systems let a folder be opened; the files themselves are safe by then.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _swap(new: Path, target: Path) -> None:
    if not os.path.lexists(target):
        new.rename(target)
        _sync_folder(target.parent)
        return
    old = _beside(target, "old")
    try:
        target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            _restore(old, target)
        raise
    _sync_folder(target.parent)
    try:
        _remove_anyway(old)
    except OSError as error:
        warnings.warn(
            f"{target} is written, but its former version could not be removed and "
            f"is now {old}: {error}. Remove it yourself.",
            stacklevel=4,
        )


def _remove_anyway(folder: Path) -> None:
    """Remove a folder also if Ctrl-C comes in between, and raise it then."""
    try:
        _remove(folder)
    except KeyboardInterrupt:
        _remove(folder)
        raise


def _restore(old: Path, target: Path) -> None:
    try:
        old.rename(target)
    except OSError as error:
        raise StorageError(
            f"{target} could not be replaced, and its former version could not be "
            f"brought back from {old}: {error}. Rename that folder yourself."
        ) from error


def _remove(folder: Path) -> None:
    """Remove a folder of ours, and fail if anything else has come into it."""
    for name in (ARRAYS, MANIFEST, PAGE):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
