"""From a table to a model: who learns from what, and what is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._checks import InputError
from calibrant.estimator import CalibratedRegressor
from calibrant.estimator.table_model import TableModel
from calibrant.tables import write_table
from calibrant.workflows._set_aside import set_aside
from calibrant.workflows.fit_table import TableFit, fit_table
from homes import TINY, homes


def test_it_says_what_it_did_with_each_column(fitted: TableFit) -> None:
    kinds = {column.name: column.kind for column in fitted.columns}
    assert kinds == {
        "id": "identifier",
        "day": "date",
        "area": "number",
        "city": "category",
        "garden": "boolean",
        "price": "target",
    }
    assert fitted.model.encoder.needed == ("day", "area", "city", "garden")


def test_the_scorecard_is_of_rows_that_were_set_aside(fitted: TableFit) -> None:
    assert fitted.card is not None
    assert fitted.card.n == 60
    assert fitted.words().startswith("Your 90 % intervals held ")
    assert "of 60 unseen rows; a perfect model would show 82 to 97 %." in fitted.words()
    learned, held = set_aside(np.arange(300), 0.2, seed=0)
    assert fitted.model.about["rows"] == len(learned) == 240
    prices = homes(300)["price"].to_numpy()[held]
    np.testing.assert_array_equal(fitted.card.rows["y"], prices)


def test_what_was_set_aside_teaches_nothing(fitted: TableFit) -> None:
    """Neither the networks nor the medians and levels of the columns see it."""
    table = homes(300)
    _, held = set_aside(np.arange(300), 0.2, seed=0)
    other = table.to_pydict()
    for row in held:
        other["area"][row], other["city"][row] = 1e6, "Kyiv"
        other["price"][row] = -1e9
    again = fit_table(pa.table(other), target="price", **TINY)
    assert again.model.encoder.to_dict() == fitted.model.encoder.to_dict()
    x = fitted.model.features(table)
    np.testing.assert_array_equal(
        again.model.law(x).mean.numpy(), fitted.model.law(x).mean.numpy()
    )


@pytest.mark.parametrize("held", [True, False], ids=["held", "learned"])
@pytest.mark.parametrize(("column", "value"), [("a", 1e12), ("y", -9999.0)])
def test_one_wild_cell_ruins_nothing(column: str, value: float, held: bool) -> None:
    random = np.random.default_rng(0)
    a, b, noise = random.uniform(size=(3, 200))
    table = {"a": a, "b": b, "y": 3 * a + b + 0.2 * noise}
    settings: dict[str, Any] = {"epochs": 30, "members": 1, "folds": 2}
    settings |= {"hidden": (16,), "learning_rate": 0.02, "progress": False}
    calm = fit_table(table, target="y", **settings)
    assert calm.notes == ()
    assert calm.card is not None
    row = int(np.flatnonzero(np.isin(table["y"], calm.card.rows["y"]) == held)[1])
    table[column][row] = value
    done = fit_table(table, target="y", **settings)
    assert done.card is not None
    assert done.card["r2"] > 0.6
    (note,) = done.notes
    assert f"row {row + 1}, column {column!r}" in note
    assert ("the target -9999 is beyond any reason" in note) == (column == "y")
    assert done.card.n + done.model.about["rows"] == (199 if column == "y" else 200)


def test_wild_targets_are_learned_if_asked() -> None:
    table = {"x": np.arange(60.0), "y": np.append(np.arange(59.0), -9999)}
    done = fit_table(table, target="y", keep_outliers=True, test=0, **TINY)
    assert done.model.about["rows"] == 60
    (note,) = done.notes
    assert "1 of 60 targets are beyond any reason and are learned as they are" in note


def test_the_folder_holds_model_and_report(fitted: TableFit, folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["arrays.safetensors", "model.json", "report.html"]
    assert fitted.page == folder / "report.html"
    again = TableModel.load(folder)
    table = homes(20, seed=5)
    np.testing.assert_array_equal(
        again.predict_distribution(table).mean.numpy(),
        fitted.model.predict_distribution(table).mean.numpy(),
    )
    assert fitted.card is not None
    measures = again.about["scorecard"]["measures"]
    assert measures["coverage_90"]["value"] == fitted.card["coverage_90"]


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    fit_table(homes(300), target="price", out=tmp_path / "model", **TINY)
    for path in folder.iterdir():
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()


def test_csv_and_parquet_give_the_same_model(tmp_path: Path) -> None:
    table = homes(80)
    write_table(tmp_path / "homes.csv", table)
    pq.write_table(table, tmp_path / "homes.parquet")
    means = [
        fit_table(
            str(tmp_path / name), target="price", test=0, **(TINY | {"epochs": 1})
        )
        .model.predict_distribution(table)
        .mean.numpy()
        for name in ("homes.csv", "homes.parquet")
    ]
    np.testing.assert_array_equal(*means)


def test_the_latest_rows_are_set_aside_by_time() -> None:
    table = homes(60).take(np.random.default_rng(0).permutation(60))
    done = fit_table(table, target="price", time="day", **TINY)
    assert done.card is not None
    latest = table.sort_by("day")["price"].to_numpy()[-12:]
    assert set(done.card.rows["y"]) == set(latest)
    kinds = {column.name: column.kind for column in done.columns}
    assert kinds["day"] == "time"


def test_groups_are_never_cut() -> None:
    table = homes(60)
    site = pa.array([f"site {row % 10}" for row in range(60)])
    table = table.append_column("site", site)
    done = fit_table(table, target="price", group="site", **TINY)
    assert done.card is not None
    prices = table["price"].to_numpy()
    held = {
        site[i].as_py() for i in np.flatnonzero(np.isin(prices, done.card.rows["y"]))
    }
    assert len(held) == 2
    assert done.card.n == 12
    assert "site" not in done.model.encoder.needed


def test_a_file_of_its_own_is_measured_on() -> None:
    done = fit_table(homes(40), target="price", test_table=homes(30, seed=1), **TINY)
    assert done.card is not None
    assert done.card.n == 30
    assert done.model.about["rows"] == 40


def test_rows_without_a_target_are_left_out() -> None:
    table = homes(60)
    prices = table["price"].to_pylist()
    prices[3] = prices[10] = None
    table = table.set_column(5, "price", pa.array(prices))
    done = fit_table(table, target="price", test=0, **TINY)
    assert done.card is None
    assert done.model.about["rows"] == 58
    assert done.notes[0] == "2 rows without a target: left out."
    assert "It was not measured" in done.words()
    assert json.dumps(done.to_dict())


def test_warnings_of_the_training_become_notes() -> None:
    order = np.arange(200.0)
    table = {"x": np.tile([0.0, 1.0], 100), "y": np.sin(order / 20) * 5}
    done = fit_table(table, target="y", test=0, **TINY)
    assert any("neighboring rows have alike errors" in note for note in done.notes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"surprise": 1}, r"no settings surprise.*learning_rate"),
        ({"epochs": 3, "members": 0}, "members must be a whole number >= 1"),
        ({"test": 1.5}, r"must be in \[0, 1\), got 1.5"),
        ({"test": 0.95}, "at least 20 rows to learn from"),
        ({"time": "dy"}, "no column 'dy'"),
    ],
    ids=["setting", "value", "share", "few", "column"],
)
def test_mistakes_are_told_before_the_training(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(CalibratedRegressor, "fit", never)
    with pytest.raises(InputError, match=said):
        fit_table(homes(60), target="price", **(TINY | options))


def test_a_target_without_spread_and_an_empty_table() -> None:
    table = {"x": np.arange(50.0), "y": np.full(50, 7.0)}
    with pytest.raises(InputError, match="the target is 7 in all rows"):
        fit_table(table, target="y", **TINY)
    with pytest.raises(InputError, match="no rows below it"):
        fit_table({"x": [], "y": []}, target="y", **TINY)


def test_a_folder_that_is_taken_is_refused_at_once(folder: Path) -> None:
    before = (folder / "model.json").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        fit_table(homes(60), target="price", out=folder, **TINY)
    assert (folder / "model.json").read_bytes() == before


def test_few_groups_come_near_the_share() -> None:
    groups = np.array([0] * 30 + [1] * 30 + [2] * 40)
    learned, held = set_aside(np.arange(100), 0.35, seed=0, groups=groups)
    assert len(held) in (30, 40)
    assert len(learned) + len(held) == 100
    assert len(set(groups[held])) == 1


def test_the_table_to_measure_on_is_looked_at_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CalibratedRegressor, "fit", lambda *_, **__: 1 / 0)
    write_table(tmp_path / "homes.csv", homes(60))
    with pytest.raises(InputError, match="this is the same table"):
        fit_table(
            tmp_path / "homes.csv",
            target="price",
            test_table=tmp_path / "homes.csv",
            **TINY,
        )
    other = homes(30).drop_columns(["city"])
    with pytest.raises(InputError, match="no column 'city'"):
        fit_table(homes(60), target="price", test_table=other, **TINY)


@pytest.mark.parametrize("option", ["time", "group"])
def test_rows_that_are_all_alike_cannot_be_set_aside(option: str) -> None:
    table = homes(60).append_column("same", pa.array([1.0] * 60))
    with pytest.raises(InputError, match="column 'same': all rows have the same value"):
        fit_table(table, target="price", **(TINY | {option: "same"}))


def test_what_is_unusual_in_rows_set_aside_alone_is_noted() -> None:
    table = homes(80).to_pydict()
    table["area"] = [str(each) for each in table["area"]]
    table["area"][78], table["city"][79] = "big", "Kyiv"
    table["garden"] = [str(each) for each in table["garden"]]
    table["garden"][77] = None
    done = fit_table(pa.table(table), target="price", time="day", **TINY)
    assert any("row 80 ('Kyiv')" in note for note in done.notes)
    assert any("row 79 ('big')" in note for note in done.notes)
    assert any("'garden'" in note for note in done.notes)
    assert len(done.notes) == 3


def test_a_decimal_comma_is_told(tmp_path: Path) -> None:
    lines = ["x;y", *(f"{row};{row % 7},{row % 10}25" for row in range(40))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    done = fit_table(tmp_path / "table.csv", target="y", test=0, **TINY)
    assert "the comma is read as the decimal mark" in done.notes[0]


def test_numbers_are_written_as_in_training_unless_a_file_tells(tmp_path: Path) -> None:
    lines = ["x;y", *(f"{row},5;{row % 7}" for row in range(40))]
    (tmp_path / "old.csv").write_text("\n".join(lines))
    whole = "\n".join(["x;z", *["3;0"] * 300, "3,5;0"])
    (tmp_path / "new.csv").write_text(whole)
    model = fit_table(tmp_path / "old.csv", target="y", test=0, **TINY).model
    x = model.features(tmp_path / "new.csv")
    assert (x[0, 0], x[300, 0]) == (3.0, 3.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"random_state": 3}, "random_state is set by the seed"),
        ({"learning_rate": "abc"}, "learning_rate must be a number, got 'abc'"),
        ({"target": 3}, "target must be the name of a column, as text, got 3"),
        ({"drop": [3]}, "drop must be the name of a column"),
        ({"test": "0.2"}, "test must be numbers, got '0'"),
        ({"test": 0.1, "test_table": homes(30)}, "got both"),
    ],
    ids=["seed", "type", "target", "drop", "test", "both"],
)
def test_what_is_handed_in_is_looked_at(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit_table(homes(60), **({"target": "price"} | TINY | options))


def test_one_name_alone_is_a_name() -> None:
    done = fit_table(homes(60), target="price", drop="city", test=0, **TINY)
    assert {c.name: c.kind for c in done.columns}["city"] == "dropped"
