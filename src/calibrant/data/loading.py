"""A data set by name or by path."""

import gzip
import hashlib
import io
import os
import re
from importlib import resources
from pathlib import Path

import numpy as np

from calibrant.data._errors import input_error
from calibrant.data.dataset import DataSet, described
from calibrant.data.info import DataSetInfo
from calibrant.data.registry import DATA_SETS
from calibrant.data.tables import read_table
from calibrant.data.year import load_year, year_is_present

__all__ = ["is_present", "load"]


def load(name: str | os.PathLike[str], *, target: str | None = None) -> DataSet:
    """Load a data set of the paper by name, or your own CSV by path.

    Parameters
    ----------
    name
        A name from ``DATA_SETS``; or a path (a ``Path``, or text that ends in ``.csv``,
        ``.csv.gz``, ``.tsv`` or ``.parquet``, or names a folder) of a table of finite
        numbers. ``"path.csv#column"`` names its target as well.
    target
        Column of a CSV that is the target; None takes the last one.

    Returns
    -------
    DataSet
        Features ``x`` of shape ``(n, d)`` and target ``y`` of shape ``(n,)`` in the
        order of the file.

    Raises
    ------
    InputError
        If there is no such set or file, or if a cell is not a number; the text names
        the line and the column.

    Examples
    --------
    >>> concrete = load("concrete")
    >>> concrete.x.shape, concrete.features[:2], concrete.target
    ((1030, 8), ('cement', 'blast_furnace_slag'), 'compressive_strength')
    >>> load("concreet")
    Traceback (most recent call last):
    calibrant.errors.InputError: data: no data set is called 'concreet'; ...
    """
    path, column = _as_path(name)
    if path is not None:
        if target is not None and column is not None and target != column:
            raise input_error(
                f"the target must be named once, got target={target!r} and "
                f"{os.fspath(name)!r}."
            )
        column = column if target is None else target
        return read_table(path, target=column, name=os.fspath(name))
    try:
        info = DATA_SETS[str(name)]
    except KeyError as error:
        raise input_error(
            f"data: {error.args[0]} Your own data needs a path that ends in .csv, "
            ".csv.gz, .tsv or .parquet."
        ) from None
    if target is not None and target != info.target:
        raise input_error(
            f"target is for a CSV of your own: the target of {info.name!r} is "
            f"{info.target!r}, got target={target!r}."
        )
    return _bundled(info) if info.bundled else load_year()


def is_present(name: str | os.PathLike[str]) -> bool:
    """Whether :func:`load` finds the data on this machine.

    Examples
    --------
    >>> is_present("yacht"), is_present("no_such_file.csv")
    (True, False)
    """
    path, _ = _as_path(name)
    if path is not None:
        return path.is_file()
    if name not in DATA_SETS:
        return False
    return DATA_SETS[str(name)].bundled or year_is_present()


def _as_path(name: str | os.PathLike[str]) -> tuple[Path | None, str | None]:
    """Tell a path, and the target behind it, from a name."""
    if isinstance(name, os.PathLike):
        return Path(name), None
    if not isinstance(name, str):
        raise input_error(
            f"data must be a name or the path of a CSV, got {name!r} of type "
            f"{type(name).__name__}. The names are {', '.join(DATA_SETS)}."
        )
    parts = re.fullmatch(
        r"(.+\.(?:csv|tsv|parquet)(?:\.gz)?)(?:#(.*))?",
        name,
        flags=re.DOTALL | re.IGNORECASE,
    )
    if parts:
        return Path(parts[1]).expanduser(), parts[2]
    separators = {os.sep, os.altsep or os.sep}
    return (Path(name), None) if separators & set(name) else (None, None)


def _bundled(info: DataSetInfo) -> DataSet:
    file = resources.files("calibrant.data") / "files" / f"{info.name}.csv.gz"
    content = gzip.decompress(file.read_bytes())
    if hashlib.sha256(content).hexdigest() != info.csv_sha256:
        raise input_error(
            f"{file} must hold the data that calibrant was released with, and its "
            "content is another. Install calibrant again."
        )
    header, numbers = content.split(b"\n", 1)
    table = np.loadtxt(io.BytesIO(numbers), delimiter=",", ndmin=2)
    *features, _ = header.decode().split(",")
    x, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    return described(info, x, y, tuple(features))
