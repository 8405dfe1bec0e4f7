"""What is written comes back bit for bit, and equal input gives equal files."""

import hashlib
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from torch import Tensor

import calibrant
from calibrant.storage import StorageError, read_folder, write_folder

DTYPES = [
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64),
]
SHAPES = st.lists(st.integers(0, 4), max_size=4)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


def bits(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist())


def any_bits(dtype: torch.dtype, shape: list[int], seed: int) -> Tensor:
    """All patterns of bits, so NaN with payloads, -0.0 and subnormal numbers too."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    count = torch.Size(shape).numel() * size
    raw = torch.randint(256, (count,), generator=generator).to(torch.uint8)
    return raw.view(dtype).reshape(shape)


@settings(max_examples=60)
@given(
    st.dictionaries(
        NAMES.filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), SHAPES, st.integers(0, 2**31)),
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
    assert told == description
    assert list(found) == sorted(arrays)
    for name, tensor in arrays.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bits(found[name]) == bits(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_with_and_without_entries(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    shapes: list[list[int]] = [[], [3], [0], [2, 0, 3], [2, 3]]
    arrays = {str(shape): any_bits(dtype, shape, 7) for shape in shapes}
    write_folder(tmp_path / "a", arrays=arrays, description={}, kind="any")
    found, _ = read_folder(tmp_path / "a", kind="any")
    for name, tensor in arrays.items():
        assert (found[name].dtype, found[name].shape) == (dtype, tensor.shape)
        assert bits(found[name]) == bits(tensor)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz])
def test_dtypes_of_new_safetensors_come_back_or_are_refused(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    tensor = any_bits(dtype, [2, 3], 7)
    try:
        write_folder(tmp_path / "a", arrays={"a": tensor}, description={}, kind="any")
    except StorageError as error:
        if "Upgrade safetensors" not in str(error):
            raise
        return
    found, _ = read_folder(tmp_path / "a", kind="any")
    assert found["a"].dtype == dtype
    assert bits(found["a"]) == bits(tensor)


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
    write_folder(tmp_path / "1", arrays=arrays, description=description, kind="any")
    write_folder(
        tmp_path / "2",
        arrays=dict(reversed(arrays.items())),
        description=turned,
        kind="any",
    )
    for name in ("model.json", "arrays.safetensors"):
        assert (tmp_path / "1" / name).read_bytes() == (
            tmp_path / "2" / name
        ).read_bytes()


def test_the_text_says_what_is_there(folder: Path) -> None:
    text = (folder / "model.json").read_text("utf-8")
    content = json.loads(text)
    assert list(content) == [
        *("format", "format_version", "kind", "calibrant"),
        *("description", "arrays", "checksums"),
    ]
    assert content["format"] == "calibrant"
    assert content["format_version"] == 1
    assert content["kind"] == "line"
    assert content["calibrant"] == calibrant.__version__
    assert content["arrays"] == {
        "mask": "bool[2]",
        "nothing": "float64[0, 4]",
        "weight": "float64[2, 3]",
    }
    assert '\n  "kind": "line",\n' in text
    packed = (folder / "arrays.safetensors").read_bytes()
    sums = content["checksums"]
    assert sums["arrays.safetensors"] == {
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    own = sums["model.json"]["sha256"]
    blank = text.replace(own, "0" * 64)
    assert hashlib.sha256(blank.encode()).hexdigest() == own


def test_other_programs_can_read_the_arrays(folder: Path) -> None:
    with safe_open(folder / "arrays.safetensors", framework="np") as file:
        assert file.get_tensor("weight").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_zeros_in_the_description_do_not_confuse_the_checksum(tmp_path: Path) -> None:
    description = {"zeros": "0" * 64, "list": ["0" * 200]}
    write_folder(tmp_path / "a", arrays={}, description=description, kind="0" * 64)
    assert read_folder(tmp_path / "a", kind="0" * 64) == ({}, description)


def test_other_ends_of_lines_do_not_matter(folder: Path) -> None:
    path = folder / "model.json"
    before = read_folder(folder, kind="line")[1]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_folder(folder, kind="line")[1] == before


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


def test_the_package_alone_imports_neither_torch_nor_safetensors() -> None:
    code = (
        "import sys, calibrant\n"
        "assert not {'torch', 'safetensors', 'calibrant.storage'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
