"""Files that cannot be read: one line each, with the row and the column."""

import gzip
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._checks import InputError
from calibrant.tables import _csv as csv_module
from calibrant.tables import _csv_stream as stream_module
from calibrant.tables import open_source, require_rows

LONG = "x" * 5_000
ROWS = "".join(f"{i},t{i},{i * 2},{i * 3}\n" for i in range(60))
STRAY = ROWS.replace(",t10,", ',"t10,').replace(",t45,", ",{}t45{},")
SWALLOWED = r"own.csv, lines 12 to 47, column 'b': a quote is .* again 35 lines below"
MANY = "".join(f"{i},{i * 7919 % 10007}\n" for i in range(200_000))

FAULTS = {
    "empty": (b"", r"own.csv: the file is empty"),
    "empty inside gzip": (gzip.compress(b""), r"nothing but spaces"),
    "only spaces": (b"\xef\xbb\xbf \n\t\n", r"nothing but spaces or empty lines"),
    "no header": (b"1,-2.5,NA\n4,5,6\n", r"numbers only: '1', '-2.5', 'NA'\. Put"),
    "no name": (b"a,,c\n1,2,3\n", r"column 2 of 3 has none.*index=False"),
    "name of spaces": (b"a, \n1,2\n", r"column 2 of 2 has none"),
    "double names": (b"a,b, a,b\n1,2,3,4\n", r"more than one is called 'a', 'b'"),
    "long name": (f"a,{LONG}\n".encode(), r"column 2 has 5,000: 'x{57}\.\.\.'"),
    "very long name": (b"x" * 200_000, r"longer than 131,072 char.*: 'x{57}\.\.\.'"),
    "no lines": (b"x,yz" * 300_000, r"longer than 1,048,576 bytes: 'x,yzx"),
    "many columns": (b"a," * 20_001, r"may have 20,000 columns, got 20,002"),
    "quote in header": (b'a,"b\n1,2\n', r"a quote in it is not closed.*: 'a,\"b"),
    "few cells": (
        b"a,b,c\n1,2,3\n\n \n4,5\n",
        r"own.csv, row 2: .* 3, and this .* 2\.",
    ),
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
    "NUL in header": (b"a,b\x00\n" + b"1,2\n" * 9, r"name of column 2 holds a NUL"),
    "Latin-1": (b"a,b\n1,x\n\nc,gr\xf6\n", r"row 2, column 'b': .* UTF-8.* 0xF6"),
    "Latin-1 and cells": (b"a,b\n1,x\n\xf6\n", r"row 2: .* header, 2, .* has 1\."),
    "cut character": (b"a,b\n1,x\n2,\xc3", r"row 2, column 'b': .* UTF-8.* 0xC3"),
    "Latin-1 in header": (b"a,gr\xf6\n1,2\n", r"name of column 2 .* byte 0xF6"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), r"in UTF-16\. Save it as CSV UTF-8"),
    "UTF-16 unmarked": ("a,b\n1,2\n".encode("utf-16-le"), r"full of NUL bytes"),
    "Excel": (b"PK\x03\x04....", r"looks like an Excel or zip file"),
    "old Excel": (b"\xd0\xcf\x11\xe0....", r"looks like an Excel file"),
    "Parquet": (b"PAR1....", r"Let its name end in .parquet"),
    "web page": (b" <!DOCTYPE html><html>", r"web page or XML, not a table"),
    "JSON": (b'[{"a": 1}]', r"looks like JSON"),
    "gzip twice": (gzip.compress(gzip.compress(b"a\n")), r"compressed twice"),
    "cut gzip": (gzip.compress(b"a,b\n1,2\n")[:-9], r"gzip file is cut off or dam"),
    "long cut gzip": (
        gzip.compress(f"a,b\n{MANY}".encode())[:-99],
        r"gzip file is cut off or damaged\. Download",
    ),
    "wrong gzip": (gzip.compress(b"a\n1\n")[:-8] + b"12345678", r"cut off or damaged"),
}


def put(folder: Path, content: bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


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
    monkeypatch.setattr(stream_module, "MOST_UNPACKED", 1 << 18)
    text = b"a,b\n" + b"1,2\n" * 500_000
    packed = put(tmp_path, gzip.compress(text), "own.csv.gz")
    assert re.search(r"may become 200 times.* \(gunzip\)", message_of(packed))
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
        (b'1,"' + b"2,3\n" * 40_000, r"row 3,001: a cell is longer than 131,072"),
    ],
    ids=["cells", "byte", "nul", "quote", "long quote"],
)
def test_a_late_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, pattern: str
) -> None:
    monkeypatch.setattr(csv_module, "BLOCK", 4096)
    path = put(tmp_path, b"a,b\r\n" + "ä,2\r\n".encode() * 3000 + end)
    with pytest.raises(InputError, match=pattern):
        open_source(path).read()


def test_a_long_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK", 64)
    path = put(tmp_path, b"a,b\n1,2\n" + b"3," + b"x" * 300 + b"\n4,5\n")
    with pytest.raises(InputError, match=r"row 2: a row may have 64 bytes"):
        open_source(path).read()
    wide = put(tmp_path, b"a,b\n1,2\n" + b"3,4 5," * 60 + b"\n", "wide.csv")
    with pytest.raises(InputError, match=r"wide.csv, row 2: .* has 121\."):
        open_source(wide).read()


def test_what_nobody_can_explain_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, b"a,b\n1\n")
    monkeypatch.setattr(csv_module, "find_fault", lambda *_, **__: None)
    with pytest.raises(InputError, match=r"no table can be read from it: CSV parse"):
        open_source(path).read()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("hauses.csv", r"hauses.csv: there is no such file. Did you mean 'houses.csv'"),
        ("other.csv", r"there is no such file. Check the path"),
        ("none/houses.csv", r"no such file, nor the folder none"),
        ("houses.csv/a.csv", r"no such file, nor the folder houses.csv"),
        ("tables", r"this is a folder. Name a file in it, such as 'a.csv'"),
        ("parts", r"folder of Parquet files cannot be read yet"),
        ("nothing", r"this is a folder. Tables are read from .csv"),
        ("pipe.csv", r"no regular file, and a table is read more than once"),
        ("link.csv", r"a link to a file that is not there"),
        ("sheet.XLSX", r"this is a spreadsheet. Save the sheet as CSV UTF-8"),
        ("a.json", r"files that end in .json are not read. Tables are read from"),
        ("bare", r"the name has no ending .* Tables are read from"),
        ("a.parquet.gz", r"unpack the Parquet file first"),
        ("plain.csv.gz", r"ends in .gz, and the file is not compressed"),
        ("~nobody-at-all/a.csv", r"there is no such file"),
        ("", r"a table must be the path of a file, got ''"),
        ("a\0.csv", r"must be the path of a file"),
        (f"{LONG}.csv", r"x{297}\.\.\.: the file cannot be read: File name too long"),
    ],
    ids=range(18),
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
    os.mkfifo("pipe.csv")
    Path("link.csv").symlink_to("nowhere.csv")
    with pytest.raises(InputError, match=pattern):
        open_source(name)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: Any) -> None:
    path = put(tmp_path, b"a\n1\n")
    source = open_source(path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    for action in (lambda: open_source(path), source.read):
        with pytest.raises(InputError, match=r"cannot be read: Permission denied\."):
            action()


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    sources = [open_source(put(tmp_path, b"a\n1\n"))]
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    sources.append(open_source(tmp_path / "a.parquet"))
    for source in sources:
        Path(source.name).unlink()
        with pytest.raises(InputError, match=r"cannot be read: .*No such file"):
            source.read()


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


def test_a_parquet_file_with_a_senseless_end(tmp_path: Path) -> None:
    end = b"\x07" * 40
    path = put(tmp_path, b"PAR1" + end + bytes([40, 0, 0, 0]) + b"PAR1", "a.parquet")
    assert "this is no Parquet file, or a damaged one" in message_of(path)


def test_a_parquet_file_with_text_that_is_none(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(),
        1,
        [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")],
    )
    pq.write_table(pa.table({"a": bad}), tmp_path / "a.parquet")
    assert "(Invalid UTF8 sequence in input)" in message_of(tmp_path / "a.parquet")


def test_a_parquet_file_with_damaged_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [i * 0.37 for i in range(9000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(bytes(content))
    assert "this is no Parquet file, or a damaged one" in message_of(path)
