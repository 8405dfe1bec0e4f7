"""Which files of a folder are predicted, and where their predictions go."""

import os
from collections import Counter
from pathlib import Path

from calibrant._checks import InputError
from calibrant.storage import check_writable
from calibrant.tables.read import PARQUET, ending, user_path

__all__ = ["as_folder", "out_folder", "tables_in"]

# Endings that can be read and written.
_TEXT = (".csv", ".tsv")
_RULE = "a folder to predict must hold Parquet files only, or .csv and .tsv files only"


def as_folder(table: object) -> Path | None:
    """Return the folder that a table's path means, None if it means no folder."""
    if not isinstance(table, str | os.PathLike):
        return None
    place = user_path(table, what="a table")
    return place if place.is_dir() else None


def tables_in(folder: Path) -> list[Path]:
    """Return the tables of a folder, all of one kind, in the order of their names.

    Files whose names begin with a dot or an underscore are left out, as everywhere with
    folders of Parquet files.

    Parameters
    ----------
    folder
        What is in its folders is not looked at.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be read: {error}.") from None
    if not found:
        raise InputError(
            f"{folder}: {_RULE}, and there are none. Put some into it, or name another."
        )
    kinds = Counter(_kind(path) for path in found)
    stranger = next((path for path in found if _kind(path) == "others"), None)
    if stranger is not None or len(kinds) > 1:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        named = "" if stranger is None else f", such as {stranger.name!r:.60}"
        raise InputError(
            f"{folder}: {_RULE}, got {counts}{named}. Move the others away."
        )
    return found


def _kind(path: Path) -> str:
    suffix, packed = ending(path)
    if path.is_dir():
        return "others"
    if suffix in PARQUET and not packed:
        return "Parquet"
    return "text" if suffix in _TEXT else "others"


def out_folder(
    out: str | os.PathLike[str] | None, folder: Path, model: object
) -> tuple[Path, Path]:
    """Return the folder for the predictions, which is made, and that of the model.

    Parameters
    ----------
    out
        As it was given.
    folder
        With the tables.
    model
        As it was given: a folder is predicted by a model that is in one too.
    """
    if not isinstance(model, str | os.PathLike):
        raise InputError(
            "a folder of files is predicted by a saved model, so that a later call can "
            "tell which files it has done, got one in memory. Save it, and hand its "
            "folder in."
        )
    if out is None:
        raise InputError(
            f"{folder}: predictions of a folder go to a folder, and there is none. "
            "Name it as out."
        )
    place, source = user_path(out, what="the output"), Path(model)
    taken = {os.path.realpath(each) for each in (folder, source)}
    real = os.path.realpath(place)
    if real in taken or os.path.dirname(real) == os.path.realpath(folder):  # noqa: PTH120
        raise InputError(
            f"{place}: predictions must go to a folder that is not the input's, nor in "
            "it, nor the model's. Choose another name."
        )
    _make(place)
    return place, source


def _make(place: Path) -> None:
    if place.is_dir():
        return
    if os.path.lexists(place):
        raise InputError(
            f"{place}: predictions of a folder go to a folder, and this is a file. "
            "Choose another name."
        )
    check_writable(place)
    place.mkdir()
