"""A CSV file of numbers as features and target."""

import csv
import gzip
import io
import math
import warnings
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibrant.data._errors import input_error
from calibrant.data.dataset import DataSet

__all__ = ["read_table"]

FloatArray = npt.NDArray[np.float64]


def read_table(
    path: Path, *, target: str | None = None, name: str | None = None
) -> DataSet:
    """Read a CSV: UTF-8, commas, a header, and nothing but finite numbers below it.

    Parameters
    ----------
    path
        Of the file; one that ends in ``.gz`` is unpacked.
    target
        Name of the target's column; None takes the last one.
    name
        What the data set is called; None takes the path.
    """
    text = _text(path)
    header = _header(path, text)
    place = _place(path, header, target)
    table = _numbers(path, text, header)
    features = (*header[:place], *header[place + 1 :])
    return DataSet(
        name=str(path) if name is None else name,
        title=path.name.removesuffix(".gz").removesuffix(".csv"),
        x=np.delete(table, place, axis=1),
        y=table[:, place].copy(),
        features=features,
        target=header[place],
        description=f"Your own data, from {path}.",
        license="not stated",
        citation="",
        source=str(path),
    )


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise input_error(
            f"data: there is no file {path} (looked in {Path.cwd()}). Check the path."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise input_error(f"data: {path} cannot be read: {error}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise input_error(
            f"data: {path} must be text in UTF-8, and byte {error.start} is not. Save "
            "it as CSV UTF-8."
        ) from None


def _header(path: Path, text: str) -> list[str]:
    names = [name.strip() for name in next(csv.reader(io.StringIO(text)), [])]
    if not names:
        raise input_error(
            f"data: {path} must begin with a header, and its first line is empty."
        )
    if all(_number(name) is not None for name in names):
        raise input_error(
            f"data: {path} must begin with a header, and its first line holds numbers "
            f"only: {', '.join(names[:4])}. Put a line with the names above it."
        )
    if len(names) == 1:
        other = [mark for mark in ";\t" if mark in names[0]]
        hint = f" Separate columns by commas, not by {other[0]!r}." if other else ""
        raise input_error(
            f"data: {path} must have at least two columns, features and a target, got "
            f"one: {names[0]!r}.{hint}"
        )
    if "" in names:
        raise input_error(
            f"data: every column of {path} must have a name, and column "
            f"{names.index('') + 1} has none. If it numbers the rows, leave it out "
            "(index=False in pandas)."
        )
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise input_error(
            f"data: the columns of {path} must have different names, got twice: "
            f"{', '.join(double)}."
        )
    return names


def _place(path: Path, header: list[str], target: str | None) -> int:
    if target is None:
        return len(header) - 1
    if target not in header:
        raise input_error(
            f"data: {path} has no column {target!r} for the target; there are "
            f"{', '.join(header)}."
        )
    return header.index(target)


def _numbers(path: Path, text: str, header: list[str]) -> FloatArray:
    lines = io.StringIO(text, newline="")
    lines.readline()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns if there are no rows
            table = np.loadtxt(
                lines, delimiter=",", ndmin=2, comments=None, quotechar='"'
            )
    except (ValueError, UserWarning):
        return _slowly(path, text, header)
    good = table.shape[1] == len(header) and np.isfinite(table).all()
    return table if good else _slowly(path, text, header)


def _slowly(path: Path, text: str, header: list[str]) -> FloatArray:
    """Read cell by cell, and say which one is at fault."""
    reader = csv.reader(io.StringIO(text, newline=""))
    next(reader)
    rows = []
    for row in reader:
        where = f"line {reader.line_num}"
        if not row:
            continue
        if len(row) != len(header):
            raise input_error(
                f"data: every line of {path} must have {len(header)} values as the "
                f"header has, and {where} has {len(row)}."
            )
        rows.append(
            [
                _cell(cell, f"{path}, {where}, column {name!r}")
                for cell, name in zip(row, header, strict=True)
            ]
        )
    if not rows:
        raise input_error(f"data: {path} has a header but no rows below it.")
    return np.array(rows, dtype=np.float64)


def _cell(cell: str, where: str) -> float:
    number = _number(cell)
    if number is not None and math.isfinite(number):
        return number
    if cell.strip().lower() in {"", "nan", "na", "n/a", "null", "none", "?"}:
        raise input_error(
            f"data: a value is missing in {where}. Drop the row or fill it in."
        )
    raise input_error(
        f"data: all values must be finite numbers, and {where} has {cell!r}. Drop the "
        "column or encode it as numbers."
    )


def _number(cell: str) -> float | None:
    try:
        # Python reads 1_000 as a number; other programs do not.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
