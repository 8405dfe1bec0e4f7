"""Your own CSV: what is read, and what the text says when it cannot be."""

import gzip
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.data import is_present, load
from calibrant.errors import InputError

TEXT = "a,b,price\n1,2,3\n4,5.5,-6e-1\n"


def put(folder: Path, text: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_last_column_is_the_target(tmp_path: Path) -> None:
    data = load(put(tmp_path, TEXT))
    np.testing.assert_array_equal(data.x, [[1.0, 2.0], [4.0, 5.5]])
    np.testing.assert_array_equal(data.y, [3.0, -0.6])
    assert (data.features, data.target) == (("a", "b"), "price")
    assert data.name == str(tmp_path / "own.csv")
    assert data.x.flags.c_contiguous


@pytest.mark.parametrize("how", ["argument", "mark", "both"])
def test_another_column_can_be_the_target(tmp_path: Path, how: str) -> None:
    path = str(put(tmp_path, TEXT))
    data = load(
        path if how == "argument" else f"{path}#b",
        target=None if how == "mark" else "b",
    )
    np.testing.assert_array_equal(data.x, [[1.0, 3.0], [4.0, -0.6]])
    np.testing.assert_array_equal(data.y, [2.0, 5.5])
    assert (data.features, data.target) == (("a", "price"), "b")


def test_two_targets_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    with pytest.raises(ValueError, match=r"named once, got target='a' and .*#b"):
        load(f"{path}#b", target="a")
    with pytest.raises(ValueError, match=r"no column 'c'\. There are 'a', 'b', "):
        load(path, target="c")


def test_an_empty_target_is_no_column(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    with pytest.raises(InputError, match=r"no column ''\. There are 'a', 'b', 'price'"):
        load(path, target="")
    with pytest.raises(InputError, match=r"no column ''\. There are 'a', 'b', 'price'"):
        load(f"{path}#")
    with pytest.raises(InputError, match=r"named once, got target='' and .*#b"):
        load(f"{path}#b", target="")
    with pytest.raises(InputError, match=r"target of 'yacht' is .*, got target=''"):
        load("yacht", target="")


@pytest.mark.parametrize("name", [3, None, 1.5, b"own.csv", ["yacht"]])
def test_what_is_neither_a_name_nor_a_path(name: Any) -> None:
    kind = type(name).__name__
    text = re.escape(f"got {name!r} of type {kind}. The names are airfoil, boston")
    with pytest.raises(InputError, match=text):
        load(name)
    with pytest.raises(InputError, match=text):
        is_present(name)


def test_relative_paths_gzip_and_other_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = load(put(tmp_path, TEXT)).x
    put(tmp_path, gzip.compress(TEXT.encode()), "own.csv.gz")
    put(tmp_path, TEXT, "a#b.csv")
    put(tmp_path, "\ufeff" + TEXT.replace("\n", "\r\n"), "EXCEL.CSV")
    put(tmp_path, '"a","b, or c",price\n"1",2,3\n\n 4 ,5.5,-.6\n', "quoted.csv")
    put(tmp_path, TEXT, "plain.txt")
    for name in ["own.csv", "own.csv.gz", "a#b.csv", "EXCEL.CSV", "quoted.csv"]:
        np.testing.assert_array_equal(load(name).x, expected)
    np.testing.assert_array_equal(load("~/own.csv").x, expected)
    np.testing.assert_array_equal(load(f".{os.sep}plain.txt").x, expected)
    assert load("quoted.csv").features == ("a", "b, or c")
    assert load("own.csv#b").name == "own.csv#b"
    assert is_present("own.csv#b")
    assert not is_present("missing.csv")


def test_a_name_is_never_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path, TEXT, "boston")
    assert load("boston").x.shape == (506, 13)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"the file is empty"),
        ("a\n1\n", r"at least two columns.*got one: 'a'\.$"),
        ("a,b\n", r"a header, but no rows"),
        ("a,b\n1,2\n3,red\n", r"own\.csv, row 2, column 'b': .* got 'red'\."),
        ("a,b\n1,2\n3,1_000\n", r"row 2, column 'b': .* got '1_000'"),
        ("a,b\n1,2\n3,inf\n", r"row 2, column 'b': .* got 'inf'"),
        ("a,b\n1,2\n,4\n", r"row 2, column 'a': a value is missing\. Drop"),
        ("a,b\n1,NaN\n", r"row 1, column 'b': a value is missing"),
        ("a,b\n1,2,3\n", r"row 1: .* as the header, 2, and this one has 3"),
    ],
)
def test_says_what_is_wrong_and_where(
    tmp_path: Path, text: str | bytes, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        load(put(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.csv: there is no such file"):
        load("none.csv")
    with pytest.raises(ValueError, match="this is a folder"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"own\.csv\.gz"):
        load(put(tmp_path, gzip.compress(TEXT.encode())[:-9], "own.csv.gz"))
