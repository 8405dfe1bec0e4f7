"""The SQLite file of a ledger: open it, know it for one, say what is wrong with it."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from calibrant.benchmark._ledger_columns import COLUMNS, KEYS, Value, checksum
from calibrant.benchmark._ledger_error import (
    LedgerError,
    clear_errors,
    damaged,
    has_code,
)

__all__ = ["ROWS", "check_row", "locate", "open_ledger"]

#: "CALB", in the header of every ledger.
APPLICATION = 0x43414C42
#: Of the tables below. Another number, another shape: such a file is refused.
VERSION = 1
#: Seconds to wait for another process that is writing.
PATIENCE = 60.0

_TABLES = (
    f"""CREATE TABLE IF NOT EXISTS records (
    {", ".join(f"{column.name} {column.kind.sql} NOT NULL" for column in COLUMNS)},
    checksum INTEGER NOT NULL,
    PRIMARY KEY ({", ".join(column.name for column in KEYS)})
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS claims (
    job TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS facts (
    name TEXT PRIMARY KEY, value TEXT NOT NULL
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
#: All records; more can be said after it.
ROWS = f"SELECT {', '.join(column.name for column in COLUMNS)}, checksum FROM records"


def locate(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a ledger, which is no folder."""
    try:
        given: object = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given or "\0" in given:
        raise LedgerError(f"path must be a path, as text or Path, got {path!r}.")
    found = Path(os.path.realpath(given))
    if found.is_dir():
        raise LedgerError(f"path must name a file, and {found} is a folder.")
    return found


def open_ledger(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a ledger; to write, make an empty one where there is none."""
    if not read_only:
        return _open_to_write(path)
    if not path.exists():
        raise LedgerError(f"there is no ledger at {path}. Is the path right?")
    try:
        return _open_to_read(path)
    except LedgerError as error:
        if isinstance(error.__cause__, sqlite3.Error) and has_code(
            error.__cause__, "CANTOPEN", "READONLY"
        ):
            return _open_copy(path)
        raise


def _open_to_write(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"the folder {path.parent} of the ledger cannot be made: "
            f"{error.strerror}. Choose another path."
        ) from None
    connection = _connect(path, "rwc")
    with _closed_on_error(connection), clear_errors(path):
        if _is_ledger(connection, path):
            _check(connection, path)
        # Asked again, since another process may have made it in between.
        elif _holds_anything(connection) and not _is_ledger(connection, path):
            raise _foreign(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        with connection:
            # Also where the tables are there: this tells a file that is read-only.
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                connection.execute(statement)
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "ro")
    with _closed_on_error(connection), clear_errors(path):
        if not _is_ledger(connection, path):
            raise _foreign(path)
        _check(connection, path)
    return connection


def _open_copy(path: Path) -> sqlite3.Connection:
    """Open a ledger that SQLite cannot read where it is, as a copy in memory.

    To read a file in WAL mode, SQLite writes beside it, which a read-only disk forbids.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with (
        _closed_on_error(memory),
        tempfile.TemporaryDirectory(prefix="calibrant-") as folder,
    ):
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.exists():
                shutil.copyfile(source, Path(folder) / f"copy{suffix}")
        with contextlib.closing(_open_to_read(Path(folder) / "copy")) as copy:
            copy.backup(memory)
    return memory


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    with clear_errors(path):
        return sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
        )


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _is_ledger(connection: sqlite3.Connection, path: Path) -> bool:
    if _number(connection, "PRAGMA application_id") != APPLICATION:
        return False
    version = _number(connection, "PRAGMA user_version")
    if version != VERSION:
        raise LedgerError(
            f"{path} must be a ledger of version {VERSION}, and it is one of version "
            f"{version}. Export it to CSV with the calibrant that wrote it, and import "
            "that into a new ledger."
        )
    return True


def _holds_anything(connection: sqlite3.Connection) -> bool:
    # Not sqlite_schema, which is the name since SQLite 3.33 only.
    return _number(connection, "SELECT count(*) FROM sqlite_master") > 0


def _foreign(path: Path) -> LedgerError:
    return LedgerError(
        f"{path} must be a ledger of calibrant, and it is a database of another "
        "program. It was left as it is: choose another path."
    )


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Read all of a file, before anything is written to it."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, " ".join(found.split()))
    for row in connection.execute(ROWS):
        check_row(row, path)


def check_row(row: Sequence[Value], path: Path) -> Sequence[Value]:
    """Return a row of ``ROWS`` without its checksum, if that is right."""
    *values, expected = row
    if checksum(values) != expected:
        raise damaged(path, f"the record of {values[: len(KEYS)]} was changed")
    return values


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
