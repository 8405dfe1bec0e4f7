"""Where a folder goes, and how it gets there in one step."""

import contextlib
import os
import secrets
import warnings
from collections.abc import Mapping
from pathlib import Path

from calibrant.storage._error import StorageError
from calibrant.storage._manifest import ARRAYS, MANIFEST, PAGE, parse_manifest

__all__ = ["check_free", "leftovers", "locate", "place_folder"]


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


def place_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder beside ``target``, then rename it.

    A former ``target`` is renamed first and removed last. A process that is killed
    between the two renames leaves no ``target``, but both versions beside it, complete;
    the standard library has no call that exchanges two folders in one step. An error
    at this point brings the former one back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
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


def leftovers(target: Path) -> list[Path]:
    """Return former versions of ``target`` that a killed process left beside it."""
    start = _start(target)
    try:
        names = sorted(path.name for path in target.parent.iterdir())
    except OSError:
        return []
    return [
        target.parent / name
        for name in names
        if name.startswith(start) and name.endswith(".old")
    ]


def _is_ours(target: Path) -> bool:
    manifest = target / MANIFEST
    try:
        parse_manifest(manifest.read_bytes(), where=str(manifest))
    except (OSError, StorageError):
        return False
    return True


def _start(target: Path) -> str:
    # Cut, because file systems take 255 bytes for a name.
    return f".{target.name[:40]}.calibrant-"


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
