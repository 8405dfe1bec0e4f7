"""A server that misbehaves on demand, and a small file in the form of Year."""

import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from calibrant.data import year


class Server(ThreadingHTTPServer):
    """Serves ``content``; ``script`` says how the next requests go wrong.

    Entries are a status (``404``), a number of bytes after which the connection drops
    (``"500"``), or ``"ignore range"``. When the script is used up, all is well.
    """

    content = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/files/data.zip"
        self.script: list[int | str] = []
        self.ranges: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        wanted, whole = self.headers["Range"], len(self.server.content)
        self.server.ranges.append(wanted)
        step = self.server.script.pop(0) if self.server.script else ""
        self.close_connection = True
        if isinstance(step, int):
            self.send_error(step)
            return
        start = 0
        if wanted is not None and step != "ignore range":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= whole > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(whole - start))
        self.end_headers()
        end = start + int(step) if step.isdigit() else whole
        self.wfile.write(self.server.content[start:end])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    http = Server()
    monkeypatch.setattr(year, "ADDRESS", http.address)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield http
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


@pytest.fixture
def make_year(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a zip of lines and gives its path."""

    def make(lines: list[str], member: str = "YearPredictionMSD.txt") -> Path:
        path = tmp_path / "made.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, "\n".join(lines) + "\n")
        return path

    return make


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "deep" / "data"
    monkeypatch.setenv("CALIBRANT_DATA", str(folder))
    return folder
