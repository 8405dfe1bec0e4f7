"""Downloads from a server that drops, truncates, lies and refuses."""

import hashlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from calibrant._checks import InputError
from calibrant.data import DownloadError, _part_file
from calibrant.data import download as module
from calibrant.data._part_file import open_part
from calibrant.data.download import download

CONTENT = bytes(range(256)) * 4000  # about 1 MB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NO_WAIT = (0.0, 0.0)


class Server(Protocol):
    address: str
    content: bytes
    version: str | None
    script: list[object]
    ranges: list[str | None]


@pytest.fixture(autouse=True)
def _content(server: Server) -> None:
    server.content = CONTENT


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "new" / "data.zip"
    yield path
    left = (
        {file.name for file in path.parent.iterdir()} if path.parent.is_dir() else set()
    )
    if path.exists():
        assert left == {"data.zip"}, "a finished download leaves nothing else"
        assert path.read_bytes() == CONTENT


def part_of(target: Path) -> Path:
    return target.with_name("data.zip.part")


def test_all_goes_well(server: Server, target: Path) -> None:
    download(server.address, target, sha256=SHA256.upper())
    assert target.exists()
    assert server.ranges == [None]


def test_dropped_connections_go_on_where_they_ended(
    server: Server, target: Path
) -> None:
    server.script = [("drop", 100_000), ("drop", 50_000), ("drop", 200_000)]
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert server.ranges == [
        None,
        "bytes=100000-",
        "bytes=150000-",
        "bytes=350000-",
    ]
    assert target.exists()


def test_attempts_that_bring_bytes_are_not_counted(
    server: Server, target: Path
) -> None:
    server.script = [("drop", 100_000)] * 9
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert target.exists()


def test_waits_grow_and_then_it_gives_up_but_keeps_the_bytes(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    server.script = [("drop", 1000), ("drop", 0), 429, 503]
    with pytest.raises(DownloadError, match=r"answered 503.*1,000 bytes are kept in"):
        download(server.address, target, waits=(1, 2, 4))
    # The first attempt brought bytes, so that the list started again after it.
    assert slept == [1, 2, 4]
    assert not target.exists()
    assert part_of(target).read_bytes() == CONTENT[:1000]
    download(server.address, target, sha256=SHA256)
    assert server.ranges[-1] == "bytes=1000-"
    assert target.exists()


def test_a_server_without_ranges_sends_all_again(server: Server, target: Path) -> None:
    server.script = [("drop", 1000), "ignore range"]
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert target.exists()


def test_without_ranges_and_always_dropped_it_gives_up(
    server: Server, target: Path
) -> None:
    server.script = [("drop from the start", 1000)] * 9
    with pytest.raises(DownloadError, match=r"ended after 1,000 of 1,024,000 bytes"):
        download(server.address, target, waits=NO_WAIT)
    assert len(server.ranges) == 3  # one that brought bytes, then two that did not


def test_a_new_version_starts_afresh(server: Server, target: Path) -> None:
    server.content, server.version = b"old" * 100_000, '"old"'
    server.script = [("drop", 1000), 404]
    with pytest.raises(DownloadError, match="404"):
        download(server.address, target, waits=NO_WAIT)
    server.content, server.version = CONTENT, '"new"'
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert server.ranges[-1] == "bytes=1000-"  # refused by If-Range
    assert target.exists()


@pytest.mark.parametrize("version", [None, 'W/"weak"'])
def test_pieces_of_two_versions_are_found_out(
    server: Server, target: Path, version: str | None
) -> None:
    server.version = version  # nothing that the server could compare
    target.parent.mkdir()
    part_of(target).write_bytes(b"old" * 1000)
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert server.ranges == ["bytes=3000-", None]
    assert target.exists()


@pytest.mark.parametrize("wrong", [CONTENT[:-1], b"<html>Log in</html>", b""])
def test_wrong_bytes_are_refused_and_not_kept(
    server: Server, target: Path, wrong: bytes
) -> None:
    server.content = wrong
    with pytest.raises(DownloadError, match=rf"SHA-256 must be {SHA256}, got .*proxy"):
        download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert list(target.parent.iterdir()) == []


def test_a_truncated_file_without_a_length_is_refused(
    server: Server, target: Path
) -> None:
    server.content, server.script = CONTENT[:5000], ["no length"]

    def check(path: Path) -> None:
        if path.stat().st_size < len(CONTENT):
            raise ValueError("too short.")

    with pytest.raises(DownloadError, match=r"than expected: too short\. Nothing"):
        download(server.address, target, check=check)
    assert list(target.parent.iterdir()) == []
    server.content = CONTENT
    download(server.address, target, check=check)
    assert target.exists()


def test_a_finished_part_is_only_renamed(server: Server, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT)
    download(server.address, target, sha256=SHA256)
    assert server.ranges == ["bytes=1024000-"]
    assert target.exists()


def test_a_part_that_is_too_long_is_dropped(server: Server, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT + b"more")
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert target.exists()


def test_another_range_than_asked_for_is_dropped(server: Server, target: Path) -> None:
    server.script = [("drop", 1000), "wrong range"]
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert server.ranges == [None, "bytes=1000-", None]
    assert target.exists()


@pytest.mark.parametrize("status", [403, 404, 410, 416])
def test_a_refusal_ends_it_at_once(server: Server, target: Path, status: int) -> None:
    server.script = [status]
    with pytest.raises(DownloadError, match=rf"answered {status} .*may have moved"):
        download(server.address, target)
    assert len(server.ranges) == 1


@pytest.mark.parametrize("length", ["abc", "-5", "1e3", "9" * 5000])
def test_a_length_that_is_no_number(server: Server, target: Path, length: str) -> None:
    server.script = [("drop", 1000), 404]
    with pytest.raises(DownloadError, match="404"):
        download(server.address, target, waits=NO_WAIT)
    server.script = [{"Content-Length": length}]
    with pytest.raises(
        DownloadError, match=rf"data\.zip .*Content-Length .*got '{length[:40]}'"
    ):
        download(server.address, target, waits=NO_WAIT)
    assert part_of(target).read_bytes() == CONTENT[:1000]  # still good
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert server.ranges == [None, *["bytes=1000-"] * 3]


@pytest.mark.parametrize(
    "address",
    [
        "ftp://127.0.0.1/x",
        "file:///etc/hostname",
        "data:,x",
        "127.0.0.1/x",
        "http:///x",
        "http://127.0.0.1:port/x",
        "http://[::1/x",
        "",
        None,
        3,
    ],
)
def test_addresses_other_than_http_are_refused(address: Any, target: Path) -> None:
    with pytest.raises(InputError, match=f"http://.*got {re.escape(repr(address))}"):
        download(address, target)
    assert not target.parent.exists()


def test_the_server_may_send_us_on_but_only_by_http(
    server: Server, target: Path
) -> None:
    server.script = [{"Location": "ftp://127.0.0.1/x", "Content-Length": "0"}]
    with pytest.raises(DownloadError, match=r"on to ftp://127\.0\.0\.1/x, which is"):
        download(server.address, target, waits=NO_WAIT)
    assert server.ranges == [None]
    server.script = [{"Location": server.address + "?again", "Content-Length": "0"}]
    download(server.address, target, sha256=SHA256, waits=NO_WAIT)
    assert target.exists()


def test_no_server_at_all(target: Path, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"could not be downloaded: .*refused"):
        download("http://127.0.0.1:9/x", target, waits=())
    with pytest.raises(DownloadError, match=r"could not be downloaded: "):
        download("http://no.such.host.invalid/x", tmp_path / "other", waits=())


def test_a_silent_server_counts_as_dropped(target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DownloadError, match="timed out"):
            download(address, target, waits=(), timeout=0.1)


def test_a_killed_process_loses_nothing(server: Server, target: Path) -> None:
    # The child dies by kill -9 when half is there.
    code = f"""
import os, signal
from pathlib import Path
from calibrant.data import _part_file, download
write = _part_file.PartFile.write
def dying(self, content):
    write(self, content)
    if self.size > {len(CONTENT) // 2}:
        os.kill(os.getpid(), signal.SIGKILL)
_part_file.PartFile.write = dying
download.download({server.address!r}, Path({str(target)!r}))
"""
    process = subprocess.run([sys.executable, "-c", code], check=False)
    assert process.returncode == -9
    kept = part_of(target).stat().st_size
    assert len(CONTENT) // 2 < kept < len(CONTENT)
    download(server.address, target, sha256=SHA256)
    assert server.ranges == [None, f"bytes={kept}-"]
    assert target.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
def test_a_full_disk_keeps_what_it_took(server: Server, target: Path) -> None:
    import resource

    # A limit on the size of files is the same to the program as a disk without room.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(DownloadError, match=r"300,000 bytes are kept.*CALIBRANT_D"):
            download(server.address, target, waits=())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert part_of(target).read_bytes() == CONTENT[:300_000]
    download(server.address, target, sha256=SHA256)
    assert server.ranges == [None, "bytes=300000-"]
    assert target.exists()


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match=r"must be writable.*CALIBRANT_DATA"):
        download(server.address, tmp_path / "file" / "data.zip")
    assert server.ranges == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_two_at_once_do_not_mix(server: Server, target: Path) -> None:
    with open_part(part_of(target)), pytest.raises(DownloadError, match="another proc"):
        download(server.address, target)
    download(server.address, target, sha256=SHA256)
    assert target.exists()


def test_file_systems_without_locks_work(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    with monkeypatch.context() as patch:
        patch.setattr(_part_file.fcntl, "flock", refuse)
        download(server.address, target, sha256=SHA256)
    assert target.exists()
    target.unlink()
    monkeypatch.setattr(_part_file, "fcntl", None)
    download(server.address, target, sha256=SHA256)
    assert target.exists()


def test_an_unreadable_mark_is_no_mark(server: Server, target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT[:1000])
    target.with_name("data.zip.part.version").write_bytes(b"\xff\xfe")
    download(server.address, target, sha256=SHA256)
    assert server.ranges == ["bytes=1000-"]
    assert target.exists()


@pytest.mark.parametrize("script", [[], ["no length"]])
def test_the_progress_bar(
    server: Server,
    target: Path,
    script: list[object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.script = script
    download(server.address, target, progress=True)
    assert "data.zip" in capsys.readouterr().err
    os.replace(target, part_of(target))  # noqa: PTH105
    download(server.address, target, progress=None)  # no terminal here
    assert capsys.readouterr().err == ""
