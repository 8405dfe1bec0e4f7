"""The one error of ledgers, and SQLite's errors in words that help."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from calibrant._checks import InputError

__all__ = ["LedgerError", "clear_errors", "damaged", "has_code"]

_SAVED = (
    "Cells that were finished by then are in the last CSV export, if there is one: "
    "move the file away and import that."
)


class LedgerError(InputError):
    """A ledger cannot be read or written. The text says why and what to do."""


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into texts that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(error, path) from error
    except UnicodeDecodeError as error:  # a name in SQLite's own text
        raise damaged(path, error) from error


def damaged(path: Path, what: object) -> LedgerError:
    """Return the error of a file whose content is not what was written."""
    return LedgerError(
        f"{path} must be a whole ledger, and it is damaged: {what}. Nothing was "
        f"written to it. {_SAVED}"
    )


def has_code(error: sqlite3.Error, *names: str) -> bool:
    """Say whether SQLite gave an error one of these codes, or a kind of one."""
    # Not all errors carry a name: the module has some of its own.
    found: str = getattr(error, "sqlite_errorname", "")
    return found.startswith(tuple(f"SQLITE_{name}" for name in names))


def _explain(error: sqlite3.Error, path: Path) -> LedgerError:
    if has_code(error, "NOTADB"):
        return LedgerError(
            f"{path} must be a ledger, and it is no database, or its head is damaged. "
            f"It was left as it is: choose another path. {_SAVED}"
        )
    if has_code(error, "CORRUPT", "ERROR") or "decode" in str(error):
        return damaged(path, error)
    if has_code(error, "FULL", "IOERR"):
        return LedgerError(
            f"{path} cannot be read or written: {error}. All cells that were added "
            "before are safe. Make room on the disk and run the same command again."
        )
    if has_code(error, "READONLY", "CANTOPEN", "PERM", "AUTH"):
        return LedgerError(
            f"{_unwritable(path)} ({error}). Give yourself the right to write, choose "
            "another path, or open the ledger with read_only=True."
        )
    if has_code(error, "BUSY", "LOCKED", "PROTOCOL"):
        return LedgerError(
            f"{path} has been in the hands of another process for too long. "
            "Find and stop it, then run the same command again."
        )
    return LedgerError(f"{path} cannot be used: {str(error).rstrip('.')}.")


def _unwritable(path: Path) -> str:
    if path.exists() and not _may_write(path):
        return f"the ledger {path} is read-only"
    if not _may_write(path.parent):
        return f"the folder {path.parent} of the ledger is read-only"
    return f"the ledger {path} or a file beside it cannot be written"


def _may_write(path: Path) -> bool:
    as_whom = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=as_whom)
