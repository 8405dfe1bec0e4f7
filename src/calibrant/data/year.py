"""Year Prediction MSD, which is too large to bundle: fetch it once, then load it.

The tests use a local server and a generated file of the same shape; they never reach
the archive itself.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibrant.data import _records
from calibrant.data._errors import input_error
from calibrant.data._part_file import DiskError
from calibrant.data._year_text import read_year_text
from calibrant.data.cache import VARIABLE, data_folder
from calibrant.data.dataset import DataSet, described
from calibrant.data.download import DownloadError, download, sha256_of
from calibrant.data.registry import DATA_SETS

__all__ = ["YEAR_FILE", "YearFile", "fetch", "load_year", "year_is_present"]

NAME = "year_msd"
FILE = "YearPredictionMSD.txt.zip"
#: A file placed by hand may have any of these names.
FILES = (FILE, "yearpredictionmsd.zip", "YearPredictionMSD.txt")
FEATURES = (
    *(f"timbre_mean_{number}" for number in range(1, 13)),
    *(f"timbre_covariance_{number}" for number in range(1, 79)),
)


@dataclass(frozen=True, kw_only=True)
class YearFile:
    """The file at its origin.

    Attributes
    ----------
    address
        Where to download it.
    sha256
        Of the zip, in hexadecimal. None: UCI publishes none, so the content is checked
        by its shape, the range of its years and its first row, and what was found on
        first use is remembered and must be found again.
    rows
        Number of lines.
    """

    address: str = (
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/"
        "YearPredictionMSD.txt.zip"
    )
    sha256: str | None = None
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
        If there is no network, no room, or something else at that address. The text
        says how to place the file by hand.
    """
    if name != NAME:
        raise input_error(
            f"only {NAME!r} can be fetched, got {name!r}. The other data sets are "
            "bundled: use calibrant.data.load."
        )
    folder = data_folder()
    if not year_is_present():
        try:
            _download(folder, file, progress)
        except DiskError:
            raise
        except DownloadError as error:
            raise DownloadError(
                f"{error} Or place it by hand: {_by_hand(file)}"
            ) from error
    else:
        _table(folder, file)
    return folder


def load_year(file: YearFile = YEAR_FILE) -> DataSet:
    """Load Year Prediction MSD from the folder for data.

    Parameters
    ----------
    file
        What is known of it.

    Returns
    -------
    DataSet
        ``x`` of shape ``(515345, 90)`` and ``y``, the years. In the file the year
        stands first.
    """
    table = _table(data_folder(), file)
    # The features stay a view: a copy would take another 370 MB.
    return described(DATA_SETS[NAME], table[:, 1:], table[:, 0].copy(), FEATURES)


def year_is_present() -> bool:
    """Whether the file, or the array made from it, is in the folder for data."""
    folder = data_folder()
    return _source(folder) is not None or (
        _array_path(folder).is_file() and _record_path(folder).is_file()
    )


def _download(folder: Path, file: YearFile, progress: bool | None) -> None:
    tables: list[npt.NDArray[np.float64]] = []
    download(
        file.address,
        folder / FILE,
        sha256=file.sha256,
        check=lambda path: tables.append(read_year_text(path, rows=file.rows)),
        progress=progress,
    )
    _keep(folder, sha256_of(folder / FILE), tables[-1])


def _table(folder: Path, file: YearFile) -> npt.NDArray[np.float64]:
    """Return the table from the array, or from the source if there is none."""
    record = _records.read_record(_record_path(folder))
    if record is not None:
        table = _records.read_array(_array_path(folder), record.array_sha256)
        if table is not None and _fits(record.source_sha256, table, file):
            return table
    source = _source(folder)
    if source is None:
        raise input_error(
            "data: Year Prediction MSD is not bundled and not in the folder for data. "
            f"Run calibrant.data.fetch({NAME!r}), or place it by hand: {_by_hand(file)}"
        )
    found = sha256_of(source)
    expected = file.sha256 or (record.source_sha256 if record else found)
    if found != expected:
        raise input_error(
            f"{source} must have SHA-256 {expected}"
            f"{'' if file.sha256 else ', as when it was first used'}, got {found}. It "
            f"was changed or damaged: remove it and {_record_path(folder).name} beside "
            "it, and fetch it again."
        )
    table = read_year_text(source, rows=file.rows)
    _keep(folder, found, table)
    return table


def _keep(folder: Path, source_sha256: str, table: npt.NDArray[np.float64]) -> None:
    # In this order: a record that does not fit its array makes the array anew.
    try:
        _records.write_array(_array_path(folder), table)
        _records.write_record(_record_path(folder), source_sha256, table)
    except OSError as error:
        warnings.warn(
            f"Year Prediction MSD is read, but its array could not be kept in {folder} "
            f"for the next time: {error}. Every load takes the time of the first.",
            stacklevel=4,
        )


def _fits(sha256: str, table: npt.NDArray[np.float64], file: YearFile) -> bool:
    same = file.sha256 is None or file.sha256 == sha256
    return same and table.shape == (file.rows, len(FEATURES) + 1)


def _source(folder: Path) -> Path | None:
    paths = (folder / name for name in FILES)
    return next((path for path in paths if path.is_file()), None)


def _array_path(folder: Path) -> Path:
    return folder / f"{NAME}.npy"


def _record_path(folder: Path) -> Path:
    return folder / f"{NAME}.json"


def _by_hand(file: YearFile) -> str:
    return (
        f"download {file.address} (or use the button on {DATA_SETS[NAME].source}) on "
        f"any machine and copy it, still zipped, to {data_folder() / FILE}. The "
        f"environment variable {VARIABLE} moves that folder."
    )
