"""The ledger: whole at any moment, all or none, one process at a time."""

import gzip
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.paper.ledger import (
    LEVELS,
    Cell,
    Ledger,
    LedgerError,
    Record,
    read_csv,
    write_csv,
)
from page_records import record

RECORDS = [record(fold=0), record(fold=1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_csv(tmp_path / "results.csv", RECORDS[::-1])
    return tmp_path / "results.csv"


def test_records_come_back_sorted_and_a_finished_cell_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.csv"
    with Ledger(path) as ledger:
        assert ledger.add(RECORDS[::-1]) == 2
        assert ledger.add([replace(RECORDS[0], rmse=99.0)]) == 0
        assert ledger.records() == read_csv(path) == RECORDS
        assert ledger.cells() == {found.cell for found in RECORDS}
    with Ledger(path) as ledger:
        assert ledger.records() == RECORDS


@pytest.mark.parametrize("field", [field.name for field in fields(Cell)])
def test_every_field_of_a_cell_tells_it_from_others(tmp_path: Path, field: str) -> None:
    other: dict[str, Any] = {
        "split": "shuffled",
        "folds": 3,
        "network": "default",
        "recalibration": "isotonic",
    }
    one = RECORDS[0]
    value = other.get(
        field, {str: "x", int: 1, float: 2.5}[type(getattr(one.cell, field))]
    )
    with Ledger(tmp_path / "results.csv") as ledger:
        changed = replace(one, cell=replace(one.cell, **{field: value}))
        assert ledger.add([one, changed]) == 2


numbers = st.floats(min_value=0, allow_infinity=False)


@given(
    nll=st.floats(allow_nan=False).filter(lambda number: number > -math.inf),
    rmse=numbers,
    strength=numbers,
    seed=st.integers(0, 2**63),
    text=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0")),
)
def test_any_record_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    nll: float,
    rmse: float,
    strength: float,
    seed: int,
    text: str,
) -> None:
    path = tmp_path_factory.mktemp("any") / "results.csv"
    one = replace(RECORDS[0], nll=nll, rmse=rmse, seed=seed, host=text)
    one = replace(one, cell=replace(one.cell, strength=strength))
    write_csv(path, [one])
    assert read_csv(path) == [one]


def test_a_compressed_file_and_one_of_a_spreadsheet_are_read(path: Path) -> None:
    text = path.read_bytes()
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(text))
    assert read_csv(packed) == RECORDS
    packed.write_bytes(gzip.compress(text)[:-20])
    with pytest.raises(LedgerError, match="damaged"):
        read_csv(packed)
    path.write_bytes(text.replace(b"\n", b"\r\n").decode().encode("utf-8-sig"))
    assert read_csv(path) == RECORDS


def column(name: str, value: str) -> Callable[[str], str]:
    """Write something else into a column of line 3."""

    def change(text: str) -> str:
        lines = text.split("\n")
        row = lines[2].split(",")
        row[lines[0].split(",").index(name)] = value
        lines[2] = ",".join(row)
        return "\n".join(lines)

    return change


FALLING = " ".join(["3", "2", *["4"] * (LEVELS - 2)])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (column("rmse", "much"), "line 3: rmse must be a number, got 'much'"),
        (column("rmse", "nan"), "line 3: rmse must be a number, got nan"),
        (column("seed", "1.0"), "line 3: seed must be a whole number, got '1.0'"),
        (column("curve", "1 2 x"), f"line 3: curve must be {LEVELS} counts, got"),
        (column("curve", "1 2 3"), f"line 3: curve must be {LEVELS} counts that"),
        (column("curve", FALLING), "line 3: curve must be .* never fall"),
        (column("test_rows", "18"), "line 3: curve must be .* never fall"),
        (column("fold", "0"), "line 3: this cell was there before"),
        (column("fold", "9"), "line 3: fold must be from 0 to 1, got 9"),
        (column("train_rows", "0"), "line 3: train_rows must be at least 1"),
        (column("split", "random"), "line 3: split must be one of unshuffled, .*, got"),
        (column("host", '"a'), "line"),
        (column("host", "a,b"), "line 3: must have .* columns, got"),
        (lambda text: text.replace("rmse", "RMSE"), "line 1: .*unknown: RMSE, rmse"),
        (lambda _: "", "must end with a whole line"),
        (lambda text: text[:-9], "must end with a whole line"),
        (lambda text: text + "concrete,unsh\n", "line 4: must have .* columns, got 2"),
        (lambda text: text + text, "line 4"),
    ],
)
def test_a_changed_file_is_told_by_line_and_column_and_left_alone(
    path: Path, change: Callable[[str], str], text: str
) -> None:
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=text) as caught:
        Ledger(path)
    assert str(caught.value).startswith(str(path))
    assert path.read_bytes() == before


def test_infinite_numbers_are_kept_and_nan_is_refused(path: Path) -> None:
    path.write_text(column("nll", "inf")(path.read_text("utf-8")), "utf-8")
    assert read_csv(path)[1].nll == math.inf
    with Ledger(path) as ledger:
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="rmse"):
            ledger.add([record("fish"), record("yacht", rmse=math.nan)])
        assert path.read_bytes() == before
        assert len(ledger.cells()) == 2


def test_what_cannot_be_read_or_written_is_told(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"none\.csv cannot be read: No such file"):
        read_csv(tmp_path / "none.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerError, match="cannot be written: Is a directory"):
        write_csv(tmp_path / "folder", RECORDS)
    with pytest.raises(LedgerError, match="cannot be written"):
        Ledger(path / "below" / "results.csv")


def test_a_full_disk_keeps_what_was_added(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with Ledger(path) as ledger:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError, match=r"No space.*are safe"):
            ledger.add([record("fish")])
        monkeypatch.undo()
        assert read_csv(path) == RECORDS
        assert ledger.add([record("fish")]) == 1


WRITER = """
import sys
sys.path[:0] = [{support!r}]
from dataclasses import replace
from calibrant.paper.ledger import Ledger, LedgerError
from page_records import record

try:
    with Ledger(sys.argv[1]) as ledger:
        for number in range(len(ledger.cells()) // 2, 10_000):
            pair = [record(f"set {{number}}", fold=fold) for fold in range(2)]
            ledger.add(pair)
            print(number, flush=True)
except LedgerError as error:
    sys.exit(str(error))
"""


def write_on(path: Path) -> "subprocess.Popen[str]":
    """Add pairs for ever in a process of its own."""
    support = str(Path(__file__).parents[1] / "support")
    script = WRITER.format(support=support)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_process_is_refused_and_a_killed_one_loses_nothing(
    tmp_path: Path,
) -> None:
    path, done = tmp_path / "results.csv", 0
    for more in (3, 1):
        with write_on(path) as writer:
            assert writer.stdout is not None
            for _ in range(more):
                done = 1 + int(writer.stdout.readline())
            with pytest.raises(LedgerError, match="in use by another run"):
                Ledger(path)
            writer.send_signal(signal.SIGKILL)
            reported = [int(line) for line in writer.stdout.read().split()]
        done = 1 + reported[-1] if reported else done
        with Ledger(path) as ledger:
            pairs = len(ledger.records()) // 2
            assert ledger.records() == sorted(
                (
                    record(f"set {number}", fold=fold)
                    for number in range(pairs)
                    for fold in range(2)
                ),
                key=lambda found: found.cell,
            )
            assert done <= pairs <= done + 1
    assert isinstance(ledger.records()[0], Record)
