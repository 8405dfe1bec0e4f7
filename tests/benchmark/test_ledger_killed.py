"""Processes that write to one ledger and are killed in the middle of it."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

from calibrant.benchmark.ledger import Ledger
from calibrant.benchmark.records import LEVELS, Cell, Record

VALUES = {str: "text", int: 7, float: 1 / 3, tuple[int, ...]: tuple(range(LEVELS))}

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the processes here are forked, to be quick"
)


def sample(repeat: int, fold: int) -> Record:
    values = {
        field.name: VALUES[field.type]  # type: ignore[index]
        for field in fields(Record)
        if field.name != "cell"
    }
    cell = Cell(data="concrete", network="mc_dropout", repeat=repeat, fold=fold)
    return Record(cell=cell, **values)


def write_for_ever(path: Path, start: int, report: int) -> None:
    """Add two records at a time, and report each pair once it is in."""
    with Ledger(path) as ledger:
        for repeat in range(start, sys.maxsize):
            ledger.claim(f"job {repeat}")
            ledger.add([sample(repeat, 0), sample(repeat, 1)])
            ledger.release(f"job {repeat}")
            os.write(report, b".")


def kill_again_and_again(path: Path) -> None:
    """Kill writers at random moments; look after each what is there."""
    generator = random.Random(0)
    reported = done = 0
    for _ in range(15):
        ours, theirs = os.pipe()
        writer = os.fork()
        if writer == 0:
            write_for_ever(path, done, theirs)
        os.close(theirs)
        for _ in range(generator.randint(1, 4)):
            reported += len(os.read(ours, 1))
        time.sleep(generator.random() * 0.005)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        while dots := os.read(ours, 65536):
            reported += len(dots)
        os.close(ours)
        with Ledger(path) as ledger:
            assert ledger.holders() == {}
            records = ledger.records()
            done = len(records) // 2
            # What was reported, and at most one pair that was in and not yet reported.
            assert reported <= done <= reported + 1
            reported = done
            assert records == [sample(n, fold) for n in range(done) for fold in (0, 1)]
    assert done > 15


def write_at_once(path: Path) -> None:
    """Three writers of the same cells; each adds and claims what no other has."""
    gate, opener = os.pipe()
    ours, theirs = os.pipe()
    writers = []
    for _ in range(3):
        writers.append(os.fork())
        if writers[-1] == 0:
            os.close(opener)
            with Ledger(path) as ledger:
                added = sum(ledger.add([sample(repeat, 0)]) for repeat in range(50))
                claimed = sum(ledger.claim(f"job {number}") for number in range(50))
                os.write(theirs, f"{added} {claimed}\n".encode())
                os.read(gate, 1)  # all live on until all are done
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as reports:
        counts = [list(map(int, reports.readline().split())) for _ in writers]
    assert [sum(each) for each in zip(*counts, strict=True)] == [50, 50]
    with Ledger(path) as ledger:
        assert len(ledger.holders()) == 50
        assert set(ledger.holders().values()) <= set(writers)
    os.close(opener)
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0, 0, 0]
    with Ledger(path) as ledger:
        assert ledger.records() == [sample(repeat, 0) for repeat in range(50)]


@pytest.mark.parametrize("function", [kill_again_and_again, write_at_once])
def test_in_a_process_of_its_own(tmp_path: Path, function: object) -> None:
    name = function.__name__  # type: ignore[attr-defined]
    here, path = Path(__file__), tmp_path / "ledger.sqlite"
    script = (
        f"import sys; sys.path.insert(0, {str(here.parent)!r})\n"
        f"import pathlib, {here.stem} as test\n"
        f"test.{name}(pathlib.Path({str(path)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with Ledger(path) as ledger:
        found = ledger._connection.execute("PRAGMA integrity_check").fetchall()
        assert found == [("ok",)]
