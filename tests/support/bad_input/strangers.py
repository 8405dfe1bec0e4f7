"""Folders of models from strangers: cut, edited, or forged with right checksums."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from calibrant import CalibratedRegressor

__all__ = ["STRANGERS", "forged"]

Edit = Callable[[Any], None]
Make = Callable[[Path], None]


def _copied(path: Path) -> Path:
    shutil.copytree(path.parent / "model", path)
    return path


def forged(edit: Edit) -> Make:
    """A model whose description was changed by one who knows of checksums."""

    def make(path: Path) -> None:
        content = _content(_copied(path))
        edit(content)
        _seal(path, content)

    return make


def _seal(folder: Path, content: dict[str, Any], packed: bytes | None = None) -> None:
    """Write a folder's content with checksums that fit."""
    if packed is not None:
        (folder / "arrays.safetensors").write_bytes(packed)
        content["bytes"] = len(packed)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (folder / "model.json").write_text(text, encoding="utf-8")
    sums = "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("arrays.safetensors", "model.json")
    )
    (folder / "SHA256SUMS").write_text(sums)


def _content(folder: Path) -> Any:
    return json.loads((folder / "model.json").read_text(encoding="utf-8"))


def _forged_arrays(edit: Edit) -> Make:
    """A model whose arrays were changed, with right checksums."""

    def make(path: Path) -> None:
        arrays = load((_copied(path) / "arrays.safetensors").read_bytes())
        edit(arrays)
        _seal(path, _content(path), save(arrays))

    return make


def _forged_bytes(packed: bytes) -> Make:
    """A model whose file of arrays is these bytes, with right checksums."""

    def make(path: Path) -> None:
        _seal(_copied(path), _content(path), packed)

    return make


def _edited_text(path: Path) -> None:
    manifest = _copied(path) / "model.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"price"', '"prize"'), encoding="utf-8")


def _cut(name: str) -> Make:
    def make(path: Path) -> None:
        place = _copied(path) / name
        place.write_bytes(place.read_bytes()[:50])

    return make


def _without(name: str) -> Make:
    def make(path: Path) -> None:
        (_copied(path) / name).unlink()

    return make


def _flipped(path: Path) -> None:
    place = _copied(path) / "arrays.safetensors"
    content = bytearray(place.read_bytes())
    content[-1] ^= 1
    place.write_bytes(bytes(content))


def _nested(path: Path) -> None:
    (_copied(path) / "model.json").write_text("[" * 10_000, encoding="utf-8")


def _other_kind(path: Path) -> None:
    x = np.linspace(0, 1, 40)[:, None]
    CalibratedRegressor(epochs=1, members=1, hidden=(4,), folds=2, random_state=0).fit(
        x, x[:, 0]
    ).save(path)


def _set(*keys: str | int, to: object) -> Edit:
    def edit(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return edit


def _newer(content: Any) -> None:
    content["format_version"] = 99


def _renamed_array(arrays: Any) -> None:
    arrays["../../etc/passwd"] = arrays.pop(min(arrays))


def _poisoned(arrays: Any) -> None:
    for values in arrays.values():
        if values.is_floating_point():
            values.fill_(float("nan"))


def _reshaped(arrays: Any) -> None:
    arrays["inputs.center"] = torch.zeros(3, dtype=torch.float64)


def _header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


_HUGE = '{"x":{"dtype":"F64","shape":[99999999999,99999999999],"data_offsets":[0,8]}}'


_D, _R, _E = "description", "regressor", "encoder"
_COLUMN = "networks.0.stack.encoding.column"
#: How to make each model, by kind.
STRANGERS: dict[str, Make] = {
    "a model without its arrays": _without("arrays.safetensors"),
    "a model without its description": _without("model.json"),
    "arrays that were cut short": _cut("arrays.safetensors"),
    "a description that was cut short": _cut("model.json"),
    "a bit that was flipped in the arrays": _flipped,
    "a description that was edited": _edited_text,
    "a model of another kind": _other_kind,
    "a model of a newer calibrant": forged(_newer),
    "forged: a target that is no text": forged(_set(_D, "target", to=5)),
    "forged: a target that is a path": forged(
        _set(_D, "target", to="../../etc/passwd")
    ),
    "forged: no columns": forged(_set(_D, _E, "columns", to=[])),
    "forged: columns that are no list": forged(_set(_D, _E, "columns", to="x")),
    "forged: a column called as a path": forged(
        _set(_D, _E, "columns", 1, "name", to="../../etc/passwd")
    ),
    "forged: a column of a kind that is not there": forged(
        _set(_D, _E, "columns", 1, "kind", to="__import__('os')")
    ),
    "forged: no encoder": forged(lambda c: c[_D].pop(_E)),
    "forged: about that is no mapping": forged(_set(_D, "about", to=[1])),
    "forged: a scorecard without its numbers": forged(
        _set(_D, "about", "scorecard", to={"rows": "x"})
    ),
    "forged: about of other types": forged(
        _set(_D, "about", to={"versions": 5, "settings": 5, "rows": "x"})
    ),
    "forged: a million million features": forged(_set(_D, _R, "features", to=10**12)),
    "forged: hidden layers of a million million units": forged(
        _set(_D, _R, "parameters", "hidden", to=[10**12])
    ),
    "forged: ten thousand members": forged(_set(_D, _R, "networks", to=10**4)),
    "forged: a network that is not there": forged(
        _set(_D, _R, "parameters", "network", to="os.system")
    ),
    "forged: a parameter that is not there": forged(
        _set(_D, _R, "parameters", "__class__", to="x")
    ),
    "forged: a recalibrator that is not there": forged(
        _set(_D, _R, "recalibrator", to='{"kind": "os.system"}')
    ),
    "forged: a number of members that is no whole one": forged(
        _set(_D, _R, "networks", to=2.0)
    ),
    "forged: a number of members that is true": forged(
        _set(_D, _R, "networks", to=True)
    ),
    "forged: a disagreement below 0": forged(_set(_D, _R, "disagreement", to=[-1.0])),
    "forged: bounds that are false": forged(_set(_D, _R, "bounds", to=False)),
    "forged: bounds that are texts": forged(_set(_D, _R, "bounds", to=["0", "1"])),
    "forged: a scale of the inputs of 0": _forged_arrays(
        lambda arrays: arrays["inputs.scale"].zero_()
    ),
    "forged: a scale within the networks of 0": _forged_arrays(
        lambda arrays: arrays["networks.0.stack.scale"].zero_()
    ),
    "forged: an encoding of features that are not there": _forged_arrays(
        lambda arrays: arrays[_COLUMN].fill_(99)
    ),
    "forged: an array called as a path": _forged_arrays(_renamed_array),
    "forged: an array of another shape": _forged_arrays(_reshaped),
    "forged: weights that are not numbers": _forged_arrays(_poisoned),
    "forged: arrays of a huge shape": _forged_bytes(_header(_HUGE) + bytes(8)),
    "forged: a header of arrays of a huge size": _forged_bytes(
        (2**62).to_bytes(8, "little") + b"{}"
    ),
    "forged: a pickle instead of arrays": _forged_bytes(b"\x80\x04cos\nsystem\n."),
    "forged: nested ten thousand deep": _nested,
}
