"""Where downloaded data goes, and that importing the room is cheap."""

import subprocess
import sys
from pathlib import Path

import pytest

from calibrant.data.cache import _caches, data_folder


def test_the_variable_moves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CALIBRANT_DATA", "~/elsewhere")
    assert data_folder() == tmp_path / "elsewhere"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALIBRANT_DATA", "here")
    assert data_folder() == tmp_path / "here"


def test_otherwise_it_is_where_the_system_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRANT_DATA", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_folder().name == "calibrant"
    assert _caches("linux") == tmp_path / "xdg"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert _caches("linux") == tmp_path / ".cache"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _caches("linux") == tmp_path / ".cache"
    assert _caches("darwin") == tmp_path / "Library" / "Caches"
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert _caches("win32") == tmp_path / "AppData" / "Local"
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert _caches("win32") == tmp_path / "local"


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import calibrant.data as d; list(d.DATA_SETS)", "numpy torch scipy pandas"),
        ("from calibrant.data import *; load('yacht')", "torch scipy pandas rich"),
        ("import calibrant.data as d; d.year_split(515_345)", "torch scipy pandas"),
    ],
)
def test_nothing_heavy_is_imported(statement: str, banned: str) -> None:
    code = (
        f"{statement}\nimport sys\nassert not set({banned.split()}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
