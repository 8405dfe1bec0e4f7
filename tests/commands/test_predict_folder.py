"""A folder of tables: a file of predictions for each, once and by one model."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bad_input.case import run_command
from bad_input.houses import houses
from calibrant import InputError, _dask, predict_table
from calibrant._dask import SchedulerError
from calibrant.commands import predict as module
from calibrant.commands.fit import TableFit
from calibrant.commands.predict import TablePrediction
from calibrant.tables import Style, TableWriter, write_table
from homes import homes
from small_cluster import small_cluster

NAMES = tuple(f"part-{number}.parquet" for number in range(3))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with small_cluster() as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=["here", "dask"])
def scheduler(request: pytest.FixtureRequest) -> str | None:
    if request.param == "here":
        return None
    address: str = request.getfixturevalue("address")
    return address


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Three Parquet files, and what other tools leave beside them."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        pq.write_table(homes(8, seed=number), folder / name)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden").touch()
    return folder


def run(folder: Path, parts: Path, **options: Any) -> TablePrediction:
    out = parts.parent / "out"
    return predict_table(folder, parts, out, progress=False, **options)


def files(folder: Path) -> dict[str, bytes]:
    """The predictions; beside them stands what made them."""
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    found.pop("_predictions.json", None)
    return found


def test_each_file_is_as_if_it_were_alone(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"coverage": 0.8, "quantiles": [0.5], "keep": ["id"]}
    done = run(folder, parts, scheduler=scheduler, **options)
    assert list(files(tmp_path / "out")) == list(NAMES)
    assert (done.files, done.rows, done.skipped, done.failures) == (NAMES, 24, (), ())
    assert done.columns == ("mean", "std", "lower_80", "upper_80", "q0.5")
    assert done.to_dict()["files"] == list(NAMES)
    for name in NAMES:
        predict_table(folder, parts / name, tmp_path / name, **options)
        assert (tmp_path / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_text_files_keep_their_names_and_style(folder: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    for name in ("a.csv", "b.csv.gz", "c.tsv"):
        write_table(parts / name, homes(8))
    done = run(folder, parts, style=Style(missing=("-9",)))
    assert done.files == ("a.csv", "b.csv.gz", "c.tsv")
    text = (tmp_path / "out" / "a.csv").read_text()
    assert text.startswith("mean,std,lower_50,upper_50,lower_90,upper_90\n")
    assert (tmp_path / "out" / "c.tsv").read_text() == text.replace(",", "\t")


def test_finished_files_are_skipped(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    first = run(folder, parts, scheduler=scheduler)
    kept = (tmp_path / "out" / NAMES[0]).stat().st_ino
    again = run(folder, parts, scheduler=scheduler)
    assert (again.files, again.skipped, again.notes) == ((), first.files, ())
    (tmp_path / "out" / NAMES[1]).unlink()
    later = (tmp_path / "out" / NAMES[2]).stat().st_mtime_ns + 1
    os.utime(parts / NAMES[2], ns=(later, later))
    third = run(folder, parts, scheduler=scheduler)
    assert (third.files, third.skipped) == (NAMES[1:], NAMES[:1])
    assert third.rows == 16
    assert (tmp_path / "out" / NAMES[0]).stat().st_ino == kept


def test_another_model_makes_all_files_again_and_other_options_want_a_folder(
    fitted: TableFit, folder: Path, parts: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    run(model, parts, keep="id")
    former = files(tmp_path / "out")
    for options in ({"coverage": 0.9}, {"quantiles": 0.5}, {}):
        with pytest.raises(InputError, match="not a file of the predictions asked for"):
            run(model, parts, **options)
    assert files(tmp_path / "out") == former
    fitted.model.with_about(rows=1).save(model, overwrite=True)
    assert run(model, parts, keep="id").skipped == ()
    # The former model is older than these predictions, and yet another one.
    assert run(folder, parts, keep="id").skipped == ()
    assert run(folder, parts, keep="id").files == ()
    assert run(folder, parts, keep="id", strict=True).skipped == ()


def test_another_model_that_is_interrupted_at_once_leaves_nothing_finished(
    folder: Path, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, parts)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):  # of other options, so all are made anew
            run(folder, parts, strict=True)
    assert run(folder, parts, strict=True).skipped == ()


def test_a_file_that_fails_leaves_the_others_and_no_former_output(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    run(folder, parts, scheduler=scheduler)
    (parts / NAMES[1]).write_bytes(b"PAR1 nothing PAR1")
    later = (tmp_path / "out" / NAMES[1]).stat().st_mtime_ns + 1
    os.utime(parts / NAMES[1], ns=(later, later))
    done = run(folder, parts, scheduler=scheduler)
    assert done.skipped == (NAMES[0], NAMES[2])
    (failure,) = done.failures
    assert NAMES[1] in failure
    assert "\n" not in failure
    assert list(files(tmp_path / "out")) == [NAMES[0], NAMES[2]]
    assert done.to_dict()["failures"] == [failure]


def test_files_of_somebody_else_are_kept(
    folder: Path, parts: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAMES[1]).write_text("mine")
    before = files(tmp_path / "out")
    with pytest.raises(InputError, match=r"part-1\.parquet: this is not a file of the"):
        run(folder, parts)
    assert files(tmp_path / "out") == before


def test_an_interruption_keeps_what_is_finished(
    folder: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict_file = module._predict_file

    def second(job: Any, model: Any = None) -> Any:
        if "part-1" in job.source.name:
            raise KeyboardInterrupt
        return predict_file(job, model)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_predict_file", second)
        with pytest.raises(KeyboardInterrupt):
            run(folder, parts)
    assert list(files(tmp_path / "out")) == [NAMES[0]]
    assert run(folder, parts).skipped == NAMES[:1]


def test_notes_and_progress_of_all_files(
    folder: Path,
    parts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, name in enumerate(NAMES):
        table = homes(8, seed=number).drop_columns(["city"])
        pq.write_table(table.append_column("city", [["Kyiv"] * 8]), parts / name)
    done = predict_table(folder, parts, tmp_path / "out", progress=True)
    assert sum("Kyiv" in note for note in done.notes) == 3
    shown = capsys.readouterr().err
    assert "predict out" in shown
    assert "3/3" in shown
    monkeypatch.setattr(module, "_MOST_NOTES", 2)
    shutil.rmtree(tmp_path / "out")
    done = run(folder, parts)
    assert len(done.notes) == 3
    assert done.notes[-1].endswith("more notes are left out.")


def test_folders_that_cannot_be_predicted(
    folder: Path, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (parts / "deeper.parquet").mkdir()
    with pytest.raises(
        InputError, match=r"3 Parquet, 1 others, such as 'deeper\.parquet'\. Move the"
    ):
        run(folder, parts)
    assert not (parts.parent / "out").exists()
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(InputError, match=r"the folder cannot be read: .*Permission"):
        run(folder, parts)


def forbidden(_: Path) -> None:
    raise PermissionError(13, "Permission denied")


def test_places_for_predictions_that_cannot_be(
    fitted: TableFit, folder: Path, parts: Path, tmp_path: Path
) -> None:
    for out in (parts / "out", folder):
        with pytest.raises(InputError, match="is not the input's, nor in it, nor the"):
            predict_table(folder, parts, out)
    with pytest.raises(InputError, match="Name it as out"):
        predict_table(folder, parts)
    with pytest.raises(InputError, match="got one in memory"):
        predict_table(fitted.model, parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_is_not_there_costs_no_former_output(
    folder: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "PATIENCE", 0.2)
    run(folder, parts)
    before = files(tmp_path / "out")
    for wrong, match in (
        ("nonsense", "got 'nonsense'"),
        ("tcp://127.0.0.1:9", "nobody answers"),
    ):
        with pytest.raises(SchedulerError, match=match):
            run(folder, parts, scheduler=wrong)
        assert files(tmp_path / "out") == before


def test_workers_must_see_the_same_files(folder: Path, tmp_path: Path) -> None:
    options = module.OutputOptions((0.9,), (), ())
    job = module._FileJob(Path("gone.csv"), tmp_path / "o.csv", folder, options, {})
    told = module._predict_file(job)
    assert isinstance(told, str)
    assert told.startswith("gone.csv: the worker at ")
    assert "machines share" in told


def test_a_worker_that_dies_costs_its_file_alone() -> None:
    distributed = pytest.importorskip("distributed")

    class Dead:
        def result(self) -> None:
            raise distributed.KilledWorker("key", None, 3)

    class Client:
        def submit(self, *_: object, **__: object) -> Dead:
            return Dead()

    job = module._FileJob(
        Path("a.csv"), Path(), Path(), module.OutputOptions((), (), ()), {}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "as_completed", list)
        ((told, reason),) = module._on_cluster(Client(), [job])
    assert told is job
    assert str(reason).startswith("a.csv: its workers died again and again")


@pytest.fixture
def place(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a folder of tables, in which commands run."""
    shutil.copytree(small_model, tmp_path / "model")
    (tmp_path / "parts").mkdir()
    for name in ("a.csv", "b.csv"):
        path = tmp_path / "parts" / name
        path.write_text(houses(rows=20), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_goes_on(place: Path, address: str) -> None:
    done = run_command(
        f"predict model parts -o out --keep id,zone --scheduler {address}"
    )
    assert done.code == 0
    assert "2 files, 40 rows: mean, std" in done.out
    assert "Predictions: out\n" in done.out
    assert (place / "out" / "a.csv").read_text().startswith("id,zone,mean,std,lower_50")
    again = run_command("predict model parts -o out --keep id --keep zone")
    assert "2 files, 2 finished before, 0 rows" in again.out
    told = json.loads(run_command("predict model parts --json --coverage 0.9").out)
    assert told["predictions"] == "parts.predictions"
    assert told["files"] == ["a.csv", "b.csv"]


def test_the_command_names_what_failed(place: Path) -> None:
    (place / "parts" / "b.csv").write_text("a,b\n1,2\n")
    done = run_command("predict model parts -o out")
    assert done.code == 2
    assert "1 file, 20 rows" in done.out
    assert done.err.count("\n") == 1
    assert done.err.startswith("calibrant: parts/b.csv: there are no columns")
    assert (place / "out" / "a.csv").exists()
    assert not (place / "out" / "b.csv").exists()


def test_the_command_is_interrupted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(self: TableWriter, batch: object) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(1)
        write(self, batch)

    written: list[int] = []
    write = TableWriter.write
    monkeypatch.setattr(TableWriter, "write", second)
    done = run_command("predict model parts -o out")
    assert done.code == 130
    assert done.err == (
        "calibrant: interrupted. Finished files are in out; the same command goes on.\n"
    )
    assert list(files(place / "out")) == ["a.csv"]
