"""Year Prediction MSD from a generated file: fetch, load, damage, place by hand."""

import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calibrant.data import (
    DATA_SETS,
    DownloadError,
    fetch,
    is_present,
    load,
    loading,
    year_split,
)
from calibrant.data import download as download_module
from calibrant.data.year import YearFile, load_year
from calibrant.errors import StorageError

ROWS = 40
MakeYear = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module.time, "sleep", lambda _: None)


@pytest.fixture
def lines(year_lines: Callable[[int], list[str]]) -> list[str]:
    return year_lines(ROWS)


@pytest.fixture
def table(lines: list[str]) -> np.ndarray:
    return np.array([[float(cell) for cell in line.split(",")] for line in lines])


def serve(server: object, path: Path) -> YearFile:
    server.content = path.read_bytes()  # type: ignore[attr-defined]
    return YearFile(address=server.address, rows=ROWS)  # type: ignore[attr-defined]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


KEPT = ["YearPredictionMSD.txt.zip", "year_msd.npy", "year_msd.npy.sha256"]


def test_fetched_then_loaded(
    server: object,
    data_folder: Path,
    make_year: MakeYear,
    lines: list[str],
    table: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = serve(server, make_year(lines))
    assert not is_present("year_msd")
    assert fetch(file=file) == data_folder
    assert is_present("year_msd")
    assert names(data_folder) == KEPT
    monkeypatch.setattr(loading, "load_year", lambda: load_year(file))
    data = load("year_msd")
    np.testing.assert_array_equal(data.x, table[:, 1:])
    np.testing.assert_array_equal(data.y, table[:, 0])
    assert data.y[0] == 2001
    assert (len(data.features), data.target) == (90, "year")
    assert data.features[0] == "timbre_mean_1"
    assert data.features[-1] == "timbre_covariance_78"
    assert data.license == DATA_SETS["year_msd"].license
    fetch(file=file)
    assert len(server.ranges) == 1, "what is there is not downloaded again"  # type: ignore[attr-defined]


def test_drops_in_the_middle_do_not_matter(
    server: object, data_folder: Path, make_year: MakeYear, lines: list[str]
) -> None:
    file = serve(server, make_year(lines))
    server.script = [("drop", 500), ("drop", 700), 503]  # type: ignore[attr-defined]
    fetch(file=file)
    assert load_year(file).shape == (ROWS, 91)
    assert names(data_folder) == KEPT


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
    server: object, data_folder: Path, make_year: MakeYear, lines: list[str], how: str
) -> None:
    damage, text = WRONG[how]
    file = serve(server, make_year(damage(lines)))
    with pytest.raises(DownloadError, match=rf"40 lines of 91.*{text}.*by hand"):
        fetch(file=file)
    assert names(data_folder) == []
    assert not is_present("year_msd")


def test_bytes_that_are_no_zip_are_refused(
    server: object, data_folder: Path, make_year: MakeYear, lines: list[str]
) -> None:
    made = make_year(lines)
    whole = made.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    two = bytearray(make_year(lines, member="readme.md").read_bytes())
    for content in (b"<html>Log in</html>", whole[:-100], bytes(flipped), bytes(two)):
        file = serve(server, made)
        server.content = content  # type: ignore[attr-defined]
        with pytest.raises(DownloadError, match="must be Year Prediction MSD"):
            fetch(file=file)
        assert names(data_folder) == []


def test_without_a_network_the_text_says_how_to_place_it(data_folder: Path) -> None:
    file = YearFile(address="http://127.0.0.1:9/YearPredictionMSD.txt.zip", rows=ROWS)
    hand = rf"download .*uci\.edu.*copy it, still zipped, to {data_folder}"
    with pytest.raises(DownloadError, match=hand.replace(".*uci", r"http.*uci")):
        fetch(file=file)
    with pytest.raises(ValueError, match=rf"(?s)fetch\('year_msd'\).*{hand}.*CALIBR"):
        load("year_msd")
    with pytest.raises(ValueError, match=r"only 'year_msd' can be fetched, got 'bost"):
        fetch("boston")


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
    file = YearFile(rows=ROWS)
    fetch(file=file)
    assert load_year(file).shape == (ROWS, 91)
    assert names(data_folder) == sorted([name, *KEPT[1:]])


@pytest.fixture
def placed(data_folder: Path, make_year: MakeYear, lines: list[str]) -> YearFile:
    data_folder.mkdir(parents=True)
    shutil.copy(make_year(lines), data_folder / KEPT[0])
    file = YearFile(rows=ROWS)
    load_year(file)
    return file


def test_the_array_alone_is_enough(
    data_folder: Path, placed: YearFile, table: np.ndarray
) -> None:
    (data_folder / KEPT[0]).unlink()
    assert is_present("year_msd")
    np.testing.assert_array_equal(load_year(placed), table)


@pytest.mark.parametrize("how", ["flip", "cut", "pickle", "fortran", "npz", "gone"])
def test_a_damaged_array_is_made_again(
    data_folder: Path, placed: YearFile, table: np.ndarray, how: str
) -> None:
    array = data_folder / "year_msd.npy"
    before = array.read_bytes()
    content = bytearray(before)
    if how == "flip":
        content[-5] ^= 1
        array.write_bytes(content)
    elif how == "cut":
        array.write_bytes(content[:-8])
    elif how == "pickle":
        np.save(array, np.array([{"a": 1}]), allow_pickle=True)
    elif how == "fortran":
        np.save(array, np.asfortranarray(table))
    elif how == "npz":
        np.savez(data_folder / "other", table)
        (data_folder / "other.npz").replace(array)
    else:
        array.unlink()
    np.testing.assert_array_equal(load_year(placed), table)
    assert array.read_bytes() == before
    (data_folder / KEPT[0]).unlink()
    np.testing.assert_array_equal(load_year(placed), table)


@pytest.mark.parametrize("text", ["", "\ud7ff", "0" * 64])
def test_a_damaged_checksum_is_written_again(
    data_folder: Path, placed: YearFile, text: str
) -> None:
    mark = data_folder / KEPT[2]
    before = mark.read_text()
    mark.write_text(text, "utf-8")
    load_year(placed)
    assert mark.read_text() == before


def test_an_array_of_another_shape_is_not_taken(placed: YearFile) -> None:
    with pytest.raises(ValueError, match=r"40 or more|there are 40 lines"):
        load_year(YearFile(rows=ROWS - 1))
    assert load_year(placed).shape == (ROWS, 91)


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
        data = load_year(YearFile(rows=ROWS))
    assert data.shape == (ROWS, 91)
    assert names(data_folder) == KEPT[:1]


def test_a_folder_that_cannot_be_written(
    server: object,
    tmp_path: Path,
    make_year: MakeYear,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(StorageError, match=r"could not be written.*CALIBRANT_DATA"):
        fetch(file=serve(server, make_year(lines)))


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
