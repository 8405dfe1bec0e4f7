"""What goes into a ledger comes out of it, once, whatever the order."""

import itertools
import math
import os
import sqlite3
import struct
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.benchmark import _ledger_owners
from calibrant.benchmark.ledger import Ledger, LedgerError
from calibrant.benchmark.records import LEVELS, Cell, Record

PROC = Path("/proc/self/stat")
COUNTS = tuple(range(0, 2 * LEVELS, 2))
VALUES = {str: 'text, and "more" é', int: 7, float: 1 / 3, tuple[int, ...]: COUNTS}
NAMES = [field.name for field in fields(Record) if field.name != "cell"]


def sample(cell: dict[str, Any] | None = None, **changes: Any) -> Record:
    """A record of every field, whatever the fields are."""
    values = {
        field.name: VALUES[field.type]  # type: ignore[index]
        for field in fields(Record)
        if field.name != "cell"
    }
    where = {"data": "concrete", "network": "mc_dropout"} | (cell or {})
    return Record(cell=Cell(**where), **(values | changes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deeper" / "and deeper" / "ledger.sqlite"


def test_records_come_back_sorted_by_cell(path: Path) -> None:
    strengths, names = (20.0, 0.0, 1.5), ("yacht", "boston", "Ümlaut", "\U0001f600")
    records = [
        sample({"data": data, "strength": strength, "fold": fold})
        for data, strength, fold in itertools.product(names, strengths, (10, 9, 0))
    ]
    with Ledger(path) as ledger:
        assert len(ledger) == 0
        assert ledger.records() == []
        assert ledger.cells() == set()
        assert ledger.add(records) == len(ledger) == len(records)
    with Ledger(str(path)) as ledger:
        assert ledger.records() == sorted(records, key=lambda each: each.cell)
        assert ledger.cells() == {record.cell for record in records}


def test_a_finished_cell_stays_as_it_was(path: Path) -> None:
    with Ledger(path) as ledger:
        assert ledger.add([sample(rmse=1.0)]) == 1
        assert ledger.add([sample(rmse=2.0), sample({"fold": 1}, rmse=3.0)]) == 1
        assert [record.rmse for record in ledger.records()] == [1.0, 3.0]
        assert ledger.add(iter(())) == 0


@pytest.mark.parametrize("field", [field.name for field in fields(Cell)])
def test_every_field_of_a_cell_tells_it_from_others(path: Path, field: str) -> None:
    value = getattr(sample().cell, field)
    other = value + 1 if isinstance(value, int | float) else f"another {value}"
    with Ledger(path) as ledger:
        assert ledger.add([sample(), sample({field: other})]) == 2
        assert ledger.records(**{field: other}) == [sample({field: other})]


def test_records_by_several_fields(path: Path) -> None:
    records = [
        sample({"data": data, "fold": fold}, host=host)
        for data, fold, host in itertools.product("ab", (0, 1), "x")
    ]
    with Ledger(path) as ledger:
        ledger.add(records)
        assert ledger.records(data="a", fold=1, host="x") == [records[1]]
        assert ledger.records(data="a", host="y") == []
        with pytest.raises(LedgerError, match=r"no field 'model'; there are data, "):
            ledger.records(model="x")
        with pytest.raises(LedgerError, match="fold must be a whole number, got 'x'"):
            ledger.records(fold="x")


def bits(record: Record) -> list[bytes]:
    return [
        struct.pack("<d", each) for each in vars(record).values() if type(each) is float
    ]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"))
INTEGERS = st.integers(-(2**63), 2**63 - 1)
COUNTED = st.integers(1, 2**63 - 1)
ERRORS = st.floats(0, allow_infinity=False).map(lambda value: value + 0.0)
ENDLESS = dict.fromkeys(("rmse", "crps", "sharpness"), st.floats(0))
RECORDS = st.builds(
    Record,
    cell=st.builds(
        Cell,
        data=TEXTS.filter(bool),
        network=st.sampled_from(["mc_dropout", "default"]),
        regularizer=TEXTS,
        strength=ERRORS,
        repeat=st.integers(0, 2**63 - 1),
        fold=st.integers(0, 4),
    ),
    **{name: ERRORS for name in NAMES if type(getattr(sample(), name)) is float}
    | {name: TEXTS for name in NAMES if type(getattr(sample(), name)) is str}
    | {name: COUNTED for name in NAMES if type(getattr(sample(), name)) is int}
    | {name: each.map(lambda value: value + 0.0) for name, each in ENDLESS.items()}
    | {
        "curve": st.tuples(*[st.integers(0, 99)] * LEVELS).map(sorted).map(tuple),
        "test_rows": st.integers(99, 2**63 - 1),
        "nll": st.floats(exclude_min=True, min_value=-math.inf).map(lambda v: v + 0.0),
        "coverage": st.floats(0, 1).map(lambda value: value + 0.0),
        "seed": INTEGERS,
    },
)


@settings(max_examples=12)
@given(records=st.lists(RECORDS, unique_by=lambda record: record.cell, max_size=4))
def test_any_record_comes_back_bit_for_bit(
    records: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with Ledger(folder / "ledger") as ledger, Ledger(folder / "second") as second:
        ledger.add(records)
        assert ledger.export_csv(folder / "all.csv") == len(records)
        assert second.import_csv(folder / "all.csv") == len(records)
        expected = sorted(records, key=lambda record: record.cell)
        for found in (ledger.records(), second.records()):
            assert found == expected
            assert list(map(bits, found)) == list(map(bits, expected))


def test_numpy_numbers_become_plain_ones(path: Path) -> None:
    counts = tuple(np.arange(LEVELS))
    record = sample(rmse=np.float32(0.1), seed=np.int64(3), curve=counts, nll=-0.0)
    with Ledger(path) as ledger:
        ledger.add([record])
        (found,) = ledger.records()
    assert (found.rmse, found.seed) == (float(np.float32(0.1)), 3)
    assert {type(found.rmse), type(found.seed), type(found.curve[0])} == {float, int}
    assert math.copysign(1, found.nll) == 1  # as SQLite has only one 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"rmse": math.nan},
            "rmse must be a number, or infinite, but not NaN, got nan",
        ),
        ({"rmse": "1"}, "rmse must be a number"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"seed": 2**63}, "seed must be a whole number of at most 63 bits"),
        ({"host": 3}, "host must be one line of text"),
        ({"host": "a\nb"}, "host must be one line of text"),
        ({"host": "\udc80"}, "host must be one line of text that UTF-8 can hold"),
        ({"curve": COUNTS[1:]}, f"curve must be {LEVELS} counts"),
        ({"curve": "1 2"}, f"curve must be {LEVELS} counts"),
        ({"cell": {"strength": math.nan}}, "strength must be a number"),
    ],
)
def test_what_cannot_be_kept_is_refused_as_a_whole(
    path: Path, changes: dict[str, Any], text: str
) -> None:
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match=text):
            ledger.add([sample({"fold": 1}), sample(**changes)])
        assert len(ledger) == 0
        with pytest.raises(LedgerError, match="a ledger takes records, got Cell"):
            ledger.add([sample().cell])  # type: ignore[list-item]


def test_the_disk_has_a_record_before_add_returns(path: Path) -> None:
    with Ledger(path) as ledger:
        for query, expected in (("journal_mode", "wal"), ("synchronous", 2)):
            found = ledger._connection.execute(f"PRAGMA {query}").fetchone()[0]
            assert found == expected
        assert ledger._connection.execute("PRAGMA busy_timeout").fetchone() == (60000,)


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed database"):
        len(ledger)


def test_a_claim_holds_against_others_until_it_is_given_back(path: Path) -> None:
    asks = f"""if True:
        import sys
        from calibrant.benchmark.ledger import Ledger
        with Ledger({str(path)!r}) as ledger:
            for line in sys.stdin:
                print(getattr(ledger, line.split()[0])(*line.split()[1:]), flush=True)
    """
    with (
        Ledger(path) as ledger,
        subprocess.Popen(
            [sys.executable, "-c", asks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
    ):

        def ask(line: str) -> str:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(f"{line}\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        assert ledger.claim("a")
        assert ledger.claim("a")
        assert ask("claim a") == "False"
        assert ask("holders") == str({"a": os.getpid()})
        assert ask("release a") == "None"
        assert ask("claim a") == "False"
        ledger.release("a")
        assert ask("claim a") == "True"
        assert not ledger.claim("a")
        assert ledger.holders() == {"a": other.pid}
        other.kill()
        if not PROC.exists():  # there a process lives on until it is waited for
            other.wait()
        while ledger.holders():  # a signal takes a moment to arrive
            pass
        assert ledger.claim("a")
    with Ledger(path) as ledger:
        assert ledger._owners(ledger._connection) == {}


def test_closing_gives_back_its_own_claims_only(path: Path) -> None:
    with Ledger(path) as first:
        first.claim("a")
        with Ledger(path) as second:
            second.claim("b")
        assert set(first._owners(first._connection)) == {"a"}


def test_a_process_id_that_comes_again_holds_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        for started in ("1", ""):
            dead = 2**22 + 1 if not started else os.getpid()
            ledger._connection.execute(
                "INSERT INTO claims VALUES (?, ?, ?)", (f"job{started}", dead, started)
            )
        if PROC.exists():
            assert ledger.holders() == {}
            assert ledger.claim("job1")
        assert ledger.claim("job")


def test_a_process_that_never_was_is_dead() -> None:
    assert not _ledger_owners.is_alive((2**22 + 1, "1"))
    assert _ledger_owners.is_alive(_ledger_owners.this_process())


def test_processes_live_where_the_system_tells_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_ledger_owners, "_started", lambda _: None)
    assert _ledger_owners.this_process() == (os.getpid(), "")
    assert _ledger_owners.is_alive((os.getpid(), ""))
    assert not _ledger_owners.is_alive((2**22 + 1, ""))

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert _ledger_owners.is_alive((2**22 + 1, ""))


def test_the_tables_are_those_of_the_fields(path: Path) -> None:
    Ledger(path).close()
    connection = sqlite3.connect(path)
    columns = connection.execute("PRAGMA table_info(records)").fetchall()
    connection.close()
    cell = [field.name for field in fields(Cell)]
    assert [column[1] for column in columns] == [*cell, *NAMES, "checksum"]
    assert [column[1] for column in columns if column[5]] == cell
