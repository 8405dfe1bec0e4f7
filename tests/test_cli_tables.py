"""The commands on tables: what people read, and what machines do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from calibrant import CalibratedRegressor
from calibrant._terminal import printable
from calibrant.commands._console import (
    command_line,
    complete_columns,
    for_the_shell,
    group_table,
)
from calibrant.commands.app import app, run
from calibrant.metrics.groups import calibration_by
from calibrant.tables import write_table
from homes import homes

COMMANDS = (
    *("fit", "predict", "evaluate", "recalibrate", "compare"),
    *("info", "datasets", "reproduce", "methods"),
)
TINY = ["--learners", "network", "--epochs", "2", "--members", "1", "--hidden", "4"]
WIDE = {"COLUMNS": "160", "TERM": "dumb"}
runner = CliRunner()


def invoke(*arguments: object, code: int = 0) -> Any:
    result = runner.invoke(app, [str(each) for each in arguments], env=WIDE)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables and a model."""
    folder = tmp_path_factory.mktemp("cli")
    write_table(folder / "homes.csv", homes(150))
    write_table(folder / "new.csv", homes(40, seed=1))
    invoke(
        *("fit", folder / "homes.csv", "--target", "price", "--out", folder / "model"),
        *("--drop", "garden,id", "--quiet", *TINY),
    )
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    assert f"Example: calibrant {command}" in invoke(command, "--help").output


def test_fit_speaks_to_people(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    result = invoke(
        *("fit", place / "homes.csv", "--target", "price", "--out", out, *TINY),
        *("--lower", 0, "--strength", "0.5", "--categorical", "garden"),
    )
    for text in (
        "what was done",
        "looks like an identifier",
        "rows within the 90 % interval",
        "R2 (variance explained)",
        "for the mean of the training rows",
        "of 30 unseen rows; a perfectly calibrated model would cover",
        f"Model:  {out}",
        f"Report: {out / 'report.html'}",
    ):
        assert text in result.stdout
    told = json.loads((out / "model.json").read_text())["description"]["about"]
    assert told["changed"]["bounds"] == "(0.0, None)"
    assert told["changed"]["strength"] == "0.5"


def test_fit_speaks_to_machines(place: Path, tmp_path: Path) -> None:
    result = invoke(
        *("fit", place / "homes.csv", "--target", "price", "--out", tmp_path / "model"),
        *("--json", "--test-file", place / "new.csv", *TINY),
    )
    told = json.loads(result.stdout)
    assert told["scorecard"]["n"] == 40
    assert [each["kind"] for each in told["columns"]][-1] == "target"
    assert told["report"] == str(tmp_path / "model" / "report.html")
    assert result.stderr == ""


def test_quiet_says_nothing_and_verbose_everything(place: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", place / "model", place / "new.csv", "--report", "none")
    assert invoke(*arguments, "--quiet").output == ""
    assert "crps_reliability" in invoke(*arguments, "--verbose").stdout
    assert not list(tmp_path.iterdir())


def test_predict_writes_what_was_asked_for(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    result = invoke(
        *("predict", place / "model", place / "new.csv", "-o", out),
        *("--coverage", "0.8", "--quantiles", "0.5", "--keep", "id,price"),
    )
    table = pc.read_csv(out)
    assert table.column_names == [
        *("id", "price", "mean", "std", "lower_80", "upper_80", "q0.5")
    ]
    assert table["id"].to_pylist() == [f"h{row}" for row in range(40)]
    assert f"Predictions: {out}" in result.stdout


def test_predict_has_a_name_for_the_output(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = json.loads(
        invoke("predict", place / "model", place / "new.csv", "--json").stdout
    )
    assert told["predictions"] == "new.predictions.csv"
    assert told["rows"] == 40
    assert Path("new.predictions.csv").exists()


@pytest.mark.parametrize("talk", [[], ["--quiet"]], ids=["loud", "quiet"])
def test_a_requirement_that_is_not_met_is_exit_code_1(
    place: Path, tmp_path: Path, talk: list[str]
) -> None:
    far = homes(60, seed=2)
    write_table(
        tmp_path / "far.csv",
        far.set_column(5, "price", pa.array(far["price"].to_numpy() + 1e4)),
    )
    arguments = ("evaluate", place / "model", tmp_path / "far.csv", "--report", "none")
    gate = ("--require-coverage", "0.9", "--tolerance", "0.05", *talk)
    result = invoke(*arguments, *gate, code=1)
    assert "Requirement NOT met: the 90 % intervals covered 0.0 % of 60 rows" in (
        result.output
    )
    invoke(*arguments, "--require-coverage", "0.9", "--tolerance", "0.95")


def test_recalibrate_shows_before_and_after(place: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    invoke(
        *("fit", place / "homes.csv", "--target", "price", "--out", model, "-q", *TINY)
    )
    result = invoke("recalibrate", model, place / "homes.csv")
    for text in ("before", "after", "recent rows", "model-recalibrated"):
        assert text in result.stdout
    assert (tmp_path / "model-recalibrated" / "report.html").exists()
    told = json.loads(invoke("info", tmp_path / "model-recalibrated", "--json").stdout)
    assert told["about"]["recalibrated"]["rows"] == 150


def test_compare_measures_and_corrects(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    invoke(
        *("predict", place / "model", place / "homes.csv", "-o", out, "-q"),
        *("--keep", "price", "--keep", "city", "--quantiles", "0.1,0.9"),
    )
    page = tmp_path / "page.html"
    plain = ("compare", out, "--target", "price", "--report", page)
    result = invoke(*plain, "--mean", "mean", "--std", "std", "--by", "city")
    assert "within the 90 % interval" in result.stdout
    assert "Oslo" in result.stdout
    assert "Your 90 % intervals covered" in result.stdout
    fixed = tmp_path / "fixed.csv"
    result = invoke(
        *(*plain, "--quantile", "0.1=q0.1", "--quantile", "q0.9=0.9", "--fix", fixed)
    )
    assert "recalibrated" in result.stdout
    assert pc.read_csv(fixed).column_names[-2:] == [
        *("q0.1_recalibrated", "q0.9_recalibrated")
    ]


def test_info_says_what_a_model_is(place: Path) -> None:
    result = invoke("info", place / "model")
    assert "Predicts 'price' from 3 columns" in result.stdout
    assert "Rows learned from: 120" in result.stdout
    assert "Its 90 % intervals covered" in result.stdout


@pytest.mark.parametrize("model", ["model", "no model", "damaged"])
def test_info_needs_nothing_heavy(model: str, place: Path, tmp_path: Path) -> None:
    if model != "no model":
        shutil.copytree(place / "model", tmp_path / model)
    if model == "damaged":
        (tmp_path / model / "arrays.safetensors").write_bytes(b"short")
    code = (
        "import sys\n"
        f"sys.argv = ['calibrant', 'info', {str(tmp_path / model)!r}]\n"
        "from calibrant.commands.app import main\n"
        "try: main()\n"
        "except SystemExit as left: print(left.code)\n"
        "heavy = {'torch', 'scipy', 'pandas', 'sklearn', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    expected = "0" if model == "model" else "2"
    assert done.stdout.splitlines()[-2:] == [expected, "[]"], done.stderr


def test_a_reader_that_leaves_early_gets_no_error(place: Path) -> None:
    code = (
        "import os, sys\n"
        f"sys.argv = ['calibrant', 'info', {str(place / 'model')!r}]\n"
        "from calibrant.commands.app import main\n"
        "read, write = os.pipe()\n"
        "os.close(read)\n"
        "os.dup2(write, 1)\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_files_at_fault_end_with_a_message_and_no_abort(tmp_path: Path) -> None:
    rows = [f"{number},note,{number % 7}" for number in range(60)]
    quotes = [*rows[:10], '10,"bad,3', *rows[11:45], '45,worse",3', *rows[46:]]
    short = [*rows[:10], "1,2", *rows[10:]]
    running = []
    for name, lines in (("quotes", quotes), ("short", short)):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["x,note,y", *lines, ""]), "utf-8")
        command = [sys.executable, "-m", "calibrant", "fit", str(path), "--target", "y"]
        running += [
            subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(2)
        ]
    for process, text in zip(
        running, 2 * ["closed again 35 lines below"] + 2 * ["row 11"], strict=True
    ):
        _, said = process.communicate()
        assert process.returncode == 2, said
        assert said.count("\n") == 1
        assert text in said


def test_datasets_are_listed_and_written(tmp_path: Path) -> None:
    assert "concrete" in invoke("datasets").stdout
    listed = json.loads(invoke("datasets", "--json").stdout)["datasets"]
    assert {each["name"]: each["rows"] for each in listed}["yacht"] == 308
    result = invoke("datasets", "yacht", "-o", tmp_path / "y.csv.gz", "--new", "0.25")
    assert pc.read_csv(tmp_path / "y.csv.gz").num_rows == 231
    assert pc.read_csv(tmp_path / "y-new.csv.gz").num_rows == 77
    assert "--target residuary_resistance" in result.stdout
    invoke("datasets", "concrete", "-o", tmp_path / "c.csv", "--new", "0.3")
    parts = [
        pc.read_csv(tmp_path / name).to_pylist() for name in ("c.csv", "c-new.csv")
    ]
    old, new = ({tuple(row.values())[:-1] for row in part} for part in parts)
    assert (len(parts[0]), len(parts[1])) == (720, 310)
    assert not old & new


def test_columns_of_the_file_complete_options(place: Path) -> None:
    context = typer.Context(typer.main.get_command(app))
    assert list(complete_columns(context, "")) == []
    context.params["table"] = place / "homes.csv"
    assert list(complete_columns(context, "")) == homes(1).column_names
    assert list(complete_columns(context, "ci")) == ["city"]
    context.params["table"] = place / "nowhere.csv"
    assert list(complete_columns(context, "")) == []


def test_a_command_that_is_written_wrongly_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, said in (
        (["fit"], "calibrant fit: Missing"),
        (["fit", "x.csv", "--target", "y", "--epoch", "3"], "No such option: --epoch"),
        (["fitt"], "No such command"),
        (["fit", "x.csv", "--target", "y", "--seed", "a"], "--seed"),
    ):
        monkeypatch.setattr(sys, "argv", ["calibrant", *arguments])
        assert run() == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1
        assert said in told.err
        assert "--help." in told.err
    monkeypatch.setattr(sys, "argv", ["calibrant"])
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert run() == 2
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "Usage" in capsys.readouterr().out


def test_the_command_is_kept_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/calibrant", "fit", "my homes.csv"])
    assert command_line() == "calibrant fit 'my homes.csv'"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest", "fit"])
    assert command_line() is None
    assert for_the_shell("a\nb: pass overwrite=True") == "a b: pass --force"


def test_the_model_has_the_defaults_of_the_estimator() -> None:
    command: Any = get_command(app)
    options = {each.name: each.default for each in command.commands["fit"].params}
    default = CalibratedRegressor()
    for name in ("network", "members", "recalibrator", "epochs", "target_transform"):
        assert options[name] == getattr(default, name)
    assert float(options["strength"]) == default.strength
    assert options["hidden"] == default.hidden == "auto"
    assert options["learners"] == ",".join(default.learners)


def test_any_parameter_can_be_set(place: Path, tmp_path: Path) -> None:
    arguments = ("fit", place / "homes.csv", "--target", "price", *TINY)
    out = ("--out", tmp_path / "model", "--quiet")
    invoke(*arguments, *out, "--set", "folds=3", "--set", "optimizer=adamw")
    told = json.loads(invoke("info", tmp_path / "model", "--json").stdout)
    assert told["about"]["changed"]["folds"] == "3"
    assert told["about"]["changed"]["optimizer"] == "'adamw'"
    said = invoke(*arguments, *out, "--force", "--set", "folds", code=2).stderr
    assert "--set takes NAME=VALUE" in said
    said = invoke(*arguments, *out, "--force", "--set", "epochs=2", code=2).stderr
    assert said == "calibrant: --set epochs: use --epochs.\n"
    said = invoke(*arguments, *out, "--force", "--set", "fold=2", code=2).stderr
    assert "no parameters fold." in said


def test_trees_can_be_chosen(place: Path, tmp_path: Path) -> None:
    arguments = ("fit", place / "homes.csv", "--target", "price", *TINY)
    out = ("--out", tmp_path / "model")
    result = invoke(*arguments, *out, "--learners", "boosting")
    expected = "Trained: 5 boosted-tree models, 1 for each row that have not seen it;"
    assert expected in result.stdout
    assert result.stderr == ""
    told = json.loads(invoke("info", tmp_path / "model", "--json").stdout)
    assert told["about"]["changed"]["learners"] == "('boosting',)"
    assert told["about"]["epochs"] is None
    said = invoke(*arguments, *out, "--force", "--learners", "trees", code=2).stderr
    assert 'learners must be a list of "network", "boosting"' in said
    said = invoke(*arguments, *out, "--force", "--set", "learners=x", code=2).stderr
    assert said == "calibrant: --set learners: use --learners.\n"


def test_what_would_steer_the_terminal_is_shown_as_a_mark() -> None:
    assert printable("a\x1b[31mb") == "a\N{REPLACEMENT CHARACTER}[31mb"


def test_many_groups_are_left_to_the_report() -> None:
    pit = np.linspace(0.01, 0.99, 60)
    groups = calibration_by(pit, [f"group {row}" for row in range(30)] * 2)
    table = group_table("site", groups)
    assert table.row_count == 20
    assert table.caption == "The report has 10 more."
