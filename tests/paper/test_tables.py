"""Tables from records: complete, partial and none at all."""

import csv
import dataclasses
import io
import math
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from calibrant.paper.claims import verdicts
from calibrant.paper.ledger import LEVELS, Arm, Cell, Record
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    Model,
    lookup,
)
from calibrant.paper.results import by_arm
from calibrant.paper.tables import (
    Column,
    Entry,
    Grid,
    agreement_grid,
    arm_grid,
    arm_overview,
    disagreement_grid,
    errata_grid,
    error_overview,
    paper_tables,
    shuffled_grid,
    tables,
    to_csv,
    to_latex,
    to_markdown,
    to_screen,
    verdict_grid,
    verdict_overview,
    write_grids,
)
from page_records import measured


def record(cell: Cell, error: float, nll: float = 1.0) -> Record:
    noise = np.random.default_rng([cell.repeat, cell.fold, int(cell.strength)])
    wobble = 1 + 0.01 * noise.normal()
    return measured(
        cell,
        train_rows=80,
        test_rows=20,
        calibration_error=error * wobble,
        floor=1.5,
        nll=nll,
        curve=(20,) * LEVELS,
    )


def error_of(arm: Arm) -> float:
    found = 20.0 if arm.strength else 40.0
    return found * 2 if arm.recalibration == ISOTONIC else found


def run(arms: Iterable[Arm], repeats: int = 2) -> list[Record]:
    return [
        record(
            Cell(**dataclasses.asdict(arm), repeat=repeat, fold=fold),
            error_of(arm),
            math.inf if arm.recalibration == ISOTONIC else 1.0,
        )
        for arm in arms
        for repeat in range(repeats)
        for fold in range(arm.folds)
    ]


def paper_run(data: Iterable[str], *models: Model) -> list[Record]:
    return run(
        model.arm(name, training, after)
        for name in data
        for model in models
        for training in ("base", "qr")
        for after in ("none", ISOTONIC)
    )


def row_of(grid: Grid, title: str) -> dict[tuple[str, str], Entry]:
    for row in grid.rows:
        if row[0].text == title:
            return {
                (column.group, column.title): entry
                for column, entry in zip(grid.columns, row, strict=True)
            }
    raise AssertionError(title)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    models = Model(MC_DROPOUT), Model(ENSEMBLE), Model(ENSEMBLE, 64)
    return paper_run(("concrete", "fish"), *models)


def test_ours_stand_beside_theirs(records: list[Record]) -> None:
    first, second, third, fourth = paper_tables(by_arm(records))
    row = row_of(first, "Concrete")
    printed = lookup("concrete", MC_DROPOUT, "base", "none", "calibration_error")
    assert printed is not None
    assert row["Calibration error", "base, paper"].text == "58.75 ± 8.31"
    assert row["Calibration error", "base, paper"].value == printed.mean
    base, qr = (row["Calibration error", f"{t}, ours"] for t in ("base", "QR"))
    assert base.value == pytest.approx(40, rel=0.02)
    assert "±" in base.text
    assert (base.emphasis, qr.emphasis) == (False, True)
    assert "clearly lower" in qr.detail
    assert row["Calibration error", "floor"].value == 1.5
    # RMSE is the same for both: nothing is bold.
    assert not row["RMSE", "QR, ours"].emphasis
    row = row_of(third, "Fish *")
    assert row["QR", "isotonic, ours"].value == pytest.approx(40, rel=0.02)
    assert row["base", "isotonic, paper"].text == "6.09 ± 0.56"
    assert row["floor", "isotonic"].value == 1.5
    # Each set has a row for each number of epochs.
    assert [c.title for c in second.columns[:2]] == ["Data set", "Epochs"]
    assert len(first.rows) == 10
    assert len(second.rows) == len(fourth.rows) == 20


def test_what_was_not_run_says_so(records: list[Record]) -> None:
    first = paper_tables(by_arm(records))[0]
    row = row_of(first, "Year Prediction MSD")
    assert row["NLL", "QR, ours"].text == "not run"
    assert row["NLL", "QR, ours"].value is None
    assert row["NLL", "QR, paper"].value == 3.42
    partial = [r for r in records if r.cell.repeat == 0 and r.cell.fold < 3]
    row = row_of(paper_tables(by_arm(partial))[0], "Concrete")
    assert row["RMSE", "base, ours"].text == "partial: 3 of 5 folds"
    one = [r for r in records if r.cell.repeat == 0]
    entry = row_of(paper_tables(by_arm(one))[0], "Concrete")["RMSE", "base, ours"]
    assert entry.text == "1.00"
    assert entry.detail.startswith("1 repeat;")


def test_disagreements_have_causes_and_agreement_is_counted(
    records: list[Record],
) -> None:
    grid = disagreement_grid(by_arm(records))
    found = {(row[0].text, row[1].text, row[3].text): row[-1].text for row in grid.rows}
    # The last row of concrete is QR: what is known is of base.
    assert found["Concrete", "MC dropout, 100 epochs", "RMSE"] == "unexplained"
    assert "where one is known" in grid.caption
    # Ours is lower there, so that it is not because it overfits more.
    assert found["Fish", "Deep ensemble, 100 epochs", "NLL"] == "unexplained"
    assert "second guess" in found["Fish", "Deep ensemble, 64 epochs", "NLL"]
    # RMSE 1.00 against 0.92 and 0.96: one of the two is within 5 %.
    fish = [r for r in grid.rows if r[0].text == "Fish" and r[3].text == "RMSE"]
    assert [r[2].text for r in fish if r[1].text.startswith("MC")] == ["base"]
    counts = agreement_grid(by_arm(records))
    assert [row[1].text for row in counts.rows] == ["2", "2", "2"]
    assert counts.rows[0][4].value == 0
    assert f"of {2 * 3 * 8} numbers" in grid.caption


def test_a_model_that_was_not_run_has_no_counts() -> None:
    grid = agreement_grid(by_arm(paper_run(["fish"], Model(MC_DROPOUT))))
    dropout, ensemble = grid.rows
    assert [entry.text for entry in ensemble[1:]] == ["not run"] * 5
    assert [entry.text for entry in dropout[1:4]] == ["1", "0 of 1", "0 of 1"]
    base = run([Model(MC_DROPOUT).arm("fish")])
    texts = [entry.text for entry in agreement_grid(by_arm(base)).rows[0][1:]]
    assert texts[2:4] == ["not run", "not run"]


def test_rows_of_two_numbers_of_folds_differ() -> None:
    arm = Model(MC_DROPOUT).arm("fish")
    records = run([arm, dataclasses.replace(arm, folds=2)])
    grid = arm_grid(by_arm(records), shuffled=False)
    heads = [column.title for column in grid.columns]
    assert {row[heads.index("Folds")].text for row in grid.rows} == {"5", "2"}
    shuffled = [
        dataclasses.replace(arm, split="shuffled", folds=folds) for folds in (5, 2)
    ]
    rows = [row[0].text for row in shuffled_grid(by_arm(run(shuffled))).rows]
    assert sorted(rows) == ["MC dropout", "MC dropout, 2 folds"]


def shuffled_run() -> list[Record]:
    arms = [
        Arm(data=data, split="shuffled", network=MC_DROPOUT, recalibration=after)
        for data in PAPER_DATA[:7]
        for after in ("none", ISOTONIC)
    ]
    arms += [
        dataclasses.replace(arm, regularizer="quantile_distance", strength=6.0)
        for arm in arms
        if arm.recalibration == "none"
    ]
    return run(arms)


def test_overview_of_shuffled_folds() -> None:
    grid = shuffled_grid(by_arm(shuffled_run()))
    rows = {row[0].text: row for row in grid.rows}
    best = rows["MC dropout + quantile distance 6"]
    assert grid.rows[0] is best
    assert best[2].value == pytest.approx(0.5, rel=0.02)
    assert [entry.value for entry in best[3:5]] == [7, 0]
    worst = rows["MC dropout + isotonic"]
    assert worst[4].value == 7
    assert worst[6].text == "inf"
    assert rows["MC dropout"][2].value == 1.0


def test_all_tables_of_any_records(records: list[Record], tmp_path: Path) -> None:
    names = [grid.name for grid in tables(by_arm(records + shuffled_run()))]
    assert names == [
        "table-1",
        "table-2",
        "table-3",
        "table-4",
        "agreement",
        "disagreements",
        "shuffled",
        "arms-shuffled",
        "arms-paper",
    ]
    assert len(tables(by_arm([]))) == 6
    odd = record(Cell(data="a.csv", network="default", folds=2, epochs=2), 3.0)
    grids = [*tables(by_arm([odd])), errata_grid()]
    assert grids[-2].rows[0][4].text == "partial: 1 of 2 folds"
    write_grids(tmp_path / "new", grids)
    assert len(list((tmp_path / "new").iterdir())) == 3 * len(grids)
    assert (
        (tmp_path / "new" / "table-1.md").read_text("utf-8").startswith("### Table 1")
    )


def test_every_table_is_plain_latex(records: list[Record]) -> None:
    grids = [*tables(by_arm(records)), errata_grid(), verdict_grid(verdicts(records))]
    for grid in grids:
        assert to_latex(grid).isascii(), grid.name


@pytest.fixture
def grid() -> Grid:
    return Grid(
        name="small",
        title="A title",
        caption="50 % of A & B_c.",
        columns=(
            Column("set"),
            Column("ours", "error", numeric=True),
            Column("paper", "error", numeric=True),
            Column("note"),
        ),
        rows=(
            (
                Entry("red_wine *"),
                Entry("1.23 ± 0.10", 1.23456789012345, "p = 0.01", True),
                Entry("n/a"),
                Entry("a|b, λ <2>"),
            ),
            (Entry("[odd]"), Entry("inf", float("inf")), Entry("2", 2.0), Entry("")),
        ),
        notes=("A note.", "Another."),
    )


def test_markdown(grid: Grid) -> None:
    lines = to_markdown(grid).splitlines()
    assert lines[0] == "### A title"
    assert lines[4] == "| set | error: ours | error: paper | note |"
    assert lines[5] == "|:--|--:|--:|:--|"
    assert lines[6] == r"| red_wine \* | **1.23 ± 0.10** | n/a | a\|b, λ <2> |"
    assert lines[-1] == "Another."


def test_csv_has_exact_numbers_where_there_are_some(grid: Grid) -> None:
    head, first, second = csv.reader(io.StringIO(to_csv(grid)))
    assert head == ["set", "error: ours", "error: paper", "note"]
    assert first == ["red_wine *", "1.23456789012345", "n/a", "a|b, λ <2>"]
    assert second == ["[odd]", "inf", "2.0", ""]


def test_latex_is_escaped_balanced_and_has_equal_rows(grid: Grid) -> None:
    text = to_latex(grid)
    assert r"50 \% of A \& B\_c." in text
    assert r"\textbf{1.23 $\pm$ 0.10}" in text
    assert r"a\textbar{}b, $\lambda$ $<$2$>$" in text
    assert r" & \multicolumn{2}{c}{error} &  \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert "{}[odd]" in text
    assert r"\begin{tabular}{lrrl}" in text
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    for line in body.strip().splitlines():
        assert len(re.findall(r"(?<!\\)&", line)) == 3
    assert text.count(r"\begin") == text.count(r"\end")
    assert text.isascii()


def yacht(error: float, **changes: object) -> list[Record]:
    cell = Cell(data="yacht", network="mc_dropout")
    cells = (dataclasses.replace(cell, fold=fold, **changes) for fold in range(5))  # type: ignore[arg-type]
    return [measured(c, calibration_error=error, floor=16.6, nll=1.0) for c in cells]


BASE = yacht(40.0)
QR = yacht(30.0, regularizer="cumulative_kl", strength=20.0)
OTHER = yacht(
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
    assert row[0].endswith("Our default + out of fold, 5 unshuffled folds, 100 epochs")
    assert row[1:] == ["7.00", "16.60", "1.00", "1.00"]
    assert texts(arm_overview(by_arm(BASE))) == []


def test_claims_have_a_column_for_each_model() -> None:
    grid = verdict_overview(verdicts([*BASE, *QR]))
    assert grid.columns[0].title == "Claim"
    assert any("MC dropout" in column.title for column in grid.columns)
    assert all(len(row) == len(grid.columns) for row in grid.rows)
    assert verdict_overview(verdicts([]), "own").rows == ()


def test_a_terminal_cuts_long_names_and_long_tables() -> None:
    many = [r for n in range(20) for r in yacht(7.0, data=f"{'long' * 30}{n}.csv")]
    console = Console(file=io.StringIO(), width=60)
    console.print(to_screen(arm_overview(by_arm(many))))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "The report has 8 more." in shown
    assert "…" in shown
    assert shown.count("7.00") == 12
