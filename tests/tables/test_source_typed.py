"""Parquet files and tables in memory: types are kept, tokens are nulls."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from calibrant._checks import InputError
from calibrant.tables import Style, open_source
from calibrant.tables import _parquet as parquet_module

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


def test_types_are_kept_and_tokens_are_missing(table: Any) -> None:
    source = open_source(table, style=Style(missing=("-999", "word")))
    assert source.columns == ("n", "x", "a.b", "c", "l", "t")
    assert source.rows == 4
    assert source.style.decimal == "."
    read = source.read(["t", "n", "x", "a.b", "c", "l"])
    assert read.column("n").to_pylist() == [1, None, 3, None]
    assert read.column("n").type == pa.int16()
    x = read.column("x").to_pylist()
    assert x[:2] == [0.5, None]
    assert np.isnan(x[2])
    assert read.column("a.b").to_pylist() == ["p", None, None, "q"]
    assert read.column("c").to_pylist() == ["u", None, "u", None]
    assert pa.types.is_dictionary(read.column("c").type)
    assert read.column("l").to_pylist() == [[1], [], None, [2]]
    assert read.column_names == ["t", "n", "x", "a.b", "c", "l"]


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


def test_numbers_that_a_type_cannot_hold_are_no_tokens() -> None:
    data = {"i": np.array([1, 2], np.int8), "f": np.array([1.5, -999.5], np.float32)}
    style = Style(missing=("-999", "1,25", "-999,5"), decimal=",")
    assert open_source(data, style=style).read().to_pydict() == {
        "i": [1, 2],
        "f": [1.5, None],
    }


def test_kinds_of_text_become_one() -> None:
    data = {
        "large": pa.array(["a", "nan"], pa.large_string()),
        "view": pa.array(["a", "b"], pa.string_view()),
        "coded": pa.array(["a", "NA"], pa.large_string()).dictionary_encode(),
        "codes": pa.array([1, 2]).dictionary_encode(),
    }
    table = open_source(data).read()
    assert table.schema.types[:2] == [pa.string(), pa.string()]
    assert table.to_pydict() == {
        "large": ["a", None],
        "view": ["a", "b"],
        "coded": ["a", None],
        "codes": [1, 2],
    }


def test_no_rows_keep_their_types(tmp_path: Path) -> None:
    pq.write_table(TABLE.slice(0, 0), tmp_path / "a.parquet")
    for source in (open_source(tmp_path / "a.parquet"), open_source(TABLE.slice(0, 0))):
        table = source.read(["x", "n"])
        assert table.num_rows == 0
        assert table.schema.types == [pa.float64(), pa.int16()]


def test_wide_rows_of_parquet_make_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(1000.0)}), path, use_dictionary=False)
    monkeypatch.setattr(parquet_module, "MOST_BYTES", 800)
    sizes = [batch.data.num_rows for batch in open_source(path).batches()]
    assert sum(sizes) == 1000
    assert max(sizes) <= 100


def test_parquet_with_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet: columns must have different"):
        open_source(tmp_path / "a.parquet")


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


def test_a_frame_with_two_columns_of_one_name() -> None:
    frame = pd.DataFrame([[1, 2]], columns=[1, "1"])
    with pytest.raises(InputError, match=r"the table: .* more than one is called '1'"):
        open_source(frame)


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


def test_a_stream_is_read_as_often_as_one_likes() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    source = open_source(reader)
    names = ["n", "a.b", "c"]
    assert source.read(names).equals(source.read(names))


class Broken:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise TypeError("no stream today")


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        (5, r"a table must be the path of a file, a data frame.*, got int\."),
        (pd.Series([1]), r"a table must be .* got Series|the table is no table"),
        ([[1, 2]], r"a table must be .* got list\."),
        ({}, r"at least one column, and has none"),
        (pd.DataFrame(index=[1]), r"at least one column, and has none"),
        ({"a": [1], "b": [1, 2]}, r"same length, and 'a' has 1 rows and 'b' 2\."),
        ({"a": np.zeros((2, 3))}, r"column 'a': .* got an array of shape \(2, 3\)"),
        ({"a": "text"}, r"the table, column 'a': .* got str\."),
        ({"a": 5}, r"column 'a': a column must be .* one dimension, got ndarray"),
        (Broken(), r"the table is no table: no stream today\."),
    ],
    ids=range(10),
)
def test_what_is_no_table(table: Any, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        open_source(table)


def test_damage_between_two_batches(tmp_path: Path, monkeypatch: Any) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet")

    def breaks(*_: object, **__: object) -> Iterator[pa.RecordBatch]:
        yield from TABLE.slice(0, 1).to_batches()
        raise OSError("Corrupt snappy\ncompressed data")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", breaks)
    with pytest.raises(InputError, match=r"\(Corrupt snappy compressed data\)"):
        list(source.batches())
