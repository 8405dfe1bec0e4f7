"""Whatever is wrong with a ledger's file gives one clear error and costs no record."""

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from calibrant.benchmark import _ledger_error, _ledger_file
from calibrant.benchmark.ledger import Ledger, LedgerError
from calibrant.benchmark.records import LEVELS, Cell, Record

COUNTS = tuple(range(LEVELS))
VALUES = {str: "some text", int: 7, float: 1 / 3, tuple[int, ...]: COUNTS}


def sample(fold: int, data: str = "concrete") -> Record:
    values = {
        field.name: VALUES[field.type]  # type: ignore[index]
        for field in fields(Record)
        if field.name != "cell"
    }
    return Record(cell=Cell(data=data, network="mc_dropout", fold=fold), **values)


RECORDS = [sample(fold) for fold in range(60)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.add(RECORDS)
    return path


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("length", [1, 8, 200])
def test_random_damage_is_told_or_does_no_harm(
    path: Path, read_only: bool, length: int
) -> None:
    whole = path.read_bytes()
    generator = random.Random(length)
    told = 0
    for _ in range(40):
        start = generator.randrange(len(whole))
        noise = generator.randbytes(length)
        damaged = (whole[:start] + noise + whole[start + length :])[: len(whole)]
        path.write_bytes(damaged)
        try:
            with Ledger(path, read_only=read_only) as ledger:
                assert ledger.records() == RECORDS
        except LedgerError:
            told += 1
            assert path.read_bytes() == damaged
    assert told > 12


def test_names_that_are_no_text_are_told(path: Path) -> None:
    whole = path.read_bytes()
    start = whole.index(b"CREATE TABLE")
    told = 0
    for place in range(start, start + 200, 2):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            with Ledger(path, read_only=True) as ledger:
                ledger.records()
        except LedgerError:
            told += 1
    assert told > 50


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_a_file_cut_short_is_told(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        LedgerError, match=r"damaged.* in the last CSV export, if there is one: move"
    ):
        Ledger(path)


def test_damage_while_it_is_open_is_told(path: Path) -> None:
    ledger = Ledger(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    damaged = path.read_bytes()
    ledger._connection.execute("PRAGMA shrink_memory")  # nothing left to remember
    with pytest.raises(LedgerError, match="damaged"):
        ledger.records()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.add([sample(61)])
    assert path.read_bytes() == damaged
    ledger.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_files_of_others_are_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "file"
    path.write_text("a diary, day one. " * 100)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="it is no database"):
        Ledger(path, read_only=read_only)
    assert path.read_bytes() == before
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE diary (day INTEGER)")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="a database of another program"):
        Ledger(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True])
def test_other_versions_are_refused(path: Path, read_only: bool) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="of version 1, and it is one of version 2"):
        Ledger(path, read_only=read_only)


def test_a_ledger_without_its_table_is_damaged(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE records")
    with pytest.raises(LedgerError, match="damaged: no such table: records"):
        Ledger(path)


def test_paths_that_name_no_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"must name a file, and .* is a folder"):
        Ledger(tmp_path)
    for wrong in ("", "a\0b", 3):
        with pytest.raises(LedgerError, match="path must be a path"):
            Ledger(wrong)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=r"the folder .* of the ledger cannot be ma"):
        Ledger(tmp_path / "file" / "ledger")
    with pytest.raises(LedgerError, match="there is no ledger at"):
        Ledger(tmp_path / "none", read_only=True)
    with Ledger(tmp_path / "file") as ledger:  # empty, so that nothing is lost
        assert len(ledger) == 0


def test_read_only_reads_what_comes_and_refuses_to_write(path: Path) -> None:
    with Ledger(path, read_only=True) as reader, Ledger(path) as writer:
        for refused in (
            lambda: reader.add([sample(99)]),
            lambda: reader.claim("job"),
            lambda: reader.release("job"),
        ):
            with pytest.raises(LedgerError, match="opened with read_only=True"):
                refused()
        writer.add([sample(99)])
        writer.claim("job")
        assert len(reader) == 61
        assert reader.holders() == {}  # this process's own


@pytest.fixture
def as_nobody() -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder for all, and a way to become a user whom rights bind, root or not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    root = hasattr(os, "geteuid") and os.geteuid() == 0

    def become() -> None:
        if root:
            os.seteuid(65534)

    yield folder, become
    if root:
        os.seteuid(0)
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="rights of files are others there")
@pytest.mark.parametrize("left_by_a_killed_process", [False, True])
@pytest.mark.parametrize(
    ("file", "folder", "text"),
    [
        (0o444, 0o777, "the ledger .* is read-only"),
        (0o444, 0o555, "the ledger .* is read-only"),
        (0o666, 0o555, "the folder .* of the ledger is read-only"),
    ],
)
def test_a_read_only_place_can_be_read(
    path: Path,
    as_nobody: tuple[Path, Callable[[], None]],
    left_by_a_killed_process: bool,
    file: int,
    folder: int,
    text: str,
) -> None:
    place, become_nobody = as_nobody
    expected = RECORDS
    with Ledger(path) as ledger:
        if left_by_a_killed_process:
            ledger.add([sample(60)])
            expected = [*RECORDS, sample(60)]
            shutil.copy(path.with_name(path.name + "-wal"), place / "ledger-wal")
            (place / "ledger-wal").chmod(file)
        shutil.copy(path, place / "ledger")
    (place / "ledger").chmod(file)
    place.chmod(folder)
    become_nobody()
    with Ledger(place / "ledger", read_only=True) as ledger:
        assert ledger.records() == expected
    with pytest.raises(LedgerError, match=text + r".*read_only=True"):
        Ledger(place / "ledger")
    if folder == 0o555:
        with pytest.raises(LedgerError, match=r"the folder .* is read-only"):
            Ledger(place / "another")


def test_a_file_that_cannot_be_opened_though_it_may(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ledger_error, "_may_write", lambda _: True)
    path.with_name(path.name + "-wal").mkdir()
    with pytest.raises(LedgerError, match="or a file beside it cannot be written"):
        Ledger(path)


def test_a_full_disk_keeps_what_was_added(path: Path) -> None:
    with Ledger(path) as ledger:
        (pages,) = ledger._connection.execute("PRAGMA page_count").fetchone()
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match=r"full\. All cells .* before are safe"):
            ledger.add([sample(fold) for fold in range(100, 200)])
        assert ledger.records() == RECORDS
    with Ledger(path) as ledger:
        assert ledger.add([sample(fold) for fold in range(100, 200)]) == 100


FILLS_A_DISK = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import test_ledger_faults as test
from calibrant.benchmark.ledger import Ledger, LedgerError

disk, filler = Path(sys.argv[2]), Path(sys.argv[2]) / "filler"
added = 0
for _ in range(2):
    filler.write_bytes(b"x" * 100_000)
    with Ledger(disk / "ledger") as ledger:
        try:
            while True:
                added += ledger.add([test.sample(added)])
        except LedgerError as error:
            print(error)
            assert "full" in str(error) or "disk I/O" in str(error), error
        assert len(ledger) == added
    with Ledger(disk / "ledger", read_only=True) as ledger:
        assert ledger.records() == [test.sample(fold) for fold in range(added)]
    filler.unlink()
    with Ledger(disk / "ledger") as ledger:
        added += ledger.add([test.sample(added)])
        assert len(ledger) == added
print("added", added)
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    # In a name space of its own, where everybody may mount and nothing is left behind.
    mounted = f"mount -t tmpfs -o size=400k tmpfs {tmp_path}"
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*space, mounted], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    here = Path(__file__).parent
    command = f'{mounted} && exec "{sys.executable}" - "{here}" "{tmp_path}"'
    done = subprocess.run(
        [*space, command],
        input=FILLS_A_DISK,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Make room on the disk" in done.stdout
    assert "added" in done.stdout


def test_a_writer_that_never_ends_is_told(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(other), Ledger(path) as ledger:
        ledger._connection.execute("PRAGMA busy_timeout = 1")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="in the hands of another process"):
            ledger.add([sample(99)])
        other.execute("ROLLBACK")
        assert ledger.add([sample(99)]) == 1


def test_many_can_make_one_ledger_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []
    gate = threading.Barrier(6)

    def add(number: int) -> None:
        gate.wait()
        try:
            with Ledger(tmp_path / "ledger") as ledger:
                ledger.add([sample(number), sample(0)])
        except LedgerError as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.records() == [sample(number) for number in range(6)]


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN"])
def test_the_wait_for_others_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    path = tmp_path / "new"
    monkeypatch.setattr(_ledger_file, "PATIENCE", 0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(lock)
        other.execute("SELECT * FROM sqlite_master").fetchall()
        with pytest.raises(LedgerError, match="in the hands of another process"):
            Ledger(path)
        other.execute("COMMIT")
        with Ledger(path) as ledger:
            assert ledger.add([sample(0)]) == 1
