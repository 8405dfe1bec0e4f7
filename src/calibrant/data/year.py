"""Year Prediction MSD, which is too large to bundle: fetch it once, then load it.

The tests use a local server and a generated file of the same shape; they never reach
the archive itself.
"""

import contextlib
import io
import os
import sys
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import numpy.typing as npt

from calibrant._progress import Bar
from calibrant.data.registry import DATA_SETS
from calibrant.errors import DownloadError, InputError, StorageError
from calibrant.files import replacing

__all__ = ["FEATURES", "DownloadError", "fetch", "load_year", "year_is_present"]

NAME = "year_msd"
#: UCI publishes no checksum, so the content is checked by its shape, the range of its
#: years and its first row.
ADDRESS = (
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/"
    "YearPredictionMSD.txt.zip"
)
ROWS = DATA_SETS[NAME].rows
FILE = "YearPredictionMSD.txt.zip"
#: A file placed by hand may have any of these names.
FILES = (FILE, "yearpredictionmsd.zip", "YearPredictionMSD.txt")
ARRAY = f"{NAME}.npy"
FEATURES = (
    *(f"timbre_mean_{number}" for number in range(1, 13)),
    *(f"timbre_covariance_{number}" for number in range(1, 79)),
)
COLUMNS = 1 + len(FEATURES)
#: Of the songs in the set.
YEARS = (1922, 2011)
#: How the first row begins: the year, then means of timbre.
FIRST = (2001.0, 49.94357, 21.47114, 73.0775)

VARIABLE = "CALIBRANT_DATA"
#: Seconds before each further attempt to download, and without any byte in one.
WAITS, TIMEOUT = (1.0, 2.0, 4.0, 8.0), 30.0
_CHUNK = 1 << 18
#: Answers that may be another one soon: timeout, too many requests, a tired server.
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_DROPPED = (URLError, HTTPException, ConnectionError, TimeoutError, SSLError)

FloatArray = npt.NDArray[np.float64]


def data_folder() -> Path:
    """Return the folder for downloaded data; it need not exist yet.

    The environment variable ``CALIBRANT_DATA`` moves it. Otherwise it is ``calibrant``
    in the user's folder for caches: ``$XDG_CACHE_HOME`` or ``~/.cache``,
    ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return _caches(sys.platform) / "calibrant"


def _caches(platform: str) -> Path:
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    variable = "LOCALAPPDATA" if platform == "win32" else "XDG_CACHE_HOME"
    default = "AppData/Local" if platform == "win32" else ".cache"
    chosen = os.environ.get(variable, "")
    # The standard says to ignore a relative path.
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / default


def fetch(name: str = NAME, *, progress: bool | None = None) -> Path:
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
            _download(folder / FILE, progress)
        except DownloadError as error:
            raise DownloadError(f"{error} Or place it by hand: {_by_hand()}") from error
    load_year()
    return folder


def load_year() -> FloatArray:
    """Load Year Prediction MSD from the folder for data, shape ``(515345, 91)``.

    The year stands first. An array from an earlier load is read if it is whole;
    otherwise the text is.
    """
    folder = data_folder()
    try:
        table: FloatArray = np.load(folder / ARRAY, allow_pickle=False)
        _check(table)
        return table
    except (OSError, ValueError, EOFError, AttributeError):
        pass  # not there, or damaged
    source = _source(folder)
    if source is None:
        raise InputError(
            "data: Year Prediction MSD is not bundled and not in the folder for data. "
            f"Run calibrant.data.fetch({NAME!r}), or place it by hand: {_by_hand()}"
        )
    table = _read_text(source)
    _keep(folder, table)
    return table


def year_is_present() -> bool:
    """Whether the file, or the array made from it, is in the folder for data."""
    folder = data_folder()
    return (folder / ARRAY).is_file() or _source(folder) is not None


def _source(folder: Path) -> Path | None:
    paths = (folder / name for name in FILES)
    return next((path for path in paths if path.is_file()), None)


def _by_hand() -> str:
    return (
        f"download {ADDRESS} (or use the button on {DATA_SETS[NAME].source}) on any "
        f"machine and copy it, still zipped, to {data_folder() / FILE}. The "
        f"environment variable {VARIABLE} moves that folder."
    )


# Downloading -----------------------------------------------------------------------


def _download(target: Path, progress: bool | None) -> None:
    """Download the file, check it, and give it its name; go on behind what is there."""
    part = target.with_name(f"{target.name}.part")
    columns = ("size", "speed", "left")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with Bar(target.name, columns, total=None, shown=progress) as bar:
            while (table := _received(part, bar)) is None:
                pass  # pieces of different versions of the file: once more, as a whole
        part.replace(target)
    except DownloadError:
        raise
    except OSError as error:
        raise StorageError(
            f"{part} could not be written: {error}. What it holds is kept, and the "
            "next download goes on behind it: make room, or set the environment "
            f"variable {VARIABLE} to another folder."
        ) from error
    _keep(target.parent, table)


def _received(part: Path, bar: Bar) -> FloatArray | None:
    """Return the table; None, and no file, if pieces were joined to a wrong one."""
    joined = _receive_all(part, bar)
    try:
        return _read_text(part)
    except InputError as error:
        part.unlink()
        if joined:
            return None
        raise DownloadError(
            f"{ADDRESS} gave another content than expected: {str(error).rstrip('.')}. "
            "Nothing is kept. A proxy or a login page may stand in between; try again "
            "later."
        ) from error


def _receive_all(part: Path, bar: Bar) -> bool:
    """Try until the file is complete; return whether it was joined from pieces."""
    joined, reason = False, ""
    for wait in (*WAITS, None):
        try:
            return _receive(part, bar) or joined
        except HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # longer than the server's file, or as long
                part.unlink(missing_ok=True)
            elif error.code not in _PASSING:
                raise DownloadError(
                    f"{ADDRESS} could not be downloaded: {reason}. The file may have "
                    "moved."
                ) from error
        except (
            URLError,
            HTTPException,
            ConnectionError,
            TimeoutError,
            SSLError,
        ) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        joined = part.exists()
        if wait is not None:
            time.sleep(wait)
    raise DownloadError(
        f"{ADDRESS} could not be downloaded: {reason}. What has come is kept in "
        f"{part}, and the next call goes on behind it."
    )


def _receive(part: Path, bar: Bar) -> bool:
    """Ask for what is missing once; return whether it joined what was there."""
    size = part.stat().st_size if part.exists() else 0
    request = Request(ADDRESS, headers={"User-Agent": "calibrant"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    with urlopen(request, timeout=TIMEOUT) as response:
        joined = bool(response.status == 206)
        if not joined:
            size = 0
        total = None if response.length is None else size + response.length
        # Without a buffer, and by what has come: a kill then loses nothing.
        with part.open("ab" if joined else "wb", buffering=0) as file:
            while chunk := response.read1(_CHUNK):
                size += file.write(chunk) or 0
                bar.show(completed=size, total=total)
    if total is not None and size < total:
        raise ConnectionError(f"it ended after {size:,} of {total:,} bytes")
    return joined


# Reading ---------------------------------------------------------------------------


def _keep(folder: Path, table: FloatArray) -> None:
    """Write the array, if there is room."""
    try:
        with replacing(folder / ARRAY) as file:
            np.save(file, table, allow_pickle=False)
    except OSError as error:
        warnings.warn(
            f"Year Prediction MSD is read, but its array could not be kept in {folder} "
            f"for the next time: {error}. Every load takes the time of the first.",
            stacklevel=4,
        )


def _read_text(path: Path) -> FloatArray:
    """Read the table ``(rows, 91)`` from the zip or the text, the year first."""
    try:
        with _opened(path) as stream:
            lines = io.TextIOWrapper(stream, "ascii")
            # One row more than there should be is enough to see that there are more.
            table = np.loadtxt(
                lines, delimiter=",", ndmin=2, comments=None, max_rows=ROWS + 1
            )
            _check(table)
            stream.read()  # to the end, where zip compares its checksum
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise InputError(
            f"{path.name} must be Year Prediction MSD, {ROWS:,} lines of {COLUMNS} "
            f"numbers with the year first: {error}"
        ) from error
    return table


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
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


def _check(table: FloatArray) -> None:
    if table.shape != (ROWS, COLUMNS):
        more = " or more" if len(table) > ROWS else ""
        raise ValueError(
            f"there are {len(table):,}{more} lines of {table.shape[-1]} numbers."
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
