"""A model is a folder of named arrays and a JSON description; nothing in it runs.

``arrays.safetensors`` holds the numbers, ``model.json`` everything else as text to
read, and ``SHA256SUMS`` the checksums of both, as ``sha256sum --check`` takes them.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from calibrant._version import __version__
from calibrant.errors import StorageError
from calibrant.files import new_file

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:  # a description is read without torch, which takes seconds to import
    from torch import Tensor

__all__ = [
    "StorageError",
    "check_writable",
    "read_description",
    "read_folder",
    "write_folder",
]

ARRAYS, MANIFEST, SUMS = "arrays.safetensors", "model.json", "SHA256SUMS"
#: A page for people, which may stand beside them.
PAGE = "report.html"
FORMAT, VERSION = "calibrant", 1

#: Bytes that each file may have; that of the arrays is in the manifest.
_MOST = {MANIFEST: 2**28, SUMS: 2**10}
#: How often a folder may be replaced while it is read.
_TRIES = 100
_READERS = {
    "CalibratedRegressor": "Read it with calibrant.load(folder).",
    "TableModel": "Read it with calibrant.TableModel.load(folder).",
}

Result = TypeVar("Result")


def write_folder(
    folder: str | os.PathLike[str],
    *,
    arrays: "Mapping[str, Tensor]",
    description: Mapping[str, object],
    kind: str,
    page: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write arrays and a description as a folder, as a whole or not at all.

    ``model.json`` names the format, the kind, the description, and dtype and shape of
    each array. Equal input gives equal bytes.

    The files are written beside ``folder``, brought to the disk and renamed. With
    ``overwrite`` the former version is renamed, the new one takes its name, and only
    then is the former one removed. :func:`read_folder` finds one of the two at any
    moment, also after a process was killed between these steps: the former version then
    stands beside ``folder`` under a name with a dot in front that ends in ``.old``.
    What a killed process left is removed by the next write of the same folder.

    Parameters
    ----------
    folder
        Where to write. Missing parents are made; a link is followed.
    arrays
        Tensors of any shape ``(...)`` and of every dtype that safetensors holds. They
        are copied: on a device, shared, transposed or with gradients are all fine.
    description
        Anything that JSON holds. Mappings come back in the order of their keys and
        tuples as lists.
    kind
        What the folder holds; :func:`read_folder` asks for the same.
    page
        A page for people, ``report.html``; nothing reads it.
    overwrite
        Replace a folder that calibrant wrote, or an empty one. A folder with any other
        file in it is never replaced.

    Returns
    -------
    Path
        The folder, as it was given.

    Raises
    ------
    StorageError
        If the input cannot be stored exactly, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = write_folder(
    ...         f"{parent}/line",
    ...         arrays={"slope": torch.tensor([2.0, 3.0])},
    ...         description={"target": "price"},
    ...         kind="line",
    ...     )
    ...     sorted(path.name for path in folder.iterdir())
    ...     read_folder(folder, kind="line")
    ['SHA256SUMS', 'arrays.safetensors', 'model.json']
    ({'slope': tensor([2., 3.])}, {'target': 'price'})
    """
    target = _locate(folder)
    packed, listing = _pack(arrays)
    manifest = _manifest(kind, description, listing, len(packed))
    files = {ARRAYS: packed, MANIFEST: manifest}
    sums = "".join(f"{_sha256(content)}  {name}\n" for name, content in files.items())
    files[SUMS] = sums.encode()
    if page is not None:
        files[PAGE] = page.encode()
    with _writing(target):
        _check_free(target, overwrite=overwrite)
        _place(target, files)
    return Path(folder)


def check_writable(folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse a folder that :func:`write_folder` could not write, before long work.

    Parameters
    ----------
    folder
        Where something is to be written later. Missing parents are made.
    overwrite
        As it will be passed then.
    """
    target = _locate(folder)
    with _writing(target):
        _check_free(target, overwrite=overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"you may not write in {target.parent}")


def read_folder(
    folder: str | os.PathLike[str], *, kind: str
) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Read what :func:`write_folder` wrote, bit for bit.

    A byte that is missing, added or changed is an error, and nothing that is read is
    ever executed. Other files in the folder do not matter. While another process
    replaces the folder, one of its two versions is read.

    Parameters
    ----------
    folder
        A folder that ``write_folder`` made, possibly moved since.
    kind
        What it must hold, as it was given to ``write_folder``.

    Returns
    -------
    arrays : dict of str to Tensor
        Tensors on the CPU with the shapes ``(...)`` and dtypes that were written, in
        the order of their names.
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
    calibrant.errors.StorageError: there is no folder ...
    """

    def read(place: Path) -> "tuple[dict[str, Tensor], dict[str, Any]]":
        content, sums = _read_manifest(place, kind)
        path = place / ARRAYS
        packed = _read_file(path, size=content["bytes"])
        _check_sum(path, packed, sums)
        arrays = _unpack(packed, path)
        if _listing(arrays) != content["arrays"]:
            raise StorageError(
                f"{path} must hold the arrays that {MANIFEST} lists, and it holds "
                "others. Write the folder again."
            )
        return arrays, content["description"]

    return _despite_saves(_locate(folder), read)


def read_description(folder: str | os.PathLike[str], *, kind: str) -> dict[str, Any]:
    """Read the description alone; of the arrays only the size is looked at.

    Parameters
    ----------
    folder, kind
        As for :func:`read_folder`.
    """

    def read(place: Path) -> dict[str, Any]:
        content, _ = _read_manifest(place, kind)
        with _opened(place / ARRAYS, size=content["bytes"]):
            description: dict[str, Any] = content["description"]
            return description

    return _despite_saves(_locate(folder), read)


def _locate(folder: str | os.PathLike[str]) -> Path:
    """Return the absolute path behind ``folder``, with all links followed."""
    try:
        if not os.fspath(folder):
            raise ValueError
        return Path(folder).resolve()
    except (TypeError, ValueError):
        raise StorageError(
            f"folder must be a path, as text or Path, got {folder!r}."
        ) from None
    except (OSError, RuntimeError) as error:
        raise StorageError(f"{folder} cannot be read: {error}.") from error


# Content -------------------------------------------------------------------------


def _pack(arrays: "Mapping[str, Tensor]") -> tuple[bytes, dict[str, str]]:
    """Return a safetensors file of the arrays in the order of their names."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save

    try:
        # A clone also carries out a conjugate that is only a mark on memory.
        copies = {
            name: arrays[name]
            .detach()
            .cpu()
            .clone(memory_format=torch.contiguous_format)
            for name in sorted(arrays)
        }
        return save(copies), _listing(copies)
    except (SafetensorError, LookupError, ValueError, RuntimeError) as error:
        raise StorageError(
            "arrays must be dense tensors of dtypes that the installed safetensors "
            f"holds: {error}. Convert them, or upgrade safetensors."
        ) from error


def _unpack(packed: bytes, path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        arrays = load(packed)
    except (
        *(SafetensorError, LookupError, ValueError, TypeError),
        *(RuntimeError, AssertionError, OverflowError),
    ) as error:
        raise StorageError(
            f"{path} is not a safetensors file that this environment can read: "
            f"{error}. Upgrade safetensors, or write the folder again."
        ) from error
    # Memory of torch is aligned as that of a model which was never saved; vectorized
    # kernels may round differently on other addresses.
    return {name: arrays[name].clone() for name in sorted(arrays)}


def _listing(arrays: "Mapping[str, Tensor]") -> dict[str, str]:
    """Describe each array by dtype and shape, as in ``float32[64, 13]``."""
    return {
        name: f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        for name, tensor in arrays.items()
    }


def _manifest(
    kind: str, description: Mapping[str, object], listing: dict[str, str], size: int
) -> bytes:
    content = {
        "format": FORMAT,
        "format_version": VERSION,
        "kind": kind,
        "calibrant": __version__,
        "arrays": listing,
        "bytes": size,
    }
    try:
        plain = json.dumps(description, sort_keys=True, allow_nan=False)
        content["description"] = json.loads(plain)
        raw = f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(
            f"the description must be finite numbers and text that JSON can hold: "
            f"{error}."
        ) from error
    if len(raw) > _MOST[MANIFEST]:
        raise StorageError(
            f"the description must take at most {_MOST[MANIFEST]} bytes as JSON, got "
            f"{len(raw)}. Take a recalibrator that is not as large as its rows, as "
            'recalibrator="beta".'
        )
    return raw


def _read_manifest(place: Path, kind: str) -> tuple[dict[str, Any], str]:
    """Return the checked content of ``model.json``, and the text of checksums."""
    _check_folder(place)
    path = place / MANIFEST
    raw = _read_file(path)
    content = _parse(raw, path)
    # First, since a newer format may have other checksums.
    version = content.get("format_version")
    if type(version) is int and version > VERSION:
        raise StorageError(
            f"{path} was written by calibrant {content.get('calibrant')} with format "
            f"{version}; this version, {__version__}, reads up to {VERSION}: upgrade "
            "calibrant."
        )
    sums = _read_file(place / SUMS).decode("ascii", errors="replace")
    # Version control may have changed the ends of the lines.
    _check_sum(path, raw.replace(b"\r\n", b"\n"), sums)
    if content.get("kind") != kind:
        raise StorageError(
            f"{path} describes a {content.get('kind')!r}, and a {kind!r} was asked "
            f"for. {_READERS.get(str(content.get('kind')), 'Name another folder.')}"
        )
    names = ("format_version", "description", "arrays", "bytes")
    types = [type(content.get(name)) for name in names]
    if types != [int, dict, dict, int] or version != VERSION:
        raise StorageError(
            f"{path} must have a format_version, a description, arrays and their "
            "bytes, as calibrant always writes them. Write the folder again."
        )
    return content, sums


def _parse(raw: bytes, path: Path) -> dict[str, Any]:
    """Read JSON that calls itself calibrant's; nothing else is checked."""
    try:
        content = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError, MemoryError) as error:
        raise StorageError(
            f"{path} cannot be read as JSON, it is truncated, damaged or another "
            f"file: {error}. Write the folder again."
        ) from error
    name = content.get("format") if isinstance(content, dict) else None
    if not isinstance(content, dict) or name != FORMAT:
        raise StorageError(
            f"{path} must have the format {FORMAT!r}; this is JSON of something else, "
            f"its format is {name!r}. Name a folder that calibrant wrote."
        )
    return content


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_sum(path: Path, content: bytes, sums: str) -> None:
    if f"{_sha256(content)}  {path.name}" not in sums.splitlines():
        raise StorageError(
            f"{path} has been edited, damaged or replaced since it was written: its "
            f"checksum is not the one in {SUMS}. Copy both again, undo the change, or "
            "write the folder again."
        )


# Reading -------------------------------------------------------------------------


def _despite_saves(target: Path, read: Callable[[Path], Result]) -> Result:
    """Read a folder, again if it was another one when the reading failed.

    A save takes the former version away, puts the new one there, and removes the files
    of the former one; the checksums see to it that no two versions are mixed.
    """
    for _ in range(_TRIES):
        before = _identity(target)
        former = _former_version(target) if before is None else None
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


def _check_folder(target: Path) -> None:
    try:
        if target.is_dir():
            return
    except OSError as error:
        raise StorageError(f"{target} cannot be read: {error}.") from error
    if os.path.lexists(target):
        raise StorageError(f"{target} must be a folder, and it is a file.")
    raise StorageError(f"there is no folder {target}. Look for a misspelled name.")


@contextlib.contextmanager
def _opened(path: Path, *, size: int | None = None) -> Iterator[Any]:
    """Open a regular file of the right size; others are refused before any reading."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(
                    f"{path} must be a regular file, and it is a device, a pipe or a "
                    "socket. Copy the file itself."
                )
            most = _MOST.get(path.name, 0) if size is None else size
            if status.st_size > most or (size is not None and status.st_size < size):
                rule = "at most" if size is None else "exactly"
                raise StorageError(
                    f"{path} must have {rule} {most} bytes, it has {status.st_size}: "
                    "truncated or replaced. Copy it again."
                )
            yield file
    except FileNotFoundError:
        raise StorageError(
            f"{path} is missing. A folder of calibrant holds {MANIFEST}, {ARRAYS} and "
            f"{SUMS}: copy all, or name another folder."
        ) from None
    except (OSError, MemoryError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}. It must be a file that you may read."
        ) from error


def _without_waiting(path: str, flags: int) -> int:
    # To open a pipe to which nobody writes would wait forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_file(path: Path, *, size: int | None = None) -> bytes:
    with _opened(path, size=size) as file:
        content: bytes = file.read()
        return content


# Writing -------------------------------------------------------------------------


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{target} cannot be written: {error}. The parent must be a folder with "
            "room, in which you may write."
        ) from error


def _check_free(target: Path, *, overwrite: bool) -> None:
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
    foreign = sorted(found - {ARRAYS, MANIFEST, SUMS, PAGE})
    if foreign or (found and not _is_ours(target)):
        what = ", ".join(map(repr, foreign[:3])) or "files that are not calibrant's"
        raise StorageError(
            f"{target} must be empty or written by calibrant to be overwritten, and it "
            f"holds {what}. Choose another name, or remove the files yourself."
        )


def _is_ours(target: Path) -> bool:
    path = target / MANIFEST
    try:
        _parse(_read_file(path), path)
    except StorageError:
        return False
    return True


def _place(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder beside ``target``, then rename it.

    A former ``target`` is renamed first and removed last; the standard library has no
    call that exchanges two folders in one step. An error in between brings it back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _tidied(target):
        new = _beside(target, "new")
        new.mkdir()
        try:
            for name, content in files.items():
                with new_file(new / name) as file:
                    file.write(content)
            _sync_folder(new)
            _swap(new, target)
        except BaseException:  # also KeyboardInterrupt
            with contextlib.suppress(OSError):
                _remove(new)
            raise


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
            old.rename(target)
        raise
    _sync_folder(target.parent)
    try:
        _remove(old)
    except KeyboardInterrupt:
        _remove(old)
        raise
    except OSError as error:
        warnings.warn(
            f"{target} is written, but its former version could not be removed and "
            f"is now {old}: {error}. Remove it yourself.",
            stacklevel=4,
        )


def _remove(folder: Path) -> None:
    """Remove a folder of ours, and fail if anything else has come into it."""
    for name in (ARRAYS, MANIFEST, SUMS, PAGE):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _sync_folder(folder: Path) -> None:
    # Not all systems let a folder be opened; the files themselves are safe by then.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _tidied(target: Path) -> Iterator[None]:
    """Remove what killed processes left, and keep others from removing what is new.

    All who write below one parent share a lock on it, which ends with their process:
    who has it alone knows that what is there belongs to nobody.
    """
    if sys.platform == "win32":  # pragma: no cover
        yield
        return
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # others write, or a disk without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            former = _former_version(target)
            if former is not None and not os.path.lexists(target):
                former.rename(target)
            for path in _leftovers(target):
                with contextlib.suppress(OSError):  # something else has come into it
                    _remove(path)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _former_version(target: Path) -> Path | None:
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


def _leftovers(target: Path) -> list[Path]:
    """Return what stands beside ``target`` while it is written, or since then."""
    ours = re.compile(rf"{re.escape(_start(target))}[0-9a-f]{{16}}\.(old|new)")
    try:
        return [path for path in target.parent.iterdir() if ours.fullmatch(path.name)]
    except OSError:
        return []


def _beside(target: Path, role: str) -> Path:
    # A random name, so that what a killed process left is never in the way.
    return target.parent / f"{_start(target)}{secrets.token_hex(8)}.{role}"


def _start(target: Path) -> str:
    # Cut, because file systems take 255 bytes for a name; others may start alike.
    name = target.name
    if len(name) > 40:
        name = f"{name[:40]}-{_sha256(os.fsencode(name))[:16]}"
    return f".{name}.calibrant-"
