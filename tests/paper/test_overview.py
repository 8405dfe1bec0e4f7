"""The result in small tables."""

from dataclasses import replace

from calibrant.paper.claims import verdicts
from calibrant.paper.ledger import Cell, Record
from calibrant.paper.results import by_arm
from calibrant.paper.tables import arm_overview, error_overview, verdict_overview
from page_records import measured


def arm(error: float, **changes: object) -> list[Record]:
    cell = Cell(data="yacht", network="mc_dropout")
    cells = (replace(cell, fold=fold, **changes) for fold in range(5))  # type: ignore[arg-type]
    return [measured(c, calibration_error=error, floor=16.6, nll=1.0) for c in cells]


BASE = arm(40.0)
QR = arm(30.0, regularizer="cumulative_kl", strength=20.0)
OTHER = arm(
    7.0, data="own.csv", folds=5, recalibration="out_of_fold", network="default"
)


def texts(grid: object) -> list[list[str]]:
    return [[entry.text for entry in row] for row in grid.rows]  # type: ignore[attr-defined]


def test_base_and_regularized_stand_beside_the_paper() -> None:
    (row,) = texts(error_overview(by_arm([*BASE, *QR, *OTHER])))
    assert row[:3] == ["Yacht", "55.21 → 40.08", "40.00 → 30.00"]
    assert row[-1] == "16.60"
    (alone,) = texts(error_overview(by_arm(BASE)))
    assert alone[2] == "40.00 → -"


def test_other_models_are_listed_by_themselves() -> None:
    (row,) = texts(arm_overview(by_arm([*BASE, *QR, *OTHER])))
    assert row[0].endswith("Our default, out_of_fold, 5 unshuffled folds, 100 epochs")
    assert row[1:] == ["7.00", "16.60", "1.00", "1.00"]
    assert texts(arm_overview(by_arm(BASE))) == []


def test_claims_have_a_column_for_each_model() -> None:
    grid = verdict_overview(verdicts([*BASE, *QR]))
    assert grid.columns[0].title == "Claim"
    assert any("MC dropout" in column.title for column in grid.columns)
    assert all(len(row) == len(grid.columns) for row in grid.rows)
    assert verdict_overview(verdicts([]), "own").rows == ()
