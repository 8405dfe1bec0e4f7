"""Year Prediction MSD from a generated file: fetch, load, damage, place by hand."""

import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from calibrant.data import DATA_SETS, DownloadError, fetch, is_present, load, year
from calibrant.data.splits import year_split
from calibrant.data.year import load_year
from calibrant.errors import StorageError

ROWS = 40
KEPT = ["YearPredictionMSD.txt.zip", "year_msd.npy"]
PART = "YearPredictionMSD.txt.zip.part"
MakeYear = Callable[..., Path]


class Server(Protocol):
    address: str
    content: bytes
    script: list[object]
    ranges: list[str | None]


@pytest.fixture(autouse=True)
def _small_and_quick(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(year.time, "sleep", lambda _: None)
    if "slow" not in request.keywords:
        monkeypatch.setattr(year, "ROWS", ROWS)


@pytest.fixture
def lines(year_lines: Callable[[int], list[str]]) -> list[str]:
    return year_lines(ROWS)


@pytest.fixture
def table(lines: list[str]) -> np.ndarray:
    return np.array([[float(cell) for cell in line.split(",")] for line in lines])


@pytest.fixture
def serving(server: Server, make_year: MakeYear, lines: list[str]) -> Server:
    server.content = make_year(lines).read_bytes()
    return server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fetched_then_loaded(
    serving: Server, data_folder: Path, table: np.ndarray
) -> None:
    assert not is_present("year_msd")
    assert fetch() == data_folder
    assert is_present("year_msd")
    assert names(data_folder) == KEPT
    data = load("year_msd")
    np.testing.assert_array_equal(data.x, table[:, 1:])
    np.testing.assert_array_equal(data.y, table[:, 0])
    assert data.y[0] == 2001
    assert (len(data.features), data.target) == (90, "year")
    assert data.features[0] == "timbre_mean_1"
    assert data.features[-1] == "timbre_covariance_78"
    fetch()
    assert len(serving.ranges) == 1, "what is there is not downloaded again"


# Downloads from a server that drops, truncates and refuses.


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        (["500", "700", 503], [None, "bytes=500-", *["bytes=1200-"] * 2]),
        (["500", "ignore range"], [None, "bytes=500-"]),
        (["500", 416], [None, "bytes=500-", None]),
    ],
)
def test_drops_in_the_middle_do_not_matter(
    serving: Server, data_folder: Path, script: list[object], ranges: list[str | None]
) -> None:
    serving.script = script
    fetch()
    assert serving.ranges == ranges
    assert (data_folder / KEPT[0]).read_bytes() == serving.content
    assert names(data_folder) == KEPT


def test_it_gives_up_but_keeps_the_bytes(serving: Server, data_folder: Path) -> None:
    serving.script = ["500", *[503] * 4]
    with pytest.raises(DownloadError, match=r"answered 503.*is kept in .*by hand"):
        fetch()
    assert (data_folder / PART).read_bytes() == serving.content[:500]
    fetch()
    assert serving.ranges[-1] == "bytes=500-"
    assert names(data_folder) == KEPT


def test_pieces_of_another_file_are_found_out(
    serving: Server, data_folder: Path
) -> None:
    data_folder.mkdir(parents=True)
    (data_folder / PART).write_bytes(b"old" * 100)
    fetch()
    assert serving.ranges == ["bytes=300-", None]
    assert names(data_folder) == KEPT


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_ends_it_at_once(
    serving: Server, data_folder: Path, status: int
) -> None:
    serving.script = [status]
    with pytest.raises(DownloadError, match=rf"answered {status} .*may have moved"):
        fetch()
    assert len(serving.ranges) == 1
    assert names(data_folder) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
def test_a_full_disk_keeps_what_it_took(serving: Server, data_folder: Path) -> None:
    import resource

    # A limit on the size of files is the same to the program as a disk without room.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"What it holds is kept.*CALIBRANT_D"):
            fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (data_folder / PART).read_bytes() == serving.content[:3000]
    fetch()
    first, *others = serving.ranges  # a busy machine may try once more
    assert first is None
    assert set(others) == {"bytes=3000-"}


def test_the_progress_bar(
    serving: Server, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(progress=True)
    assert serving.ranges == [None]
    assert names(data_folder) == KEPT
    assert "YearPredictionMSD" in capsys.readouterr().err


def test_without_a_network_the_text_says_how_to_place_it(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(year, "ADDRESS", "http://127.0.0.1:9/Year.txt.zip")
    hand = rf"download http.*uci\.edu.*copy it, still zipped, to {data_folder}"
    with pytest.raises(DownloadError, match=rf"could not be downloaded: .*{hand}"):
        fetch()
    with pytest.raises(ValueError, match=rf"(?s)fetch\('year_msd'\).*{hand}.*CALIBR"):
        load("year_msd")
    with pytest.raises(ValueError, match=r"only 'year_msd' can be fetched, got 'bost"):
        fetch("boston")


def test_a_folder_that_cannot_be_written(
    serving: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(StorageError, match=r"could not be written.*CALIBRANT_DATA"):
        fetch()
    assert serving.ranges == []


# Content


def change(lines: list[str], row: int, column: int, value: str) -> list[str]:
    cells = lines[row].split(",")
    cells[column] = value
    return [*lines[:row], ",".join(cells), *lines[row + 1 :]]


WRONG: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "short": (lambda lines: lines[:-1], r"there are 39 lines of 91"),
    "long": (lambda lines: [*lines, lines[1]], r"there are 41 or more lines"),
    "narrow": (
        lambda lines: [line.rsplit(",", 1)[0] for line in lines],
        r"40 lines of 90 numbers",
    ),
    "ragged": (lambda lines: [*lines[:-1], "2001,1.5"], r"columns changed"),
    "year": (lambda lines: change(lines, 6, 0, "1900"), r"line 7 has the year 1900"),
    "half": (lambda lines: change(lines, 6, 0, "1990.5"), r"line 7 .* 1990.5"),
    "infinite": (lambda lines: change(lines, 8, 3, "inf"), r"line 9 .* not finite"),
    "text": (lambda lines: change(lines, 8, 3, "loud"), r"could not convert"),
    "other": (lambda lines: change(lines, 0, 1, "1.25"), r"begins with .*1\.25.* inst"),
    "header": (lambda lines: ["year,timbre", *lines[1:]], r"could not convert"),
}


@pytest.mark.parametrize("how", WRONG)
def test_another_table_is_refused_and_not_kept(
    server: Server, data_folder: Path, make_year: MakeYear, lines: list[str], how: str
) -> None:
    damage, text = WRONG[how]
    server.content = make_year(damage(lines)).read_bytes()
    with pytest.raises(DownloadError, match=rf"40 lines of 91.*{text}.*by hand"):
        fetch()
    assert names(data_folder) == []
    assert not is_present("year_msd")


@pytest.mark.parametrize("how", ["page", "cut", "flipped", "member"])
def test_bytes_that_are_not_the_zip_are_refused(
    server: Server, data_folder: Path, make_year: MakeYear, lines: list[str], how: str
) -> None:
    whole = make_year(lines).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    server.content = {
        "page": b"<html>Log in</html>",
        "cut": whole[:-100],
        "flipped": bytes(flipped),
        "member": make_year(lines, member="readme.md").read_bytes(),
    }[how]
    with pytest.raises(DownloadError, match="must be Year Prediction MSD"):
        fetch()
    assert names(data_folder) == []


@pytest.mark.parametrize(
    "name",
    ["YearPredictionMSD.txt.zip", "yearpredictionmsd.zip", "YearPredictionMSD.txt"],
)
def test_placed_by_hand(
    data_folder: Path, make_year: MakeYear, lines: list[str], name: str
) -> None:
    data_folder.mkdir(parents=True)
    if name.endswith(".zip"):
        shutil.copy(make_year(lines), data_folder / name)
    else:
        (data_folder / name).write_text("\n".join(lines))
    assert is_present("year_msd")
    fetch()
    assert load_year().shape == (ROWS, 91)
    assert names(data_folder) == sorted([name, KEPT[1]])


@pytest.mark.parametrize("how", ["cut", "text", "pickle", "shape", "npz", "gone"])
def test_a_damaged_array_is_made_again(
    data_folder: Path,
    make_year: MakeYear,
    lines: list[str],
    table: np.ndarray,
    how: str,
) -> None:
    data_folder.mkdir(parents=True)
    shutil.copy(make_year(lines), data_folder / KEPT[0])
    array = data_folder / "year_msd.npy"
    load_year()
    before = array.read_bytes()
    if how == "cut":
        array.write_bytes(before[:-8])
    elif how == "text":
        array.write_text("year,timbre")
    elif how == "pickle":
        np.save(array, np.array([{"a": 1}]), allow_pickle=True)
    elif how == "shape":
        np.save(array, table[:-1])
    elif how == "npz":
        np.savez(data_folder / "other", table)
        (data_folder / "other.npz").replace(array)
    else:
        array.unlink()
    np.testing.assert_array_equal(load_year(), table)
    assert array.read_bytes() == before
    (data_folder / KEPT[0]).unlink()  # the array alone is enough
    assert is_present("year_msd")
    np.testing.assert_array_equal(load_year(), table)


def test_no_room_for_the_array_only_costs_time(
    data_folder: Path,
    make_year: MakeYear,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data_folder.mkdir(parents=True)
    shutil.copy(make_year(lines), data_folder / KEPT[0])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(UserWarning, match=r"could not be kept in .*No space left"):
        data = load_year()
    assert data.shape == (ROWS, 91)
    assert names(data_folder) == KEPT[:1]


@pytest.mark.parametrize(
    ("platform", "variable", "value", "folder"),
    [
        ("linux", "XDG_CACHE_HOME", "{home}/xdg", "xdg"),
        ("linux", "XDG_CACHE_HOME", "relative", ".cache"),
        ("darwin", "XDG_CACHE_HOME", "", "Library/Caches"),
        ("win32", "LOCALAPPDATA", "", "AppData/Local"),
        ("win32", "LOCALAPPDATA", "{home}/local", "local"),
    ],
)
def test_the_folder_for_data(
    platform: str,
    variable: str,
    value: str,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CALIBRANT_DATA", "~/elsewhere")
    assert year.data_folder() == tmp_path / "elsewhere"
    monkeypatch.setenv("CALIBRANT_DATA", "")
    assert year.data_folder().name == "calibrant"
    monkeypatch.setenv(variable, value.format(home=tmp_path))
    assert year._caches(platform) == tmp_path / folder


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import calibrant.data as d; list(d.DATA_SETS)", "numpy torch scipy pandas"),
        ("from calibrant.data import *; load('yacht')", "torch scipy pandas rich"),
    ],
)
def test_nothing_heavy_is_imported(statement: str, banned: str) -> None:
    code = (
        f"{statement}\nimport sys\nassert not set({banned.split()}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_file_of_the_full_shape(
    data_folder: Path, year_lines: Callable[[int], list[str]]
) -> None:
    rows = DATA_SETS["year_msd"].rows
    data_folder.mkdir(parents=True)
    first, *block = year_lines(1000)
    # Short numbers: the shape is the point, and reading takes its time by the digit.
    cut = [
        ",".join(cell.partition(".")[0] for cell in line.split(",")) for line in block
    ]
    whole, rest = divmod(rows - 1, len(cut))
    with (
        zipfile.ZipFile(data_folder / KEPT[0], "w") as archive,
        archive.open("YearPredictionMSD.txt", "w") as stream,
    ):
        for part in [[first], *[cut] * whole, cut[:rest]]:
            stream.write(("\n".join(part) + "\n").encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load("year_msd")
    assert data.x.shape == (515_345, 90)
    (split,) = year_split(len(data))
    last = [float(cell) for cell in cut[(rows - 2) % len(cut)].split(",")]
    np.testing.assert_array_equal(data.x[split.test[-1]], last[1:])
    assert data.y[split.test[-1]] == last[0]
    kept = np.load(data_folder / "year_msd.npy", mmap_mode="r")
    np.testing.assert_array_equal(kept[:, 0], data.y)
    np.testing.assert_array_equal(kept[-1, 1:], data.x[-1])
