"""Whatever happened to a folder, reading it gives one clear error."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from calibrant import InputError
from calibrant.storage import StorageError, check_writable, read_folder

Forge = Callable[..., None]
FILES = ("model.json", "arrays.safetensors")


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "model.json"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


@pytest.mark.parametrize("name", FILES)
def test_truncated_anywhere(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"truncated|edited|format"):
            read_folder(folder, kind="line")
    path.write_bytes(whole)
    read_folder(folder, kind="line")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["bit", "random", "space", "tab", "carriage return"])
def test_one_byte_changed_anywhere(folder: Path, name: str, how: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    chance = random.Random(0)
    fixed = {"space": 0x20, "tab": 0x09, "carriage return": 0x0D}
    for position, byte in enumerate(whole):
        other = fixed.get(how, chance.randrange(256))
        if how == "bit" or other == byte:
            other = byte ^ (1 << chance.randrange(8))
        path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
        with pytest.raises(StorageError):
            read_folder(folder, kind="line")


@pytest.mark.parametrize("name", FILES)
def test_bytes_added(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    for changed in (
        whole + b"\n",
        b" " + whole,
        whole + whole,
        b"\xef\xbb\xbf" + whole,
    ):
        path.write_bytes(changed)
        with pytest.raises(StorageError):
            read_folder(folder, kind="line")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)  # sparse: it takes no room on the disk


@pytest.mark.skipif(os.name == "nt", reason="no such files")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (_huge, r"must have .*bytes.*, it has 53687091200|at most .* bytes, it has"),
        (os.mkfifo, "must be a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "must be a regular file"),
    ],
    ids=["sparse", "fifo", "endless"],
)
def test_sizes_and_types_are_checked_before_anything_is_read(
    folder: Path, name: str, make: Callable[[Path], None], match: str
) -> None:
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(StorageError, match=match):
        read_folder(folder, kind="line")
    if name == "model.json":  # which is read before it is replaced, too
        with pytest.raises(StorageError, match="files that are not calibrant's"):
            check_writable(folder, overwrite=True)


def test_arrays_damaged_behind_right_checksums(folder: Path, forge: Forge) -> None:
    whole = (folder / "arrays.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    chance = random.Random(0)
    refused = 0
    for position in range(header):
        for _ in range(3):
            other = bytes([chance.randrange(256)])
            forge(arrays=whole[:position] + other + whole[position + 1 :])
            try:
                read_folder(folder, kind="line")
            except StorageError:
                refused += 1
    assert refused > 2 * header
    for length in range(0, len(whole), 3):
        forge(arrays=whole[:length])
        with pytest.raises(StorageError, match="safetensors file"):
            read_folder(folder, kind="line")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no folder .*nowhere.*misspelled"):
        read_folder(tmp_path / "nowhere", kind="line")
    assert issubclass(StorageError, InputError)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="must be a folder, and it is a file"):
        read_folder(tmp_path / "file", kind="line")
    with pytest.raises(StorageError, match="no folder"):
        read_folder(tmp_path / "file" / "below", kind="line")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_or_a_folder(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(StorageError, match=rf"{name} is missing.*copy both"):
        read_folder(folder, kind="line")
    (folder / name).mkdir()
    with pytest.raises(StorageError, match=rf"{name} cannot be read"):
        read_folder(folder, kind="line")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "cannot be read as JSON"),
        ("\x00" * 50, "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"format": NaN}', "NaN is not a number of JSON"),
        ('{"format": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ("[1]", r"format 'calibrant'.*something else.*None"),
        ("null", r"something else"),
        ('{"architectures": ["GPT"]}', r"format is None.*folder that calibrant wrote"),
        ('{"format": "calibrant recalibrator"}', r"is 'calibrant recalibrator'"),
        ('{"format": ["calibrant"]}', r"something else"),
        ('{"format": "calibrant"}', r"format_version is None"),
        ('{"format": "calibrant", "format_version": true}', r"is True"),
        ('{"format": "calibrant", "format_version": 0}', r"is 0"),
        ('{"format": "calibrant", "format_version": 1}', r"edited or damaged"),
        (
            '{"format": "calibrant", "format_version": 1, "checksums": '
            '{"model.json": {"sha256": "' + "\\ud800" * 64 + '"}}}',
            r"edited or damaged",
        ),
        (
            '{"format": "calibrant", "format_version": 1, "checksums": '
            '{"model.json": {"sha256": ""}}}',
            r"edited or damaged",
        ),
    ],
)
def test_other_texts(folder: Path, text: str, match: str) -> None:
    (folder / "model.json").write_text(text, "utf-8")
    with pytest.raises(StorageError, match=match):
        read_folder(folder, kind="line")


def test_text_that_is_no_unicode(folder: Path) -> None:
    (folder / "model.json").write_bytes(b'{"format": "\xff\xfe"}')
    with pytest.raises(StorageError, match="cannot be read as JSON"):
        read_folder(folder, kind="line")


def test_another_kind(folder: Path) -> None:
    with pytest.raises(StorageError, match=r"describes a 'line', and a 'forest' was"):
        read_folder(folder, kind="forest")


def test_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    edit(folder, '"format_version": 1', '"format_version": 3')
    edit(folder, '"calibrant": "', '"calibrant": "9.')
    with pytest.raises(
        StorageError, match=r"by calibrant 9\..* with format 3;.*up to 1: upgrade"
    ):
        read_folder(folder, kind="line")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("prix", "price"),
        ('"n": 3', '"n": 4'),
        ('"n": 3', '"n": 3.0'),
        ('"n": 3', '"n":  3'),
        ('"n": 3', '"n": 1e999'),
        ("float64[2, 3]", "float64[3, 2]"),
        ('"kind": "line"', '"kind": "line", "kind": "line"'),
    ],
)
def test_edited_text(folder: Path, old: str, new: str) -> None:
    edit(folder, old, new)
    with pytest.raises(StorageError, match=r"edited or damaged.*Undo the change"):
        read_folder(folder, kind="line")


def test_arrays_of_another_folder(folder: Path) -> None:
    size = (folder / "arrays.safetensors").stat().st_size
    (folder / "arrays.safetensors").write_bytes(b"x" * (size + 1))
    with pytest.raises(StorageError, match=rf"the {size} bytes.*it has {size + 1}"):
        read_folder(folder, kind="line")
    (folder / "arrays.safetensors").write_bytes(b"x" * size)
    with pytest.raises(StorageError, match=r"edited, damaged or replaced"):
        read_folder(folder, kind="line")


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({}, r"missing: \['mask', 'nothing', 'weight'\]"),
        ({"extra": torch.ones(1)}, r"not listed: \['extra'\]"),
        ({"mask": torch.ones(2)}, r"'mask' is float32\[2\], not bool\[2\]"),
        ({"weight": torch.ones(3, 2)}, r"is float32\[3, 2\], not float64\[2, 3\]"),
    ],
)
def test_other_arrays_than_listed(
    folder: Path, forge: Forge, arrays: dict[str, torch.Tensor], match: str
) -> None:
    kept, _ = read_folder(folder, kind="line")
    forge(arrays=save(kept | arrays if arrays else {}))
    with pytest.raises(StorageError, match=match):
        read_folder(folder, kind="line")


@pytest.mark.parametrize(
    "update",
    [
        {"arrays": None},
        {"arrays": ["weight"]},
        {"description": 3},
        {"checksums": {}},
        {"checksums": {"arrays.safetensors": 1}},
        {"checksums": {"arrays.safetensors": {}}},
        {"arrays": {"weight": {"shape": [2, 3]}}},
    ],
)
def test_sections_of_another_shape(
    folder: Path, forge: Forge, update: dict[str, Any]
) -> None:
    forge(update)
    with pytest.raises(StorageError, match=r"no section|must h"):
        read_folder(folder, kind="line")


def test_what_forge_makes_can_be_read(folder: Path, forge: Forge) -> None:
    forge({"description": {"a": 1}})
    assert read_folder(folder, kind="line")[1] == {"a": 1}


def test_other_files_do_not_matter(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    folder.rename(tmp_path / "moved")
    assert read_folder(tmp_path / "moved", kind="line")[1]["target"] == "prix"
