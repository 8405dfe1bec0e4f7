"""Text files: what is read from them, whatever program wrote them."""

import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest

from calibrant.tables import Style, open_source
from calibrant.tables import _csv as csv_module
from calibrant.tables._csv_stream import ByteStream, NoTextError


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
    "blank lines below": ("a,b\n\n1,x\n   \n\n", ["1", "x"]),
    "empty cells below": ('a,b\n""\n1,x\n" "\n', ["1", "x"]),
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


@pytest.mark.parametrize("name", ["o.csv", "o.CSV", "o.tsv", "o.txt", "o.csv.GZ"])
def test_the_ending_may_be_in_any_case(tmp_path: Path, name: str) -> None:
    content = b"a,b\n1,2\n"
    if name.endswith("GZ"):
        content = gzip.compress(content[:6]) + gzip.compress(content[6:])
    path = put(tmp_path, content, name)
    assert rows_of(path) == [["1", "2"]]
    assert open_source(str(path)).name == str(path)


def test_tokens_in_any_case_are_missing(tmp_path: Path) -> None:
    tokens = ["", "NA", "n/A", "NaN", "Null", "nOnE", "?", "#N/A", "<na>", "NaT"]
    text = "".join(f"{token},x\n" for token in [*tokens, '"NA"', '""', " na ", "  "])
    cells = [row[0] for row in rows_of(put(tmp_path, f"a,b\n{text}Nancy,x\n"))]
    assert cells == [None] * 14 + ["Nancy"]


def test_own_tokens_are_missing_too(tmp_path: Path) -> None:
    path = put(tmp_path, "a\n-999\n-999.0\n -999 \n-9\nUNKNOWN\nUnknown\nunKnown\n")
    style = Style(missing=("-999", "unknown"))
    cells = [row[0] for row in rows_of(path, style=style)]
    assert cells == [None, None, None, "-9", None, None, None]
    path = put(tmp_path, "a\nUnKnown\nx\nunknown\n")
    assert rows_of(path, style=style) == [[None], ["x"], [None]]


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


def test_numbers_are_names_if_they_are_expected(tmp_path: Path) -> None:
    path = put(tmp_path, "2020,2021\n5,6\n")
    assert open_source(path, expect=["2020"]).columns == ("2020", "2021")


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\n\n \n"])
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
    monkeypatch.setattr(csv_module, "BLOCK", 64)
    text = "n,text\n" + "".join(f'{i},"{i}\n{i}"\n\n' for i in range(100))
    content = gzip.compress(text.encode()) if packed else text.encode()
    source = open_source(put(tmp_path, content, "a.csv.gz" if packed else "a.csv"))
    batches = list(source.batches(rows=rows))
    sizes = [batch.data.num_rows for batch in batches]
    assert sizes == [rows] * (100 // rows) + [100 % rows] * (100 % rows > 0)
    assert [batch.first_row for batch in batches] == list(range(1, 101, rows))
    assert [batch.share for batch in batches] == sorted(b.share for b in batches)
    assert batches[-1].share == 1.0
    cells = itertools.chain(*(b.data.column("text").to_pylist() for b in batches))
    assert list(cells) == [f"{i}\n{i}" for i in range(100)]
    assert source.rows == 100


def test_the_stream_looks_at_what_passes(tmp_path: Path) -> None:
    with ByteStream(put(tmp_path, 'ä"b'), packed=False) as stream:
        pieces = [stream.read(1) for _ in range(5)]
        assert b"".join(pieces).decode() == 'ä"b'
        assert (stream.taken, stream.quotes) == (4, 1)
        assert [stream.share(count) for count in (0, 1, 2, 99)] == [0, 0.25, 0.5, 1]
        assert not stream.closed
    assert stream.closed


@pytest.mark.parametrize(
    ("content", "pattern"),
    [(b"a\0", "NUL bytes"), (b"\xff", "not text in UTF-8"), (b"a\xc3", "not text")],
)
def test_the_stream_stops_at_what_is_no_text(
    tmp_path: Path, content: bytes, pattern: str
) -> None:
    with (
        ByteStream(put(tmp_path, content), packed=False) as stream,
        pytest.raises(NoTextError, match=pattern),
    ):
        list(iter(lambda: stream.read(9), b""))


def test_long_cells_do_not_wait(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(csv_module, "BLOCK", 64)
    monkeypatch.setattr(csv_module, "MOST_BYTES", 100)
    source = open_source(put(tmp_path, "a,b\n" + f"{'x' * 30},y\n" * 20))
    sizes = [batch.data.num_rows for batch in source.batches(rows=8)]
    assert sum(sizes) == 20
    assert max(sizes) < 8


def test_columns_come_as_they_are_asked_for(tmp_path: Path) -> None:
    source = open_source(put(tmp_path, "a,b,c\n1,2,3\n4,5,6\n"))
    assert source.read(["c", "a"]).to_pydict() == {"c": ["3", "6"], "a": ["1", "4"]}
    (batch,) = source.batches(["b"])
    assert batch.data.to_pydict() == {"b": ["2", "5"]}
    (batch,) = source.batches([])
    assert (batch.data.num_rows, batch.data.num_columns) == (2, 0)


def test_a_pass_may_end_early_and_begin_again(tmp_path: Path) -> None:
    source = open_source(put(tmp_path, "a,b\n" + "1,2\n" * 600_000))
    first = next(source.batches(rows=10))
    assert 0 < first.share < 1.0
    assert source.rows is None
    assert sum(batch.data.num_rows for batch in source.batches()) == 600_000
