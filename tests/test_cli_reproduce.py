"""``calibrant reproduce`` from the outside."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibrant.commands.app import app

run = CliRunner()
WIDE = {"COLUMNS": "160"}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Write a CSV whose target is in the middle."""
    rows = ["a,price,b"] + [f"{i % 7},{i % 5},{i % 3}" for i in range(30)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows) + "\n")
    return f"{path}#price"


def invoke(*arguments: str) -> tuple[int, str]:
    result = run.invoke(app, ["reproduce", *arguments], env=WIDE)
    return result.exit_code, result.output


def test_a_table_of_ones_own_to_a_report(table: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--data", table, "--network", "mc_dropout", "--epochs", "1"]
    options += ["--folds", "2", "--strength", "0", "--strength", "20"]
    code, text = invoke(*options, "--out", str(out))
    assert code == 0, text
    assert f"Report: {out / 'report.html'}" in text
    assert "4 cells, 4 of them new" in text
    assert (out / "report.html").exists()
    code, text = invoke("--report-only", "--out", str(out))
    assert code == 0, text
    assert "4 cells, 0 of them new" in text


def test_a_plan_can_be_printed_changed_and_read(tmp_path: Path) -> None:
    code, text = invoke("--print-plan", "--profile", "paper", "--only", "yacht")
    assert code == 0
    path = tmp_path / "plan.toml"
    path.write_text(text)
    assert invoke("--print-plan", "--plan", str(path)) == (0, text)
    assert "seed = 7" in invoke("--print-plan", "--plan", str(path), "--seed", "7")[1]
    assert 'data = ["yacht"]' in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "moon"], "moon"),
        (["--data", "missing.csv"], "missing.csv"),
        (["--plan", "missing.toml"], "missing.toml"),
        (["--folds", "3"], "add --data"),
        (["--data", "yacht", "--folds", "0"], "folds must be at least 2"),
        (["--only", "moon"], "only must name data sets of the plan"),
        (["--report-only"], "results.csv"),
        (["--only", "yacht", "--resume-from", "missing.csv"], "missing.csv"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    options: list[str], words: str, tmp_path: Path
) -> None:
    code, text = invoke(*options, "--out", str(tmp_path / "out"))
    assert code == 2, text
    assert words in text
    assert "Traceback" not in text


def test_a_ledger_that_is_none_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("not a table of cells at all, but somebody's file")
    code, text = invoke("--only", "yacht", "--out", str(tmp_path))
    assert code == 2
    assert str(path) in text
    assert path.read_text().startswith("not a table")


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    code, text = invoke(
        "--only", "yacht", "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path)
    )
    assert code == 2
    assert "tcp://127.0.0.1:9" in text


def test_what_failed_is_told_and_the_rest_is_reported(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrant.paper import run as run_module

    original = run_module.run_job

    def breaks(job, plan_seed, threads):  # type: ignore[no-untyped-def]  # noqa: ANN001,ANN202
        if job.arm.strength:
            raise RuntimeError("no luck")
        return original(job, plan_seed, threads)

    monkeypatch.setattr(run_module, "run_job", breaks)
    options = ["--data", table, "--network", "mc_dropout", "--epochs", "1"]
    code, text = invoke(*options, "--folds", "2", "--out", str(tmp_path / "out"))
    assert code == 1
    assert "no luck" in text
    assert "2 cells, 2 of them new" in text


def test_interrupted_it_says_how_to_go_on(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrant.paper import run as run_module

    def stops(job, plan_seed, threads):  # type: ignore[no-untyped-def]  # noqa: ANN001,ANN202,ARG001
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "run_job", stops)
    code, text = invoke("--data", table, "--folds", "2", "--out", str(tmp_path / "o"))
    assert code == 130
    assert "the same command goes on" in text
