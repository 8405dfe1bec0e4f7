"""From a plan to a page, in seconds."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from calibrant import InputError
from calibrant.paper.plan import Plan, Study, choose_plan
from calibrant.paper.run import report, reproduce

MODULE = sys.modules["calibrant.paper.reproduce"]  # its name is a function's too
TABLES = [f"table-{number}" for number in (1, 2, 3, 4)]


def write_table(path: Path, seed: int) -> str:
    """Write 30 rows of a CSV by a linear rule that no library is needed for."""
    rows = ["first,second,target"]
    for number in range(30):
        a, b = (number * 7 + seed) % 11 / 11, (number * 5 + seed) % 13 / 13
        rows.append(f"{a},{b},{a - b + (number % 3) / 10}")
    path.write_text("\n".join(rows) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reproduce a tiny plan of two generated sets: two folds, two epochs."""
    folder = tmp_path_factory.mktemp("tiny")
    data = tuple(write_table(folder / f"{name}.csv", len(name)) for name in ("a", "bb"))
    study = Study(data=data, epochs=(2,), recalibrations=("none", "isotonic"), folds=2)
    sweep = Study(data=data[:1], strengths=(0, 5, 20, 50), epochs=(2,), folds=2)
    out = folder / "reproduction"
    found = reproduce(Plan(studies=(study, sweep), name="tiny"), out)
    assert found.added == len(found.records) == 40
    assert found.failures == []
    assert found.page == out / "report.html"
    return out


def test_everything_is_written(done: Path) -> None:
    for name in TABLES:
        for ending in ("md", "tex", "csv"):
            assert (done / "tables" / f"{name}.{ending}").stat().st_size > 100
    page = (done / "report.html").read_text()
    assert "bb" in page
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=.?http", page)
    assert (done / "plan.toml").read_text().startswith('name = "tiny"')


def test_the_same_plan_runs_nothing_again(done: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {})
    before = (done / "results.csv").read_bytes()
    page = (done / "report.html").read_bytes()
    assert reproduce(plan, done).added == 0
    assert (done / "results.csv").read_bytes() == before
    assert (done / "report.html").read_bytes() == page


def test_a_plan_that_is_refused_leaves_no_trace(done: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {}, seed=9)
    before = (done / "plan.toml").read_text()
    with pytest.raises(InputError, match="plan, which has seed 9"):
        reproduce(plan, done)
    assert (done / "plan.toml").read_text() == before


def test_a_run_moves_to_another_folder_by_its_csv(done: Path, tmp_path: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {})
    there = tmp_path / "there"
    found = reproduce(plan, there, resume_from=done / "results.csv")
    assert found.added == 0
    assert (there / "results.csv").read_bytes() == (done / "results.csv").read_bytes()


def test_a_report_needs_the_compact_results_only(done: Path, tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_bytes((done / "results.csv").read_bytes())
    found = report(tmp_path)
    assert len(found.records) == 40
    assert (tmp_path / "tables" / "table-1.md").read_text() == (
        done / "tables" / "table-1.md"
    ).read_text()


def test_an_empty_folder_has_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises((InputError, OSError), match=str(tmp_path)):
        report(tmp_path)


def test_options_make_a_plan() -> None:
    plan = choose_plan(None, None, {"data": ["yacht"], "folds": 3}, seed=4)
    assert plan == Plan(studies=(Study(data=("yacht",), folds=3),), seed=4)


def test_only_keeps_some_data_sets() -> None:
    plan = choose_plan("quick", None, {}, only=["concrete"])
    assert {cell.data for cell in plan.cells()} == {"concrete"}
    with pytest.raises(InputError, match="got moon"):
        choose_plan("quick", None, {}, only=["moon"])


def test_options_without_data_and_beside_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="add --data"):
        choose_plan(None, None, {"folds": 3})
    with pytest.raises(InputError, match=r"got .*plan\.toml and folds"):
        choose_plan(None, tmp_path / "plan.toml", {"folds": 3})
    with pytest.raises(InputError, match="got the profile quick and data"):
        choose_plan("quick", None, {"data": ["yacht"]})


def test_the_fixed_split_has_one_fold_by_itself() -> None:
    plan = choose_plan(None, None, {"data": ["year_msd"], "split": "fixed"})
    assert plan.studies[0].folds == 1


def test_finished_cells_of_a_folder_are_never_lost(done: Path, tmp_path: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {})
    kept = tmp_path / "results.csv"
    kept.write_bytes((done / "results.csv").read_bytes())
    small = Plan(studies=(replace(plan.studies[0], data=plan.studies[0].data[:1]),))
    with pytest.raises((InputError, OSError), match="missing"):
        reproduce(small, tmp_path, resume_from=tmp_path / "missing.csv")
    assert reproduce(small, tmp_path).added == 0
    assert kept.read_bytes() == (done / "results.csv").read_bytes()


def test_another_seed_is_not_taken_from_elsewhere(done: Path, tmp_path: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {}, seed=9)
    with pytest.raises(InputError, match="the plan, which has seed 9"):
        reproduce(plan, tmp_path / "new", resume_from=done / "results.csv")
    assert not (tmp_path / "new" / "results.csv").exists()


def test_a_csv_that_cannot_be_read_is_left_alone(done: Path, tmp_path: Path) -> None:
    plan = choose_plan(None, done / "plan.toml", {})
    kept = tmp_path / "results.csv"
    damaged = (done / "results.csv").read_bytes()[:-40]
    kept.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(InputError, match=r"results\.csv"):
            reproduce(plan, tmp_path)
        assert kept.read_bytes() == damaged


def test_what_the_report_misses_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "_LIBRARIES", ("json", "no_such_library"))
    with pytest.raises(InputError, match=r"needs no_such_library.*calibrant\[report\]"):
        reproduce(choose_plan(None, None, {}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
