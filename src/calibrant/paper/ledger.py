"""What a reproduction measures, and the CSV file that keeps what is finished."""

import csv
import gzip
import io
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from reprlib import repr as short
from typing import Any, Self

from calibrant.errors import InputError
from calibrant.files import replace_file

#: Levels of the paper's calibration error, j / 20 for j = 1 ... 20.
LEVELS = 20
#: The regularizer of a cell whose strength is 0.
NO_REGULARIZER = "none"
#: What some fields of a cell can be.
CHOICES = {
    "network": ("mc_dropout", "deep_ensemble", "default"),
    "recalibration": ("none", "isotonic", "out_of_fold"),
    "split": ("unshuffled", "shuffled", "fixed"),
}


@dataclass(frozen=True, kw_only=True, order=True)
class Arm:
    """A model on a data set: all that its cells share.

    Attributes
    ----------
    data
        Name of a data set, or the path of a CSV.
    split
        ``"unshuffled"``, ``"shuffled"`` or ``"fixed"``.
    folds
        Number of folds; 1 for the fixed split.
    network
        ``"mc_dropout"`` or ``"deep_ensemble"`` as in the paper, or ``"default"``.
    regularizer
        A name from ``REGULARIZERS``, ``"conditional"``, or ``"none"`` (strength 0).
    strength
        Of the regularizer.
    epochs
        Passes over the training fold.
    recalibration
        ``"none"``, ``"isotonic"`` (on the training fold, as in the paper),
        or ``"out_of_fold"``.
    """

    data: str
    split: str = "unshuffled"
    folds: int = 5
    network: str
    regularizer: str = NO_REGULARIZER
    strength: float = 0.0
    epochs: int = 100
    recalibration: str = "none"


@dataclass(frozen=True, kw_only=True, order=True)
class Cell(Arm):
    """One model on one fold: an arm with a repeat and a fold, both from 0."""

    repeat: int = 0
    fold: int = 0

    @property
    def arm(self) -> Arm:
        """What it shares with the cells of other folds and repeats."""
        return Arm(**{name: getattr(self, name) for name in _ARM})


_ARM = [field.name for field in fields(Arm)]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A finished cell: what was measured on its test fold, and how it was run.

    Attributes
    ----------
    cell
        What was run.
    train_rows, test_rows
        Sizes of the fold.
    calibration_error
        100 x the sum over 20 levels of squared gaps, from plain PIT values: the
        paper's number.
    floor
        What that number is on average for a perfectly calibrated model.
    randomized_calibration_error
        The same with randomized PIT values, which a rounded target needs.
    spread_calibration_error, mean_calibration_error
        Mean of that error over the quartiles of predicted spread, and of predicted
        mean (randomized PIT values; each quartile has a fourth of the rows, so its
        floor is four times as high).
    rmse, nll, crps, sharpness
        In target units; NLL is infinite where a recalibrated prediction has no
        density. Sharpness is the mean predicted standard deviation.
    coverage
        Share of targets inside of the central 90 % interval.
    curve
        For each of the 20 levels the number of PIT values at or below it.
    seed, stack
        Of the training, and what was trained side by side with it: numbers are the
        same bit for bit with the same seed, stack, threads, versions and machine.
    threads, versions, host, seconds, finished
        How it was run. Seconds are the cell's share of its stack's wall time;
        finished is the time in UTC, ISO 8601.
    """

    cell: Cell
    train_rows: int
    test_rows: int
    calibration_error: float
    floor: float
    randomized_calibration_error: float
    spread_calibration_error: float
    mean_calibration_error: float
    rmse: float
    nll: float
    crps: float
    sharpness: float
    coverage: float
    curve: tuple[int, ...]
    seed: int
    stack: str
    threads: int
    versions: str
    host: str
    seconds: float
    finished: str

    @property
    def curve_gap(self) -> float:
        r"""Mean distance of the calibration curve from the diagonal.

        :math:`\frac{1}{20} \sum_j |\hat F_u(p_j) - p_j|` with :math:`p_j = j / 20`.
        """
        gaps = (
            abs(below / self.test_rows - (index + 1) / LEVELS)
            for index, below in enumerate(self.curve)
        )
        return math.fsum(gaps) / LEVELS


class LedgerError(InputError):
    """A ledger cannot be read or written. The text says why and what to do."""


class Ledger:
    """All finished cells of a run, in one CSV file that is whole at any moment.

    Each ``add`` replaces the file in one step, so a process that is killed loses
    nothing that was added before. One process at a time may have a ledger open.

    Parameters
    ----------
    path
        The file, which need not exist, nor the folders above it.

    Raises
    ------
    LedgerError
        The file cannot be read or written, or another process has it open.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger(Path(folder) / "results.csv") as ledger:
    ...         ledger.add([]), ledger.records()
    (0, [])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from filelock import FileLock, Timeout

        self.path = Path(path)
        lock = self.path.with_name(f".{self.path.name}.lock")
        # The system releases it however a process ends.
        self._lock = FileLock(lock, timeout=0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise LedgerError(
                f"{self.path} is in use by another run. Wait until that has ended, or "
                "choose another folder."
            ) from None
        except OSError as error:
            raise LedgerError(f"{lock} cannot be written: {error.strerror}.") from None
        self._records: dict[Cell, Record] = {}
        try:
            if self.path.exists():
                self._records = {each.cell: each for each in read_csv(self.path)}
        except LedgerError:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def add(self, records: Iterable[Record]) -> int:
        """Add records, all or none, and return how many were new."""
        merged = {record.cell: record for record in records} | self._records
        added = len(merged) - len(self._records)
        if added:
            write_csv(self.path, merged.values())
            self._records = merged
        return added

    def records(self) -> list[Record]:
        """Return all records, sorted by cell."""
        return [self._records[cell] for cell in sorted(self._records)]

    def cells(self) -> set[Cell]:
        """Return the cells that are finished."""
        return set(self._records)


#: Columns of the file and their types: the fields of a cell, then those of a record.
_COLUMNS: dict[str, Any] = {
    field.name: field.type for field in (*fields(Cell), *fields(Record)[1:])
}


def write_csv(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write records to a CSV, sorted by cell; the file is replaced in one step.

    Numbers have the fewest digits that give the same bits back. The same records make
    the same bytes.

    Parameters
    ----------
    path
        The file.
    records
        Finished cells.
    """
    target, text = Path(path), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for record in sorted(records, key=lambda record: record.cell):
        _check(record)
        values = vars(record.cell) | vars(record)
        writer.writerow([_text(values[name]) for name in _COLUMNS])
    try:
        replace_file(target, text.getvalue().encode())
    except OSError as error:
        raise LedgerError(
            f"{target} cannot be written: {error.strerror}. All cells that were in it "
            "are safe."
        ) from error


def _text(value: Any) -> str:  # noqa: ANN401 - a field of any type
    if isinstance(value, float):
        return repr(float(value) + 0.0).removesuffix(".0")  # no -0
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def read_csv(path: str | os.PathLike[str]) -> list[Record]:
    """Read the records of a CSV that ``write_csv`` wrote, sorted by cell.

    Parameters
    ----------
    path
        The file, compressed if its name ends in ``.gz``.

    Raises
    ------
    LedgerError
        The file is cut short, has been changed, or holds what no run can have written;
        the text names line and column.
    """
    source = Path(path)
    found: dict[Cell, Record] = {}
    for line, row in _rows(source):
        try:
            record = _record(row)
            _check(record)
            if record.cell in found:
                raise LedgerError("this cell was there before.")
        except LedgerError as error:
            raise LedgerError(f"{source}, line {line}: {error}") from None
        found[record.cell] = record
    return [found[cell] for cell in sorted(found)]


def _rows(source: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and texts of each row below the header."""
    try:
        content = source.read_bytes()
        if source.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")  # spreadsheets put a mark in front
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise LedgerError(f"{source} is damaged: {error}. Copy it again.") from error
    except OSError as error:
        raise LedgerError(f"{source} cannot be read: {error.strerror}.") from error
    if not text.endswith("\n"):
        raise LedgerError(
            f"{source} must end with a whole line, and the last is cut short. Copy the "
            "file again, or remove that line."
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header: list[str] = next(reader, [])
        if header != list(_COLUMNS):
            wrong = sorted(set(_COLUMNS) ^ set(header)) or ["in another order"]
            raise LedgerError(
                f"{source}, line 1: the columns must be {', '.join(_COLUMNS)}; missing "
                f"or unknown: {', '.join(wrong)}."
            )
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise LedgerError(f"{source}, line {reader.line_num}: {error}.") from error


def _record(row: list[str]) -> Record:
    if len(row) != len(_COLUMNS):
        raise LedgerError(f"must have {len(_COLUMNS)} columns, got {len(row)}.")
    values: dict[str, Any] = {}
    rules = {int: "a whole number", float: "a number"}
    for (name, kind), text in zip(_COLUMNS.items(), row, strict=True):
        try:
            simple = kind in (str, int, float)
            values[name] = kind(text) if simple else tuple(map(int, text.split()))
        except ValueError:
            rule = rules.get(kind, f"{LEVELS} counts")
            raise LedgerError(f"{name} must be {rule}, got {short(text)}.") from None
    cell = Cell(**{field.name: values.pop(field.name) for field in fields(Cell)})
    return Record(cell=cell, **values)


def _check(record: Record) -> None:
    """Refuse a record that no run can have made, naming the first wrong column."""
    cell, values = record.cell, vars(record.cell) | vars(record)
    rules = [(n, f"one of {', '.join(c)}", values[n] in c) for n, c in CHOICES.items()]
    rules.append(("fold", f"from 0 to {cell.folds - 1}", 0 <= cell.fold < cell.folds))
    for name, kind in _COLUMNS.items():
        if kind is float:
            rules.append((name, "a number", not math.isnan(values[name])))
        elif name in ("train_rows", "test_rows"):
            rules.append((name, "at least 1", values[name] >= 1))
    edges = [0, *record.curve, record.test_rows]
    rule = f"{LEVELS} counts that never fall, from 0 to {record.test_rows}"
    rules.append(("curve", rule, edges == sorted(edges) and len(edges) == LEVELS + 2))
    for name, rule, fits in rules:
        if not fits:
            raise LedgerError(f"{name} must be {rule}, got {short(values[name])}.")
