"""Models measured on tables, and calibrations refreshed by them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from calibrant._checks import InputError
from calibrant.estimator.table_model import TableModel
from calibrant.metrics.evaluate import evaluate
from calibrant.tables import write_table
from calibrant.workflows import _labeled
from calibrant.workflows.evaluate_table import Requirement, evaluate_table
from calibrant.workflows.fit_table import TableFit
from calibrant.workflows.recalibrate_table import recalibrate_table
from homes import homes


def test_the_card_is_that_of_the_law(fitted: TableFit, tmp_path: Path) -> None:
    table = homes(120, seed=8)
    write_table(tmp_path / "labeled.csv", table)
    done = evaluate_table(
        fitted.model,
        tmp_path / "labeled.csv",
        by=["id", "city"],
        report=tmp_path / "page.html",
        progress=False,
    )
    law = fitted.model.predict_distribution(table)
    expected = evaluate(law, table["price"].to_numpy())
    for name in ("nll", "crps", "coverage_90", "calibration_error", "rmse"):
        assert done.card[name] == pytest.approx(expected[name], rel=1e-6)
    day = "day (days since the first)"
    assert {"area", "city", "garden", day, "id"} <= set(done.card.groups)
    labels = {group.label for group in done.card.groups["city"]}
    assert labels == {"Lima", "Oslo", "Rome"}
    assert done.page is not None
    assert "labeled.csv" in done.page.read_text()
    assert json.dumps(done.to_dict(), default=str)
    assert done.words().startswith("Your 90 % intervals held")


def test_missing_targets_are_left_out_and_text_is_refused(fitted: TableFit) -> None:
    table = homes(60, seed=9)
    prices = table["price"].to_pylist()
    prices[0] = None
    some = table.set_column(5, "price", pa.array(prices))
    done = evaluate_table(fitted.model, some)
    assert done.card.n == 59
    assert "1 row without a target: left out." in done.notes
    texts = table.set_column(5, "price", pa.array(["1", "dear", *["2"] * 58]))
    with pytest.raises(InputError, match=r"row 2, column 'price'.*'dear'"):
        evaluate_table(fitted.model, texts)
    with pytest.raises(InputError, match="must have the target's column 'price'"):
        evaluate_table(fitted.model, table.drop_columns(["price"]))
    empty = table.set_column(5, "price", pa.nulls(60, pa.float64()))
    with pytest.raises(InputError, match="it has 60 rows without one"):
        evaluate_table(fitted.model, empty)


def test_of_very_many_rows_a_choice_is_measured(fitted: TableFit) -> None:
    table = homes(200, seed=10)
    source = fitted.model.open(table)
    chosen = _labeled.read_labeled(fitted.model, source, most=30, seed=1)
    assert (len(chosen.y), chosen.total) == (30, 200)
    assert (np.diff(chosen.rows) > 0).all()
    np.testing.assert_array_equal(chosen.y, table["price"].to_numpy()[chosen.rows - 1])
    assert chosen.notes[-1] == "A random choice of 30 of 200 rows is measured."
    again = _labeled.read_labeled(fitted.model, source, most=30, seed=2)
    assert set(again.rows) != set(chosen.rows)


def test_a_column_with_names_in_one_part_alone_has_names() -> None:
    parts = [np.array([1.0, 2.0]), np.array(["x", "y"], dtype=object)]
    assert list(_labeled._one_kind(parts)) == ["1.0", "2.0", "x", "y"]
    assert _labeled._one_kind(parts[:1]).dtype == np.float64


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
    assert f"held {100 * held:.1f} % of 100 rows" in asked.words()
    assert "a perfect model shows 84.0 to 95.0 %" in asked.words()


def test_the_coverage_that_is_required_is_measured(fitted: TableFit) -> None:
    done = evaluate_table(fitted.model, homes(80, seed=11), require_coverage=0.8)
    assert done.requirement is not None
    assert done.requirement.held == done.card["coverage_80"]
    with pytest.raises(InputError, match="strictly between 0 and 1, got 90"):
        evaluate_table(fitted.model, homes(80), require_coverage=90)


def test_recent_rows_refresh_the_calibration(
    fitted: TableFit, folder: Path, tmp_path: Path
) -> None:
    recent = homes(400, seed=12)
    shifted = pa.array(recent["price"].to_numpy() + 150)
    recent = recent.set_column(5, "price", shifted)
    done = recalibrate_table(folder, recent, tmp_path / "new", progress=False)
    assert done.before["coverage_90"] < 0.7
    assert 0.85 < done.after["coverage_90"] < 0.95
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["arrays.safetensors", "model.json", "report.html"]
    again = TableModel.load(tmp_path / "new")
    assert again.about["recalibrated"]["rows"] == 400
    fresh = homes(300, seed=13)
    fresh = fresh.set_column(5, "price", pa.array(fresh["price"].to_numpy() + 150))
    assert 0.84 < evaluate_table(again, fresh).card["coverage_90"] < 0.96
    old = TableModel.load(folder).predict_distribution(fresh).mean
    assert (old == fitted.model.predict_distribution(fresh).mean).all()
    assert done.words().startswith("Before: Your 90 % intervals held")
    assert json.dumps(done.to_dict(), default=str)


def test_too_few_recent_rows(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"at least 25 rows .* got 24"):
        recalibrate_table(folder, homes(24), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert recalibrate_table(folder, homes(25), recalibrator="scale").folder is None
