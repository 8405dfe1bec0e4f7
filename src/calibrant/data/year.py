"""Year Prediction MSD, which is too large to bundle: fetch it once, then load it.

The tests use a local server and a generated file of the same shape; they never reach
the archive itself.
"""

import contextlib
import hashlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from calibrant.data.download import VARIABLE, data_folder, download
from calibrant.data.registry import DATA_SETS
from calibrant.errors import DownloadError, InputError
from calibrant.files import replace_file, replacing

__all__ = ["FEATURES", "YEAR_FILE", "YearFile", "fetch", "load_year", "year_is_present"]

NAME = "year_msd"
FILE = "YearPredictionMSD.txt.zip"
#: A file placed by hand may have any of these names.
FILES = (FILE, "yearpredictionmsd.zip", "YearPredictionMSD.txt")
FEATURES = (
    *(f"timbre_mean_{number}" for number in range(1, 13)),
    *(f"timbre_covariance_{number}" for number in range(1, 79)),
)
COLUMNS = 1 + len(FEATURES)
#: Of the songs in the set.
YEARS = (1922, 2011)
#: How the first row begins: the year, then means of timbre.
FIRST = (2001.0, 49.94357, 21.47114, 73.0775)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class YearFile:
    """The file at its origin.

    Attributes
    ----------
    address
        Where to download it. UCI publishes no checksum, so the content is checked by
        its shape, the range of its years and its first row.
    rows
        Number of lines.
    """

    address: str = (
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/"
        "YearPredictionMSD.txt.zip"
    )
    rows: int = DATA_SETS[NAME].rows


YEAR_FILE = YearFile()


def fetch(
    name: str = NAME, *, progress: bool | None = None, file: YearFile = YEAR_FILE
) -> Path:
    """Download a data set that is not bundled, unless it is there already.

    About 200 MB come from the UCI archive, and about 380 MB more are written as an
    array, so that later loads take a second. An interrupted download goes on where it
    ended. The files go to the folder that ``CALIBRANT_DATA`` names, or to the user's
    folder for caches.

    Parameters
    ----------
    name
        ``"year_msd"``, the only one.
    progress
        Show a progress bar; None shows it on a terminal only.
    file
        Where it comes from and what is known of it.

    Returns
    -------
    Path
        The folder that holds it.

    Raises
    ------
    DownloadError
        If there is no network, or something else at that address. The text says how to
        place the file by hand.
    StorageError
        If the folder does not take it.
    """
    if name != NAME:
        raise InputError(
            f"only {NAME!r} can be fetched, got {name!r}. The other data sets are "
            "bundled: use calibrant.data.load."
        )
    folder = data_folder()
    if not year_is_present():
        try:
            download(
                file.address,
                folder / FILE,
                check=lambda path: _keep(folder, _read_text(path, file.rows)),
                progress=progress,
            )
        except DownloadError as error:
            raise DownloadError(
                f"{error} Or place it by hand: {_by_hand(file)}"
            ) from error
    load_year(file)
    return folder


def load_year(file: YearFile = YEAR_FILE) -> FloatArray:
    """Load Year Prediction MSD from the folder for data, shape ``(515345, 91)``.

    The year stands first. An array from an earlier load is read if it is as it was
    written; otherwise the text is.
    """
    folder = data_folder()
    table = _read_array(folder)
    if table is not None and table.shape == (file.rows, COLUMNS):
        return table
    source = _source(folder)
    if source is None:
        raise InputError(
            "data: Year Prediction MSD is not bundled and not in the folder for data. "
            f"Run calibrant.data.fetch({NAME!r}), or place it by hand: {_by_hand(file)}"
        )
    table = _read_text(source, file.rows)
    _keep(folder, table)
    return table


def year_is_present() -> bool:
    """Whether the file, or the array made from it, is in the folder for data."""
    folder = data_folder()
    kept = all(path.is_file() for path in _array_paths(folder))
    return kept or _source(folder) is not None


def _source(folder: Path) -> Path | None:
    paths = (folder / name for name in FILES)
    return next((path for path in paths if path.is_file()), None)


def _array_paths(folder: Path) -> tuple[Path, Path]:
    return folder / f"{NAME}.npy", folder / f"{NAME}.npy.sha256"


def _read_array(folder: Path) -> FloatArray | None:
    """Return the array, or None if it is not there or not as it was written."""
    path, mark = _array_paths(folder)
    try:
        array = np.load(path, allow_pickle=False)
        written = mark.read_text("ascii").strip()
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        return None
    return array if _sha256(array) == written else None


def _keep(folder: Path, table: FloatArray) -> None:
    """Write the array and its checksum, if there is room."""
    path, mark = _array_paths(folder)
    try:
        # In this order: an array that does not fit its checksum is made again.
        with replacing(path) as file:
            np.save(file, table, allow_pickle=False)
        replace_file(mark, f"{_sha256(table)}\n".encode())
    except OSError as error:
        warnings.warn(
            f"Year Prediction MSD is read, but its array could not be kept in {folder} "
            f"for the next time: {error}. Every load takes the time of the first.",
            stacklevel=4,
        )


def _sha256(array: FloatArray) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _read_text(path: Path, rows: int) -> FloatArray:
    """Read the table ``(rows, 91)`` from the zip or the text, the year first."""
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
        raise InputError(
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


def _check(table: FloatArray, rows: int) -> None:
    if table.shape != (rows, COLUMNS):
        more = " or more" if len(table) > rows else ""
        raise ValueError(
            f"there are {len(table):,}{more} lines of {table.shape[1]} numbers."
        )
    years = table[:, 0]
    odd = (years < YEARS[0]) | (years > YEARS[1]) | (years != np.floor(years))
    odd |= ~np.isfinite(table).all(axis=1)
    if odd.any():
        line = int(np.argmax(odd)) + 1
        raise ValueError(
            f"line {line:,} has the year {years[line - 1]:g}, which must be whole and "
            f"from {YEARS[0]} to {YEARS[1]}, or a number that is not finite."
        )
    if tuple(table[0, : len(FIRST)]) != FIRST:
        raise ValueError(
            f"the first line begins with {table[0, :4].tolist()} instead of "
            f"{list(FIRST)}."
        )


def _by_hand(file: YearFile) -> str:
    return (
        f"download {file.address} (or use the button on {DATA_SETS[NAME].source}) on "
        f"any machine and copy it, still zipped, to {data_folder() / FILE}. The "
        f"environment variable {VARIABLE} moves that folder."
    )
