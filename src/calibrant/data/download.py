"""One file over HTTP, which survives dropped connections and killed processes."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from io import FileIO
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from calibrant._progress import Bar
from calibrant.errors import DownloadError, InputError, StorageError

__all__ = ["VARIABLE", "DownloadError", "data_folder", "download"]

VARIABLE = "CALIBRANT_DATA"

#: Seconds before each further attempt.
WAITS = (1.0, 2.0, 4.0, 8.0)
_CHUNK = 1 << 18
#: Answers that may be another one soon: timeout, too many requests, a tired server.
_PASSING = {408, 425, 429, 500, 502, 503, 504}


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
    if platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says to ignore a relative path.
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"


class _DroppedError(Exception):
    """The connection ended before the file did."""


def download(
    address: str,
    target: Path,
    *,
    check: Callable[[Path], None],
    progress: bool | None = None,
    waits: Sequence[float] = WAITS,
    timeout: float = 30.0,
) -> None:
    """Download ``address`` to ``target``, or leave no ``target`` at all.

    Bytes go to ``target`` with ``.part`` behind its name. If the connection drops, or
    the process is killed, the next attempt asks for the rest only. When all is there
    and right, the file is renamed in one step.

    Parameters
    ----------
    address
        ``http://`` or ``https://``.
    target
        Where the file goes; its folder is made.
    check
        Takes the finished but not yet renamed file and raises ``ValueError`` if the
        content is not right. A file that was joined from pieces and is not right is
        downloaded once more as a whole: its server may have replaced it in between.
    progress
        Show a bar; None shows it on a terminal only.
    waits
        Seconds before each further attempt; one that brought new bytes starts the
        list again.
    timeout
        Seconds without any byte after which the connection counts as dropped.

    Raises
    ------
    DownloadError
        With what went wrong and what to do. Bytes that may be right are kept for the
        next call; bytes that are wrong are removed.
    InputError
        If the address is neither ``http://`` nor ``https://``; nothing is tried.
    StorageError
        If the folder does not take the file.
    """
    if not str(address).startswith(("http://", "https://")):
        raise InputError(
            "a download needs an address that begins with http:// or https://, got "
            f"{address!r}."
        )
    part = target.with_name(f"{target.name}.part")
    columns = ("size", "speed", "left")
    with Bar(target.name, columns, total=None, shown=progress) as bar:
        while True:
            joined = _receive_all(address, part, waits, timeout, bar)
            try:
                check(part)
            except ValueError as error:
                part.unlink()
                if joined:
                    continue
                raise DownloadError(
                    f"{address} gave another content than expected: "
                    f"{str(error).rstrip('.')}. Nothing is kept. A proxy or a login "
                    "page may stand in between; try again later."
                ) from error
            part.replace(target)
            return


def _receive_all(
    address: str, part: Path, waits: Sequence[float], timeout: float, bar: Bar
) -> bool:
    """Try until the file is complete; return whether it was joined from pieces."""
    joined = False
    with _opened(part) as file:
        most, left = file.tell(), list(waits)
        while True:
            try:
                joined |= _receive(address, file, timeout, bar)
                os.fsync(file.fileno())
                return joined
            except _DroppedError as drop:
                if file.tell() > most:
                    most, left = file.tell(), list(waits)
                if not left:
                    raise DownloadError(
                        f"{address} could not be downloaded: {drop}. "
                        f"{file.tell():,} bytes are kept in {part}, and the next call "
                        "goes on behind them."
                    ) from drop
                time.sleep(left.pop(0))


@contextmanager
def _opened(part: Path) -> Iterator[FileIO]:
    """Open the unfinished file at its end, without a buffer that a kill would lose."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with FileIO(part, "ab") as file:
            yield file
    except DownloadError:
        raise
    except OSError as error:
        raise StorageError(
            f"{part} could not be written: {error}. What it holds is kept, and the "
            f"next download goes on behind it: make room, or set the environment "
            f"variable {VARIABLE} to another folder."
        ) from error


def _receive(address: str, file: FileIO, timeout: float, bar: Bar) -> bool:
    """Ask for what is missing once; return whether it joined what was there."""
    size = file.tell()
    request = Request(address, headers={"User-Agent": "calibrant"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    try:
        response = urlopen(request, timeout=timeout)
    except HTTPError as error:
        with error:
            return _refused(error, file)
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _DroppedError(f"{reason or type(error).__name__}") from error
    with response:
        joined = bool(response.status == 206)
        extent = response.headers.get("Content-Range", "")
        if joined and not extent.startswith(f"bytes {size}-"):
            _restart(file)
            raise _DroppedError("the server sent another part than the one asked for")
        if not joined:
            _restart(file)
        total = None if response.length is None else file.tell() + response.length
        for chunk in _chunks(response):
            rest = memoryview(chunk)
            while rest:
                rest = rest[file.write(rest) :]
            bar.show(completed=file.tell(), total=total)
    if total is not None and file.tell() < total:
        raise _DroppedError(
            f"the connection ended after {file.tell():,} of {total:,} bytes"
        )
    return joined


def _restart(file: FileIO) -> None:
    file.truncate(0)
    file.seek(0)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    # read1 gives what has come, so that little is lost when the rest does not.
    try:
        while chunk := response.read1(_CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _DroppedError(f"{error or type(error).__name__}") from error


def _refused(error: HTTPError, file: FileIO) -> bool:
    """Decide what a refusal means: complete already, try again, or give up."""
    size = file.tell()
    if error.code == 416 and size:
        if error.headers.get("Content-Range") == f"bytes */{size}":
            return True
        _restart(file)
        raise _DroppedError("the server's file is shorter than what was there")
    text = f"the server answered {error.code} {error.reason}"
    if error.code in _PASSING:
        raise _DroppedError(text)
    raise DownloadError(
        f"{error.url} could not be downloaded: {text}. The file may have moved."
    )
