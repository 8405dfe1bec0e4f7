"""Write named arrays and a description as a folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.storage._error import StorageError
from calibrant.storage._manifest import ARRAYS, MANIFEST, PAGE, render_manifest
from calibrant.storage._place import check_free, locate, place_folder
from calibrant.storage._plain import as_plain_description

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_writable", "write_folder"]


def check_writable(folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse a folder that :func:`write_folder` could not write, before long work.

    Parameters
    ----------
    folder
        Where something is to be written later. Parents that do not exist are made.
    overwrite
        As it will be passed then.
    """
    target = locate(folder)
    try:
        check_free(target, overwrite=overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"you may not write in {target.parent}")
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{target} cannot be written: {error}. The parent must be a folder with room, "
        "in which you may write."
    )


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

    The folder holds ``arrays.safetensors`` and ``model.json``, which is text: format,
    kind, the description, dtype and shape of each array, and the checksums of both
    files (its own is that of the text with 64 zeros in its place). Equal input gives
    equal bytes.

    Both files are written beside ``folder``, brought to the disk and renamed. With
    ``overwrite`` the former version is renamed, the new one takes its name, and only
    then is the former one removed. :func:`read_folder` meets one of the two at any
    moment, also after a process was killed between these steps: the former version then
    stands beside ``folder`` under a name with a dot in front that ends in ``.old``.
    What a killed process left is removed by the next write of the same folder.

    Parameters
    ----------
    folder
        Where to write. Parents that do not exist are made; a link is followed.
    arrays
        Tensors of any shape ``(...)``, of every dtype that safetensors can read back.
        They are copied: on a device, shared, transposed or with gradients are all fine.
    description
        Anything that JSON holds. Mappings come back in the order of their keys and
        tuples as lists.
    kind
        What the folder holds; :func:`read_folder` asks for the same.
    page
        A page for people, ``report.html`` beside the two files; nothing reads it.
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
    >>> from calibrant.storage import read_folder
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = write_folder(
    ...         f"{parent}/line",
    ...         arrays={"slope": torch.tensor([2.0, 3.0])},
    ...         description={"target": "price"},
    ...         kind="line",
    ...     )
    ...     sorted(path.name for path in folder.iterdir())
    ...     read_folder(folder, kind="line")
    ['arrays.safetensors', 'model.json']
    ({'slope': tensor([2., 3.])}, {'target': 'price'})
    """
    # Torch takes seconds to import, and to read a description needs none.
    from calibrant.storage._arrays import check_arrays, list_arrays, pack_arrays

    target = locate(folder)
    _check_kind(kind)
    copies = check_arrays(arrays)
    plain = as_plain_description(description)
    packed = pack_arrays(copies)
    manifest = render_manifest(
        kind=kind, description=plain, listing=list_arrays(copies), arrays=packed
    )
    try:
        check_free(target, overwrite=overwrite)
        files = {ARRAYS: packed, MANIFEST: manifest}
        if page is not None:
            files[PAGE] = page.encode()
        place_folder(target, files)
    except OSError as error:
        raise _unwritable(target, error) from error
    return Path(folder)


def _check_kind(kind: object) -> None:
    if not isinstance(kind, str) or not kind:
        raise StorageError(f"kind must be a word for what is stored, got {kind!r}.")
