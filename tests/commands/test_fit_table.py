"""From a table to a model: who learns from what, and what is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from calibrant.commands.evaluate import evaluate_table
from calibrant.commands.fit import TableFit, fit_table
from calibrant.commands.recalibrate import recalibrate_table
from calibrant.commands.table_model import TableModel, described_table
from calibrant.commands.training import TrainingTable, cut_rows, read_training_table
from calibrant.data import load
from calibrant.estimators import CalibratedRegressor
from calibrant.tables import Roles, write_table
from calibrant.validation import InputError
from homes import TINY, homes


def cut_of(table: Any, target: str, share: float = 0.2, **roles: Any) -> TrainingTable:
    return cut_rows(read_training_table(table, target, Roles(**roles)), share, seed=0)


def copies(seed: int = 0) -> dict[str, np.ndarray]:
    """Pure noise, 120 rows five times each."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(120, 5)), random.normal(size=120)
    rows = random.permutation(np.repeat(np.arange(120), 5))
    return {f"x{i}": x[rows, i] for i in range(5)} | {"y": y[rows]}


def patients() -> dict[str, np.ndarray]:
    """120 patients, five visits each: features and target are the patient's, noise."""
    random = np.random.default_rng(0)
    who, visit = np.repeat(np.arange(120), 5), np.tile(np.arange(5.0), 120)
    x, y = random.normal(size=(120, 3)), random.normal(size=120)
    day = visit + random.uniform(size=120)[who]
    return {"patient": who, "day": day, "y": y[who]} | {
        f"x{i}": x[who, i] for i in range(3)
    }


def bundled(name: str) -> dict[str, np.ndarray]:
    data = load(name)
    columns = {each: data.x[:, i] for i, each in enumerate(data.features)}
    return columns | {"y": data.y}


@pytest.mark.parametrize(
    "table",
    [copies(), bundled("concrete"), bundled("white_wine")],
    ids=["copies", "concrete", "white wine"],
)
def test_rows_with_equal_features_are_on_one_side(table: dict[str, np.ndarray]) -> None:
    cut = cut_of(table, "y")
    x = np.column_stack([values for name, values in table.items() if name != "y"])
    learned = {row.tobytes() for row in x[cut.learned]}
    assert sum(row.tobytes() in learned for row in x[cut.held]) == 0
    count = len(cut.known)
    assert len(cut.learned) + len(cut.held) == count
    assert len(cut.held) == pytest.approx(0.2 * count, abs=5)


def test_an_identifier_does_not_hide_copies() -> None:
    table: dict[str, Any] = copies()
    table["id"] = [f"r{row}" for row in range(600)]
    cut = cut_of(table, "y")
    assert not set(table["x0"][cut.learned]) & set(table["x0"][cut.held])


@pytest.mark.parametrize("panel", [False, True], ids=["staggered", "panel"])
def test_time_and_group_together_hold_out_later_rows_of_other_groups(
    panel: bool,
) -> None:
    table = patients()
    if panel:
        table["day"] = np.tile(np.arange(5.0), 120)
    cut = cut_of(table, "y", time="day", group="patient")
    who, day = table["patient"], table["day"]
    assert not set(who[cut.held]) & set(who[cut.learned])
    assert day[cut.learned].max() < day[cut.held].min()
    assert (len(cut.learned), len(cut.held)) == (240, 60)
    assert cut.notes[-1].startswith("300 rows left out: groups with rows before and")
    assert cut.how == "time and group"


def test_copies_do_not_flatter_a_model_of_noise() -> None:
    """Trained to the end on copies of noise, it is over-confident, and said to be."""
    overfit: dict[str, Any] = {"patience": None, "epochs": 60, "learning_rate": 0.03}
    settings = TINY | {"hidden": (32,), "batch_size": "auto"} | overfit
    done = fit_table(copies(), target="y", test=0.4, **settings)
    assert done.card is not None
    random = np.random.default_rng(9)
    x, y = random.normal(size=(2000, 5)), random.normal(size=2000)
    pit = done.model.distribution(x).cdf(torch.from_numpy(y)).numpy()
    covered = float((abs(2 * pit - 1) <= 0.9).mean())
    assert done.card["coverage_90"] == pytest.approx(covered, abs=0.1)
    assert "The model is worse than predicting the mean" in done.accuracy()
    assert "240 held-out rows come in 48 independent sets" in done.notes[0]


def test_rows_of_the_training_are_not_measured_as_unseen() -> None:
    table, random = copies(), np.random.default_rng(1)
    shuffled = {name: values[::-1] for name, values in table.items()}
    with pytest.raises(InputError, match="600 rows of 600 stand in the training table"):
        fit_table(table, target="y", test_table=shuffled, **TINY)
    new = {name: random.uniform(size=50) for name in table}
    mixed = {n: np.concatenate((new[n][:1], table[n][:7], new[n][1:])) for n in table}
    done = fit_table(table, target="y", test_table=mixed, **TINY)
    assert done.card is not None
    np.testing.assert_array_equal(done.card.rows["y"], new["y"])
    (note,) = done.notes
    assert "7 rows of 57 stand in the training table" in note
    assert "the first is row 2: they are not measured" in note


def test_groups_of_the_training_are_not_measured_as_unseen() -> None:
    table = patients()
    other = {name: values[:40].copy() for name, values in table.items()}
    other["patient"][10:] += 1000
    other["day"] += 100
    options: dict[str, Any] = {"time": "day", "group": "patient"} | TINY
    done = fit_table(table, target="y", test_table=other, **options)
    assert done.card is not None
    assert done.card.n == 30
    assert any("10 rows of 40 stand in the training" in note for note in done.notes)


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
    assert fitted.words().startswith("Your 90 % intervals covered ")
    assert (
        "of 60 unseen rows; a perfectly calibrated model would cover 81.7 to 96.7 %."
        in fitted.words()
    )
    cut = cut_of(homes(300), "price")
    assert fitted.model.about["rows"] == len(cut.learned) == 240
    prices = homes(300)["price"].to_numpy()[cut.held]
    np.testing.assert_array_equal(fitted.card.rows["y"], prices)


def test_what_was_set_aside_teaches_nothing(fitted: TableFit) -> None:
    """Neither the networks nor the medians and levels of the columns see it."""
    table = homes(300)
    cut = cut_of(table, "price")
    other = table.to_pydict()
    for row in cut.held:
        other["area"][row], other["city"][row] = 1e6, "Kyiv"
        other["price"][row] = -1e9
    again = fit_table(pa.table(other), target="price", **TINY)
    assert again.model.encoder.to_dict() == fitted.model.encoder.to_dict()
    x = fitted.model.features(table)
    np.testing.assert_array_equal(
        again.model.distribution(x).mean.numpy(),
        fitted.model.distribution(x).mean.numpy(),
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
    assert names == ["SHA256SUMS", "arrays.safetensors", "model.json", "report.html"]
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


@pytest.mark.parametrize("time", [None, "day"])
def test_trees_alone_make_a_model(time: str | None, tmp_path: Path) -> None:
    settings = TINY | {"learners": ("boosting",)}
    done = fit_table(
        homes(200), target="price", time=time, out=tmp_path / "model", **settings
    )
    assert done.model.about["plan"].startswith("2 boosted-tree models, 1 for each row")
    assert done.model.about["epochs"] is None
    assert done.page is not None
    again = TableModel.load(tmp_path / "model")
    means = [m.predict_distribution(homes(50)).mean for m in (done.model, again)]
    assert torch.equal(*means)


def test_an_interrupt_among_the_trees_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.estimators.pool.grow", interrupted)
    settings = TINY | {"learners": ("network", "boosting")}
    done = fit_table(homes(200), target="price", test=0, **settings)
    assert done.interrupted
    assert any("what was finished is kept" in note for note in done.notes)


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
    table["y"] = 1e14 + np.random.default_rng(0).normal(size=200)
    done = fit_table(table, target="y", test=0, **TINY)
    assert any("Subtract 1e+14 from all targets" in note for note in done.notes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"surprise": 1}, r"no parameters surprise.*learning_rate"),
        ({"epochs": 3, "members": 0}, "members must be a whole number from 1"),
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
    table = {"x": np.arange(100.0), "site": groups, "y": np.arange(100.0)}
    cut = cut_of(table, "y", share=0.35, group="site")
    assert len(cut.held) in (30, 40)
    assert len(cut.learned) + len(cut.held) == 100
    assert len(set(groups[cut.held])) == 1


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
        ({"random_state": 3}, "random_state= is set by seed="),
        ({"learning_rate": "abc"}, "learning_rate must be a number, got 'abc'"),
        ({"target": 3}, "target must be the name of a column, as text, got 3"),
        ({"drop": [3]}, "drop must be the name of a column"),
        ({"test": "0.2"}, "test must be numbers, got '0.2'"),
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


SMALL: dict[str, Any] = TINY | {"hidden": (16,), "epochs": 40}


def series(slope: float, rows: int = 250) -> dict[str, Any]:
    """A line in time, a feature, and noise of 1, a row for each day."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, rows)
    y = slope * np.arange(rows) + 2 * x + random.normal(size=rows)
    day = np.datetime64("2024-01-01") + np.arange(rows)
    return {"day": pa.array(day), "x": x, "y": y}


@pytest.fixture(scope="module")
def trending(tmp_path_factory: pytest.TempPathFactory) -> TableFit:
    out = tmp_path_factory.mktemp("trending") / "model"
    return fit_table(series(0.1), target="y", time="day", out=out, **SMALL)


def test_a_line_in_time_goes_on_beyond_the_training(trending: TableFit) -> None:
    assert trending.card is not None
    assert trending.model.trend is not None
    assert trending.model.trend.slope == pytest.approx(0.1, abs=0.01)
    assert trending.card["rmse"] < 1.5
    assert trending.card["coverage_90"] > 0.7
    assert any("follows a line in 'day: position'" in note for note in trending.notes)
    assert list(trending.baselines) == [
        "the mean of the training rows",
        "their last value",
    ]
    assert trending.baselines["the mean of the training rows"] > 8
    assert f"R2 {trending.card['r2']:.2f}: RMSE" in trending.accuracy()
    assert "worse" not in trending.accuracy()


def test_the_line_moves_the_distribution_and_nothing_else(trending: TableFit) -> None:
    model = trending.model
    x = model.features(series(0.1))
    law, plain = model.distribution(x), model.regressor.model_.distribution(x)
    line = torch.from_numpy(model.line(x))
    assert float(line[1] - line[0]) == pytest.approx(model.trend.slope)  # type: ignore[union-attr]
    level = torch.full((len(x),), 0.05)
    torch.testing.assert_close(law.quantile(level), plain.quantile(level) + line)
    torch.testing.assert_close(law.log_prob(line), plain.log_prob(0 * line))


def test_the_line_is_saved_measured_and_recalibrated(
    trending: TableFit, tmp_path: Path
) -> None:
    assert trending.folder is not None
    again = TableModel.load(trending.folder)
    assert again.trend == trending.model.trend
    late = {name: values[200:] for name, values in series(0.1).items()}
    assert evaluate_table(again, late).card["rmse"] < 1.5
    newer = recalibrate_table(again, late, tmp_path / "new")
    assert newer.after["rmse"] < 1.5
    assert TableModel.load(tmp_path / "new").trend == again.trend
    known = {"encoder": again.encoder.to_dict(), "target": "y", "about": {}}
    for damage in ({"feature": "z"}, {"slope": "steep"}, {"center": float("inf")}):
        parts = {"feature": "x", "slope": 1.0, "center": 0.0} | damage
        with pytest.raises(InputError, match="its trend must be a line"):
            described_table(known | {"trend": parts})


@pytest.mark.parametrize(
    ("slope", "options"),
    [(0.0, {}), (0.1, {"drop": "day"}), (0.1, {"bounds": (-50, 50)})],
    ids=["flat", "dropped", "bounds"],
)
def test_no_line_where_there_is_none_or_it_is_not_wanted(
    slope: float, options: dict[str, Any]
) -> None:
    done = fit_table(series(slope), target="y", time="day", **(SMALL | options))
    assert done.model.trend is None
    assert ("day" in done.model.encoder.needed) == ("drop" not in options)
    assert ("their last value for every row" in done.accuracy()) == (slope > 0)


def test_many_levels_are_learned_without_the_targets_of_their_rows(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    level = random.integers(60, size=600)
    y = 5.0 * random.normal(size=60)[level] + random.normal(size=600)
    table = {"site": [f"s{n}" for n in level], "x": random.normal(size=600), "y": y}
    done = fit_table(table, target="y", out=tmp_path / "model", **TINY)
    assert done.model.encoder.feature_names[0] == "site: mean target"
    cut = cut_of(table, "y")
    encoder = done.model.encoder
    full = encoder.encode(cut.data, name="t")
    x = cut.without_own_targets(encoder, full, 0)
    assert (x[cut.held] == full[cut.held]).all()
    # A row alone in its level has a feature that would be its target.
    residual = y - full[:, 0]
    own = np.corrcoef(x[cut.learned, 0], residual[cut.learned])[0, 1]
    assert own < 0.02
    again = TableModel.load(tmp_path / "model")
    assert (again.features(table) == done.model.features(table)).all()
