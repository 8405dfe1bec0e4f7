"""Read a folder of named arrays and a description, after checking all of it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from calibrant.storage._error import StorageError
from calibrant.storage._manifest import (
    ARRAYS,
    MANIFEST,
    check_manifest,
    checksum,
    parse_manifest,
)
from calibrant.storage._place import former_version, locate, read_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["read_description", "read_folder"]

# So often a folder may be replaced while it is read.
_TRIES = 100

Result = TypeVar("Result")


def read_folder(
    folder: str | os.PathLike[str], *, kind: str
) -> "tuple[dict[str, Tensor], dict[str, object]]":
    """Read what :func:`~calibrant.storage.write_folder` wrote, bit for bit.

    Both files must be as they were written: a byte that is missing, more or different
    is an error. Nothing that is read is ever executed. Other files in the folder do
    not matter. While another process replaces the folder, one of its two versions is
    read.

    Parameters
    ----------
    folder
        A folder that ``write_folder`` made, possibly moved since.
    kind
        What it must hold, as it was given to ``write_folder``.

    Returns
    -------
    arrays : dict of str to Tensor
        Tensors on the CPU with the shapes ``(...)`` and dtypes that were written,
        in the order of their names.
    description : dict of str to object
        The description.

    Raises
    ------
    StorageError
        If anything about the folder is not as it was written, with what to do.

    Examples
    --------
    >>> read_folder("no such folder", kind="line")
    Traceback (most recent call last):
    ...
    calibrant.storage._error.StorageError: there is no folder ...
    """
    return _while_replaced(locate(folder), lambda place: _read_all(place, kind))


def read_description(folder: str | os.PathLike[str], *, kind: str) -> dict[str, object]:
    """Read the description alone; of the arrays only the size is looked at.

    Parameters
    ----------
    folder, kind
        As for :func:`read_folder`.
    """

    def read(place: Path) -> dict[str, object]:
        content, recorded = _read_manifest(place, kind)
        arrays = place / ARRAYS
        if not arrays.is_file() or arrays.stat().st_size != recorded["bytes"]:
            read_file(arrays, size=recorded["bytes"])  # says what is wrong
        return _section(content, "description", where=str(place / MANIFEST))

    return _while_replaced(locate(folder), read)


def _while_replaced(target: Path, read: Callable[[Path], Result]) -> Result:
    """Read a folder, again if it was another one when the reading failed.

    A save takes the former version away, puts the new one there, and removes the files
    of the former one; the checksums see to it that no two versions are mixed.
    """
    for _ in range(_TRIES):
        before = _identity(target)
        former = former_version(target) if before is None else None
        try:
            return read(target if former is None else former)
        except StorageError:
            if _identity(target) == before:
                raise
    raise StorageError(f"{target} is replaced faster than it can be read.")


def _identity(folder: Path) -> tuple[int, ...] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _read_all(target: Path, kind: str) -> "tuple[dict[str, Tensor], dict[str, object]]":
    # Torch takes seconds to import, and a description needs none.
    from calibrant.storage._arrays import list_arrays, unpack_arrays

    content, recorded = _read_manifest(target, kind)
    manifest, where = str(target / MANIFEST), str(target / ARRAYS)
    listing = _section(content, "arrays", where=manifest)
    description = _section(content, "description", where=manifest)
    packed = read_file(target / ARRAYS, size=recorded["bytes"])
    if checksum(packed) != recorded.get("sha256"):
        raise StorageError(
            f"{where} has been edited, damaged or replaced since it was written: its "
            "checksum does not match. Copy it again."
        )
    arrays = unpack_arrays(packed, where=where)
    _check_listing(list_arrays(arrays), listing, where=where)
    return arrays, description


def _read_manifest(
    target: Path, kind: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the checked text, and what it records about the arrays."""
    _check_folder(target)
    manifest = target / MANIFEST
    raw = read_file(manifest)
    content = parse_manifest(raw, where=str(manifest))
    check_manifest(content, raw, kind=kind, where=str(manifest))
    checksums = _section(content, "checksums", where=str(manifest))
    recorded = _section(checksums, ARRAYS, where=str(manifest))
    if type(recorded.get("bytes")) is not int:
        raise StorageError(
            f"{manifest} must have the size of {ARRAYS}. Write it again."
        )
    return content, recorded


def _check_folder(target: Path) -> None:
    try:
        if target.is_dir():
            return
    except OSError as error:
        raise StorageError(f"{target} cannot be read: {error}.") from error
    if os.path.lexists(target):
        raise StorageError(f"{target} must be a folder, and it is a file.")
    raise StorageError(f"there is no folder {target}. Look for a misspelled name.")


def _section(
    content: Mapping[str, object], name: str, *, where: str
) -> dict[str, object]:
    section = content.get(name)
    if not isinstance(section, dict):
        raise StorageError(
            f"{where} has no section {name!r}, which calibrant always writes. Write "
            "the folder again."
        )
    return section


def _check_listing(
    found: Mapping[str, str], listed: Mapping[str, object], *, where: str
) -> None:
    missing = sorted(listed.keys() - found.keys())
    more = sorted(found.keys() - listed.keys())
    other = [
        f"{name!r} is {found[name]}, not {listed[name]}"
        for name in sorted(found.keys() & listed.keys())
        if found[name] != listed[name]
    ]
    if missing or more or other:
        raise StorageError(
            f"{where} must hold the arrays that {MANIFEST} lists; missing: "
            f"{missing[:3]}, not listed: {more[:3]}, different: {other[:3]}. Write the "
            "folder again."
        )
