"""Files of the cases that are more than a changed cell, by kind."""

from collections.abc import Mapping

from bad_input.case import Content
from bad_input.houses import forecasts, houses, packed, parquet_bytes

__all__ = ["SPECIAL"]

_LINES = houses().splitlines(keepends=True)
_BROKEN = houses({(100, "id"): "h99,1,2"})
_DAYS = {(row, "day"): f"0{1 + row % 9}/0{1 + row % 7}/2025" for row in range(121)}
_LISTS = {"list": [[1, 2]] * 40} | {n: [*map(float, range(40))] for n in ("a", "price")}

#: One file is bad.csv, or as the command has it.
SPECIAL: dict[str, Content | Mapping[str, Content]] = {
    "a folder instead of a file": lambda path: path.mkdir(),
    "a kind of file that is not read": {"bad.xlsx": b"PK\x03\x04"},
    "an empty file": "",
    "only blank lines": "\n\n\n",
    "an Excel file that was renamed": b"PK\x03\x04" + bytes(60),
    "UTF-16": houses().encode("utf-16"),
    "bytes that are no UTF-8": houses({(7, "zone"): "Nürnberg"}).encode("latin-1"),
    "NUL bytes": houses({(7, "zone"): "no\0rth"}),
    "a row with too many cells": "".join([*_LINES[:9], "1,2,3,4,5,6,7\n"]),
    "a row with too few cells": "".join([*_LINES[:9], "1,2\n"]),
    "a web page that was renamed": "<!DOCTYPE html>\n<p>no</p>\n",
    "JSON that was renamed": '[{"size": 1, "price": 2}]\n',
    "a PDF that was renamed": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
    "Parquet that was renamed to CSV": parquet_bytes({"price": [1.0, 2.0]}),
    "a gzip file that was cut short": {"bad.csv.gz": packed(houses())[:900]},
    "a Parquet file that was cut short": {
        "bad.parquet": parquet_bytes({"price": [1.0] * 50})[:200]
    },
    "a Parquet column of lists": {"bad.parquet": parquet_bytes(_LISTS)},
    "three thousand columns, and not the target": ",".join(
        f"c{place}" for place in range(3000)
    )
    + "\n",
    "no header": "".join(_LINES[1:]),
    "an absurdly long header": houses(names={"rooms": "rooms " * 20_000}),
    "a byte order mark": houses().encode("utf-8-sig"),
    "gzip without .gz in its name": packed(houses()),
    "lines that end with CR LF": houses(end="\r\n"),
    "lines that end with CR": houses(end="\r"),
    "semicolons between cells": houses(delimiter=";"),
    "semicolons and decimal commas": houses(delimiter=";").replace(".", ","),
    "tabs between cells, though it is called .csv": houses(delimiter="\t"),
    "spaces around cells": houses(delimiter=" , "),
    "cells in quotes": "".join(
        f'"{line}"\n' for line in houses(delimiter='","').splitlines()
    ),
    "blank lines at the end": houses() + "\n\n",
    "no line end at the end": houses().rstrip("\n"),
    "a target of 300 digits, kept": houses({(7, "price"): "9" * 300}),
    "a target of 100,000 characters": houses({(7, "price"): "x" * 100_000}),
    "a header with codes for the terminal": houses(names={"size": "\x1b[31msize"}),
    "numbers of 300 digits": houses({(7, "size"): "9" * 300}),
    "days and months that cannot be told apart": houses(_DAYS),
    "--out with files of somebody else, and --force": {
        "mine/thesis.txt": "years of work"
    },
    "all columns are missing": "a,b\n1,2\n",
    "the same, with an output from yesterday, which stays": {
        "bad.csv": _BROKEN,
        "out.csv": "mean\n1\n",
    },
    "a cell of 100,000 characters": houses({(7, "size"): "x" * 100_000}),
    "an empty folder to predict": {"parts/.keep": ""},
    "a folder to predict with files of several kinds": {
        "parts/a.csv": houses(),
        "parts/b.parquet": b"PAR1",
    },
    "a folder to predict with files that are no tables": {
        "parts/a.csv": houses(),
        "parts/thesis.docx": b"years of work",
    },
    "too few rows to --fix": "".join(forecasts().splitlines(keepends=True)[:11]),
    "a folder that is no model": {"mine/a.txt": ""},
    "quantiles that cross": forecasts({(7, "low"): "9", (7, "high"): "8"}),
}
