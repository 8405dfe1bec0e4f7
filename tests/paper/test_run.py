"""Runs that are killed, done by workers, or fail in part."""

import dataclasses
import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import calibrant.paper.run as run_module
from calibrant import InputError
from calibrant._dask import SchedulerError
from calibrant.paper import jobs as jobs_module
from calibrant.paper.jobs import data_of
from calibrant.paper.ledger import Ledger, LedgerError, Record, read_csv
from calibrant.paper.plan import Plan, Study, choose_plan, read_plan
from calibrant.paper.run import report, reproduce, run
from patience import HANGS, HEEDFUL

SCRIPT = f"""
{HEEDFUL}
import sys, time
from pathlib import Path
from calibrant.paper.ledger import Ledger
from calibrant.paper.plan import read_plan
from calibrant.paper.run import run

def add(records):
    if len(ledger.cells()) > 40:  # of 66: it waits to be ended, however late
        time.sleep(600)
    return Ledger.add(ledger, records)

with Ledger(sys.argv[2]) as ledger:
    ledger.add = add
    run(read_plan(Path(sys.argv[1])), ledger, workers=int(sys.argv[3]))
"""


def timeless(records: list[Record]) -> list[Record]:
    """Everything but times and host."""
    return [
        dataclasses.replace(record, seconds=0.0, finished="", host="")
        for record in records
    ]


def end_in_the_middle(plan: Path, path: Path, end: signal.Signals, workers: int) -> int:
    """Run a plan in a process of its own, end it, and count what it has finished."""
    before = cells_in(path)
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(plan), str(path), str(workers)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    ) as process:
        while cells_in(path) <= before and process.poll() is None:
            time.sleep(0.02)
        children = children_of(process.pid)
        process.send_signal(end)
        process.communicate(timeout=HANGS)
    # Workers are nobody's children now, and end when they notice.
    while any(Path(f"/proc/{child}").exists() for child in children):
        time.sleep(0.05)
    return cells_in(path)


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    texts = (task / "children" for task in tasks.iterdir()) if tasks.exists() else ()
    return [int(child) for text in texts for child in text.read_text().split()]


def cells_in(path: Path) -> int:
    """Number of finished cells, 0 as long as there is no file."""
    return len(read_csv(path)) if path.exists() else 0


@pytest.fixture(scope="module")
def plan_file(tiny_plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(str(tiny_plan))
    return path


@pytest.fixture(scope="module")
def undisturbed(plan_file: Path) -> list[Record]:
    with Ledger(plan_file.with_name("undisturbed.csv")) as ledger:
        outcome = run(read_plan(plan_file), ledger)
        assert outcome.added == len(ledger.records()) == 66
        return timeless(ledger.records())


@pytest.mark.slow
@pytest.mark.heavy
def test_killed_again_and_again_it_ends_with_the_same_ledger(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    ends = [(signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGINT, 2)]
    counts = [end_in_the_middle(plan_file, path, end, n) for end, n in ends]
    assert 0 < counts[0] < counts[1] < counts[2] < 66
    with Ledger(path) as ledger:
        outcome = run(read_plan(plan_file), ledger)
        assert outcome.added == 66 - counts[-1]
        assert timeless(ledger.records()) == undisturbed


@pytest.mark.slow
def test_local_processes_give_the_same_ledger(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    with Ledger(tmp_path / "results.csv") as ledger:
        run(read_plan(plan_file), ledger, workers=2)
        assert timeless(ledger.records()) == undisturbed


@pytest.mark.slow
@pytest.mark.heavy
def test_a_dask_cluster_gives_the_same_ledger_though_a_worker_dies(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    options: dict[str, Any] = {"dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        Ledger(tmp_path / "results.csv") as ledger,
    ):
        add = ledger.add

        def add_and_kill(records: list[Record]) -> int:
            if not ledger.cells():
                victim = next(iter(cluster.workers.values()))
                os.kill(victim.pid, signal.SIGKILL)
            return add(records)

        ledger.add = add_and_kill  # type: ignore[method-assign,assignment]
        outcome = run(read_plan(plan_file), ledger, scheduler=cluster.scheduler_address)
        assert outcome.failures == []
        assert timeless(ledger.records()) == undisturbed


@pytest.mark.slow
@pytest.mark.heavy
def test_dead_workers_are_replaced_and_in_the_end_told(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_and_kill(records: list[Record]) -> int:
        for child in children_of(os.getpid()):
            if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)
        return Ledger.add(ledger, records)

    with Ledger(tmp_path / "results.csv") as ledger:
        monkeypatch.setattr(ledger, "add", add_and_kill)
        with pytest.raises(SchedulerError, match=r"died 3 times.*with fewer workers"):
            run(read_plan(plan_file), ledger, workers=2)
        assert len(ledger.cells()) >= 3


def test_wrong_workers_and_addresses_are_told(tiny_plan: Plan, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with Ledger(tmp_path / "results.csv") as ledger:
        for options in ({"workers": 0}, {"workers": 2, "scheduler": "tcp://host:1"}):
            with pytest.raises(SchedulerError, match="workers must be at least 1"):
                run(tiny_plan, ledger, **options)  # type: ignore[arg-type]
        with pytest.raises(SchedulerError, match="got 'nonsense'"):
            run(tiny_plan, ledger, scheduler="nonsense")


def test_a_job_that_fails_leaves_the_others_alone(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(job: Any, plan_seed: int, threads: int) -> list[Record]:
        if job.arm.network == "deep_ensemble":
            raise RuntimeError("no luck")
        return original(job, plan_seed, threads)

    original = run_module.run_job
    monkeypatch.setattr(run_module, "run_job", breaks)
    with Ledger(tmp_path / "results.csv") as ledger:
        outcome = run(tiny_plan, ledger)
        assert {error for _, error in outcome.failures} == {"no luck"}
        assert outcome.added == len(ledger.cells()) == 34
        monkeypatch.setattr(run_module, "run_job", original)
        assert run(tiny_plan, ledger).added == 32
        assert run(tiny_plan, ledger).added == 0
        other = dataclasses.replace(tiny_plan, seed=6)
        with pytest.raises(LedgerError, match=r"another seed than the plan"):
            run(other, ledger)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(tiny_plan, studies=tiny_plan.studies[1:])
    for name, stream in (("bar", Screen()), ("lines", io.StringIO())):
        monkeypatch.setattr(sys, "stderr", stream)
        with Ledger(tmp_path / name / "results.csv") as ledger:
            run(small, ledger, progress=True)
        assert "100%" in stream.getvalue()
        assert ("stacks to train" in stream.getvalue()) == (name == "lines")


def test_a_table_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = ["a,b", *(f"{i},{i % 3}" for i in range(12))]
    path.write_text("\n".join(lines))
    study = Study(
        data=(str(path),),
        networks=("mc_dropout",),
        epochs=(1,),
        folds=2,
        strengths=(0,),
    )
    with Ledger(tmp_path / "results.csv") as ledger:
        run(Plan(studies=(study,)), ledger)
        path.write_text("\n".join([*lines[:-1], "100,100"]))
        data_of.cache_clear()
        with pytest.raises(LedgerError, match=r"table\.csv changed since its cells"):
            run(Plan(studies=(study,)), ledger)


def test_a_number_that_is_none_is_a_failure_of_its_job(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = jobs_module._measures

    def spoiled(predictive: Any, *cell: Any) -> dict[str, Any]:
        return original(predictive, *cell) | {"nll": float("nan")}

    monkeypatch.setattr(jobs_module, "_measures", spoiled)
    small = dataclasses.replace(tiny_plan, studies=tiny_plan.studies[1:])
    with Ledger(tmp_path / "results.csv") as ledger:
        outcome = run(small, ledger)
        assert outcome.added == 0
        assert len(outcome.failures) == 2
        assert "the nll of fold 0 in repeat 0" in outcome.failures[0][1]


TABLES = [f"table-{number}" for number in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def done(tables: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reproduce a tiny plan of two generated sets: two folds, two epochs."""
    data, out = tables, tmp_path_factory.mktemp("tiny") / "reproduction"
    study = Study(data=data, epochs=(2,), recalibrations=("none", "isotonic"), folds=2)
    sweep = Study(data=data[:1], strengths=(0, 5, 20, 50), epochs=(2,), folds=2)
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
    assert "odd" in page
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
    small = Plan(
        studies=(dataclasses.replace(plan.studies[0], data=plan.studies[0].data[:1]),)
    )
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
    monkeypatch.setattr(run_module, "_LIBRARIES", ("json", "no_such_library"))
    with pytest.raises(InputError, match=r"needs no_such_library.*calibrant\[report\]"):
        reproduce(choose_plan(None, None, {}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
