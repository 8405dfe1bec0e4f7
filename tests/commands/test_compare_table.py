"""Predictions of any model, measured and recalibrated."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from scipy.stats import norm

from calibrant.commands.compare import _Predictions, _recalibrated, compare_table
from calibrant.commands.measuring import measure
from calibrant.metrics.scorecard import evaluate
from calibrant.tables import write_table
from calibrant.validation import InputError


@pytest.fixture(scope="module")
def narrow() -> dict[str, Any]:
    """300 rows of normal distributions with half the spread that they should have."""
    random = np.random.default_rng(0)
    mean = random.normal(size=300)
    return {
        "y": mean + random.normal(size=300),
        "mu": mean,
        "sigma": np.full(300, 0.5),
        "low": mean + 0.5 * norm.ppf(0.1),
        "middle": mean,
        "high": mean + 0.5 * norm.ppf(0.9),
        "site": ["a", "b"] * 150,
    }


def test_means_and_deviations_are_normal_distributions(narrow: dict[str, Any]) -> None:
    done = compare_table(narrow, target="y", mean="mu", std="sigma", by=("site",))
    expected = evaluate((narrow["mu"], narrow["sigma"]), narrow["y"])
    assert done.card["nll"] == pytest.approx(expected["nll"])
    assert done.card["coverage_90"] < 0.7
    assert set(done.card.groups) == {"predicted spread", "site"}
    assert done.fixed is None
    assert done.words().startswith("Your 90 % intervals covered")


def test_the_fix_corrects_the_coverage_and_is_written(
    narrow: dict[str, Any], tmp_path: Path
) -> None:
    write_table(tmp_path / "predictions.csv", pa.table(narrow))
    done = compare_table(
        str(tmp_path / "predictions.csv"),
        target="y",
        mean="mu",
        std="sigma",
        fix=tmp_path / "fixed.csv",
        report=tmp_path / "page.html",
    )
    assert done.fixed is not None
    assert 0.85 < done.fixed["coverage_90"] < 0.95
    fixed = pc.read_csv(tmp_path / "fixed.csv")
    assert fixed.column_names[:7] == list(narrow)
    low, high = fixed["lower_90_recalibrated"], fixed["upper_90_recalibrated"]
    held = (low.to_numpy() <= narrow["y"]) & (narrow["y"] <= high.to_numpy())
    assert held.mean() == pytest.approx(done.fixed["coverage_90"], abs=0.007)
    assert fixed["sigma_recalibrated"].to_numpy().mean() == pytest.approx(1, abs=0.15)
    assert "Recalibrated: Your 90 %" in done.words()
    assert done.page is not None
    assert json.dumps(done.to_dict(), default=str)


def test_no_row_has_a_part_in_its_own_correction(
    narrow: dict[str, Any], tmp_path: Path
) -> None:
    def fixed(y: Any) -> Any:
        table = {**narrow, "y": y}
        path = tmp_path / "fixed.csv"
        compare_table(table, target="y", mean="mu", std="sigma", fix=path)
        return pc.read_csv(path)["upper_90_recalibrated"].to_numpy()

    other = narrow["y"].copy()
    other[7] += 100.0
    before, after = fixed(narrow["y"]), fixed(other)
    same = before == after
    # Its own fold of a fifth of the rows does not know it, the others do.
    assert same[7]
    assert same.sum() == 60


def test_rows_without_a_target_are_corrected_by_all_others(
    narrow: dict[str, Any], tmp_path: Path
) -> None:
    y = [None if row < 100 else each for row, each in enumerate(narrow["y"])]
    done = compare_table(
        {**narrow, "y": y},
        target="y",
        mean="mu",
        std="sigma",
        fix=tmp_path / "fixed.csv",
    )
    assert done.card.n == 200
    assert done.notes == ("100 rows without a target: not measured.",)
    fixed = pc.read_csv(tmp_path / "fixed.csv")
    low = fixed["lower_90_recalibrated"].to_numpy()[:100]
    high = fixed["upper_90_recalibrated"].to_numpy()[:100]
    held = (low <= narrow["y"][:100]) & (narrow["y"][:100] <= high)
    assert 0.8 <= held.mean() <= 0.97


def test_quantiles_are_distributions_too(
    narrow: dict[str, Any], tmp_path: Path
) -> None:
    levels = {"high": 0.9, "low": 0.1, "middle": 0.5}
    done = compare_table(
        narrow, target="y", quantiles=levels, fix=tmp_path / "fixed.parquet"
    )
    assert done.card["coverage_80"] == pytest.approx(0.48, abs=0.07)
    turned = {level: name for name, level in levels.items()}
    assert compare_table(narrow, target="y", quantiles=turned).card == done.card
    assert done.fixed is not None
    assert done.fixed["coverage_80"] == pytest.approx(0.8, abs=0.06)


def test_crossing_quantiles_are_sorted_with_a_note(narrow: dict[str, Any]) -> None:
    low = narrow["low"].copy()
    low[:3] = narrow["high"][:3] + 1
    levels = {"low": 0.1, "middle": 0.5, "high": 0.9}
    done = compare_table({**narrow, "low": low}, target="y", quantiles=levels)
    assert done.notes == ("Crossing quantiles in 3 rows: sorted.",)


def test_what_the_command_line_cannot_say_is_refused(
    narrow: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="got 'low': 'high'"):
        compare_table(narrow, target="y", quantiles={"low": "high"})
    options: dict[str, Any] = {"target": "y", "mean": "mu", "std": "sigma"}
    with pytest.raises(InputError, match="no rows below it"):
        compare_table({"y": [], "mu": [], "sigma": []}, **options)
    taken = {**narrow, "mu_recalibrated": narrow["mu"]}
    with pytest.raises(InputError, match="called as those that are made: mu_recal"):
        compare_table(taken, fix=tmp_path / "fixed.csv", **options)
    assert not list(tmp_path.iterdir())


def test_faults_are_looked_for_in_not_too_many_columns() -> None:
    from calibrant.commands.measuring import Labeled
    from calibrant.distributions.normal import Gaussian

    rows = 30
    labeled = Labeled(
        x=np.empty((rows, 0)),
        y=np.linspace(-1, 1, rows),
        rows=np.arange(rows),
        looks={f"x{i}": np.arange(rows) % 3 for i in range(70)},
    )
    found = measure(Gaussian(np.zeros(rows), np.ones(rows)), labeled)
    assert found.notes == ("Faults were looked for within the first 60 of 70 columns.",)
    assert len(found.card.groups) == 61


def test_of_very_many_rows_a_choice_is_measured_and_all_are_corrected(
    narrow: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.commands.measuring.MOST_ROWS", 100)
    fixed = tmp_path / "fixed.csv"
    done = compare_table(narrow, target="y", mean="mu", std="sigma", fix=fixed)
    assert done.card.n == 100
    assert done.notes == ("A random choice of 100 of 300 rows is measured.",)
    assert pc.read_csv(fixed).num_rows == 300
    assert set(done.card.rows["y"]) <= set(narrow["y"])


def test_copies_of_a_row_share_a_fold() -> None:
    random = np.random.default_rng(0)
    once = np.column_stack((random.normal(size=40), random.uniform(1, 2, 40)))
    foreign = _Predictions(("mu", "sigma"), np.tile(once, (3, 1)))
    y = random.normal(size=120)
    folds = _recalibrated(foreign, y, "beta", 0, "t").map_of_row.reshape(3, 40)
    assert (folds == folds[0]).all()
    assert set(folds[0]) == set(range(5))
