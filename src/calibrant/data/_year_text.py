"""The text of Year Prediction MSD as numbers, checked to be what it says."""

import contextlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from calibrant.data._errors import input_error

__all__ = ["COLUMNS", "FIRST", "YEARS", "read_year_text"]

COLUMNS = 91
#: Of the songs in the set.
YEARS = (1922, 2011)
#: How the first row begins: the year, then means of timbre.
FIRST = (2001.0, 49.94357, 21.47114, 73.0775)


def read_year_text(path: Path, *, rows: int) -> npt.NDArray[np.float64]:
    """Read the table ``(rows, 91)`` from the zip or the text, the year first.

    Raises ``InputError`` if it is not that table: the number of rows and of columns,
    the range of the years and the beginning of the first row are known.
    """
    try:
        with _opened(path) as stream:
            lines = io.TextIOWrapper(stream, "ascii")
            # One row more than there should be is enough to see that there are more.
            table = np.loadtxt(
                lines, delimiter=",", ndmin=2, comments=None, max_rows=rows + 1
            )
            _check(table, rows)
            stream.read()  # to the end, where zip compares its checksum
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise input_error(
            f"{path.name} must be Year Prediction MSD, {rows:,} lines of {COLUMNS} "
            f"numbers with the year first: {error}"
        ) from error
    return table


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            file.seek(0)
            yield file
            return
        with zipfile.ZipFile(file) as archive:
            texts = [name for name in archive.namelist() if name.endswith(".txt")]
            if len(texts) != 1:
                raise ValueError(
                    f"the zip must hold one .txt, got {', '.join(archive.namelist())}."
                )
            with archive.open(texts[0]) as text:
                yield text


def _check(table: npt.NDArray[np.float64], rows: int) -> None:
    if table.shape != (rows, COLUMNS):
        more = " or more" if len(table) > rows else ""
        raise ValueError(
            f"there are {len(table):,}{more} lines of {table.shape[1]} numbers."
        )
    years = table[:, 0]
    odd = (years < YEARS[0]) | (years > YEARS[1]) | (years != np.floor(years))
    if odd.any() or not np.isfinite(table).all():
        line = int(np.argmax(odd | ~np.isfinite(table).all(axis=1))) + 1
        raise ValueError(
            f"line {line:,} has the year {years[line - 1]:g}, which must be whole and "
            f"from {YEARS[0]} to {YEARS[1]}, or a number that is not finite."
        )
    if tuple(table[0, : len(FIRST)]) != FIRST:
        raise ValueError(
            f"the first line begins with {table[0, :4].tolist()} instead of "
            f"{list(FIRST)}."
        )
