"""Models measured on tables, and calibrations refreshed by them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from calibrant.commands import measuring
from calibrant.commands.evaluate import Requirement, evaluate_table
from calibrant.commands.fit import TableFit, fit_table
from calibrant.commands.recalibrate import recalibrate_table
from calibrant.commands.table_model import TableModel
from calibrant.estimators.pool import cross_fitted
from calibrant.metrics.scorecard import evaluate
from calibrant.tables import Style, write_table
from calibrant.validation import InputError
from homes import TINY, homes


def test_the_card_is_that_of_the_distribution(fitted: TableFit, tmp_path: Path) -> None:
    table = homes(120, seed=8)
    write_table(tmp_path / "labeled.csv", table)
    done = evaluate_table(
        fitted.model,
        tmp_path / "labeled.csv",
        by=["id", "city"],
        report=tmp_path / "page.html",
    )
    predictive = fitted.model.predict_distribution(table)
    expected = evaluate(predictive, table["price"].to_numpy())
    for name in ("nll", "crps", "coverage_90", "calibration_error", "rmse"):
        assert done.card[name] == pytest.approx(expected[name], rel=1e-6)
    day = "day (days since the first)"
    assert {"area", "city", "garden", day, "id"} <= set(done.card.groups)
    labels = {group.label for group in done.card.groups["city"]}
    assert labels == {"Lima", "Oslo", "Rome"}
    assert done.page is not None
    assert "labeled.csv" in done.page.read_text()
    assert json.dumps(done.to_dict(), default=str)
    assert done.words().startswith("Your 90 % intervals covered")


def test_notes_count_rows_that_have_a_target(fitted: TableFit) -> None:
    table = homes(60, seed=9)
    lost = {"price": (0, 7), "garden": (0, 4, 7, 30)}
    for name, rows in lost.items():
        cells = table[name].to_pylist()
        cells = [None if row in rows else cell for row, cell in enumerate(cells)]
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(cells))
    notes = [
        note for note in evaluate_table(fitted.model, table).notes if "garden" in note
    ]
    assert len(notes) == 1
    assert "2 rows have no 'garden', which training always had, filled" in notes[0]
    assert notes[0].endswith("the first is row 5.")
    # Learned, such rows say nothing of the others, which are complete.
    whole = table.filter(pc.is_valid(table["garden"]))
    rows = pa.concat_tables([table.slice(0, 1), whole, table.slice(7, 1)])
    done = fit_table(rows, target="price", test=0, **TINY)
    assert done.notes[0] == "2 rows without a target: left out."
    assert not [note for note in done.notes if "garden" in note]


def test_ids_beyond_floats_stay_apart(fitted: TableFit) -> None:
    ids = [2**60 + place % 3 for place in range(120)]
    table = homes(120, seed=8).append_column("site", pa.array(ids))
    done = evaluate_table(fitted.model, table, by=["site"])
    found = {group.label for group in done.card.groups["site"]}
    assert found == {str(2**60 + place) for place in range(3)}


def test_missing_targets_are_left_out(fitted: TableFit) -> None:
    table = homes(60, seed=9)
    prices = table["price"].to_pylist()
    prices[0] = None
    some = table.set_column(5, "price", pa.array(prices))
    done = evaluate_table(fitted.model, some)
    assert done.card.n == 59
    assert "1 row without a target: not measured." in done.notes


def test_of_very_many_rows_a_choice_is_measured(
    fitted: TableFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MOST_ROWS", 30)
    table = homes(200, seed=10)
    source = fitted.model.open(table)
    chosen = measuring.read_labeled(fitted.model, source, seed=1)
    assert len(chosen.y) == 30
    assert (np.diff(chosen.rows) > 0).all()
    np.testing.assert_array_equal(chosen.y, table["price"].to_numpy()[chosen.rows - 1])
    assert chosen.notes[-1] == "A random choice of 30 of 200 rows is measured."
    again = measuring.read_labeled(fitted.model, source, seed=2)
    assert set(again.rows) != set(chosen.rows)


def test_groups_are_numbers_if_all_of_them_are(fitted: TableFit) -> None:
    table = homes(60, seed=14)
    store = pa.array([str(1 + row % 3) for row in range(59)] + ["X"])
    table = table.append_column("store", store)
    source = fitted.model.open(table)
    found = measuring.read_labeled(fitted.model, source, by=("store", "area"))
    assert sorted(set(found.groups["store"])) == ["1", "2", "3", "X"]
    assert found.groups["area"].dtype == np.float64


def test_marks_of_missing_values_are_remembered_for_the_target() -> None:
    table = homes(80)
    prices = table["price"].to_pylist()
    prices[5:15] = [-999.0] * 10
    marked = table.set_column(5, "price", pa.array(prices))
    style = Style(missing=("-999", "-999.0"))
    done = fit_table(marked, target="price", style=style, test=0, **TINY)
    assert done.model.about["rows"] == 70
    assert evaluate_table(done.model, marked).card.n == 70


@pytest.mark.parametrize(
    ("held", "at_least", "met"),
    [
        (0.93, False, True),
        (0.94, False, False),
        (0.94, True, True),
        (0.87, True, True),
        (0.86, False, False),
        (0.86, True, False),
    ],
)
def test_a_requirement_is_met_within_its_tolerance(
    held: float, at_least: bool, met: bool
) -> None:
    asked = Requirement(0.9, 0.03, at_least, held, 100)
    assert asked.met is met
    assert ("NOT met" in asked.words()) is not met
    assert f"covered {100 * held:.1f} % of 100 rows" in asked.words()
    assert "a perfect model shows 84.0 to 95.0 %" in asked.words()


def test_the_coverage_that_is_required_is_measured(fitted: TableFit) -> None:
    done = evaluate_table(fitted.model, homes(80, seed=11), require_coverage=0.8)
    assert done.requirement is not None
    assert done.requirement.covered == done.card["coverage_80"]


def test_recent_rows_refresh_the_calibration(
    fitted: TableFit, folder: Path, tmp_path: Path
) -> None:
    recent = homes(200, seed=12)
    shifted = pa.array(recent["price"].to_numpy() + 150)
    recent = recent.set_column(5, "price", shifted)
    done = recalibrate_table(folder, recent, tmp_path / "new")
    assert done.before["coverage_90"] < 0.7
    assert 0.83 < done.after["coverage_90"] < 0.97
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["SHA256SUMS", "arrays.safetensors", "model.json", "report.html"]
    again = TableModel.load(tmp_path / "new")
    assert again.about["recalibrated"]["rows"] == 200
    fresh = homes(150, seed=13)
    fresh = fresh.set_column(5, "price", pa.array(fresh["price"].to_numpy() + 150))
    assert 0.8 < evaluate_table(again, fresh).card["coverage_90"] < 0.98
    old = TableModel.load(folder).predict_distribution(fresh).mean
    assert (old == fitted.model.predict_distribution(fresh).mean).all()
    assert done.words().startswith("Before: Your 90 % intervals covered")
    assert json.dumps(done.to_dict(), default=str)


def test_copies_of_a_recent_row_share_a_fold(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[np.ndarray] = []

    def spied(distributions: Any, folds: Any) -> Any:
        found.append(folds)
        return cross_fitted(distributions, folds)

    monkeypatch.setattr("calibrant.estimators.pool.cross_fitted", spied)
    recent = homes(40, seed=12)
    recalibrate_table(folder, pa.concat_tables([recent] * 3))
    assert np.array_equal(*found[0].reshape(3, 40)[:2])
    assert np.array_equal(*found[0].reshape(3, 40)[1:])


def test_too_few_recent_rows(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"at least 25 rows .* got 24"):
        recalibrate_table(folder, homes(24), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert recalibrate_table(folder, homes(25), recalibrator="scale").folder is None


def test_the_table_of_the_training_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "homes.csv"
    write_table(path, homes(60))
    model = fit_table(path, target="price", test=0, **TINY).model
    said = "is the table that the model was trained on"
    assert said in evaluate_table(model, path).notes[0]
    assert said in recalibrate_table(model, path).notes[0]
    write_table(path, homes(61))
    assert not any(said in note for note in evaluate_table(model, path).notes)


def test_rounded_targets_are_counted_both_ways(fitted: TableFit) -> None:
    table = homes(200, seed=15)
    coarse = pa.array(table["price"].to_numpy().round(-2))
    done = evaluate_table(fitted.model, table.set_column(5, "price", coarse))
    assert done.words().startswith("Counting each target by the share of its step, ")
    assert "of the targets lie within their 90 % interval" in done.notes[-1]


def test_a_tolerance_alone_is_refused(fitted: TableFit) -> None:
    with pytest.raises(InputError, match="got it alone"):
        evaluate_table(fitted.model, homes(30), tolerance=0.1)


def test_a_report_takes_no_place_of_something_else(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert measuring.page_path(None) is None
    assert measuring.page_path(page, tmp_path / "table.csv") == page
    page.write_text("")
    assert measuring.page_path(page, tmp_path / "table.csv") == page
    (tmp_path / "link.html").symlink_to(page)
    with pytest.raises(InputError, match="must not replace what it is about"):
        measuring.page_path(tmp_path / "link.html", page)
    (tmp_path / "folder.html").mkdir()
    for name, said in (
        ("model.json", r"must end in \.html"),
        ("folder.html", "this is a folder"),
        ("none/page.html", "there is no folder"),
    ):
        with pytest.raises(InputError, match=said):
            measuring.page_path(tmp_path / name)
