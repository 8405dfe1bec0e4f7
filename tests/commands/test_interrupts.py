"""Ctrl-C at any moment: a complete model or none, a complete file or the former one."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bad_input.case import Outcome, run_command
from bad_input.houses import forecasts, houses
from calibrant import storage
from calibrant.commands.table_model import TableModel
from calibrant.tables import TableWriter
from calibrant.training.loop import Trainer

FIT = (
    "fit houses.csv --target price --drop id --out new --learners network --epochs 3 "
    "--members 1 --hidden 4 --recalibrator none"
)
STORED = ["SHA256SUMS", "arrays.safetensors", "model.json"]
NONE_YET = "calibrant: interrupted. There is no model yet, and nothing was written.\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a model, in which commands run."""
    shutil.copytree(small_model, tmp_path / "model")
    (tmp_path / "houses.csv").write_text(houses(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ctrl_c(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def at_call(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, interrupted when it is called for the nth time."""
    calls = 0

    def wrapped(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        return function(*args, **options)

    return wrapped


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def interrupted(command: str, place: Path) -> Outcome:
    """Run a command that ends by its interruption and leaves no file behind."""
    before = files(place)
    done = run_command(command)
    assert done.code == 130
    assert not done.out
    assert files(place) == before
    return done


@pytest.mark.parametrize(
    "where",
    [
        "calibrant.commands.training.open_source",
        "calibrant.tables.TableEncoder.learn",
        "calibrant.estimators.regressor.CalibratedRegressor.fit",
    ],
)
def test_fit_before_training(
    where: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, ctrl_c)
    assert interrupted(FIT, place).err == NONE_YET


def test_fit_before_an_epoch_is_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "step", ctrl_c)
    assert interrupted(f"{FIT} --test 0", place).err == NONE_YET


def test_fit_after_an_epoch_keeps_the_best_so_far(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "epoch", at_call(2, Trainer.epoch))
    done = run_command(FIT)
    assert done.code == 0
    assert done.err == (
        "Note: training was interrupted after 1 of 3 epochs; the model keeps its best "
        "weights so far.\n"
    )
    assert "Report: new/report.html" in done.out
    assert names(place) == ["houses.csv", "model", "new"]
    assert names(place / "new") == [*STORED, "report.html"]
    about = TableModel.load("new").about
    assert about["interrupted"] is True
    assert about["epochs"] == 1
    assert "interrupted after 1 of 3" in (place / "new" / "report.html").read_text()


def test_fit_after_an_epoch_says_so_to_machines(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "epoch", at_call(3, Trainer.epoch))
    done = run_command(f"{FIT} --test 0 --json")
    told = json.loads(done.out)
    assert told["interrupted"] is True
    assert "interrupted after 2 of 3 epochs" in told["notes"][0]
    assert told["model"] == "new"
    assert TableModel.load(place / "new").target == "price"


@pytest.mark.parametrize(
    "what", ["commands.measuring.measure", "report.own_page.own_page"]
)
def test_fit_while_measuring_has_a_complete_model_and_says_so(
    what: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"calibrant.{what}", ctrl_c)
    done = run_command(FIT)
    assert names(place) == ["houses.csv", "model", "new"]
    assert names(place / "new") == STORED
    assert TableModel.load("new").about["epochs"] == 3
    assert "no model" not in done.out + done.err
    assert "interrupted" in done.err
    assert "Model:  new" in done.out


@pytest.mark.parametrize("number", [1, 2])
def test_fit_while_writing_over_a_model_leaves_the_former(
    number: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "new_file", at_call(number, storage.new_file))
    command = FIT.replace("--out new", "--out model --force --test 0")
    interrupted(command, place)
    assert TableModel.load("model").target == "price"


@pytest.mark.parametrize("number", [1, 2])
def test_fit_while_writing_a_new_model_leaves_none(
    number: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "new_file", at_call(number, storage.new_file))
    assert interrupted(f"{FIT} --test 0", place).err == NONE_YET


def test_fit_while_writing_the_report_has_the_model_without_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "new_file", at_call(7, storage.new_file))
    run_command(FIT)
    assert names(place) == ["houses.csv", "model", "new"]
    assert names(place / "new") == STORED
    assert TableModel.load("new").target == "price"


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_report_that_does_not_fit_on_the_disk_costs_no_model(
    options: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> Any:
        if path.name == "report.html":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return original(path)

    original = storage.new_file
    monkeypatch.setattr(storage, "new_file", full)
    done = run_command(f"{FIT} {options}")
    assert done.code == 1
    assert names(place) == ["houses.csv", "model", "new"]
    assert names(place / "new") == STORED
    assert TableModel.load("new").about["epochs"] == 3
    if options:
        told = json.loads(done.out)
        assert (told["model"], told["report"]) == ("new", None)
        assert told["scorecard"] is not None
        said = " ".join(told["notes"])
    else:
        said = done.err
        assert "Model:  new" in done.out
        assert "90 % intervals" in done.out
    assert "The model is complete" in said
    assert "No space left on device" in said


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("former", [False, True])
def test_predict_in_the_middle(
    suffix: str, former: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if former:
        (place / f"out.{suffix}").write_bytes(b"of yesterday")
    monkeypatch.setattr("calibrant.commands.predict.CHUNK", 50)
    monkeypatch.setattr(TableWriter, "write", at_call(2, TableWriter.write))
    done = interrupted(f"predict model houses.csv -o out.{suffix}", place)
    assert done.err == "calibrant: interrupted. No predictions were written.\n"


def test_predict_while_the_file_gets_its_name(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.tables.write.TableWriter._finish", ctrl_c)
    interrupted("predict model houses.csv -o out.csv", place)


def test_recalibrate_leaves_the_model_as_it_was(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.commands.measuring.measure", ctrl_c)
    done = interrupted(
        "recalibrate model houses.csv --out model --force --recalibrator beta", place
    )
    assert done.err == "calibrant: interrupted. The model is as it was.\n"


@pytest.mark.parametrize(
    "command",
    [
        "evaluate model houses.csv",
        "compare forecasts.csv --target y --mean mu --std sigma --fix out.csv",
    ],
    ids=["evaluate", "compare"],
)
def test_measuring_leaves_nothing(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "forecasts.csv").write_text(forecasts(), encoding="utf-8")
    monkeypatch.setattr("calibrant.commands.measuring.measure", ctrl_c)
    done = interrupted(command, place)
    assert done.err == "calibrant: interrupted. Nothing was written.\n"
