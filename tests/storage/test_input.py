"""What cannot be stored exactly is refused before anything is written."""

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant.storage import StorageError, read_folder, write_folder


class Color(enum.IntEnum):
    RED = 1


def nested(levels: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def holding_itself() -> dict[str, object]:
    outer: dict[str, object] = {}
    outer["self"] = [outer]
    return outer


@pytest.mark.parametrize(
    ("description", "match"),
    [
        ({"a": [0.0, float("nan")]}, r"description\['a'\]\[1\] must be finite.*no nan"),
        ({"a": {"b": float("-inf")}}, r"\['a'\]\['b'\] must be finite.*no -inf"),
        ({"a": np.float64("inf")}, r"must be finite"),
        ({"a": {3: "x"}}, r"keys of description\['a'\] must be text.*got 3"),
        ({None: 1}, r"keys of description must be text.*got None"),
        ({"a": torch.ones(2)}, r"got a Tensor.*store it as an array"),
        ({"a": np.float32(1)}, r"got a float32.*item\(\)"),
        ({"a": np.ones(2)}, r"got a ndarray.*tolist\(\)"),
        ({"a": {1, 2}}, r"got a set"),
        ({"a": b"x"}, r"got a bytes"),
        ({"a": 1j}, r"got a complex"),
        ({"a": "\ud800"}, r"JSON can hold.*surrogates"),
        ({"a": 10**5000}, r"JSON can hold"),
        (nested(70), r"deeper than 64 levels"),
        (holding_itself(), r"Does it hold itself"),
        ([("a", 1)], r"description must be a mapping, got a list"),
        (None, r"description must be a mapping, got a NoneType"),
    ],
)
def test_descriptions_that_json_would_change(
    description: Any, match: str, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match=match):
        write_folder(
            tmp_path / "new" / "a", arrays={}, description=description, kind="any"
        )
    assert not list(tmp_path.iterdir())


def test_descriptions_that_json_keeps(tmp_path: Path) -> None:
    given = {
        "float": np.float64(1 / 3),
        "enum": Color.RED,
        "text": "Größe 大小 \n\t\"'\\ \u2028",
        "": True,
        "deep": nested(60),
        "tiny": 5e-324,
        "minus": -0.0,
    }
    write_folder(tmp_path / "a", arrays={}, description=given, kind="any")
    _, found = read_folder(tmp_path / "a", kind="any")
    assert found == given
    assert str(found["minus"]) == "-0.0"
    assert "Größe 大小" in (tmp_path / "a" / "model.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"a": [1.0]}, r"arrays\['a'\] must be a tensor, got a list.*as_tensor"),
        ({"a": np.ones(2)}, r"must be a tensor, got a ndarray"),
        ({"a": None}, r"must be a tensor, got a NoneType"),
        (
            {"": torch.ones(1)},
            r"names of arrays must be Unicode text, not empty.*got ''",
        ),
        ({1: torch.ones(1)}, r"must be Unicode text.*got 1"),
        ({"__metadata__": torch.ones(1)}, r"not '__metadata__'"),
        ({"a": torch.ones(2).to_sparse()}, r"dense tensor.*sparse_coo.*to_dense"),
        ({"a": torch.ones(2, device="meta")}, r"dense tensor with values.*meta"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, r"complex128.*view_as_real"),
        ([torch.ones(2)], r"arrays must be a mapping.*got a list"),
        ({"\ud800": torch.ones(1)}, r"must be Unicode text"),
    ],
)
def test_arrays_that_cannot_be_held(arrays: Any, match: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=match):
        write_folder(tmp_path / "a", arrays=arrays, description={}, kind="any")
    assert not list(tmp_path.iterdir())


def test_a_safetensors_that_is_too_old_for_a_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> bytes:
        raise KeyError(torch.complex64)

    monkeypatch.setattr("calibrant.storage._arrays.save", refuse)
    with pytest.raises(StorageError, match=r"does not take.*complex64.*Upgrade"):
        write_folder(tmp_path / "a", arrays={}, description={}, kind="any")


@pytest.mark.parametrize("kind", ["", None, 3])
def test_kinds_that_are_no_words(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="kind must be a word"):
        write_folder(tmp_path / "a", arrays={}, description={}, kind=kind)


@pytest.mark.parametrize("folder", ["", None, 3, b"bytes", "nul\0byte"])
def test_folders_that_are_no_paths(folder: Any) -> None:
    with pytest.raises(StorageError, match="folder must be a path"):
        write_folder(folder, arrays={}, description={}, kind="any")
    with pytest.raises(StorageError, match="folder must be a path"):
        read_folder(folder, kind="any")
