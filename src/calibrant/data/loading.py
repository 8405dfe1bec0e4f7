"""A data set by name, or a table of numbers by path, as features and target."""

import gzip
import hashlib
import io
import os
import re
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibrant.data.registry import DATA_SETS, DataSetInfo
from calibrant.data.year import FEATURES, load_year, year_is_present
from calibrant.errors import InputError

__all__ = ["DataSet", "is_present", "load"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """Features and target in the original row order.

    Attributes
    ----------
    name
        The name it was loaded by, a key of ``DATA_SETS``; for a file the path.
    x
        Features, shape ``(n, d)``, float64.
    y
        Target, shape ``(n,)``, float64.
    features, target
        Names of the columns.

    Examples
    --------
    >>> from calibrant.data import load
    >>> boats = load("yacht")
    >>> boats.x.shape, boats.y.shape, boats.target
    ((308, 6), (308,), 'residuary_resistance')
    """

    name: str
    x: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)
    features: tuple[str, ...]
    target: str

    def __len__(self) -> int:
        return len(self.y)


def load(name: str | os.PathLike[str], *, target: str | None = None) -> DataSet:
    """Load a data set of the paper by name, or your own table by path.

    Parameters
    ----------
    name
        A name from ``DATA_SETS``; or a path (a ``Path``, or text that ends in ``.csv``,
        ``.csv.gz``, ``.tsv`` or ``.parquet``, or names a folder) of a table of finite
        numbers. ``"path.csv#column"`` names its target as well.
    target
        Column of your own table that is the target; None takes the last one.

    Returns
    -------
    DataSet
        Features ``x`` of shape ``(n, d)`` and target ``y`` of shape ``(n,)`` in the
        order of the file.

    Raises
    ------
    InputError
        If there is no such set or file, or if a cell is not a number; the text names
        the row and the column.

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
            raise InputError(
                f"the target must be named once, got target={target!r} and "
                f"{os.fspath(name)!r}."
            )
        column = column if target is None else target
        return _read_table(path, column, os.fspath(name))
    try:
        info = DATA_SETS[str(name)]
    except KeyError as error:
        raise InputError(
            f"data: {error.args[0]} Your own data needs a path that ends in .csv, "
            ".csv.gz, .tsv or .parquet."
        ) from None
    if target is not None and target != info.target:
        raise InputError(
            f"target is for a table of your own: the target of {info.name!r} is "
            f"{info.target!r}, got target={target!r}."
        )
    if info.bundled:
        return _read_bundled(info)
    table = load_year()
    # The features stay a view: a copy would take another 370 MB.
    return DataSet(
        name=info.name,
        x=table[:, 1:],
        y=table[:, 0].copy(),
        features=FEATURES,
        target=info.target,
    )


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
        raise InputError(
            f"data must be a name or the path of a table, got {name!r} of type "
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


def _read_bundled(info: DataSetInfo) -> DataSet:
    file = resources.files("calibrant.data") / "files" / f"{info.name}.csv.gz"
    content = gzip.decompress(file.read_bytes())
    if hashlib.sha256(content).hexdigest() != info.csv_sha256:
        raise InputError(
            f"{file} must hold the data that calibrant was released with, and its "
            "content is another. Install calibrant again."
        )
    header, numbers = content.split(b"\n", 1)
    table = np.loadtxt(io.BytesIO(numbers), delimiter=",", ndmin=2)
    *features, _ = header.decode().split(",")
    return DataSet(
        name=info.name,
        x=np.ascontiguousarray(table[:, :-1]),
        y=table[:, -1].copy(),
        features=tuple(features),
        target=info.target,
    )


def _read_table(path: Path, target: str | None, name: str) -> DataSet:
    """Read a table with a header, and nothing but finite numbers below it."""
    from calibrant.tables import open_source, read_target, require_rows

    source = open_source(path)
    columns = source.columns
    if len(columns) < 2:
        raise InputError(
            f"{path} must have at least two columns, features and a target, got one: "
            f"{columns[0]!r:.60}."
        )
    target = columns[-1] if target is None else target
    source.check_columns([target])
    data = source.read()
    require_rows(data, name=source.name)
    table: dict[str, FloatArray] = {}
    for column in columns:
        values = read_target(
            data[column],
            target=column,
            name=source.name,
            style=source.style,
            what="value",
        )
        gaps = np.isnan(values)
        if gaps.any():
            raise InputError(
                f"{source.name}, row {int(gaps.argmax()) + 1:,}, column "
                f"{column!r:.60}: a value is missing. Drop the row or fill it in."
            )
        table[column] = values.copy()
    y = table.pop(target)
    return DataSet(
        name=name,
        x=np.stack(list(table.values()), axis=1),
        y=y,
        features=tuple(table),
        target=target,
    )
