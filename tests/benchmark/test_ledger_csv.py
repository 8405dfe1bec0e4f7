"""Records as a CSV: the same bytes for the same records, and no half of a file."""

import gzip
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from calibrant.benchmark.ledger import Ledger, LedgerError, read_csv, write_csv
from calibrant.benchmark.records import LEVELS, Cell, Record

COUNTS = tuple(range(LEVELS))
VALUES = {str: "some, text", int: 19, float: 1 / 3, tuple[int, ...]: COUNTS}


def sample(fold: int, **changes: Any) -> Record:
    values = {
        field.name: VALUES[field.type]  # type: ignore[index]
        for field in fields(Record)
        if field.name != "cell"
    }
    cell = Cell(data="concrete", network="mc_dropout", strength=20.0, fold=fold)
    return Record(cell=cell, **(values | changes))


RECORDS = [sample(0, nll=math.inf), sample(1, nll=-2.5), sample(2, nll=5e-324)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "new folder" / "records.csv"
    write_csv(path, reversed(RECORDS))
    return path


def test_a_csv_is_text_to_read(path: Path) -> None:
    names = [each.name for each in (*fields(Cell), *fields(Record))]
    names.remove("cell")
    header, first, *_ = path.read_text("utf-8").split("\n")
    assert header.split(",") == names
    assert first.startswith(
        "concrete,unshuffled,5,mc_dropout,none,20,100,none,0,0,19,19,0.3333333333333333,"
    )
    assert f",inf,0.3333333333333333,{'0.3333333333333333,' * 2}0 1 2 3 " in first
    assert path.read_bytes().count(b"\n") == 4
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("name", ["records.csv", "records.csv.gz"])
def test_a_run_moves_to_another_machine(tmp_path: Path, name: str) -> None:
    with Ledger(tmp_path / "here") as here, Ledger(tmp_path / "there") as there:
        here.add(RECORDS)
        assert here.export_csv(tmp_path / name) == 3
        there.add([sample(1, rmse=9.0)])
        assert there.import_csv(tmp_path / name) == 2
        assert there.records() == [RECORDS[0], sample(1, rmse=9.0), RECORDS[2]]
        assert there.import_csv(tmp_path / name) == 0
    assert read_csv(str(tmp_path / name)) == RECORDS


def test_the_same_records_make_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_csv(tmp_path / name, RECORDS)
    packed = (tmp_path / "a.csv.gz").read_bytes()
    assert packed == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress(packed) == path.read_bytes()


def test_no_records_are_a_header(tmp_path: Path) -> None:
    write_csv(tmp_path / "empty.csv", [])
    assert read_csv(tmp_path / "empty.csv") == []


def test_a_spreadsheet_may_have_been_at_it(path: Path) -> None:
    text = path.read_text("utf-8")
    path.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert read_csv(path) == RECORDS


def column(name: str, value: str) -> Callable[[str], str]:
    """Write something else into a column of line 3."""

    def change(text: str) -> str:
        lines = text.replace('"some, text"', "text").split("\n")
        row = lines[2].split(",")
        row[lines[0].split(",").index(name)] = value
        lines[2] = ",".join(row)
        return "\n".join(lines)

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (column("rmse", "much"), "line 3: rmse must be a number, got 'much'"),
        (column("rmse", ""), "line 3: rmse must be a number, got ''"),
        (column("rmse", "nan"), "line 3: rmse must be a number, or infinite, but not"),
        (column("rmse", "1_0"), "line 3: rmse must be a number, got '1_0'"),
        (column("rmse", " 1"), "line 3: rmse must be a number, got ' 1'"),
        (column("rmse", "٣"), "line 3: rmse must be a number"),
        (column("seed", "1.0"), "line 3: seed must be a whole number, got '1.0'"),
        (column("seed", "٣"), "line 3: seed must be a whole number"),
        (column("seed", "-"), "line 3: seed must be a whole number, got '-'"),
        (column("seed", "9" * 5000), "line 3: seed must be a whole number of at most"),
        (column("host", "a\0b"), "line 3"),
        (column("curve", "1 2 3"), f"line 3: curve must be {LEVELS} counts, got '1 2"),
        (column("curve", "1  2"), "line 3: curve must be a whole number, got '1  2'"),
        (column("fold", "0"), "line 3: every cell .* once, and .* also in line 2"),
        (column("host", '"a'), "line"),
        (
            column("host", "a,b"),
            "line 3: must have .* columns, got .* after 'finished'",
        ),
        (
            lambda text: text.replace("rmse", "RMSE"),
            "line 1: .* must be 'rmse', got 'R",
        ),
        (lambda text: text.replace(",finished", ""), "line 1: .* which are .*, got "),
        (lambda _: "", r"must end with a whole line, and line 1 is cut short"),
        (lambda text: text[:-1], "must end with a whole line, and line 4 is cut short"),
        (lambda text: text[:-9], "must end with a whole line, and line 4 is cut short"),
        (
            lambda text: text + "concrete,unsh\n",
            "line 5: must .* 'folds' and what foll",
        ),
        (lambda text: text + "\n", "line 5: must have .* columns, and 'data' and what"),
        (lambda text: text + text, "line 5"),
    ],
)
def test_a_changed_csv_is_told_by_line_and_column(
    path: Path, change: Callable[[str], str], text: str
) -> None:
    path.write_bytes(change(path.read_text("utf-8")).encode())
    with Ledger(path.with_name("ledger")) as ledger:
        with pytest.raises(LedgerError, match=text) as caught:
            ledger.import_csv(path)
        assert str(caught.value).startswith(str(path))
        assert len(ledger) == 0


FALLING = " ".join(["3", "2", *["4"] * (LEVELS - 2)])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("data", "", "data must be the name of a set or a path"),
        ("split", "random", "split must be one of unshuffled, shuffled, fixed, got"),
        ("split", "fixed", "folds must be 1 for the fixed split, got 5"),
        ("folds", "0", "folds must be at least 1, got 0"),
        ("network", "foo", "network must be one of mc_dropout, .*, got 'foo'"),
        ("recalibration", "foo", "recalibration must be one of none, isotonic"),
        ("strength", "-1", "strength must be finite and at least 0, got -1.0"),
        ("strength", "inf", "strength must be finite"),
        ("epochs", "0", "epochs must be at least 1"),
        ("repeat", "-1", "repeat must be at least 0"),
        ("fold", "9", "fold must be from 0 to 4, got 9"),
        ("fold", "-1", "fold must be from 0 to 4, got -1"),
        ("train_rows", "0", "train_rows must be at least 1, got 0"),
        ("test_rows", "0", "test_rows must be at least 1, got 0"),
        ("threads", "0", "threads must be at least 1"),
        ("test_rows", "18", "curve must be counts that never fall, .* 18 test rows"),
        ("curve", FALLING, "curve must be counts that never fall"),
        ("curve", " ".join(["-1"] * LEVELS), "curve must be counts that never"),
        ("calibration_error", "-1", "calibration_error must be finite and at least 0"),
        ("calibration_error", "inf", "calibration_error must be finite"),
        ("floor", "inf", "floor must be finite"),
        ("seconds", "-1", "seconds must be finite and at least 0"),
        ("rmse", "-1", "rmse must be at least 0, got -1.0"),
        ("crps", "-inf", "crps must be at least 0, got -inf"),
        ("sharpness", "-0.5", "sharpness must be at least 0"),
        ("nll", "-inf", "nll must be a number or inf, not -inf"),
        ("coverage", "1.5", "coverage must be a share from 0 to 1, got 1.5"),
        ("coverage", "inf", "coverage must be a share"),
    ],
)
def test_what_no_run_can_have_written_is_told(
    path: Path, name: str, value: str, text: str
) -> None:
    path.write_text(column(name, value)(path.read_text("utf-8")), "utf-8")
    with pytest.raises(LedgerError, match=f"line 3: {text}") as caught:
        read_csv(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["nll", "rmse", "crps", "sharpness"])
def test_some_numbers_may_be_endless(path: Path, name: str) -> None:
    path.write_text(column(name, "inf")(path.read_text("utf-8")), "utf-8")
    assert getattr(read_csv(path)[1], name) == math.inf


def test_a_cut_of_a_csv_is_told_or_at_the_end_of_a_line(path: Path) -> None:
    whole = path.read_bytes()
    ends = [place + 1 for place, each in enumerate(whole) if each == 10]
    for length in (*ends, *range(0, len(whole), 13)):
        path.write_bytes(whole[:length])
        if whole[:length].endswith(b"\n"):
            assert read_csv(path) == RECORDS[: whole[:length].count(b"\n") - 1]
        else:
            with pytest.raises(LedgerError, match="cut short"):
                read_csv(path)


def test_damaged_bytes_are_told(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "records.csv.gz"
    write_csv(packed, RECORDS)
    whole = packed.read_bytes()
    flipped = bytes(each ^ 0xFF for each in whole[40:60])
    for content in (
        whole[:-20],
        b"plain" + whole,
        whole[:40] + flipped + whole[60:],
        b"",
    ):
        packed.write_bytes(content)
        with pytest.raises(LedgerError, match=r"damaged|cut short"):
            read_csv(packed)
    path.write_bytes(path.read_bytes().replace(b"concrete", b"\xff\xfe"))
    with pytest.raises(LedgerError, match=r"records\.csv must be .* it is damaged"):
        read_csv(path)


def test_files_that_cannot_be_read_or_written(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"none\.csv cannot be read: No such file"):
        read_csv(tmp_path / "none.csv")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="cannot be written"):
        write_csv(path / "below.csv", RECORDS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerError, match="cannot be written: Is a directory"):
        write_csv(tmp_path / "folder", RECORDS)
    with pytest.raises(LedgerError, match="rmse"):
        write_csv(path, [*RECORDS, sample(9, rmse=math.nan)])
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["records.csv"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "new folder"]
