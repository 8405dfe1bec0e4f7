"""A server that misbehaves on demand, and a small file in the form of Year."""

import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest


class Server:
    """Serves ``content``; ``script`` says how the next requests go wrong.

    Entries are a status (``404``), ``"whole"``, or ``("drop", bytes)``, and so on, as
    in :meth:`_Handler.do_GET`. When the script is used up, all is well.
    """

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/files/data.zip"
        self.content = b""
        self.script: list[object] = []
        self.ranges: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: "_Http"

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        state = self.server.state
        state.ranges.append(self.headers["Range"])
        step = state.script.pop(0) if state.script else "whole"
        if isinstance(step, int):
            self.send_error(step)
        elif step == "ignore range":
            self._send(200, state.content, len(state.content))
        elif step == "no length":
            self._send(200, state.content, None)
        elif step == "wrong range":
            self._send(206, state.content, None, f"bytes 0-9/{len(state.content)}")
        elif isinstance(step, dict):
            self._bare(step)
        else:
            self._in_pieces(state, step)

    def _in_pieces(self, state: Server, step: object) -> None:
        if isinstance(step, tuple) and step[0] == "drop from the start":
            self._send(200, state.content[: step[1]], len(state.content))
        else:
            self._ranged(state, limit=step[1] if isinstance(step, tuple) else None)

    def _bare(self, headers: dict[str, str]) -> None:
        self.send_response(302 if "Location" in headers else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def _ranged(self, state: Server, limit: int | None) -> None:
        wanted, whole = self.headers["Range"], len(state.content)
        if wanted is None:
            self._send(200, state.content[:limit], whole)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= whole:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{whole}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        rest = state.content[start:]
        extent = f"bytes {start}-{whole - 1}/{whole}"
        self._send(206, rest[:limit], len(rest), extent)

    def _send(
        self, status: int, body: bytes, length: int | None, extent: str | None = None
    ) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if extent is not None:
            self.send_header("Content-Range", extent)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


class _Http(ThreadingHTTPServer):
    state: Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    http = _Http(("127.0.0.1", 0), _Handler)
    http.state = Server(http.server_port)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield http.state
    http.shutdown()
    http.server_close()
    thread.join()


def _year_lines(rows: int) -> list[str]:
    """Write lines as those of Year Prediction MSD, the true first numbers first."""
    generator = np.random.default_rng(0)
    years = generator.integers(1922, 2012, rows)
    timbre = generator.normal(0.0, 50.0, (rows, 90)).round(5)
    lines = [
        ",".join([str(year), *map(str, row)])
        for year, row in zip(years.tolist(), timbre.tolist(), strict=True)
    ]
    rest = lines[0].split(",")[4:]
    lines[0] = ",".join(["2001", "49.94357", "21.47114", "73.07750", *rest])
    return lines


@pytest.fixture
def year_lines() -> Callable[[int], list[str]]:
    return _year_lines


MakeYear = Callable[..., Path]


@pytest.fixture
def make_year(tmp_path: Path) -> MakeYear:
    """Return a function that writes a zip of lines and gives its path."""

    def make(lines: list[str], member: str = "YearPredictionMSD.txt") -> Path:
        path = tmp_path / "made.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, "\n".join(lines) + "\n")
        return path

    return make


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "deep" / "data"
    monkeypatch.setenv("CALIBRANT_DATA", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # half a gigabyte in one test
