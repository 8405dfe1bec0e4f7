"""A folder to damage, and a way to damage it without the checksums telling."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant.storage import write_folder

Forge = Callable[..., None]


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


@pytest.fixture
def forge(folder: Path) -> Forge:
    """Change a folder and make all checksums right again, by the documented rule."""

    def change(
        update: Mapping[str, Any] | None = None, arrays: bytes | None = None
    ) -> None:
        content = json.loads((folder / "model.json").read_bytes())
        if arrays is not None:
            (folder / "arrays.safetensors").write_bytes(arrays)
            content["checksums"]["arrays.safetensors"] = {
                "bytes": len(arrays),
                "sha256": hashlib.sha256(arrays).hexdigest(),
            }
        content.update(update or {})
        sums = content["checksums"]
        sums["model.json"] = {"sha256": "0" * 64}
        text = json.dumps(content, indent=2)
        sums["model.json"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (folder / "model.json").write_text(json.dumps(content, indent=2), "utf-8")

    return change
