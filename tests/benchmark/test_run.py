"""Runs that are killed, shared, scheduled elsewhere, or fail in part."""

import dataclasses
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from calibrant.benchmark import cells as cells_module
from calibrant.benchmark import run as run_module
from calibrant.benchmark.jobs import data_of
from calibrant.benchmark.ledger import Ledger, LedgerError
from calibrant.benchmark.plan import Plan, Study, read_plan
from calibrant.benchmark.records import Record
from calibrant.benchmark.run import run
from patience import HEEDFUL

SCRIPT = f"""
{HEEDFUL}
import sys, time
from pathlib import Path
from calibrant.benchmark.jobs import data_of
from calibrant.benchmark.ledger import Ledger, LedgerError
from calibrant.benchmark.plan import read_plan
from calibrant.benchmark.run import run

def add(records):
    if len(ledger) > 40:  # of 66: it waits to be ended, however late that comes
        time.sleep(600)
    return Ledger.add(ledger, records)

with Ledger(sys.argv[2]) as ledger:
    if sys.argv[3:] == ["wait"]:
        ledger.add = add
    run(read_plan(Path(sys.argv[1])), ledger, progress=True)
"""


def timeless(records: list[Record]) -> list[Record]:
    """Everything but times and host."""
    return [
        dataclasses.replace(record, seconds=0.0, finished="", host="")
        for record in records
    ]


def start(plan: Path, ledger: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Run a plan in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(plan), str(ledger), *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    )


def cells_in(path: Path) -> int:
    """Number of finished cells, 0 as long as there is no file."""
    if not path.exists():
        return 0
    with Ledger(path) as ledger:
        return len(ledger)


def wait_for(path: Path, cells: int, process: "subprocess.Popen[bytes]") -> None:
    while cells_in(path) < cells and process.poll() is None:
        time.sleep(0.02)


@pytest.fixture(scope="module")
def plan_file(tiny_plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(str(tiny_plan))
    return path


@pytest.fixture(scope="module")
def undisturbed(plan_file: Path) -> list[Record]:
    with Ledger(plan_file.with_name("undisturbed.sqlite")) as ledger:
        outcome = run(read_plan(plan_file), ledger)
        assert outcome.added == outcome.cells == len(ledger) == 66
        return timeless(ledger.records())


@pytest.mark.slow
@pytest.mark.heavy
def test_killed_twice_it_ends_with_the_same_ledger(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "killed.sqlite"
    counts = []
    for cells in (1, 30):
        process = start(plan_file, path, "wait")
        wait_for(path, cells, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        counts.append(cells_in(path))
    assert 0 < counts[0] <= counts[1] < 66
    with Ledger(path) as ledger:
        outcome = run(read_plan(plan_file), ledger)
        assert outcome.added == 66 - counts[1]
        assert timeless(ledger.records()) == undisturbed


@pytest.mark.slow
@pytest.mark.heavy
def test_two_processes_share_one_ledger(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "shared.sqlite"
    processes = [start(plan_file, path) for _ in range(2)]
    errors = [process.communicate()[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    with Ledger(path) as ledger:
        assert timeless(ledger.records()) == undisturbed


@pytest.mark.slow
def test_local_processes_give_the_same_ledger(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    with Ledger(tmp_path / "workers.sqlite") as ledger:
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
        Ledger(tmp_path / "dask.sqlite") as ledger,
    ):
        add = ledger.add

        def add_and_kill(records: list[Record]) -> int:
            if len(ledger) == 0:
                victim = next(iter(cluster.workers.values()))
                os.kill(victim.pid, signal.SIGKILL)
            return add(records)

        ledger.add = add_and_kill  # type: ignore[method-assign,assignment]
        outcome = run(read_plan(plan_file), ledger, scheduler=cluster.scheduler_address)
        assert outcome.failures == []
        assert timeless(ledger.records()) == undisturbed


def test_a_job_that_fails_leaves_the_others_alone(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(job: Any, plan_seed: int, threads: int) -> list[Record]:
        if job.arm.network == "deep_ensemble":
            raise RuntimeError("no luck")
        return original(job, plan_seed, threads)

    original = run_module.run_job
    monkeypatch.setattr(run_module, "run_job", breaks)
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        outcome = run(tiny_plan, ledger)
        assert {str(error) for _, error in outcome.failures} == {"no luck"}
        assert outcome.added == len(ledger) == 34
    monkeypatch.setattr(run_module, "run_job", original)
    with Ledger(path) as ledger:
        assert run(tiny_plan, ledger).added == 32
        assert run(tiny_plan, ledger).added == 0


def test_progress_without_a_terminal_is_lines(
    tiny_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run(tiny_plan, ledger, progress=True)
    shown = capsys.readouterr().err
    assert "stacks to train" in shown
    assert "100%" in shown


def test_progress_on_a_terminal_is_a_bar(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run(tiny_plan, ledger)
    assert "100%" in screen.getvalue()
    assert "stacks to train" not in screen.getvalue()


def test_a_run_waits_for_what_another_process_holds(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the first job until we have looked twice, then dies."""
    jobs = run_module.jobs_of(tiny_plan.cells(), set(), seed=tiny_plan.seed)
    held = {jobs[0].name: 12345}
    looks = []

    class Shared(Ledger):
        def claim(self, job: str) -> bool:
            return job not in held and super().claim(job)

        def holders(self) -> dict[str, int]:
            return dict(held)

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            held.clear()

    monkeypatch.setattr(run_module.time, "sleep", sleep)
    with Shared(tmp_path / "ledger.sqlite") as ledger:
        assert run(tiny_plan, ledger).added == 66
    assert len(looks) == 2


def test_another_seed_does_not_mix_with_the_first(
    tiny_plan: Plan, tmp_path: Path
) -> None:
    other = dataclasses.replace(tiny_plan, seed=6)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run(tiny_plan, ledger)
        with pytest.raises(LedgerError, match=r"holds cells of seed 5.*has seed 6"):
            run(other, ledger)
        assert len(ledger) == 66


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
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run(Plan(studies=(study,)), ledger)
        path.write_text("\n".join([*lines[:-1], "100,100"]))
        data_of.cache_clear()
        with pytest.raises(LedgerError, match=r"table\.csv changed since its cells"):
            run(Plan(studies=(study,)), ledger)


@pytest.mark.slow
@pytest.mark.heavy
def test_an_interrupted_run_records_nothing_half_done(
    plan_file: Path, undisturbed: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "interrupted.sqlite"
    process = start(plan_file, path, "wait")
    wait_for(path, 10, process)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate()[1]
    with Ledger(path) as ledger:
        assert 0 < len(ledger) < 66
        run(read_plan(plan_file), ledger)
        assert timeless(ledger.records()) == undisturbed


def test_a_number_that_is_none_is_a_failure_of_its_job(
    tiny_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = cells_module._measures

    def spoiled(law: Any, cell: Any, data: Any, split: Any) -> dict[str, Any]:
        lost = {"nll": float("nan")} if cell.network == "default" else {}
        return original(law, cell, data, split) | lost

    monkeypatch.setattr(cells_module, "_measures", spoiled)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        outcome = run(tiny_plan, ledger)
        assert outcome.added == 64
        assert len(outcome.failures) == 2
        assert "the nll of fold 0 in repeat 0" in str(outcome.failures[0][1])
