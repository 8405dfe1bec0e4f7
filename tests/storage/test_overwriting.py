"""A folder is there as a whole or not at all, and nobody's files are lost."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant.storage import (
    StorageError,
    _place,
    check_writable,
    read,
    read_folder,
    write_folder,
)


def write(folder: Path | str, number: int = 1, *, overwrite: bool = False) -> Path:
    return write_folder(
        folder,
        arrays={"number": torch.tensor([number])},
        description={"number": number},
        kind="number",
        overwrite=overwrite,
    )


def number_in(folder: Path | str) -> int:
    arrays, description = read_folder(folder, kind="number")
    assert description["number"] == arrays["number"].item()
    return int(arrays["number"].item())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(
    function: Callable[..., Any], error: BaseException, *, at: tuple[int, ...]
) -> Callable[..., Any]:
    """Let the calls with these numbers, from 1, raise and all others pass."""
    calls = 0

    def call(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in at:
            raise error
        return function(*given, **options)

    return call


def test_an_existing_folder_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a", 1)
    with pytest.raises(StorageError, match=r"a exists already.*overwrite=True"):
        write(tmp_path / "a", 2)
    assert number_in(tmp_path / "a") == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match="exists already"):
        write(tmp_path / "empty")
    assert names(tmp_path) == ["a", "empty"]


def test_overwriting_replaces_ours_and_empty_folders(tmp_path: Path) -> None:
    write(tmp_path / "a", 1)
    (tmp_path / "empty").mkdir()
    for name in ("a", "empty", "new"):
        assert write(tmp_path / name, 2, overwrite=True) == tmp_path / name
        assert number_in(tmp_path / name) == 2
        assert names(tmp_path / name) == ["arrays.safetensors", "model.json"]
    assert names(tmp_path) == ["a", "empty", "new"]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"thesis.tex": "all my work"}, r"holds 'thesis.tex'"),
        ({"model.json": '{"format": "other"}'}, r"not calibrant's"),
        ({"model.json": "{"}, r"not calibrant's"),
        ({"arrays.safetensors": "x"}, r"not calibrant's"),
        ({"model.json": '{"format": "calibrant"}', ".git": "x"}, r"holds '.git'"),
    ],
)
def test_foreign_files_are_never_removed(
    files: dict[str, str], match: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    for overwrite in (False, True):
        with pytest.raises(StorageError, match=match if overwrite else "exists"):
            write(folder, overwrite=overwrite)
    assert {name: (folder / name).read_text() for name in names(folder)} == files
    assert names(tmp_path) == ["a"]


def test_a_note_beside_our_files_is_kept(tmp_path: Path) -> None:
    (write(tmp_path / "a", 1) / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"'notes.txt'.*remove the files yourself"):
        write(tmp_path / "a", 2, overwrite=True)
    assert number_in(tmp_path / "a") == 1


@pytest.mark.parametrize("error", [OSError("disk gone"), KeyboardInterrupt()])
@pytest.mark.parametrize("function", ["fsync", "rename", "mkdir"])
def test_an_error_while_writing_leaves_nothing(
    error: BaseException,
    function: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = getattr(os, function)
    at = (2,) if function == "fsync" else (1, 2)
    monkeypatch.setattr(os, function, failing(original, error, at=at))
    with pytest.raises((StorageError, KeyboardInterrupt), match=str(error) or "^$"):
        write(tmp_path / "a")
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [OSError("disk gone"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2])
def test_an_error_while_overwriting_keeps_the_former_one(
    error: BaseException, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing(os.rename, error, at=(at,)))
        with pytest.raises((StorageError, KeyboardInterrupt)):
            write(tmp_path / "a", 2, overwrite=True)
    assert names(tmp_path) == ["a"]
    assert number_in(tmp_path / "a") == 1
    write(tmp_path / "a", 2, overwrite=True)
    assert number_in(tmp_path / "a") == 2


def test_a_former_one_that_cannot_be_brought_back_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing(os.rename, OSError("gone"), at=(2, 3)))
        with pytest.raises(StorageError, match=r"brought back from .*\.old: gone"):
            write(tmp_path / "a", 2, overwrite=True)
    (old,) = tmp_path.iterdir()
    assert number_in(old) == 1


def test_a_former_one_that_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", failing(os.rmdir, OSError("in use"), at=(1,)))
        with pytest.warns(UserWarning, match=r"a is written, but .*\.old: in use"):
            write(tmp_path / "a", 2, overwrite=True)
    assert number_in(tmp_path / "a") == 2


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_killed_process_never_takes_the_former_one_along(
    renames: int, tmp_path: Path
) -> None:
    write(tmp_path / "a", 1)
    code = f"""
import os, torch
from calibrant.storage import write_folder
original, calls = os.rename, 0
def rename(*given, **options):
    global calls
    if calls == {renames}:
        os._exit(9)
    calls += 1
    original(*given, **options)
    if calls == {renames} == 2:
        os._exit(9)
os.rename = rename
write_folder({str(tmp_path / "a")!r}, arrays={{"number": torch.tensor([2])}},
             description={{"number": 2}}, kind="number", overwrite=True)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == 9
    # With one rename there is no folder: the former version beside it is read.
    assert number_in(tmp_path / "a") == 1 + renames // 2
    assert len(names(tmp_path)) == 2
    write(tmp_path / "a", 3, overwrite=True)
    assert number_in(tmp_path / "a") == 3
    assert names(tmp_path) == ["a"]  # nothing is left for ever


def test_of_several_former_ones_the_last_is_read(tmp_path: Path) -> None:
    olds = [
        write(tmp_path / f".a.calibrant-{number:016x}.old", number)
        for number in (1, 2, 3)
    ]
    (tmp_path / f".a.calibrant-{4:016x}.new").mkdir()
    # The second is the last one that lost its name, by a clock of whatever step.
    while olds[1].stat().st_ctime_ns <= olds[2].stat().st_ctime_ns:
        olds[1].rename(tmp_path / "b").rename(olds[1])
    assert number_in(tmp_path / "a") == 2
    with pytest.raises(StorageError, match="there is no folder"):
        read_folder(tmp_path / "b", kind="number")
    write(tmp_path / "a", 5)
    assert names(tmp_path) == ["a"]


def test_what_others_are_writing_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[int] = []

    def interleaved(*given: Any) -> None:
        if not inner:  # another save comes while this one is at its first file
            inner.append(1)
            write(tmp_path / "a", 2)
        original(*given)

    original = _place._write
    monkeypatch.setattr(_place, "_write", interleaved)
    write(tmp_path / "a", 1, overwrite=True)
    assert number_in(tmp_path / "a") == 1
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", range(6))
def test_a_reader_meets_one_version_whatever_a_save_does_meanwhile(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The save happens whole, or stops in its middle, between two steps of a reader."""
    folder = write(tmp_path / "a", 1)
    steps: list[str] = []

    def before(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            steps.append(function.__name__)
            if len(steps) == step + 1:
                with monkeypatch.context() as patch:
                    patch.setattr(read, "read_file", read_file)
                    write(folder, 2, overwrite=True)
            return function(*given, **options)

        return call

    read_file = read.read_file
    monkeypatch.setattr(read, "read_file", before(read_file))
    assert number_in(folder) in (1, 2)
    assert number_in(folder) in (1, 2)


def test_a_reader_between_the_two_renames_finds_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "a", 1)
    found: list[int] = []

    def rename(*given: Any, **options: Any) -> None:
        found.append(number_in(folder))
        original(*given, **options)
        found.append(number_in(folder))

    original = os.rename
    monkeypatch.setattr(os, "rename", rename)
    write(folder, 2, overwrite=True)
    assert found == [1, 1, 1, 2]


def test_a_folder_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appears(*given: Any) -> None:
        if not (tmp_path / "a").exists():
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "foreign").write_text("x")
        original(*given)

    original = os.rename
    monkeypatch.setattr(os, "rename", appears)
    with pytest.raises(StorageError, match="cannot be written"):
        write(tmp_path / "a")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["foreign"]


def test_links_are_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, broken = tmp_path / "link", tmp_path / "broken"
    link.symlink_to(write(tmp_path / "disk" / "real", 1), target_is_directory=True)
    broken.symlink_to(tmp_path / "disk" / "later")
    assert write(link, 2, overwrite=True) == link
    write(broken, 3)
    assert link.is_symlink()
    assert broken.is_symlink()
    assert number_in(link) == number_in(tmp_path / "disk" / "real") == 2
    assert number_in(broken) == number_in(tmp_path / "disk" / "later") == 3
    assert names(tmp_path / "disk") == ["later", "real"]


def test_a_link_to_itself_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StorageError):
        write(tmp_path / "loop", overwrite=True)
    with pytest.raises(StorageError):
        read_folder(tmp_path / "loop", kind="number")


def test_files_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=r"file is a file\. Choose another name"):
        write(tmp_path / "file", overwrite=True)
    with pytest.raises(StorageError, match=r"cannot be written.*parent must be"):
        write(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "x"


def test_a_parent_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StorageError, match=r"Permission denied.*you may write"):
        write(tmp_path / "a")


@pytest.mark.parametrize(
    "name",
    [
        "with spaces",
        "Größe 大小 🎲",
        "[a]*?",
        "a" * 255,
        "大" * 85,
        "new/parents/a",
        ".h",
    ],
)
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, 1)
    write(str(tmp_path / name), 2, overwrite=True)
    assert number_in(tmp_path / name) == 2


def test_a_name_that_is_too_long_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="too long"):
        write(tmp_path / ("a" * 300))
    with pytest.raises(StorageError, match=r"cannot be read.*too long"):
        read_folder(tmp_path / ("a" * 300), kind="number")
    assert names(tmp_path) == []


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write("a") == Path("a")
    assert number_in("a") == number_in("./a/") == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of another kind")
def test_others_may_read_what_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "a" / "model.json").stat().st_mode) == 0o644


def test_a_page_comes_along_and_is_replaced_with_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    for number, page in ((1, "first"), (2, "second"), (3, None)):
        write_folder(
            folder,
            arrays={"number": torch.tensor([number])},
            description={"number": number},
            kind="number",
            page=page,
            overwrite=True,
        )
        assert number_in(folder) == number
        found = folder / "report.html"
        assert (found.read_text() if found.exists() else None) == page
    assert names(tmp_path) == ["a"]


def test_what_cannot_be_written_later_is_refused_now(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "a")
    assert not (tmp_path / "new" / "a").exists()
    write(tmp_path / "a", 1)
    check_writable(tmp_path / "a", overwrite=True)
    with pytest.raises(StorageError, match="exists already"):
        check_writable(tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"a cannot be written.*must be a folder"):
        check_writable(tmp_path / "file" / "a")


def test_a_folder_that_one_may_not_write_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(StorageError, match="may not write in"):
        check_writable(tmp_path / "a")


def test_an_interruption_while_the_former_one_is_removed_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", 1)
    stopped = failing(Path.unlink, KeyboardInterrupt(), at=(1,))
    monkeypatch.setattr(Path, "unlink", lambda *given, **more: stopped(*given, **more))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a", 2, overwrite=True)
    monkeypatch.undo()
    assert names(tmp_path) == ["a"]
    assert number_in(tmp_path / "a") == 2
