"""--scheduler of predict, and folders of files."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bad_input.case import run_command
from bad_input.houses import houses
from calibrant.tables import TableWriter
from small_cluster import small_cluster


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with small_cluster() as cluster:
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def place(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, a table and a folder of tables, in which commands run."""
    shutil.copytree(small_model, tmp_path / "model")
    parts = tmp_path / "parts"
    parts.mkdir()
    for name in ("a.csv", "b.csv"):
        (parts / name).write_text(houses(rows=20), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_predict_of_a_folder_goes_on(place: Path, address: str) -> None:
    done = run_command(
        f"predict model parts -o out --keep id,zone --scheduler {address}"
    )
    assert done.code == 0
    assert "2 files, 40 rows: mean, std" in done.out
    assert "Predictions: out\n" in done.out
    assert (place / "out" / "a.csv").read_text().startswith("id,zone,mean,std,lower_50")
    again = run_command("predict model parts -o out --keep id --keep zone")
    assert "2 files, 2 finished before, 40 rows" in again.out
    told = json.loads(run_command("predict model parts --json --coverage 0.9").out)
    assert told["predictions"] == "parts.predictions"
    assert told["files"] == ["a.csv", "b.csv"]


def test_predict_of_a_folder_names_what_failed(place: Path) -> None:
    (place / "parts" / "b.csv").write_text("a,b\n1,2\n")
    done = run_command("predict model parts -o out")
    assert done.code == 2
    assert "1 file, 20 rows" in done.out
    assert done.err.count("\n") == 1
    assert done.err.startswith("calibrant: parts/b.csv: there are no columns")
    assert (place / "out" / "a.csv").exists()
    assert not (place / "out" / "b.csv").exists()


def test_predict_of_a_folder_is_interrupted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TableWriter.write

    def second(self: TableWriter, batch: object) -> None:
        if "b.csv" in self._name:
            raise KeyboardInterrupt
        write(self, batch)

    monkeypatch.setattr(TableWriter, "write", second)
    done = run_command("predict model parts -o out")
    assert done.code == 130
    assert done.err == (
        "calibrant: interrupted. Finished files are in out; the same command goes on.\n"
    )
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        *("_predictions.jsonl", "a.csv")
    ]
