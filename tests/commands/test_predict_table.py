"""Predictions in the order of the rows, whatever the file is like."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from calibrant.commands import predict as module
from calibrant.commands.fit import TableFit
from calibrant.commands.predict import predict_table
from calibrant.commands.table_model import TableModel
from calibrant.tables import write_table
from calibrant.validation import InputError
from homes import homes


def test_columns_are_what_the_distribution_says(fitted: TableFit) -> None:
    table = homes(25, seed=3)
    done = predict_table(
        fitted.model, table, coverage=(0.5, 0.9), quantiles=(0.05, 0.5, 0.975)
    )
    predictive = fitted.model.predict_distribution(table)
    found = done.table
    assert found is not None
    assert tuple(found.column_names) == done.columns
    expected = {
        "mean": predictive.mean,
        "std": predictive.stddev,
        "lower_50": predictive.quantiles([0.25])[:, 0],
        "upper_50": predictive.quantiles([0.75])[:, 0],
        "lower_90": predictive.quantiles([0.05])[:, 0],
        "upper_90": predictive.quantiles([0.95])[:, 0],
        "q0.05": predictive.quantiles([0.05])[:, 0],
        "q0.5": predictive.quantiles([0.5])[:, 0],
        "q0.975": predictive.quantiles([0.975])[:, 0],
    }
    assert list(expected) == found.column_names
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].to_numpy(), values.numpy(), rtol=1e-9)


def test_other_order_extra_columns_and_formats_change_nothing(
    folder: Path, tmp_path: Path
) -> None:
    table = homes(40, seed=4)
    mixed = table.select(["price", "garden", "city", "area", "day"])
    mixed = mixed.append_column("extra", pa.array(["=cmd()"] * 40))
    write_table(tmp_path / "new.csv.gz", mixed)
    pq.write_table(table, tmp_path / "new.parquet")
    expected = predict_table(folder, table).table
    assert expected is not None
    for name, out in (("new.csv.gz", "a.parquet"), ("new.parquet", "b.csv")):
        done = predict_table(folder, tmp_path / name, tmp_path / out, progress=False)
        assert done.table is None
        assert done.path == tmp_path / out
        read = pq.read_table if out.endswith("parquet") else pc.read_csv
        found = read(tmp_path / out)
        for column in expected.column_names:
            np.testing.assert_allclose(
                found[column].to_numpy(), expected[column].to_numpy(), rtol=1e-6
            )


def test_chunks_are_not_seen_in_the_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = homes(50, seed=5)
    whole = predict_table(folder, table, keep=["id"]).table
    monkeypatch.setattr(module, "CHUNK", 7)
    parts = predict_table(folder, table, keep=["id"]).table
    assert whole is not None
    assert parts is not None
    assert parts["id"].to_pylist() == table["id"].to_pylist()
    for column in ("mean", "std", "lower_90"):
        np.testing.assert_allclose(
            parts[column].to_numpy(), whole[column].to_numpy(), rtol=1e-4
        )


def test_what_is_unusual_is_noted_and_strict_refuses_it(
    folder: Path, tmp_path: Path
) -> None:
    rows = homes(30, seed=6).to_pydict()
    rows["area"] = [str(each) for each in rows["area"]]
    rows["area"][4], rows["city"][9] = "big", "Kyiv"
    write_table(tmp_path / "new.csv", pa.table(rows))
    done = predict_table(folder, tmp_path / "new.csv", tmp_path / "out.csv")
    assert any("row 5 ('big')" in note for note in done.notes)
    assert any("row 10 ('Kyiv')" in note for note in done.notes)
    (tmp_path / "out.csv").unlink()
    with pytest.raises(InputError, match=r"new\.csv, row 5, column 'area'.*'big'"):
        predict_table(folder, tmp_path / "new.csv", tmp_path / "out.csv", strict=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]


def test_kept_formulas_are_made_harmless(folder: Path, tmp_path: Path) -> None:
    table = homes(3, seed=7).set_column(0, "id", pa.array(["=1+1", "-5", "@x"]))
    done = predict_table(folder, table, tmp_path / "out.csv", keep=["id"])
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["'=1+1", "-5", "'@x"]
    assert "2 texts that a spreadsheet would run" in done.notes[-1]
    predict_table(folder, table, tmp_path / "out.csv", keep=["id"], neutralize=False)
    assert "\n=1+1," in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantiles": [1e-13]}, "farther out than 1e-06 are not predicted"),
        ({"coverage": ["x"]}, "coverage must be numbers, got 'x'"),
    ],
    ids=["far", "text"],
)
def test_options_that_cannot_be_met(
    folder: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        predict_table(folder, homes(5), **options)


def test_no_levels_need_no_quantiles(fitted: TableFit) -> None:
    one = predict_table(fitted.model, homes(5), coverage=0.9, keep="id")
    assert one.columns == ("mean", "std", "lower_90", "upper_90")
    done = predict_table(fitted.model, homes(5), coverage=())
    assert done.columns == ("mean", "std")
    assert done.to_dict()["rows"] == 5


def test_a_model_that_does_not_fit_together_is_refused(
    fitted: TableFit, tmp_path: Path
) -> None:
    odd = TableModel(fitted.model.regressor, fitted.model.encoder, "price", {})
    encoder = fitted.model.encoder
    columns = tuple(c for c in encoder.columns if c.name != "garden")
    fewer = type(encoder)(columns=columns, target="price", style=encoder.style)
    TableModel(odd.regressor, fewer, "price").save(tmp_path / "model")
    with pytest.raises(InputError, match=r"make .* features, and its networks take"):
        TableModel.load(tmp_path / "model")
