"""A model is a folder of named arrays and a JSON description; nothing in it runs.

``arrays.safetensors`` holds the numbers, ``model.json`` everything else as text to
read, and ``SHA256SUMS`` the checksums of both, as ``sha256sum --check`` takes them.
"""

import contextlib
import glob
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from calibrant._version import __version__
from calibrant.errors import StorageError
from calibrant.files import new_file
from calibrant.registry import read_json

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

#: Bytes that a description or the checksums may have.
_MOST = 2**28
#: How often, and after how many seconds, a folder that is being replaced is read again.
_TRIES, _PAUSE = 20, 0.005
#: Seconds after which a folder of an unfinished save is nobody's.
_ABANDONED = 3600
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
    """Write arrays and a description as a folder, whole or not at all; return its path.

    The files are written to a hidden folder beside ``folder``, which is then renamed. A
    former version is renamed first and removed last; :func:`read_folder` finds one of
    the two. Equal input gives equal bytes.

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
    packed = _pack(arrays)
    files = {ARRAYS: packed, MANIFEST: _manifest(kind, description, len(packed))}
    files[SUMS] = "".join(_sum(name, files[name]) + "\n" for name in files).encode()
    if page is not None:
        files[PAGE] = page.encode()
    with _writing(target):
        _check_free(target, overwrite=overwrite)
        _place(target, files)
    return Path(folder)


def check_writable(folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse a folder that :func:`write_folder` could not write, before long work."""
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
    folder, kind
        As they were passed to ``write_folder``; the folder may have been moved since.

    Returns
    -------
    arrays : dict of str to Tensor
        On the CPU, with shapes ``(...)`` and dtypes as written, by name.
    description : dict of str to object
        The description.

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
        _check_size(path, content["bytes"])
        packed = path.read_bytes()
        _check_sum(path, packed, sums)
        return _unpack(packed, path), content["description"]

    return _despite_saves(_locate(folder), read)


def read_description(folder: str | os.PathLike[str], *, kind: str) -> dict[str, Any]:
    """Read the description alone; of the arrays only the size is looked at."""

    def read(place: Path) -> dict[str, Any]:
        content, _ = _read_manifest(place, kind)
        _check_size(place / ARRAYS, content["bytes"])
        description: dict[str, Any] = content["description"]
        return description

    return _despite_saves(_locate(folder), read)


def _locate(folder: str | os.PathLike[str]) -> Path:
    """Return the absolute path behind ``folder``, with all links followed."""
    try:
        if not os.fspath(folder):
            raise ValueError
        return Path(folder).resolve()
    except (TypeError, ValueError, OSError, RuntimeError):  # as of a loop of links
        raise StorageError(
            f"folder must be a path, as text or Path, got {folder!r}."
        ) from None


# Content -------------------------------------------------------------------------


def _pack(arrays: "Mapping[str, Tensor]") -> bytes:
    """Return a safetensors file of the arrays in the order of their names."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save

    try:
        # A clone also carries out a conjugate that is only a mark on memory.
        return save(
            {
                name: arrays[name]
                .detach()
                .cpu()
                .clone(memory_format=torch.contiguous_format)
                for name in sorted(arrays)
            }
        )
    except (SafetensorError, LookupError, ValueError, RuntimeError) as error:
        raise StorageError(
            "arrays must be dense tensors of dtypes that the installed safetensors "
            f"holds: {error}. Convert them, or upgrade safetensors."
        ) from error


def _unpack(packed: bytes, path: Path) -> "dict[str, Tensor]":
    from safetensors.torch import load

    try:
        arrays = load(packed)
    except Exception as error:  # of many kinds, if somebody else has written it
        raise StorageError(
            f"{path} is not a safetensors file that this environment can read: "
            f"{error}. Upgrade safetensors, or write the folder again."
        ) from error
    # Memory of torch is aligned as that of a model which was never saved; vectorized
    # kernels may round differently on other addresses.
    return {name: arrays[name].clone() for name in sorted(arrays)}


def _manifest(kind: str, description: Mapping[str, object], size: int) -> bytes:
    content = {
        "format": FORMAT,
        "format_version": VERSION,
        "kind": kind,
        "calibrant": __version__,
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
    if len(raw) > _MOST:
        raise StorageError(
            f"the description must take at most {_MOST} bytes as JSON, got "
            f"{len(raw)}. Take a recalibrator that is not as large as its rows, as "
            'recalibrator="beta".'
        )
    return raw


def _read_manifest(place: Path, kind: str) -> tuple[dict[str, Any], str]:
    """Return the checked content of ``model.json``, and the text of checksums."""
    if not place.is_dir():
        raise StorageError(
            f"{place} must be a folder, and it is a file."
            if place.exists()
            else f"there is no folder {place}. Look for a misspelled name."
        )
    path = place / MANIFEST
    _check_size(path)
    raw = path.read_bytes()
    content = _parse(raw, path)
    # First, since a newer format may have other checksums.
    version = content.get("format_version")
    if type(version) is int and version > VERSION:
        raise StorageError(
            f"{path} was written by calibrant {content.get('calibrant')} with format "
            f"{version}; this version, {__version__}, reads up to {VERSION}: upgrade "
            "calibrant."
        )
    _check_size(place / SUMS)
    sums = (place / SUMS).read_text("ascii", errors="replace")
    # Version control may have changed the ends of the lines.
    _check_sum(path, raw.replace(b"\r\n", b"\n"), sums)
    if content.get("kind") != kind:
        raise StorageError(
            f"{path} describes a {content.get('kind')!r}, and a {kind!r} was asked "
            f"for. {_READERS.get(str(content.get('kind')), 'Name another folder.')}"
        )
    names = ("format_version", "description", "bytes")
    types = [type(content.get(name)) for name in names]
    if types != [int, dict, int] or version != VERSION:
        raise StorageError(
            f"{path} must have a format_version, a description and the arrays' bytes, "
            "as calibrant always writes them. Write the folder again."
        )
    return content, sums


def _parse(raw: bytes, path: Path) -> dict[str, Any]:
    """Read JSON that calls itself calibrant's; nothing else is checked."""
    try:
        content = read_json(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
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


def _sum(name: str, content: bytes) -> str:
    """Return a line of ``SHA256SUMS``."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def _check_sum(path: Path, content: bytes, sums: str) -> None:
    if _sum(path.name, content) not in sums.splitlines():
        raise StorageError(
            f"{path} has been edited, damaged or replaced since it was written: its "
            f"checksum is not the one in {SUMS}. Copy both again, undo the change, or "
            "write the folder again."
        )


def _check_size(path: Path, size: int | None = None) -> None:
    """Refuse what is not a regular file of the right size, before reading it."""
    if not path.exists():
        raise StorageError(
            f"{path} is missing. A folder of calibrant holds {MANIFEST}, {ARRAYS} and "
            f"{SUMS}: copy all, or name another folder."
        )
    if not path.is_file():
        raise StorageError(f"{path} must be a regular file. Copy the file itself.")
    found = path.stat().st_size
    if found > _MOST if size is None else found != size:
        rule = f"at most {_MOST}" if size is None else f"exactly {size}"
        raise StorageError(
            f"{path} must have {rule} bytes, it has {found}: truncated or replaced. "
            "Copy it again."
        )


def _despite_saves(target: Path, read: Callable[[Path], Result]) -> Result:
    """Read a folder, again if it was replaced meanwhile or is not there just now.

    The checksums see to it that no two versions are mixed. If a save was killed between
    its two renames, the former version is read.
    """
    for _ in range(_TRIES):
        before = _identity(target)
        try:
            return read(target)
        except (StorageError, OSError):
            if before is not None and _identity(target) == before:
                break
            time.sleep(_PAUSE)
    try:
        former = _left(target, "old") if _identity(target) is None else []
        return read(former[-1][1] if former else target)
    except OSError as error:
        raise StorageError(
            f"{target} cannot be read: {error}. Its files must be such that you may "
            "read them."
        ) from error


def _identity(folder: Path) -> tuple[int, ...] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


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
    if foreign or (found and not _is_ours(target / MANIFEST)):
        what = ", ".join(map(repr, foreign[:3])) or "files that are not calibrant's"
        raise StorageError(
            f"{target} must be empty or written by calibrant to be overwritten, and it "
            f"holds {what}. Choose another name, or remove the files yourself."
        )


def _is_ours(manifest: Path) -> bool:
    try:
        _check_size(manifest)
        _parse(manifest.read_bytes(), manifest)
    except StorageError:
        return False
    return True


def _place(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder beside ``target``, then rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = f"{_beside(target)}{secrets.token_hex(8)}"
    new, old = (target.with_name(f"{beside}.{role}") for role in ("new", "old"))
    try:
        new.mkdir()
        for name, content in files.items():
            with new_file(new / name) as file:
                file.write(content)
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:  # also KeyboardInterrupt
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    for since, left in (*_left(target, "new"), *_left(target, "old")):
        if time.time() - since > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _beside(target: Path) -> str:
    """What names of hidden folders beside one begin with.

    They are cut, because file systems take 255 bytes, and so hold a hash of it all.
    """
    own = hashlib.sha256(target.name.encode()).hexdigest()[:8]
    return f".{target.name[:40]}-{own}.calibrant-"


def _left(target: Path, role: str) -> list[tuple[float, Path]]:
    """Folders that unfinished saves left, and since when, the latest last."""
    found = []
    for left in target.parent.glob(f"{glob.escape(_beside(target))}*.{role}"):
        with contextlib.suppress(FileNotFoundError):  # another process has finished
            found.append((left.stat().st_ctime, left))
    return sorted(found)
