"""Reading tables: what programs write is read, and what cannot be is one line."""

import datetime
import gzip
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from calibrant.errors import InputError
from calibrant.tables import Style, open_source, require_rows
from calibrant.tables import read as read_module


def put(folder: Path, content: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(path: Path, **options: Any) -> list[list[Any]]:
    table = open_source(path, **options).read()
    return [list(row.values()) for row in table.to_pylist()]


READ = {
    "plain": ("a,b\n1,x\n", ["1", "x"]),
    "mark": ("\ufeffa,b\n1,x\n", ["1", "x"]),
    "semicolon": ("a;b\n1;x\n", ["1", "x"]),
    "tab": ("a\tb\n1\tx\n", ["1", "x"]),
    "pipe": ("a|b\n1|x\n", ["1", "x"]),
    "returns and feeds": ("a,b\r\n1,x\r\n", ["1", "x"]),
    "returns": ("a,b\r1,x\r", ["1", "x"]),
    "no last feed": ("a,b\n1,x", ["1", "x"]),
    "blank lines above": ("\n  \n\r\na,b\n1,x\n", ["1", "x"]),
    "blank lines below": ("a,b\n\n1,x\n\n\n", ["1", "x"]),
    "spaces": (" a , b \n 1 ,\u00a0x \n", ["1", "x"]),
    "line for Excel": ("sep=;\na;b\n1;x\n", ["1", "x"]),
    "quotes": ('"a","b"\n"1","x"\n', ["1", "x"]),
    "quoted delimiter": ('a,b\n"1","x,;y"\n', ["1", "x,;y"]),
    "quoted feed": ('a,b\n"1","x\ny"\n', ["1", "x\ny"]),
    "a letter": ('a,b\n1,"Hi,\nyes, a\nb, c\n"\n', ["1", "Hi,\nyes, a\nb, c"]),
    "doubled quote": ('a,b\n1,"x ""y"""\n', ["1", 'x "y"']),
    "an inch": ('a,b\n1,5" x\n', ["1", '5" x']),
    "umlauts": ("a,b\nä,größe\n", ["ä", "größe"]),
    "gzip without .gz": (gzip.compress(b"a,b\n1,x\n"), ["1", "x"]),
}


@pytest.mark.parametrize("case", READ)
def test_what_programs_write_is_read(tmp_path: Path, case: str) -> None:
    content, row = READ[case]
    path = put(tmp_path, content)
    assert open_source(path).columns == ("a", "b")
    assert rows_of(path) == [row]


def test_tokens_in_any_case_are_missing(tmp_path: Path) -> None:
    tokens = ["", "NA", "n/a", "NaN", "Null", "None", "?", "#N/A", "<na>", "NaT"]
    text = "".join(f"{token},x\n" for token in [*tokens, '"NA"', '""', " na ", "  "])
    cells = [row[0] for row in rows_of(put(tmp_path, f"a,b\n{text}Nancy,x\n"))]
    assert cells == [None] * 14 + ["Nancy"]


def test_own_tokens_are_missing_too(tmp_path: Path) -> None:
    path = put(tmp_path, "a\n-999\n-999\n -999 \n-9\nUNKNOWN\nUnknown\nunknown\n")
    style = Style(missing=("-999", "unknown"))
    cells = [row[0] for row in rows_of(path, style=style)]
    assert cells == [None, None, None, "-9", None, None, None]


@pytest.mark.parametrize(
    ("text", "delimiter", "decimal"),
    [
        ("a;b\n1,5;2\n", ";", ","),
        ("a;b\n1.5;2\n", ";", "."),
        ("a;b\n1.234,5;2.000\n", ";", ","),
        ("a;b\n1.25;x\n2.5;1,2\n", ";", "."),
        ("a\tb\n-,5\t2e-1\n", "\t", ","),
        ("a,b\n1,2\n", ",", "."),
        ("price (net, EUR);b\n1,5;2,5\n3,5;4,5\n", ";", ","),
        ("a|b;c|d\n1|2|3\n", "|", "."),
        ("a,b;c\n1,2\n3,4\n", ",", "."),
        ("alone\n1\n", ",", "."),
        (f"a;b\n1,5;2\n3,5;{'x' * 200_000}\n", ";", ","),
        ("a;b\n" + "1,5;2\n" * 300 + "2.5;1.5\n" * 900, ";", ","),
        ("alone", ",", "."),
    ],
)
def test_marks_are_found_out(
    tmp_path: Path, text: str, delimiter: str, decimal: str
) -> None:
    style = open_source(put(tmp_path, text)).style
    assert (style.delimiter, style.decimal) == (delimiter, decimal)


def test_what_is_told_is_not_found_out(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b;c\n1,5;2,5\n")
    source = open_source(path, style=Style(delimiter=",", decimal=","))
    assert source.columns == ("a", "b;c")
    assert source.style == Style(delimiter=",", decimal=",")
    grouped = put(tmp_path, "a;b\n1,500;2\n", "grouped.csv")
    assert open_source(grouped, style=Style(thousands=",")).style.decimal == "."
    assert open_source(grouped, style=Style(thousands=".")).style.decimal == ","
    assert open_source(put(tmp_path, "x\n", "x.tsv")).style.delimiter == "\t"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (",a,b\n0,1,2\n", ("column 1", "a", "b")),
        (",0,1,2\n0,1,2,3\n", ("column 1", "0", "1", "2")),
        ("0,1,2\n5,6,7\n", ("0", "1", "2")),
        ("2020,2021,name\n5,6,7\n", ("2020", "2021", "name")),
    ],
)
def test_the_headers_of_pandas_are_read(
    tmp_path: Path, text: str, columns: tuple[str, ...]
) -> None:
    assert open_source(put(tmp_path, text)).columns == columns


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\n\n\n"])
def test_a_header_alone_has_no_rows(tmp_path: Path, text: str) -> None:
    source = open_source(put(tmp_path, text))
    assert list(source.batches()) == []
    table = source.read(["b"])
    assert (table.num_rows, table.column_names) == (0, ["b"])
    assert source.rows == 0


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_batches_do_not_depend_on_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, packed: bool
) -> None:
    monkeypatch.setattr(read_module, "BLOCK", 64)
    text = "n,text\n" + "".join(f'{i},"{i}\n{i}"\n\n' for i in range(100))
    content = gzip.compress(text.encode()) if packed else text.encode()
    source = open_source(put(tmp_path, content, "a.csv.gz" if packed else "a.csv"))
    batches = list(source.batches(rows=rows))
    sizes = [batch.data.num_rows for batch in batches]
    assert max(sizes) <= rows
    assert [b.first_row for b in batches] == [1, *(1 + np.cumsum(sizes[:-1]))]
    assert [batch.share for batch in batches] == sorted(b.share for b in batches)
    assert batches[-1].share == 1.0
    cells = itertools.chain(*(b.data.column("text").to_pylist() for b in batches))
    assert list(cells) == [f"{i}\n{i}" for i in range(100)]
    assert source.rows == 100


def test_columns_come_as_they_are_asked_for(tmp_path: Path) -> None:
    source = open_source(put(tmp_path, "a,b,c\n1,2,3\n4,5,6\n"))
    assert source.read(["c", "a"]).to_pydict() == {"c": ["3", "6"], "a": ["1", "4"]}
    (batch,) = source.batches(["b"])
    assert batch.data.to_pydict() == {"b": ["2", "5"]}
    (batch,) = source.batches([])
    assert (batch.data.num_rows, batch.data.num_columns) == (2, 0)


def test_a_pass_may_end_early_and_begin_again(tmp_path: Path) -> None:
    source = open_source(put(tmp_path, "a,b\n" + "1,2\n" * 600_000))
    next(source.batches(rows=10))
    assert source.rows is None
    assert sum(batch.data.num_rows for batch in source.batches()) == 600_000


LONG = "x" * 5_000
ROWS = "".join(f"{i},t{i},{i * 2},{i * 3}\n" for i in range(60))
STRAY = ROWS.replace(",t10,", ',"t10,').replace(",t45,", ",{}t45{},")
SWALLOWED = r"own.csv, row 11, column 'b': a quote is .* again 35 lines below"
MANY = "".join(f"{i},{i * 7919 % 10007}\n" for i in range(200_000))

FAULTS = {
    "empty": (b"", r"own.csv: the file is empty"),
    "empty inside gzip": (gzip.compress(b""), r"empty but for spaces"),
    "only spaces": (b"\xef\xbb\xbf \n\t\n", r"empty but for spaces"),
    "no header": (b"1,-2.5,7\n4,5,6\n", r"numbers only: '1', '-2.5', '7'\. Put"),
    "no name": (b"a,,c\n1,2,3\n", r"column 2 of 3 has none.*index=False"),
    "name of spaces": (b"a, \n1,2\n", r"column 2 of 2 has none"),
    "double names": (b"a,b, a,b\n1,2,3,4\n", r"more than one is called 'a', 'b'"),
    "long name": (f"a,{LONG}\n".encode(), r"column 2 has 5,000: 'x{57}\.\.\.'"),
    "very long name": (b"x" * 200_000, r"field larger .*: 'x{57}\.\.\.'"),
    "no lines": (b"x,yz" * 300_000, r"it is too long: 'x,yzx"),
    "many columns": (b"a," * 20_001, r"1 to 20,000 columns, got 20,002"),
    "quote in header": (b'a,"b\n1,2\n', r"unexpected end of data.*: 'a,\"b"),
    "few cells": (b"a,b,c\n1,2,3\n\n\n4,5\n", r"own.csv, row 2: .* 3, and this .* 2\."),
    "many cells": (b"a,b\n1,2\n3,4,5\n", r"row 2: .* header, 2, .* has 3\. .*hold ','"),
    "tabs": (b"a\tb\n1\t2\t3\n", r"row 1: .*hold 'tab' in quotes"),
    "feeds in cells": (b'a,b\n"x\ny\nz",2\n\n1\n', r"row 2: .* has 1\."),
    "title": (b"My table\na,b\n1,2\n", r"row 1: .* has 2\. Check that the first line"),
    "open quote": (b'a,b\n1,2\n3,"x\n4,5\n', r"row 2: a quote is opened and not"),
    "stray quote": (b'a,b\n1,"x\n2,"y"\n3,z\n', r"row 1: text stands behind a closing"),
    "stray quotes": (f"a,b,c,y\n{STRAY.format('', chr(34))}".encode(), SWALLOWED),
    "two openings": (
        f"a,b,c,y\n{STRAY.format(chr(34), '')}".replace("\n", "\r\n").encode(),
        SWALLOWED,
    ),
    "NUL": (b"a,b\n1,2\n3,\x004\n", r"own.csv, row 2, column 'b': .* a NUL byte"),
    "NUL in header": (b"a,b\x00\n" + b"1,2\n" * 9, r"names of the columns, .* NUL"),
    "Latin-1": (b"a,b\n1,x\n\nc,gr\xf6\n", r"row 2, column 'b': .* UTF-8.* 0xF6"),
    "cut character": (b"a,b\n1,x\n2,\xc3", r"row 2, column 'b': .* UTF-8.* 0xC3"),
    "Latin-1 in header": (b"a,gr\xf6\n1,2\n", r"names of the columns, .* byte 0xF6"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), r"in UTF-16\. Save it as CSV UTF-8"),
    "Excel": (b"PK\x03\x04....", r"looks like an Excel or zip file"),
    "old Excel": (b"\xd0\xcf\x11\xe0....", r"looks like an Excel or zip file"),
    "Parquet": (b"PAR1....", r"Let its name end in .parquet"),
    "web page": (b" <!DOCTYPE html><html>", r"web page or XML, not a table"),
    "JSON": (b'[{"a": 1}]', r"looks like JSON"),
    "cut gzip": (gzip.compress(b"a,b\n1,2\n")[:-9], r"gzip file is cut off or dam"),
    "long cut gzip": (
        gzip.compress(f"a,b\n{MANY}".encode())[:-99],
        r"gzip file is cut off or damaged\. Download",
    ),
    "wrong gzip": (gzip.compress(b"a\n1\n")[:-8] + b"12345678", r"cut off or damaged"),
}


def message_of(table: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        open_source(table, **options).read()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize("case", FAULTS)
def test_one_line_says_what_is_wrong(tmp_path: Path, case: str) -> None:
    content, pattern = FAULTS[case]
    path = put(tmp_path, content)
    with pytest.raises(InputError, match=pattern):
        open_source(path).read()
    assert message_of(path).startswith(str(path))


def test_a_small_gzip_file_must_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "MOST_UNPACKED", 1 << 18)
    text = b"a,b\n" + b"1,2\n" * 500_000
    packed = put(tmp_path, gzip.compress(text), "own.csv.gz")
    assert "may become 500 times its size" in message_of(packed)
    assert open_source(put(tmp_path, text)).read().num_rows == 500_000
    ordinary = put(tmp_path, gzip.compress(f"a,b\n{MANY}".encode()), "own.csv.gz")
    assert open_source(ordinary).read().num_rows == 200_000


@pytest.mark.parametrize(
    ("end", "pattern"),
    [
        (b"1\n", r"row 3,001: .* has 1\."),
        (b"1,\xff\n", r"row 3,001, column 'b': .* 0xFF"),
        (b"1,\0\n", r"row 3,001, column 'b': .* NUL"),
        (b'1,"2\n', r"row 3,001: a quote is opened"),
    ],
    ids=["cells", "byte", "nul", "quote"],
)
def test_a_late_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, pattern: str
) -> None:
    monkeypatch.setattr(read_module, "BLOCK", 4096)
    path = put(tmp_path, b"a,b\r\n" + "ä,2\r\n".encode() * 3000 + end)
    with pytest.raises(InputError, match=pattern):
        open_source(path).read()


def test_a_long_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_module, "BLOCK", 64)
    path = put(tmp_path, b"a,b\n1,2\n" + b"3," + b"x" * 300 + b"\n4,5\n")
    with pytest.raises(InputError, match=r"row 2: a row may have 64 bytes"):
        open_source(path).read()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("hauses.csv", r"hauses.csv: there is no such file. Did you mean 'houses.csv'"),
        ("other.csv", r"there is no such file. Check the path"),
        ("none/houses.csv", r"there is no such file. Check"),
        ("houses.csv/a.csv", r"there is no such file"),
        ("tables", r"this is a folder. Name a file in it, e.g. 'a.csv'"),
        ("parts", r"folder. Name a file in it, e.g. 'a.parquet'"),
        ("nothing", r"this is a folder. Tables are read from .csv"),
        ("link.csv", r"there is no such file"),
        ("sheet.XLSX", r"this is a spreadsheet. Save the sheet as CSV UTF-8"),
        ("a.json", r"files that end in '.json' are not read. Tables"),
        ("bare", r"files that end in '' are not read"),
        ("a.parquet.gz", r"files that end in '.gz' are not read"),
        ("plain.csv.gz", r"ends in .gz, and the file is not compressed"),
        ("~nobody-at-all/a.csv", r"there is no such file"),
        ("", r"a table must be the path of a file, got ''"),
        ("a\0.csv", r"must be the path of a file"),
        (f"{LONG}.csv", r"x{297}\.\.\.: the file cannot be read: File name too long"),
    ],
    ids=range(17),
)
def test_a_path_without_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("tables", "parts", "nothing"):
        Path(folder).mkdir()
    for file in ("houses.csv", "tables/a.csv", "parts/a.parquet", "sheet.XLSX"):
        Path(file).write_text("a\n1\n")
    for file in ("a.json", "bare", "a.parquet.gz", "plain.csv.gz"):
        Path(file).write_text("a\n1\n")
    Path("link.csv").symlink_to("nowhere.csv")
    with pytest.raises(InputError, match=pattern):
        open_source(name)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: Any) -> None:
    path = put(tmp_path, b"a\n1\n")
    source = open_source(path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pa, "OSFile", refuse)
    for action in (lambda: open_source(path), source.read):
        with pytest.raises(InputError, match=r"cannot be read: Permission denied\."):
            action()


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = put(tmp_path, b"Price,size,rooms\n1,2,3\n")
    source = open_source(path)
    with pytest.raises(InputError, match=r"no column 'price'. Did you mean 'Price'\?"):
        source.batches(["price"])
    with pytest.raises(InputError, match=r"no column 'zip'. There are 'Price', 'size'"):
        source.read(["size", "zip"])
    with pytest.raises(InputError, match=r"no columns 'sice', 'zip'. Did .* 'size'\?"):
        open_source(path, expect=["sice", "zip", "rooms"])
    with pytest.raises(InputError, match=r"no column 'zip'"):
        open_source(source, expect=["zip"])
    assert open_source(source, expect=["rooms"]) is source
    one = put(tmp_path, b"a b c\n1 2 3\n", "one.csv")
    with pytest.raises(InputError, match=r"are 'a b c'. Is the delimiter right\?"):
        open_source(one, expect=["zzz"])
    with pytest.raises(InputError, match=r"rows must be at least 1, got 0"):
        source.batches(rows=0)


def test_rows_can_be_required(tmp_path: Path) -> None:
    table = open_source(put(tmp_path, b"a,b\n")).read()
    with pytest.raises(InputError, match=r"own.csv: there is a header, but no rows"):
        require_rows(table, name="own.csv")
    table = open_source({"a": [1, 2]}).read()
    require_rows(table, name="x", least=2)
    with pytest.raises(InputError, match=r"x: at least 3 rows are needed, got 2"):
        require_rows(table, name="x", least=3)


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.9, 0.999])
def test_a_damaged_parquet_file(tmp_path: Path, cut: float) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(1000)), "b": ["x"] * 1000}), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * cut)] or b"a,b\n")
    assert "this is no Parquet file, or a damaged one" in message_of(path)


def test_a_parquet_file_with_text_that_is_none(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"a": bad}), tmp_path / "a.parquet")
    assert "this is no Parquet file, or a damaged one" in message_of(
        tmp_path / "a.parquet"
    )


def test_a_parquet_file_with_damaged_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [i * 0.37 for i in range(9000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(bytes(content))
    assert "this is no Parquet file, or a damaged one" in message_of(path)


TABLE = pa.table(
    {
        "n": pa.array([1, -999, 3, None], pa.int16()),
        " x ": [0.5, -999.0, float("nan"), 2.0],
        "a.b": ["p", " NA ", "", "q"],
        "c": pa.array(["u", "?", "u", None]).dictionary_encode(),
        "l": [[1], [], None, [2]],
        "t": [datetime.date(2020, 1, 1)] * 4,
    }
)


@pytest.fixture(params=["parquet", "table", "batch", "stream"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "parquet":
        pq.write_table(TABLE, tmp_path / "a.PQ", row_group_size=3)
        return tmp_path / "a.PQ"
    if request.param == "batch":
        return TABLE.combine_chunks().to_batches()[0]
    return TABLE if request.param == "table" else Streaming(TABLE)


class Streaming:
    """Any library's table: all it has is arrow's door."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_types_are_kept(table: Any) -> None:
    source = open_source(table)
    assert source.columns == ("n", "x", "a.b", "c", "l", "t")
    assert source.rows == 4
    assert source.style.decimal == "."
    names = ["t", "n", "x", "a.b", "c", "l"]
    read = source.read(names)
    assert read.column_names == names
    assert read.column("n").type == pa.int16()
    assert read.column("a.b").to_pylist() == ["p", " NA ", "", "q"]
    assert pa.types.is_dictionary(read.column("c").type)
    assert read.column("l").to_pylist() == [[1], [], None, [2]]


def test_batches_are_numbered(table: Any) -> None:
    source = open_source(table)
    batches = list(source.batches(["a.b"], rows=2))
    assert sum(batch.data.num_rows for batch in batches) == 4
    assert max(batch.data.num_rows for batch in batches) == 2
    assert [b.data.column("a.b")[0].as_py() for b in batches if b.first_row == 1] == [
        "p"
    ]
    assert batches[-1].share == 1.0
    assert batches[-1].first_row + batches[-1].data.num_rows == 5
    assert next(source.batches([])).data.num_columns == 0
    assert next(source.batches([])).data.num_rows > 0


def test_wide_rows_of_parquet_make_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(1000.0)}), path, use_dictionary=False)
    monkeypatch.setattr(read_module, "MOST_BYTES", 800)
    sizes = [batch.data.num_rows for batch in open_source(path).batches()]
    assert sum(sizes) == 1000
    assert max(sizes) <= 100


def test_a_pandas_frame() -> None:
    frame = pd.DataFrame(
        {
            "number": [1.0, None],
            "text": ["a", None],
            "mixed": [1, "x"],
            "gaps": [pd.NA, datetime.date],
            7: pd.Categorical(["u", "v"]),
            "day": pd.to_datetime(["2020-01-01", None]),
            "flag": pd.array([True, None], dtype="boolean"),
            "huge": [10**30, 1],
        },
        index=["i", "j"],
    )
    source = open_source(frame)
    assert source.columns[4] == "7"
    assert "i" not in str(source.columns[0])
    table = source.read().to_pydict()
    assert table["number"] == [1.0, None]
    assert table["text"] == ["a", None]
    assert table["mixed"] == ["1", "x"]
    assert table["gaps"] == [None, "<class 'datetime.date'>"]
    assert table["7"] == ["u", "v"]
    assert table["day"] == [datetime.datetime(2020, 1, 1), None]
    assert table["flag"] == [True, None]
    assert table["huge"] == ["1" + "0" * 30, "1"]


def test_a_mapping_of_arrays() -> None:
    data = {
        "list": [1, None],
        "tuple": (1.5, 2),
        "array": np.array(["a", "b"]),
        "tensor": torch.tensor([1.0, 2.0]),
        "series": pd.Series([1, 2], index=[5, 6]),
        "arrow": pa.chunked_array([[1], [2]]),
        "mixed": [float("nan"), "x"],
        "bytes": [b"x", "y"],
    }
    table = open_source(data).read()
    assert table.column("tensor").to_pylist() == [1.0, 2.0]
    assert table.column("tuple").to_pylist() == [1.5, 2.0]
    assert table.column("array").to_pylist() == ["a", "b"]
    assert table.column("series").to_pylist() == [1, 2]
    assert table.column("mixed").to_pylist() == [None, "x"]
    assert table.num_rows == 2


class Broken:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise TypeError("no stream today")


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        (5, r"a table must be the path of a file, a data frame.*, got int\."),
        (pd.Series([1]), r"a table must be .* got Series|the table is not a table"),
        ([[1, 2]], r"a table must be .* got list\."),
        ({}, r"from 1 to 20,000 columns, got 0"),
        (pd.DataFrame(index=[1]), r"from 1 to 20,000 columns, got 0"),
        (
            {"a": [1], "b": [1, 2]},
            r"not a table: .* b expected length 1 but got length 2\.",
        ),
        ({"a": np.zeros((2, 3))}, r"column 'a': .* got shape \(2, 3\)"),
        ({"a": "text"}, r"the table, column 'a': .* got shape \(\)"),
        ({"a": 5}, r"column 'a': a column must be .* one dimension, got shape \(\)"),
        (Broken(), r"the table is not a table: no stream today\."),
    ],
    ids=range(10),
)
def test_what_is_no_table(table: Any, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        open_source(table)


def test_names_of_delimiters_are_understood() -> None:
    assert Style(delimiter="Tab").delimiter == "\t"
    assert Style(delimiter="\\t").delimiter == "\t"
    assert Style(delimiter="semicolon").delimiter == ";"
    assert Style(delimiter="~").delimiter == "~"


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"delimiter": ""}, r"delimiter must be one character .* got ''"),
        ({"delimiter": ",,"}, r"delimiter must be one character .* got ',,'"),
        ({"delimiter": "a"}, r"delimiter must be one"),
        ({"delimiter": '"'}, r"delimiter must be one"),
        ({"delimiter": "\n"}, r"delimiter must be one"),
        ({"delimiter": "§"}, r"delimiter must be one"),
        ({"delimiter": 7}, r"delimiter must be one"),
        ({"decimal": ";"}, r"decimal mark must be '.' or ',', got ';'"),
        ({"thousands": "1"}, r"thousands mark must be one character .* got '1'"),
        ({"thousands": "  "}, r"thousands mark must be one"),
        ({"decimal": ",", "thousands": ","}, r"must differ, both are ','"),
    ],
    ids=range(11),
)
def test_wrong_marks_are_refused(options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        Style(**options)


def test_a_style_loads_neither_torch_nor_pyarrow() -> None:
    code = (
        "import sys; from calibrant.tables import Style; Style();"
        "sys.exit('torch' in sys.modules or 'pyarrow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_source_does_not_load_torch() -> None:
    code = (
        "import sys; from calibrant.tables import open_source, TableWriter;"
        "open_source({'a': [1]}).read(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
