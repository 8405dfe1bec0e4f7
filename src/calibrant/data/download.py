"""One file over HTTP, which survives dropped connections and killed processes."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request

from calibrant._progress import Bar
from calibrant.data._errors import input_error
from calibrant.data._http import is_http, open_http
from calibrant.data._part_file import DownloadError, PartFile, discard, open_part

__all__ = ["DownloadError", "download", "sha256_of"]

WAITS = (1.0, 2.0, 4.0, 8.0)
CHUNK = 1 << 18
_COLUMNS = ("size", "speed", "left")

#: Answers that may be another one soon: timeout, too many requests, a tired server.
PASSING = {408, 425, 429, 500, 502, 503, 504}


class _Dropped(Exception):  # noqa: N818 - not an error unless it happens too often
    """The connection ended before the file did."""


def download(
    address: str,
    target: Path,
    *,
    sha256: str | None = None,
    check: Callable[[Path], None] | None = None,
    progress: bool | None = None,
    waits: Sequence[float] = WAITS,
    timeout: float = 30.0,
) -> None:
    """Download ``address`` to ``target``, or leave no ``target`` at all.

    Bytes go to ``target`` with ``.part`` behind its name. If the connection drops, or
    the process is killed, the next attempt asks for the rest only, provided that the
    server still has the same version. When all is there and right, the file is renamed
    in one step.

    Parameters
    ----------
    address
        ``http://`` or ``https://``.
    target
        Where the file goes; its folder is made.
    sha256
        What the content must have, in hexadecimal, if it is known.
    check
        Takes the finished but not yet renamed file and raises ``ValueError`` if the
        content is not right.
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
    """
    if not is_http(address):
        raise input_error(
            "a download needs an address that begins with http:// or https:// and "
            f"names a server, got {address!r}."
        )
    part = target.with_name(f"{target.name}.part")
    with Bar(target.name, _COLUMNS, total=None, shown=progress) as bar:
        joined = _receive_all(address, part, waits, timeout, bar)
        fault = _fault(part, sha256, check)
        if fault and joined:  # perhaps of two versions, which a fresh start mends
            discard(part)
            _receive_all(address, part, waits, timeout, bar)
            fault = _fault(part, sha256, check)
    if fault:
        discard(part)
        raise DownloadError(
            f"{address} gave another content than expected: {fault}. Nothing is kept. "
            "A proxy or a login page may stand in between; try again later."
        )
    part.replace(target)
    discard(part)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(
    part: Path, sha256: str | None, check: Callable[[Path], None] | None
) -> str | None:
    if sha256 is not None:
        found = sha256_of(part)
        if found != sha256.lower():
            return f"its SHA-256 must be {sha256}, got {found}"
    try:
        if check is not None:
            check(part)
    except ValueError as error:
        return str(error).rstrip(".")
    return None


def _receive_all(
    address: str, part: Path, waits: Sequence[float], timeout: float, bar: Bar
) -> bool:
    """Try until the file is complete; return whether it was joined from pieces."""
    joined = False
    with open_part(part) as file:
        most, left = file.size, list(waits)
        while True:
            try:
                joined |= _receive(address, file, timeout, bar)
                file.sync()
                return joined
            except _Dropped as drop:
                if file.size > most:
                    most, left = file.size, list(waits)
                if not left:
                    raise DownloadError(
                        f"{address} could not be downloaded: {drop}. "
                        f"{file.size:,} bytes are kept in {part}, and the next call "
                        "goes on behind them."
                    ) from drop
                time.sleep(left.pop(0))


def _receive(address: str, file: PartFile, timeout: float, bar: Bar) -> bool:
    """Ask for what is missing once; return whether it joined what was there."""
    request = Request(address, headers={"User-Agent": "calibrant"})
    if file.size:
        request.add_header("Range", f"bytes={file.size}-")
        if file.version:
            request.add_header("If-Range", file.version)
    try:
        with open_http(request, timeout=timeout) as response:
            joined, total = _begin(response, file)
            for chunk in _chunks(response):
                file.write(chunk)
                bar.show(completed=file.size, total=total)
    except DownloadError:
        raise
    except HTTPError as error:
        with error:
            return _answered(error, file)
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _Dropped(f"{reason or type(error).__name__}") from error
    if total is not None and file.size < total:
        raise _Dropped(f"the connection ended after {file.size:,} of {total:,} bytes")
    return joined


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    # read1 hands out what has come, so that little is lost when the rest does not.
    while chunk := response.read1(CHUNK):
        yield chunk


def _begin(response: HTTPResponse, file: PartFile) -> tuple[bool, int | None]:
    """Read the header: does the answer go on behind our bytes, and where is the end."""
    extent = re.fullmatch(
        r"bytes (\d{1,18})-\d+/(\d{1,18}|\*)", response.headers.get("Content-Range", "")
    )
    if response.status == 206 and extent and int(extent[1]) == file.size:
        return True, None if extent[2] == "*" else int(extent[2])
    if response.status == 206:
        file.restart("")
        raise _Dropped("the server sent another part than the one asked for")
    length = _length(response)  # before the bytes that are there go
    version = response.headers.get("ETag") or response.headers.get("Last-Modified")
    weak = version is None or version.startswith("W/")  # HTTP: no joining by these
    file.restart("" if weak else str(version))
    return False, length


def _length(response: HTTPResponse) -> int | None:
    length = response.headers.get("Content-Length")
    if not length:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise DownloadError(
            f"{response.url} could not be downloaded: the server's Content-Length must "
            f"be a whole number, got {length[:40]!r}. Try again later."
        )
    return int(length)


def _answered(error: HTTPError, file: PartFile) -> bool:
    """Decide what a refusal means: complete already, try again, or give up."""
    if error.code == 416 and file.size:
        if error.headers.get("Content-Range") == f"bytes */{file.size}":
            return True
        file.restart("")
        raise _Dropped("the server's file is shorter than what was there")
    text = f"the server answered {error.code} {error.reason}"
    if error.code in PASSING:
        raise _Dropped(text)
    raise DownloadError(
        f"{error.url} could not be downloaded: {text}. The file may have moved."
    )
