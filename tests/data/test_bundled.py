"""Every bundled set: its checksum, its numbers, its papers, and how it was built."""

import gzip
import hashlib
import importlib.util
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrant.data import DATA_SETS, DataSetInfo, is_present, load

ROOT = Path(__file__).parents[2]
BUNDLED = [name for name, info in DATA_SETS.items() if info.bundled]

# Rows, features, first target, last target: typed from the files of the origin.
FACTS = {
    "airfoil": (1503, 5, 126.201, 104.204),
    "boston": (506, 13, 24.0, 11.9),
    "concrete": (1030, 8, 79.98611076, 32.401235144),
    "fish": (908, 6, 3.77, 8.201),
    "kin8nm": (8192, 8, 0.53652416, 0.49685261),
    "protein": (45730, 9, 17.284, 18.827),
    "red_wine": (1599, 11, 5.0, 6.0),
    "white_wine": (4898, 11, 6.0, 6.0),
    "yacht": (308, 6, 0.11, 46.66),
}


@pytest.fixture(params=BUNDLED)
def info(request: pytest.FixtureRequest) -> DataSetInfo:
    return DATA_SETS[request.param]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "tools" / "build_data.py"
    spec = importlib.util.spec_from_file_location("build_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_data"] = module
    spec.loader.exec_module(module)
    return module


def content(name: str) -> bytes:
    return (resources.files("calibrant.data") / "files" / f"{name}.csv.gz").read_bytes()


def test_the_ten_sets_of_the_paper_are_there_in_order() -> None:
    assert list(DATA_SETS) == [*sorted(FACTS), "year_msd"]
    assert sorted(FACTS) == BUNDLED


def test_the_csv_has_its_checksum(info: DataSetInfo) -> None:
    csv = gzip.decompress(content(info.name))
    assert hashlib.sha256(csv).hexdigest() == info.csv_sha256


def test_numbers_are_those_of_the_origin(info: DataSetInfo) -> None:
    data = load(info.name)
    rows, features, first, last = FACTS[info.name]
    assert (info.rows, info.features) == (rows, features)
    assert data.x.shape == (rows, features)
    assert data.y.shape == (rows,)
    assert len(data) == rows
    assert data.x.dtype == data.y.dtype == np.float64
    assert data.x.flags.c_contiguous
    assert data.x.flags.writeable
    assert (data.y[0], data.y[-1]) == (first, last)
    assert np.isfinite(data.x).all()
    assert np.isfinite(data.y).all()


def test_names_and_papers_come_along(info: DataSetInfo) -> None:
    data = load(info.name)
    assert len(data.features) == len(set(data.features)) == info.features
    assert data.target == info.target
    assert data.target not in data.features
    for field in ("title", "description", "license", "citation", "source"):
        assert getattr(info, field) != ""
    assert repr(data).startswith(f"DataSet(name='{info.name}'")
    assert "array" not in repr(data)


def test_the_notice_credits_every_set() -> None:
    notice = " ".join((ROOT / "NOTICE").read_text("utf-8").split())
    for info in DATA_SETS.values():
        assert info.name in notice
        assert info.citation in notice
        assert info.title in notice or info.title.startswith("Wine quality")


def test_boston_comes_with_its_warning() -> None:
    notice = " ".join((ROOT / "NOTICE").read_text("utf-8").split())
    for text in (DATA_SETS["boston"].description, notice):
        assert "Black residents" in text
        assert "self-segregation" in text
        assert "withdrawn" in text
        assert "here only because" in text or "here for one purpose only" in text


def test_known_wrong_cell_of_boston_is_right() -> None:
    # Some packages have 0.6718 here.
    data = load("boston")
    assert data.x[445, data.features.index("crim")] == 10.6718


def test_rows_keep_their_order() -> None:
    froude = load("yacht").x[:, 5]
    np.testing.assert_allclose(froude[:14], np.linspace(0.125, 0.45, 14))
    np.testing.assert_array_equal(froude.reshape(22, 14), np.tile(froude[:14], (22, 1)))


def test_the_numbers_written_again_are_the_same_file(
    info: DataSetInfo, script: ModuleType
) -> None:
    data = load(info.name)
    rows = np.column_stack([data.x, data.y]).tolist()
    csv = script.csv_of(script.RECIPES[info.name].columns, rows)
    assert hashlib.sha256(csv).hexdigest() == info.csv_sha256
    assert gzip.decompress(script.compressed(csv)) == csv
    assert script.compressed(csv) == script.compressed(csv)


def test_readers_of_the_script(script: ModuleType) -> None:
    assert script.delimited(";", skip=1)(b"a;b\n1;2\r\n\n") == [[1.0, 2.0]]
    assert script.arff(b"% x\r\n@relation k\r\n@DATA\r\n1e-1, 2\r\n") == [[0.1, 2.0]]
    assert script.target_first(script.delimited(","))(b"1,2,3") == [[2.0, 3.0, 1.0]]


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = DATA_SETS["airfoil"].csv_sha256
    monkeypatch.setitem(
        DATA_SETS,
        "yacht",
        DataSetInfo(**{**vars(DATA_SETS["yacht"]), "csv_sha256": wrong}),
    )
    with pytest.raises(ValueError, match=r"yacht\.csv\.gz must hold.*Install"):
        load("yacht")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'bosten'.*airfoil, boston.*mean 'boston'"):
        load("bosten")
    assert not is_present("bosten")
    assert is_present("boston")


def test_a_named_set_has_its_own_target() -> None:
    assert load("yacht", target="residuary_resistance").name == "yacht"
    with pytest.raises(ValueError, match=r"target of 'yacht' is 'residuary_resist"):
        load("yacht", target="froude_number")
