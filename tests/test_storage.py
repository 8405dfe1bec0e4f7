"""Folders: round trips, damage, forgery, errors, and two processes at once."""

import hashlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from torch import Tensor

import calibrant
from calibrant import InputError, storage
from calibrant.storage import (
    StorageError,
    check_writable,
    read_description,
    read_folder,
    write_folder,
)

FILES = ("model.json", "arrays.safetensors", "SHA256SUMS")
DTYPES = [
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64),
]
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)


def write(folder: Path | str, number: int = 1, **options: Any) -> Path:
    return write_folder(
        folder,
        arrays={"number": torch.tensor([number])},
        description={"number": number},
        kind="number",
        **options,
    )


def number_in(folder: Path | str) -> int:
    arrays, description = read_folder(folder, kind="number")
    assert description["number"] == arrays["number"].item()
    return int(arrays["number"].item())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def bits(tensor: Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def any_bits(dtype: torch.dtype, shape: list[int], seed: int) -> Tensor:
    """All patterns of bits, so NaN with payloads, -0.0 and subnormal numbers too."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    count = torch.Size(shape).numel() * size
    raw = torch.randint(256, (count,), generator=generator).to(torch.uint8)
    return raw.view(dtype).reshape(shape)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arrays = {
        "weight": torch.arange(6.0).reshape(2, 3),
        "mask": torch.tensor([True, False]),
        "nothing": torch.empty(0, 4),
    }
    description = {"target": "prix", "levels": [0.1, 1 / 3], "size": {"n": 3}}
    return write_folder(
        tmp_path / "kept", arrays=arrays, description=description, kind="line"
    )


def forge(folder: Path, *, packed: bytes | None = None, **update: object) -> None:
    """Change a folder and make all checksums right again."""
    content = json.loads((folder / "model.json").read_bytes())
    if packed is not None:
        (folder / "arrays.safetensors").write_bytes(packed)
        content["bytes"] = len(packed)
    (folder / "model.json").write_text(json.dumps(content | update), "utf-8")
    sums = "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in FILES[:2]
    )
    (folder / "SHA256SUMS").write_text(sums)


# Round trips


@settings(max_examples=60)
@given(
    st.dictionaries(
        NAMES.filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from(DTYPES),
            st.lists(st.integers(0, 4), max_size=4),
            st.integers(0, 2**31),
        ),
        max_size=4,
    ),
    st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, max_size=4),
)
def test_every_bit_comes_back(
    parts: dict[str, tuple[torch.dtype, list[int], int]], description: dict[str, Any]
) -> None:
    arrays = {name: any_bits(*part) for name, part in parts.items()}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "model"
        write_folder(folder, arrays=arrays, description=description, kind="any")
        found, told = read_folder(folder, kind="any")
        assert read_description(folder, kind="any") == told == description
    assert list(found) == sorted(arrays)
    for name, tensor in arrays.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bits(found[name]) == bits(tensor)


def test_tensors_that_do_not_own_plain_memory(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    wave = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    arrays = {
        "base": base,
        "again": base,
        "row": base[1],
        "turned": base.T,
        "every other": base[:, ::2],
        "expanded": torch.tensor([5.0]).expand(3),
        "parameter": torch.nn.Parameter(base[:2]),
        "conjugate": wave.conj(),
        "negative": wave.conj().imag,
    }
    write_folder(tmp_path / "a", arrays=arrays, description={}, kind="any")
    found, _ = read_folder(tmp_path / "a", kind="any")
    for name, tensor in arrays.items():
        assert found[name].tolist() == tensor.tolist(), name
    found["base"].zero_()  # each came back with memory of its own
    assert found["again"].tolist() == base.tolist()
    assert not found["parameter"].requires_grad
    assert type(found["parameter"]) is Tensor
    found["row"].resize_(100)  # plain memory of torch, not a view of a buffer


def test_equal_input_gives_equal_files_in_any_order(tmp_path: Path) -> None:
    arrays = {"b": torch.ones(2), "a": torch.zeros(3, dtype=torch.int8)}
    description = {"y": {"q": 1, "p": (1, 2)}, "x": None}
    turned = {"x": None, "y": {"p": [1, 2], "q": 1}}
    for name, given_arrays, given_description in (
        ("1", arrays, description),
        ("2", dict(reversed(arrays.items())), turned),
    ):
        write_folder(
            tmp_path / name,
            arrays=given_arrays,
            description=given_description,
            kind="any",
        )
    for name in FILES:
        first, second = (tmp_path / part / name for part in ("1", "2"))
        assert first.read_bytes() == second.read_bytes()


def test_the_files_say_what_is_there(folder: Path) -> None:
    text = (folder / "model.json").read_text("utf-8")
    content = json.loads(text)
    packed = (folder / "arrays.safetensors").read_bytes()
    assert content["format"] == "calibrant"
    assert content["format_version"] == 1
    assert content["kind"] == "line"
    assert content["calibrant"] == calibrant.__version__
    assert content["bytes"] == len(packed)
    assert '\n  "kind": "line",\n' in text
    assert (folder / "SHA256SUMS").read_text() == (
        f"{hashlib.sha256(packed).hexdigest()}  arrays.safetensors\n"
        f"{hashlib.sha256(text.encode()).hexdigest()}  model.json\n"
    )
    with safe_open(folder / "arrays.safetensors", framework="np") as file:
        assert file.get_tensor("weight").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_nothing_is_unpickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("pickle was used")

    for module, name in [
        *((pickle, name) for name in ("load", "loads", "dump", "dumps")),
        *((pickle, name) for name in ("Pickler", "Unpickler")),
        *((torch, name) for name in ("load", "save")),
    ]:
        monkeypatch.setattr(module, name, refuse)
    arrays, description = read_folder(folder, kind="line")
    write_folder(
        folder, arrays=arrays, description=description, kind="line", overwrite=True
    )
    assert read_folder(folder, kind="line")[1] == description


def test_a_description_is_read_without_torch(folder: Path) -> None:
    code = (
        "import sys\nfrom calibrant.storage import read_description\n"
        f"read_description({str(folder)!r}, kind='line')\n"
        "assert not {'torch', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# What cannot be stored exactly is refused before anything is written.


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"description": {"a": [0.0, float("nan")]}}, "JSON can hold"),
        ({"description": {"a": np.float64("inf")}}, "JSON can hold"),
        ({"description": {"a": torch.ones(2)}}, "JSON can hold.*Tensor"),
        ({"description": {"a": np.ones(2)}}, "JSON can hold.*ndarray"),
        ({"description": {"a": "\ud800"}}, "JSON can hold.*surrogates"),
        ({"arrays": {"a": torch.ones(2).to_sparse()}}, "dense tensors"),
        ({"arrays": {"a": torch.ones(2, dtype=torch.complex128)}}, "complex128"),
        *(({"folder": path}, "must be a path") for path in ("", None, b"a", "nul\0")),
    ],
)
def test_input_that_cannot_be_stored(
    given: dict[str, Any], match: str, tmp_path: Path
) -> None:
    whole = {"arrays": {}, "description": {}, "folder": tmp_path / "new" / "a"}
    with pytest.raises(StorageError, match=match):
        write_folder(**(whole | given), kind="any")
    assert not list(tmp_path.iterdir())


def test_a_description_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_MOST", 100)
    with pytest.raises(StorageError, match=r"at most 100 bytes.*recalibrator"):
        write(tmp_path / "a")
    assert issubclass(StorageError, InputError)


# Whatever happened to a folder, reading it gives one clear error.


@pytest.mark.parametrize("name", FILES)
def test_truncated_anywhere(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    end = len(whole) - (name == "SHA256SUMS")  # it may lack its last line end
    for length in range(end):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"truncated|edited|format"):
            read_folder(folder, kind="line")
    path.write_bytes(whole)
    read_folder(folder, kind="line")


@pytest.mark.parametrize("name", FILES[:2])
@pytest.mark.parametrize("how", ["bit", "carriage return"])
def test_one_byte_changed_anywhere(folder: Path, name: str, how: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    chance = random.Random(0)
    for position, byte in enumerate(whole):
        other = 0x0D if how != "bit" else byte ^ (1 << chance.randrange(8))
        path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
        with pytest.raises(StorageError):
            read_folder(folder, kind="line")


def test_other_ends_of_lines_do_not_matter(folder: Path) -> None:
    before = read_folder(folder, kind="line")[1]
    for name in ("model.json", "SHA256SUMS"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_folder(folder, kind="line")[1] == before


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)  # sparse: it takes no room on the disk


@pytest.mark.skipif(os.name == "nt", reason="no such files")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (_huge, r"must have (exactly|at most) \d+ bytes, it has 53687091200"),
        (os.mkfifo, "must be a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "must be a regular file"),
        (lambda path: None, "is missing.*copy all"),  # noqa: ARG005
        (Path.mkdir, "must be a regular file"),
    ],
    ids=["sparse", "fifo", "endless", "missing", "folder"],
)
def test_sizes_and_types_are_checked_before_anything_is_read(
    folder: Path, name: str, make: Callable[[Path], None], match: str
) -> None:
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(StorageError, match=match):
        read_folder(folder, kind="line")
    with pytest.raises(StorageError, match=match):
        read_description(folder, kind="line")
    if name == "model.json":  # which is read before it is replaced, too
        with pytest.raises(StorageError, match="files that are not calibrant's"):
            check_writable(folder, overwrite=True)


def test_arrays_damaged_behind_right_checksums(folder: Path) -> None:
    whole = (folder / "arrays.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    chance = random.Random(0)
    refused = 0
    for position in range(header):
        for _ in range(3):
            other = bytes([chance.randrange(256)])
            forge(folder, packed=whole[:position] + other + whole[position + 1 :])
            try:
                read_folder(folder, kind="line")
            except StorageError:
                refused += 1
    assert refused > 2 * header
    for length in range(0, len(whole), 3):
        forge(folder, packed=whole[:length])
        with pytest.raises(StorageError, match="safetensors file"):
            read_folder(folder, kind="line")


def test_paths_that_are_not_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, match in (
        ("nowhere", r"no folder .*nowhere.*misspelled"),
        ("file", "must be a folder, and it is a file"),
        ("file/below", "no folder"),
        ("a" * 300, "no folder|too long"),
    ):
        with pytest.raises(StorageError, match=match):
            read_folder(tmp_path / name, kind="line")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"", "cannot be read as JSON"),
        (b"\x00" * 50, "cannot be read as JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b'{"format": "\xff\xfe"}', "cannot be read as JSON"),
        (b'{"format": NaN}', "NaN is not a number of JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
        (b"[1]", r"format 'calibrant'.*something else.*None"),
        (b'{"architectures": ["GPT"]}', r"format is None.*folder that calibrant wrote"),
        (b'{"format": "calibrant recalibrator"}', r"is 'calibrant recalibrator'"),
        (b'{"format": "calibrant", "format_version": 1}', r"edited, damaged"),
    ],
)
def test_other_texts(folder: Path, text: bytes, match: str) -> None:
    (folder / "model.json").write_bytes(text)
    with pytest.raises(StorageError, match=match):
        read_folder(folder, kind="line")


def test_another_kind_or_a_newer_format(folder: Path) -> None:
    with pytest.raises(StorageError, match=r"describes a 'line', and a 'forest' was"):
        read_folder(folder, kind="forest")
    path = folder / "model.json"
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | {"format_version": 3, "calibrant": "9.1"}))
    with pytest.raises(
        StorageError, match=r"by calibrant 9\.1 with format 3;.*up to 1: upgrade"
    ):
        read_folder(folder, kind="line")


@pytest.mark.parametrize(
    "update",
    [
        {"description": 3},
        {"bytes": True},
        {"bytes": "1"},
        {"format_version": True},
        {"format_version": 0},
    ],
)
def test_forged_sections(folder: Path, update: dict[str, Any]) -> None:
    forge(folder, description={"a": 1})
    assert read_folder(folder, kind="line")[1] == {"a": 1}
    forge(folder, **update)
    with pytest.raises(StorageError, match="as calibrant always writes them"):
        read_folder(folder, kind="line")


def test_other_files_do_not_matter(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    folder.rename(tmp_path / "moved")
    assert read_folder(tmp_path / "moved", kind="line")[1]["target"] == "prix"


# A folder is there as a whole or not at all, and nobody's files are lost.


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
    (tmp_path / "empty").mkdir()
    for name in ("a", "empty"):
        for refused in (check_writable, write):
            with pytest.raises(StorageError, match=r"exists already.*overwrite=True"):
                refused(tmp_path / name)
    assert number_in(tmp_path / "a") == 1
    assert names(tmp_path) == ["a", "empty"]


def test_overwriting_replaces_ours_and_empty_folders(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, page="first")
    assert (tmp_path / "a" / "report.html").read_text() == "first"
    (tmp_path / "empty").mkdir()
    for name in ("a", "empty", "new/parents/b"):
        check_writable(tmp_path / name, overwrite=True)
        assert write(tmp_path / name, 2, overwrite=True) == tmp_path / name
        assert number_in(tmp_path / name) == 2
        assert names(tmp_path / name) == sorted(FILES)
    assert names(tmp_path) == ["a", "empty", "new"]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"thesis.tex": "all my work"}, r"holds 'thesis.tex'.*remove .* yourself"),
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
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StorageError):
        write(tmp_path / "loop", overwrite=True)


def test_places_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    for name, match in (
        ("file", r"file is a file\. Choose another name"),
        ("file/below", r"cannot be written.*parent must be"),
        ("a" * 300, "too long"),
    ):
        with pytest.raises(StorageError, match=match):
            write(tmp_path / name, overwrite=True)
        if len(name) < 300:
            with pytest.raises(StorageError, match=match):
                check_writable(tmp_path / name, overwrite=True)
    assert names(tmp_path) == ["file"]
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(StorageError, match="may not write in"):
        check_writable(tmp_path / "a")


@pytest.mark.parametrize(
    "name", ["with spaces", "Größe 大小 🎲", "[a]*?", "a" * 255, "大" * 85, ".h"]
)
def test_any_name_will_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / name, 1)
    monkeypatch.chdir(tmp_path)
    assert write(name, 2, overwrite=True) == Path(name)
    assert number_in(tmp_path / name) == number_in(f"./{name}/") == 2


def test_a_reader_meets_one_version_whatever_a_save_does_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "a", 1)
    original = storage._check_sum
    saves = iter((2, 3))

    def check(*given: Any) -> None:  # another save comes before each checksum
        for number in saves:
            write(folder, number, overwrite=True)
            break
        original(*given)

    monkeypatch.setattr(storage, "_check_sum", check)
    assert number_in(folder) == 3


def test_a_reader_waits_while_a_save_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "a", 1)
    folder.rename(tmp_path / "old")
    monkeypatch.setattr(
        storage.time, "sleep", lambda _: (tmp_path / "old").rename(folder)
    )
    assert number_in(folder) == 1


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from calibrant.storage import write_folder
from calibrant import storage
rename, count = Path.rename, 0
def killed(self, target):
    global count
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    return rename(self, target)
Path.rename = killed
write_folder(
    sys.argv[1], arrays={"a": torch.zeros(2)}, description={}, kind="t", overwrite=True
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("renamed", [0, 1])
def test_a_killed_save_leaves_the_former_one_to_be_read(
    tmp_path: Path, renamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "[model]"
    first = {"a": torch.ones(2)}
    write_folder(place, arrays=first, description={}, kind="t")
    command = [sys.executable, "-c", KILLED, str(place), str(renamed)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert place.exists() == (renamed == 0)
    arrays, _ = read_folder(place, kind="t")
    assert torch.equal(arrays["a"], first["a"])
    assert len(list(tmp_path.iterdir())) == 2
    # Another process may still write: what is left goes when it is old.
    monkeypatch.setattr("calibrant.storage._ABANDONED", -1)
    write_folder(place, arrays=first, description={}, kind="t", overwrite=True)
    assert list(tmp_path.iterdir()) == [place]
