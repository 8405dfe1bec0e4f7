"""Downloads from a server that drops, truncates, lies and refuses."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from calibrant.data import DownloadError
from calibrant.data import download as module
from calibrant.data.download import _caches, data_folder, download
from calibrant.errors import InputError, StorageError

CONTENT = bytes(range(256)) * 4000  # about 1 MB


class Server(Protocol):
    address: str
    content: bytes
    script: list[object]
    ranges: list[str | None]


@pytest.fixture(autouse=True)
def _content(server: Server) -> None:
    server.content = CONTENT


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "new" / "data.zip"
    yield path
    if path.exists():
        assert [file.name for file in path.parent.iterdir()] == ["data.zip"]
        assert path.read_bytes() == CONTENT


def part_of(target: Path) -> Path:
    return target.with_name("data.zip.part")


def check(path: Path) -> None:
    if path.read_bytes() != CONTENT:
        raise ValueError("other bytes.")


def get(server: Server, target: Path, **options: Any) -> None:
    download(server.address, target, **{"check": check, "waits": (0.0, 0.0)} | options)


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        ([], [None]),
        (["no length"], [None]),
        (
            [("drop", 100_000), ("drop", 50_000), ("drop", 200_000)],
            [None, "bytes=100000-", "bytes=150000-", "bytes=350000-"],
        ),
        # Attempts that bring bytes are not counted.
        ([("drop", 100_000)] * 9, None),
        ([("drop", 1000), "ignore range"], [None, "bytes=1000-"]),
        ([("drop", 1000), "wrong range"], [None, "bytes=1000-", None]),
        ([429, 503], [None, None, None]),
        ([{"Content-Length": "abc"}], None),
    ],
)
def test_all_ends_well(
    server: Server, target: Path, script: list[object], ranges: list[str | None] | None
) -> None:
    server.script = script
    if script and isinstance(script[0], dict):  # an empty answer without a length
        with pytest.raises(DownloadError, match="other bytes"):
            get(server, target)
    get(server, target)
    assert target.exists()
    assert ranges is None or server.ranges == ranges


def test_waits_grow_and_then_it_gives_up_but_keeps_the_bytes(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    server.script = [("drop", 1000), ("drop", 0), 429, 503]
    with pytest.raises(DownloadError, match=r"answered 503.*1,000 bytes are kept in"):
        get(server, target, waits=(1, 2, 4))
    # The first attempt brought bytes, so that the list started again after it.
    assert slept == [1, 2, 4]
    assert not target.exists()
    assert part_of(target).read_bytes() == CONTENT[:1000]
    get(server, target)
    assert server.ranges[-1] == "bytes=1000-"
    assert target.exists()


def test_without_ranges_and_always_dropped_it_gives_up(
    server: Server, target: Path
) -> None:
    server.script = [("drop from the start", 1000)] * 9
    with pytest.raises(DownloadError, match=r"ended after 1,000 of 1,024,000 bytes"):
        get(server, target)
    assert len(server.ranges) == 3  # one that brought bytes, then two that did not


@pytest.mark.parametrize("there", [b"old" * 1000, CONTENT + b"more", CONTENT])
def test_what_is_there_is_used_or_found_out(
    server: Server, target: Path, there: bytes
) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(there)
    get(server, target)
    again = [] if there == CONTENT else [None]
    assert server.ranges == [f"bytes={len(there)}-", *again]
    assert target.exists()


@pytest.mark.parametrize("wrong", [CONTENT[:-1], b"<html>Log in</html>", b""])
def test_wrong_bytes_are_refused_and_not_kept(
    server: Server, target: Path, wrong: bytes
) -> None:
    server.content = wrong
    with pytest.raises(DownloadError, match=r"expected: other bytes\. Nothing.*proxy"):
        get(server, target)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("status", [403, 404, 416])
def test_a_refusal_ends_it_at_once(server: Server, target: Path, status: int) -> None:
    server.script = [status]
    with pytest.raises(DownloadError, match=rf"answered {status} .*may have moved"):
        get(server, target)
    assert len(server.ranges) == 1


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "file:///etc/hostname", ""])
def test_addresses_other_than_http_are_refused(address: str, target: Path) -> None:
    with pytest.raises(InputError, match=f"http://.*got '{address}'"):
        download(address, target, check=check)
    assert not target.parent.exists()


def test_the_server_may_send_us_on(server: Server, target: Path) -> None:
    server.script = [{"Location": "file:///etc/hostname", "Content-Length": "0"}]
    with pytest.raises(DownloadError, match=r"answered 302.*not allowed"):
        get(server, target)
    server.script = [{"Location": server.address + "?again", "Content-Length": "0"}]
    get(server, target)
    assert target.exists()


def test_no_server_and_a_silent_server(target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DownloadError, match="timed out"):
            download(address, target, check=check, waits=(), timeout=0.1)
    with pytest.raises(DownloadError, match=r"could not be downloaded: .*refused"):
        download("http://127.0.0.1:9/x", target, check=check, waits=())


def test_a_killed_process_loses_nothing(server: Server, target: Path) -> None:
    # The child dies by kill -9 when half is there.
    code = f"""
import os, signal
from pathlib import Path
from calibrant.data import download
class Bar:
    def __init__(self, *given, **options): pass
    def __enter__(self): return self
    def __exit__(self, *given): pass
    def show(self, *, completed, total):
        if completed > {len(CONTENT) // 2}:
            os.kill(os.getpid(), signal.SIGKILL)
download.Bar = Bar
download.download({server.address!r}, Path({str(target)!r}), check=print)
"""
    process = subprocess.run([sys.executable, "-c", code], check=False)
    assert process.returncode == -9
    kept = part_of(target).stat().st_size
    assert len(CONTENT) // 2 < kept < len(CONTENT)
    get(server, target)
    assert server.ranges == [None, f"bytes={kept}-"]
    assert target.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
def test_a_full_disk_keeps_what_it_took(server: Server, target: Path) -> None:
    import resource

    # A limit on the size of files is the same to the program as a disk without room.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"What it holds is kept.*CALIBRANT_D"):
            get(server, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert part_of(target).read_bytes() == CONTENT[:300_000]
    get(server, target)
    assert server.ranges == [None, "bytes=300000-"]
    assert target.exists()


def test_the_progress_bar(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    get(server, target, progress=True)
    assert "data.zip" in capsys.readouterr().err
    get(server, target, progress=None)  # no terminal here
    assert capsys.readouterr().err == ""


def test_the_variable_moves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CALIBRANT_DATA", "~/elsewhere")
    assert data_folder() == tmp_path / "elsewhere"
    monkeypatch.setenv("CALIBRANT_DATA", "")
    assert data_folder().name == "calibrant"
    for platform, variable, value, folder in (
        ("linux", "XDG_CACHE_HOME", str(tmp_path / "xdg"), "xdg"),
        ("linux", "XDG_CACHE_HOME", "relative", ".cache"),
        ("darwin", "XDG_CACHE_HOME", "", "Library/Caches"),
        ("win32", "LOCALAPPDATA", "", "AppData/Local"),
        ("win32", "LOCALAPPDATA", str(tmp_path / "local"), "local"),
    ):
        monkeypatch.setenv(variable, value)
        assert _caches(platform) == tmp_path / folder


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import calibrant.data as d; list(d.DATA_SETS)", "numpy torch scipy pandas"),
        ("from calibrant.data import *; load('yacht')", "torch scipy pandas rich"),
    ],
)
def test_nothing_heavy_is_imported(statement: str, banned: str) -> None:
    code = (
        f"{statement}\nimport sys\nassert not set({banned.split()}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
