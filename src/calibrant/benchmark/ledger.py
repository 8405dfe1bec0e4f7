"""The ledger: one file that holds every finished cell of a benchmark."""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from calibrant.benchmark._ledger_columns import (
    COLUMNS,
    KEYS,
    Value,
    checksum,
    from_row,
    to_row,
)
from calibrant.benchmark._ledger_csv import read_csv, write_csv
from calibrant.benchmark._ledger_error import LedgerError, clear_errors
from calibrant.benchmark._ledger_file import (
    ROWS,
    check_row,
    locate,
    open_ledger,
)
from calibrant.benchmark._ledger_owners import Owner, is_alive, this_process
from calibrant.benchmark.records import Cell, Record

__all__ = ["Ledger", "LedgerError", "read_csv", "write_csv"]

_NAMES = ", ".join(column.name for column in COLUMNS)
_ORDER = ", ".join(column.name for column in KEYS)
_INSERT = (
    f"INSERT INTO records ({_NAMES}, checksum) "
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 1))}) ON CONFLICT ({_ORDER}) DO NOTHING"
)


class Ledger:
    """All finished cells of a benchmark in one SQLite file.

    A record that ``add`` has taken is on the disk when the call returns: a process that
    is killed at any moment loses none, and opening the file again needs no repair. Any
    number of processes of one host may work on one file (its shared memory is why it
    must be one host).

    Parameters
    ----------
    path
        The file; it is made where there is none, with the folders above it.
    read_only
        Write nothing, and refuse what would. Works where nothing can be written, too.

    Raises
    ------
    LedgerError
        The file is damaged, read-only, another program's or of another version, or the
        disk is full. What was added before is never touched by an error.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.benchmark.records import Cell, Record
    >>> record = Record(
    ...     cell=Cell(data="concrete", network="mc_dropout"), train_rows=824,
    ...     test_rows=206, calibration_error=2.5, floor=1.7,
    ...     randomized_calibration_error=2.6, spread_calibration_error=8.0,
    ...     mean_calibration_error=7.5, rmse=6.0, nll=3.1, crps=3.3, sharpness=5.5,
    ...     coverage=0.88, curve=tuple(range(10, 210, 10)), seed=1, stack="", threads=1,
    ...     versions="torch 2.4.0", host="here", seconds=1.5, finished="2026-01-31",
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger(f"{folder}/ledger.sqlite") as ledger:
    ...         first, again = ledger.add([record]), ledger.add([record])
    ...     with Ledger(f"{folder}/ledger.sqlite", read_only=True) as ledger:
    ...         kept = ledger.records(data="concrete")
    >>> first, again, kept == [record]
    (1, 0, True)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False
    ) -> None:
        self.path: Path = locate(path)
        self.read_only = read_only
        self._claimed: set[str] = set()
        self._connection = open_ledger(self.path, read_only=read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was claimed and close the file; twice is no error."""
        # An error here must not hide the one that ended the block, and claims end
        # with the process anyway.
        with contextlib.suppress(LedgerError):
            for job in sorted(self._claimed):
                self.release(job)
        self._connection.close()

    def add(self, records: Iterable[Record]) -> int:
        """Add records, all or none; a cell that is there stays as it was.

        Parameters
        ----------
        records
            Finished cells, without NaN; infinite numbers are kept.

        Returns
        -------
        int
            How many were new.
        """
        rows = [to_row(record) for record in records]
        with self._transaction() as connection:
            before = connection.total_changes
            connection.executemany(_INSERT, ((*row, checksum(row)) for row in rows))
            return connection.total_changes - before

    def records(self, **equal: Value) -> list[Record]:
        """Return the records, sorted by cell.

        Parameters
        ----------
        **equal
            Fields with the value that they must have, as ``data="concrete"``.
        """
        known = {column.name: column for column in COLUMNS}
        unknown = sorted(equal.keys() - known.keys())
        if unknown:
            raise LedgerError(
                f"records have no field {unknown[0]!r}; there are {', '.join(known)}."
            )
        where = " AND ".join(f"{name} = ?" for name in equal) or "TRUE"
        query = f"{ROWS} WHERE {where} ORDER BY {_ORDER}"
        values = [known[name].store(value) for name, value in equal.items()]
        with clear_errors(self.path):
            rows = self._connection.execute(query, values).fetchall()
        return [from_row(check_row(row, self.path)) for row in rows]

    def cells(self) -> set[Cell]:
        """Return the cells that are finished."""
        with clear_errors(self.path):
            rows = self._connection.execute(f"SELECT {_ORDER} FROM records").fetchall()
        names = [column.name for column in KEYS]
        return {Cell(**dict(zip(names, row, strict=True))) for row in rows}

    def __len__(self) -> int:
        with clear_errors(self.path):
            counted = self._connection.execute("SELECT count(*) FROM records")
            return int(counted.fetchone()[0])

    def claim(self, job: str) -> bool:
        """Take a job, unless another process that lives has taken it.

        A claim ends by ``release``, by ``close`` and with its process, however that
        ends. To claim what this process holds already is fine.
        """
        owner = this_process()
        with self._transaction() as connection:
            held = self._owners(connection).get(job, owner)
            if held != owner and is_alive(held):
                return False
            connection.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (job, *owner)
            )
        self._claimed.add(job)
        return True

    def release(self, job: str) -> None:
        """Give back a job of this process; nothing happens to those of others."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM claims WHERE job = ? AND pid = ? AND started = ?",
                (job, *this_process()),
            )
        self._claimed.discard(job)

    def holders(self) -> dict[str, int]:
        """Return the jobs that other living processes hold, with their process ids."""
        with clear_errors(self.path):
            owners = self._owners(self._connection)
        me = this_process()
        return {
            job: owner[0]
            for job, owner in owners.items()
            if owner != me and is_alive(owner)
        }

    def remember(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Keep what all records share, such as the seed of the plan.

        Parameters
        ----------
        facts
            Names and values. A fact that is there already stays as it was.

        Returns
        -------
        dict
            Those that were there with another value: records to come would not fit.
        """
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                facts.items(),
            )
            known = dict(connection.execute("SELECT name, value FROM facts"))
        return {name: known[name] for name in facts if known[name] != facts[name]}

    def export_csv(self, path: str | os.PathLike[str]) -> int:
        """Write all records to a CSV (``.gz``: compressed) and return their number.

        The file is replaced in one step, so that a former one is whole until then.
        """
        records = self.records()
        write_csv(path, records)
        return len(records)

    def import_csv(self, path: str | os.PathLike[str]) -> int:
        """Add the records of a CSV, all or none, and return how many were new."""
        return self.add(read_csv(path))

    @staticmethod
    def _owners(connection: sqlite3.Connection) -> dict[str, Owner]:
        rows = connection.execute("SELECT job, pid, started FROM claims ORDER BY job")
        return {job: (pid, started) for job, pid, started in rows}

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self.read_only:
            raise LedgerError(
                f"{self.path} was opened with read_only=True. Open it without to write."
            )
        with clear_errors(self.path), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
