"""Writing tables: what stands in the file, and when there is one at all."""

import csv
import datetime
import decimal
import gzip
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tables import TableWriter, open_source, write_table
from calibrant.tables import write as write_module

BATCH = pa.record_batch(
    {"id": ["a", "b,c", None], "mean": [0.1, 1e-20, None], "flag": [True, None, False]}
)
FORMULAS = ["=1+1", "@cmd", "+x", "-x", "\ttab", "\rreturn", "-", "+1+1"]
HARMLESS = ["-1", "+2.5", "-1,5e-3", "-.5", "a=b", "", "'=x", "1-2"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def parsed(path: Path, delimiter: str = ",") -> list[list[str]]:
    text = path.read_bytes().decode()
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def test_text_has_quotes_only_where_they_must_be(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with TableWriter(path) as writer:
        writer.write(BATCH)
        assert not path.exists()
        writer.write(BATCH.slice(0, 1))
    assert path.read_text() == (
        'id,mean,flag\na,0.1,true\n"b,c",1e-20,\n,,false\na,0.1,true\n'
    )
    assert (writer.rows, writer.neutralized, writer.example) == (4, 0, None)
    assert names_in(tmp_path) == ["out.csv"]


def test_tabs_and_gzip(tmp_path: Path) -> None:
    table = pa.table({"a\tb": ["x\ty", 'p"q', "r,s"]})
    write_table(tmp_path / "o.TSV", table)
    assert (tmp_path / "o.TSV").read_text() == '"a\tb"\n"x\ty"\n"p""q"\nr,s\n'
    write_table(tmp_path / "o.tsv.gz", table)
    write_table(tmp_path / "p.tsv.gz", table)
    packed = (tmp_path / "o.tsv.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "o.TSV").read_bytes()
    assert packed == (tmp_path / "p.tsv.gz").read_bytes()


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_other_programs_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "same.csv"
    numbers, texts = map(list, zip(*rows, strict=True))
    with TableWriter(path, neutralize=False) as writer:
        writer.write(pa.record_batch({"x": numbers, "s": texts}))
    header, *read = parsed(path)
    assert header == ["x", "s"]
    assert [(float(x), s) for x, s in read] == rows


def test_types_of_all_kinds_have_a_text(tmp_path: Path) -> None:
    table = pa.table(
        {
            "day": [datetime.date(2020, 1, 2)],
            "price": [decimal.Decimal("1.50")],
            "code": pa.array(["=x"]).dictionary_encode(),
            "small": pa.array([0.1], pa.float32()),
            "none": pa.nulls(1),
        }
    )
    write_table(tmp_path / "o.csv", table)
    assert parsed(tmp_path / "o.csv")[1] == ["2020-01-02", "1.50", "'=x", "0.1", ""]


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz"])
def test_formulas_get_an_apostrophe(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    batch = pa.record_batch({"=name": [*FORMULAS, *HARMLESS, None], "n": [-1] * 17})
    with TableWriter(path) as writer:
        writer.write(batch)
    assert writer.neutralized == len(FORMULAS) + 1
    assert writer.example == "=name"
    if name.endswith(".gz"):
        path.write_bytes(gzip.decompress(path.read_bytes()))
    header, *rows = parsed(path, "\t" if name == "o.tsv" else ",")
    assert header == ["'=name", "n"]
    cells = [row[0] for row in rows]
    assert cells == [*(f"'{cell}" for cell in FORMULAS), *HARMLESS, ""]
    assert {row[1] for row in rows} == {"-1"}


def test_formulas_stay_if_so_asked(tmp_path: Path) -> None:
    batch = pa.record_batch({"=a": FORMULAS})
    for name, neutralize in (("o.csv", False), ("o.parquet", True)):
        with TableWriter(tmp_path / name, neutralize=neutralize) as writer:
            writer.write(batch)
        assert (writer.neutralized, writer.example) == (0, None)
    assert [row[0] for row in parsed(tmp_path / "o.csv")] == ["=a", *FORMULAS]
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"=a": FORMULAS}


def test_parquet_keeps_types(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    with TableWriter(path) as writer:
        writer.write(BATCH)
        writer.write(BATCH)
    read = pq.read_table(path)
    assert read.schema.types == BATCH.schema.types
    assert read.to_pylist() == BATCH.to_pylist() * 2
    assert open_source(path).rows == 6


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.parquet"])
def test_without_rows_there_is_a_header(tmp_path: Path, name: str) -> None:
    with TableWriter(tmp_path / name, schema=BATCH.schema):
        pass
    source = open_source(tmp_path / name)
    assert source.columns == ("id", "mean", "flag")
    assert source.read().num_rows == 0
    with (
        pytest.raises(InputError, match=r"new.csv: there are no rows to write"),
        TableWriter(tmp_path / "new.csv"),
    ):
        pass
    assert names_in(tmp_path) == [name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.parquet"])
def test_an_error_leaves_what_was_there(
    tmp_path: Path, name: str, error: type[BaseException]
) -> None:
    (tmp_path / name).write_text("before")

    def work() -> None:
        with TableWriter(tmp_path / name) as writer:
            writer.write(BATCH)
            assert len(names_in(tmp_path)) == 2
            raise error

    with pytest.raises(error):
        work()
    assert names_in(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "before"


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TableWriter, "_write_text", full)
    with pytest.raises(InputError, match=r"o.csv: .* written: No space left on dev"):
        write_table(tmp_path / "o.csv", pa.table({"a": [1]}))
    monkeypatch.setattr(write_module.os, "fsync", full)
    with pytest.raises(InputError, match=r"o.parquet: .* written: No space left"):
        write_table(tmp_path / "o.parquet", pa.table({"a": [1]}))
    assert names_in(tmp_path) == []


def test_a_folder_that_takes_no_file(tmp_path: Path, monkeypatch: Any) -> None:
    writer = TableWriter(tmp_path / "o.csv")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be written: Permission denied"):
        writer.__enter__()


def test_columns_without_a_text(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "nested": [[1, 2]]})
    with pytest.raises(InputError, match=r"'nested' holds list.*write to .parquet"):
        write_table(tmp_path / "o.csv", table)
    write_table(tmp_path / "o.parquet", table)
    odd = pa.record_batch({"a": pa.nulls(1, pa.month_day_nano_interval())})
    with (
        pytest.raises(InputError, match=r"p.parquet: the file cannot be written"),
        TableWriter(tmp_path / "p.parquet") as writer,
    ):
        writer.write(odd)
    assert names_in(tmp_path) == ["o.parquet"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("o.xlsx", r"o.xlsx: the output must end in .csv, .tsv .* or .parquet"),
        ("o", r"must end in"),
        ("o.parquet.gz", r"must end in"),
        ("folder.csv", r"this is a folder"),
        ("none/o.csv", r"there is no folder .*none. Make it first"),
        ("pipe.csv", r"no regular file"),
        ("in.csv", r"this is the input itself"),
        ("link.csv", r"this is the input itself"),
        ("hard.csv", r"this is the input itself"),
        ("folder.csv/../in.csv", r"this is the input itself"),
        ("", r"the output must be the path of a file, got ''"),
    ],
    ids=range(11),
)
def test_a_wrong_target_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("a\n1\n")
    Path("folder.csv").mkdir()
    Path("link.csv").symlink_to("in.csv")
    Path("hard.csv").hardlink_to("in.csv")
    os.mkfifo("pipe.csv")
    with pytest.raises(InputError, match=pattern):
        TableWriter(name, inputs=["other.csv", "in.csv"])
    assert Path("in.csv").read_text() == "a\n1\n"


def test_a_link_keeps_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_table(tmp_path / "link.csv", pa.table({"a": [1]}), inputs=["x.csv"])
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "a\n1\n"
