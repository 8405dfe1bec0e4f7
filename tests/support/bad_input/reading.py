"""Files that are not the tables they should be."""

from pathlib import Path

from bad_input.case import TINY, Case
from bad_input.houses import HEADER, houses, packed, parquet_bytes

__all__ = ["READING"]

FIT = "fit bad.csv --target price --out new"
PREDICT = "predict model bad.csv -o out.csv"
LINES = houses().splitlines(keepends=True)


def _refused(kind: str, content: str | bytes, says: str) -> Case:
    return Case(kind=kind, command=FIT, files={"bad.csv": content}, says=says)


def _alike(kind: str, content: str | bytes, says: str = "", more: str = "") -> Case:
    return Case(
        kind=kind,
        command=f"{PREDICT}{more}",
        code=0,
        files={"bad.csv": content},
        says=says,
        makes=("out.csv",),
        alike=True,
    )


def _decimal_commas() -> str:
    lines = houses(delimiter=";").splitlines(keepends=True)
    return "".join(line.replace(".", ",") for line in lines)


def _quoted() -> str:
    lines = houses(delimiter='","').splitlines()
    return "".join(f'"{line}"\n' for line in lines)


def _folder(path: Path) -> None:
    path.mkdir()


READING = (
    Case(kind="there is no such file", command=FIT, says="no such file"),
    Case(
        kind="a misspelled name of a file",
        command="fit house.csv --target price --out new",
        says="houses.csv",
    ),
    Case(
        kind="a folder instead of a file",
        command=FIT,
        files={"bad.csv": _folder},
        says="folder",
    ),
    Case(
        kind="a kind of file that is not read",
        command="fit bad.xlsx --target price --out new",
        files={"bad.xlsx": b"PK\x03\x04"},
        says=".xlsx",
    ),
    _refused("an empty file", "", "empty"),
    _refused("only blank lines", "\n\n\n", "empty"),
    _refused("only a header", LINES[0], "no rows"),
    _refused("an Excel file that was renamed", b"PK\x03\x04" + bytes(60), "Excel"),
    _refused("UTF-16", houses().encode("utf-16"), "UTF-16"),
    _refused(
        "bytes that are no UTF-8",
        houses({(7, "zone"): "Nürnberg"}).encode("latin-1"),
        "UTF-8",
    ),
    _refused("NUL bytes", houses({(7, "zone"): "no\0rth"}), "row 7"),
    _refused(
        "a row with too many cells", "".join([*LINES[:9], "1,2,3,4,5,6,7\n"]), "row 9"
    ),
    _refused("a row with too few cells", "".join([*LINES[:9], "1,2\n"]), "row 9"),
    _refused("an unclosed quote", houses({(7, "zone"): '"north'}), "quote"),
    _refused(
        "two stray quotes with rows between",
        houses({(7, "zone"): '"north', (20, "zone"): 'north"'}),
        "look like rows",
    ),
    _refused("a web page that was renamed", "<!DOCTYPE html>\n<p>no</p>\n", "web page"),
    _refused("JSON that was renamed", '[{"size": 1, "price": 2}]\n', "JSON"),
    _refused(
        "a PDF that was renamed", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "PDF"
    ),
    _refused(
        "Parquet that was renamed to CSV",
        parquet_bytes({"price": [1.0, 2.0]}),
        ".parquet",
    ),
    Case(
        kind="a gzip file that was cut short",
        command="fit bad.csv.gz --target price --out new",
        files={"bad.csv.gz": packed(houses())[:900]},
        says="cut off",
    ),
    Case(
        kind="a name with .gz of a file that is not packed",
        command="fit bad.csv.gz --target price --out new",
        files={"bad.csv.gz": houses()},
        says="gz",
    ),
    Case(
        kind="a Parquet file that was cut short",
        command="fit bad.parquet --target price --out new",
        files={"bad.parquet": parquet_bytes({"price": [1.0] * 50})[:200]},
        says="no Parquet file, or a damaged one",
        foreign=True,
    ),
    Case(
        kind="CSV that was renamed to Parquet",
        command="fit bad.parquet --target price --out new",
        files={"bad.parquet": houses()},
        says="no Parquet file, or a damaged one",
        foreign=True,
    ),
    Case(
        kind="a Parquet column of lists",
        command=f"fit bad.parquet --target price --out new {TINY} --json",
        code=0,
        files={
            "bad.parquet": parquet_bytes(
                {
                    "size": [float(i) for i in range(40)],
                    "list": [[1, 2]] * 40,
                    "price": [float(i) for i in range(40)],
                }
            )
        },
        column="list",
        makes=("new",),
        says="left out",
    ),
    _refused("two columns of the same name", houses(names={"rooms": "size"}), "size"),
    _refused(
        "three thousand columns, and not the target",
        ",".join(f"c{place}" for place in range(3000)) + "\n",
        "2,992 more",
    ),
    _refused("a column without a name", houses(names={"rooms": ""}), "column 3"),
    _refused("no header", "".join(LINES[1:]), "price"),
    _refused(
        "an absurdly long header",
        houses(names={"rooms": "rooms " * 20_000}),
        "1,000 characters",
    ),
    _refused(
        "one column only, and it is the target",
        houses(columns=["price"]),
        "besides the target",
    ),
    Case(
        kind="a delimiter of two characters",
        command=f"{FIT} --delimiter ';;'",
        files={"bad.csv": houses()},
        says="delimiter",
    ),
    Case(
        kind="a decimal mark that is none",
        command=f"{FIT} --decimal x",
        files={"bad.csv": houses()},
        says="decimal",
    ),
    Case(
        kind="thousands marked as decimals are",
        command=f"{FIT} --thousands .",
        files={"bad.csv": houses()},
        says="--decimal",
    ),
    Case(
        kind="a delimiter that is not in the file",
        command=f"{FIT} --delimiter ';'",
        files={"bad.csv": houses()},
        says="price",
    ),
    _alike("a byte order mark", houses().encode("utf-8-sig")),
    _alike("gzip without .gz in its name", packed(houses())),
    _alike("lines that end with CR LF", houses(end="\r\n")),
    _alike("lines that end with CR", houses(end="\r")),
    _alike("semicolons between cells", houses(delimiter=";")),
    _alike("semicolons and decimal commas", _decimal_commas()),
    _alike("tabs between cells, though it is called .csv", houses(delimiter="\t")),
    _alike("spaces around cells", houses(delimiter=" , ")),
    _alike("cells in quotes", _quoted()),
    _alike("blank lines at the end", houses() + "\n\n"),
    _alike("no line end at the end", houses().rstrip("\n")),
    _alike("extra columns", houses({(None, "color"): "red"})),
    _alike("columns in another order", houses(columns=HEADER[::-1])),
)
