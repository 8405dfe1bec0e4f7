"""Read a folder of named arrays and a description, after checking all of it."""

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from calibrant.storage._arrays import list_arrays, unpack_arrays
from calibrant.storage._error import StorageError
from calibrant.storage._manifest import (
    ARRAYS,
    MANIFEST,
    check_manifest,
    checksum,
    parse_manifest,
)
from calibrant.storage._place import leftovers, locate

__all__ = ["read_folder"]


def read_folder(
    folder: str | os.PathLike[str], *, kind: str
) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read what :func:`~calibrant.storage.write_folder` wrote, bit for bit.

    Both files must be as they were written: a byte that is missing, more or different
    is an error. Nothing that is read is ever executed. Other files in the folder do
    not matter.

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
    target = locate(folder)
    _check_folder(target)
    manifest = target / MANIFEST
    raw = _read(manifest)
    content = parse_manifest(raw, where=str(manifest))
    check_manifest(content, raw, kind=kind, where=str(manifest))
    listing = _section(content, "arrays", where=str(manifest))
    description = _section(content, "description", where=str(manifest))
    checksums = _section(content, "checksums", where=str(manifest))

    packed = _read(target / ARRAYS)
    where = str(target / ARRAYS)
    _check_bytes(packed, _section(checksums, ARRAYS, where=str(manifest)), where=where)
    arrays = unpack_arrays(packed, where=where)
    _check_listing(list_arrays(arrays), listing, where=where)
    return arrays, description


def _check_folder(target: Path) -> None:
    try:
        if target.is_dir():
            return
    except OSError as error:
        raise StorageError(f"{target} cannot be read: {error}.") from error
    if os.path.lexists(target):
        raise StorageError(f"{target} must be a folder, and it is a file.")
    former = leftovers(target)
    hint = "Look for a misspelled name."
    if former:
        hint = (
            f"Writing it was interrupted; its former version is {former[-1]}: rename "
            "that folder back."
        )
    raise StorageError(f"there is no folder {target}. {hint}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StorageError(
            f"{path} is missing. A folder of calibrant holds {MANIFEST} and {ARRAYS}: "
            "copy both, or name another folder."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error}. It must be a file that you may read."
        ) from error


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


def _check_bytes(content: bytes, recorded: Mapping[str, object], *, where: str) -> None:
    size = recorded.get("bytes")
    if len(content) != size:
        raise StorageError(
            f"{where} must have the {size} bytes that were written, it has "
            f"{len(content)}: truncated or replaced. Copy it again."
        )
    if checksum(content) != recorded.get("sha256"):
        raise StorageError(
            f"{where} has been edited, damaged or replaced since it was written: its "
            "checksum does not match. Copy it again."
        )


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
