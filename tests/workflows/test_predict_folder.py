"""A folder of tables: a file of predictions for each, once and by one model."""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from calibrant import InputError, _dask, predict_table
from calibrant._dask import SchedulerError, WorkerDiedError
from calibrant.tables import Style, TableWriter, write_table
from calibrant.workflows import _folder
from calibrant.workflows._folder import FileJob, _reason, check_seen, checksum_of
from calibrant.workflows.fit_table import TableFit
from calibrant.workflows.predict_table import TablePrediction, predict_file
from homes import homes
from small_cluster import small_cluster

LEDGER = "_predictions.jsonl"


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
    for number in range(3):
        pq.write_table(homes(8, seed=number), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden").touch()
    return folder


def run(folder: Path, parts: Path, **options: Any) -> TablePrediction:
    out = parts.parent / "out"
    return predict_table(folder, parts, out, progress=False, **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.name != LEDGER
    }


def test_each_file_is_as_if_it_were_alone(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"coverage": 0.8, "quantiles": [0.5], "keep": ["id"]}
    done = run(folder, parts, scheduler=scheduler, **options)
    expected = [f"part-{number}.parquet" for number in range(3)]
    assert names(tmp_path / "out") == [LEDGER, *expected]
    assert done.files == tuple(expected)
    assert (done.rows, done.skipped, done.failures) == (24, (), ())
    assert done.columns == ("mean", "std", "lower_80", "upper_80", "q0.5")
    assert done.to_dict()["files"] == expected
    for name in expected:
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


def test_finished_files_are_left_out(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    first = run(folder, parts, scheduler=scheduler)
    before = {each.name: each.stat().st_ino for each in (tmp_path / "out").iterdir()}
    again = run(folder, parts, scheduler=scheduler)
    assert (again.files, again.skipped) == ((), first.files)
    assert again.rows == first.rows == 24
    (tmp_path / "out" / "part-1.parquet").unlink()
    pq.write_table(homes(9, seed=7), parts / "part-2.parquet")
    third = run(folder, parts, scheduler=scheduler)
    assert third.files == ("part-1.parquet", "part-2.parquet")
    assert third.skipped == ("part-0.parquet",)
    assert third.rows == 25
    assert "1 file in" in third.notes[0]
    assert "will be made again" in third.notes[0]
    kept = (tmp_path / "out" / "part-0.parquet").stat().st_ino
    assert kept == before["part-0.parquet"]


def test_other_options_and_other_models_make_all_files_again(
    fitted: TableFit, folder: Path, parts: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    run(model, parts)
    former = files(tmp_path / "out")
    other = run(model, parts, coverage=0.9)
    assert len(other.files) == 3
    assert "3 files in" in other.notes[0]
    assert run(model, parts).files == other.files
    assert files(tmp_path / "out") == former
    about = {**fitted.model.about, "rows": 1}
    fitted.model.with_regressor(fitted.model.regressor, **about).save(
        model, overwrite=True
    )
    assert run(model, parts).skipped == ()


def test_a_file_that_fails_leaves_the_others_and_no_former_output(
    folder: Path, parts: Path, scheduler: str | None, tmp_path: Path
) -> None:
    run(folder, parts, scheduler=scheduler)
    (parts / "part-1.parquet").write_bytes(b"PAR1 nothing PAR1")
    done = run(folder, parts, scheduler=scheduler)
    assert done.skipped == ("part-0.parquet", "part-2.parquet")
    (failure,) = done.failures
    assert "part-1.parquet" in failure
    assert "\n" not in failure
    assert names(tmp_path / "out") == [LEDGER, "part-0.parquet", "part-2.parquet"]
    assert done.to_dict()["failures"] == [failure]


def test_predictions_of_a_file_that_is_gone_are_named(
    folder: Path, parts: Path, tmp_path: Path
) -> None:
    run(folder, parts)
    (parts / "part-0.parquet").unlink()
    done = run(folder, parts)
    assert done.notes == (
        f"{tmp_path / 'out'} has predictions whose inputs are gone: 'part-0.parquet'.",
    )


def test_a_ledger_that_was_cut_costs_one_file(
    folder: Path, parts: Path, tmp_path: Path
) -> None:
    run(folder, parts)
    ledger = tmp_path / "out" / LEDGER
    text = ledger.read_text()
    ledger.write_text(text[:-40])
    assert run(folder, parts).files == ("part-2.parquet",)
    assert run(folder, parts).skipped == tuple(f"part-{n}.parquet" for n in range(3))
    assert json.loads(text.splitlines()[0])["rows"] == 8
    ledger.write_text("[1]\n{}\n")
    assert len(run(folder, parts).files) == 3


def test_an_interruption_keeps_what_is_finished(
    folder: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        write = TableWriter.write

        def second(self: TableWriter, batch: Any) -> None:
            (ctrl_c if "part-1" in self._name else write)(self, batch)

        patch.setattr(TableWriter, "write", second)
        with pytest.raises(KeyboardInterrupt):
            run(folder, parts)
    assert names(tmp_path / "out") == [LEDGER, "part-0.parquet"]
    assert run(folder, parts).skipped == ("part-0.parquet",)


def test_notes_come_from_all_files_but_not_too_many(
    folder: Path, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        table = homes(8, seed=number).drop_columns(["city"])
        table = table.append_column("city", [["Kyiv"] * 8])
        pq.write_table(table, parts / f"part-{number}.parquet")
    done = run(folder, parts)
    assert sum("Kyiv" in note for note in done.notes) == 3
    monkeypatch.setattr(_folder, "MOST_NOTES", 2)
    done = run(folder, parts, coverage=0.9)
    assert len(done.notes) == 3
    assert done.notes[-1].endswith(
        "more notes are in _predictions.jsonl beside the predictions."
    )


def test_progress_counts_files(
    folder: Path, parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predict_table(folder, parts, tmp_path / "out", progress=True)
    shown = capsys.readouterr().err
    assert "predict out" in shown
    assert "3/3" in shown


def test_folders_that_cannot_be_predicted(folder: Path, parts: Path) -> None:
    out = parts.parent / "out"
    write_table(parts / "more.csv", homes(5))
    with pytest.raises(InputError, match=r"3 Parquet, 1 text\. Move the others away"):
        run(folder, parts)
    (parts / "more.csv").rename(parts / "more.txt")
    with pytest.raises(InputError, match=r"3 Parquet, 1 others, such as 'more\.txt'"):
        run(folder, parts)
    (parts / "more.txt").unlink()
    (parts / "deeper.parquet").mkdir()
    with pytest.raises(InputError, match=r"such as 'deeper\.parquet'"):
        run(folder, parts)
    for path in parts.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=r"and there are none\. Put some into it"):
        run(folder, parts)
    assert not out.exists()


def test_places_for_predictions_that_cannot_be(
    fitted: TableFit, folder: Path, parts: Path, tmp_path: Path
) -> None:
    for out in (parts, parts / "out", folder):
        with pytest.raises(InputError, match="is not the input's, nor in it, nor the"):
            predict_table(folder, parts, out)
    with pytest.raises(InputError, match="Name it as out"):
        predict_table(folder, parts)
    with pytest.raises(InputError, match="got one in memory"):
        predict_table(fitted.model, parts, tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="and this is a file"):
        predict_table(folder, parts, tmp_path / "file")
    with pytest.raises(InputError, match="coverage must lie"):
        predict_table(folder, parts, tmp_path / "out", coverage=90)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_is_for_folders(folder: Path, parts: Path) -> None:
    table = parts / "part-0.parquet"
    with pytest.raises(InputError, match="shares out the files of a folder, got one"):
        predict_table(folder, table, scheduler="tcp://127.0.0.1:8786")


def test_an_address_that_is_none_costs_no_former_output(
    folder: Path, parts: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    run(folder, parts)
    before = files(tmp_path / "out")
    with pytest.raises(SchedulerError, match="got 'nonsense'"):
        run(folder, parts, coverage=0.9, scheduler="nonsense")
    assert files(tmp_path / "out") == before


def test_a_scheduler_that_is_not_there_costs_no_former_output(
    folder: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "PATIENCE", 0.2)
    run(folder, parts)
    before = files(tmp_path / "out")
    with pytest.raises(SchedulerError, match="nobody answers"):
        run(folder, parts, coverage=0.9, scheduler="tcp://127.0.0.1:9")
    assert files(tmp_path / "out") == before


def test_workers_must_see_the_same_files(
    folder: Path,
    parts: Path,
    tmp_path: Path,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sign = str(tmp_path / "out" / "nothing")
    monkeypatch.setattr(_folder, "_sign", lambda *_: nullcontext(sign))
    with pytest.raises(
        SchedulerError, match=r"does not see .*out.part-.\.parquet .*machines share"
    ):
        run(folder, parts, scheduler=address)
    assert names(tmp_path / "out") == []


def test_what_changes_in_between_is_noticed(folder: Path, parts: Path) -> None:
    source = str(parts / "part-0.parquet")
    target = str(parts.parent / "out.parquet")
    job = FileJob(source, target, str(folder), "another", "{}", None)
    with pytest.raises(InputError, match="this was changed while it was being used"):
        predict_file(job)
    assert checksum_of(parts) == "nothing"
    check_seen(FileJob(source, target, str(folder), checksum_of(folder), "{}", None))


def test_reasons_for_failures() -> None:
    job = FileJob("parts/a.csv", "out/a.csv", "model", "", "{}", None)
    assert _reason(job, WorkerDiedError("x")).startswith("parts/a.csv: its workers")
    assert _reason(job, InputError("a.csv:\nno rows.")) == "a.csv: no rows."
    with pytest.raises(SchedulerError, match="Install calibrant"):
        _reason(job, ModuleNotFoundError("No module named 'calibrant'"))
    with pytest.raises(ZeroDivisionError):
        _reason(job, ZeroDivisionError())


def test_a_folder_that_may_not_be_read(
    folder: Path, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(InputError, match=r"the folder cannot be read: .*Permission"):
        run(folder, parts)
