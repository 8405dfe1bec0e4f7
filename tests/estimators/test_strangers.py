"""A folder from a stranger: right checksums, wrong content."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant.estimators import CalibratedRegressor, load
from calibrant.estimators._state import described
from calibrant.storage import StorageError, write_folder

Change = Callable[[dict[str, Any]], object]


def forge_map(state: dict[str, Any], **values: object) -> None:
    """Change the state of a stored map."""
    content = json.loads(state["recalibrator"])
    content["state"].update(values)
    state["recalibrator"] = json.dumps(content)


CHANGES: dict[str, tuple[Change, str]] = {
    "no-parameters": (lambda s: s.pop("parameters"), "'parameters'"),
    "unknown-parameter": (
        lambda s: s["parameters"].update(surprise=1),
        "'parameters'",
    ),
    "vast-features": (lambda s: s.update(features=10**12), "'arrays'.*shape"),
    "vast-layer": (lambda s: s["parameters"].update(hidden=[10**9, 10**9]), "was ch"),
    "vast-members": (lambda s: s.update(members=100_000), "'arrays'.*shape"),
    "no-members": (lambda s: s.update(members=0), "'members'"),
    "truth-for-a-number": (lambda s: s.update(members=True), "'members'"),
    "negative-disagreement": (lambda s: s.update(disagreement=-1.0), "'disagreement'"),
    "endless-disagreement": (lambda s: s.update(disagreement="inf"), "'disagreement'"),
    "vast-disagreement": (lambda s: s.update(disagreement=1e308), "'disagreement'"),
    "bounds-of-one": (lambda s: s.update(bounds=5), "'bounds'"),
    "bounds-of-three": (lambda s: s.update(bounds=[1, 2, 3]), "'bounds'"),
    "bounds-of-text": (lambda s: s.update(bounds=["0", "1"]), "'bounds'"),
    "bounds-upside-down": (lambda s: s.update(bounds=[1.0, 0.0]), "'bounds'"),
    "cut-first-of-seven": (lambda s: s.update(cut_first=7), "'cut_first'"),
    "cut-first-at-nothing": (lambda s: s.update(cut_first=True), "'cut_first'"),
    "too-few-names": (lambda s: s.update(feature_names=["a"]), "'feature_names'"),
    "names-of-numbers": (lambda s: s.update(feature_names=[1, 2]), "'feature_names'"),
    "names-of-text": (lambda s: s.update(feature_names="ab"), "'feature_names'"),
    "strength-of-text": (lambda s: s.update(strength="x"), "'strength'"),
    "strength-below-0": (lambda s: s.update(strength=-1.0), "'strength'"),
    "no-strength": (lambda s: s.update(strength=None), "'strength'"),
    "empty-history": (lambda s: s.update(history=[{}]), "'history'"),
    "history-of-text": (
        lambda s: s["history"][0].update(loss=["one"]),
        "'history'",
    ),
    "history-of-a-number": (lambda s: s.update(history=3), "'history'"),
    "half-a-path": (lambda s: s.update(strength_path={"crps": [1]}), "'strength_path'"),
    "no-map": (lambda s: s.update(recalibrator=None), "'recalibrator'"),
    "map-of-a-number": (lambda s: s.update(recalibrator=3), "'recalibrator'"),
    "map-with-vast-upper": (lambda s: forge_map(s, upper=1e300), "'recalibrator'"),
    "map-with-vast-lower": (lambda s: forge_map(s, lower=1e300), "'recalibrator'"),
    "map-with-vast-shift": (lambda s: forge_map(s, shift=1e300), "'recalibrator'"),
    "map-with-vast-spread": (lambda s: forge_map(s, spread=1e300), "'recalibrator'"),
    "map-of-text": (lambda s: forge_map(s, shift="x"), "'recalibrator'"),
    "map-of-no-number": (lambda s: forge_map(s, shift="nan"), "'recalibrator'"),
    "transform-of-a-number": (lambda s: s.update(transform=3), "'transform'"),
    "empty-law": (lambda s: s["parameters"].update(law=[]), "'parameters'.*law must"),
    "parameter-of-text": (lambda s: s["parameters"].update(strength="x"), "'parameter"),
    "no-such-optimizer": (lambda s: s["parameters"].update(optimizer=1), "'parameter"),
    "no-such-design": (
        lambda s: s["parameters"].update(recalibrate_on="x"),
        "'parameters'.*recalibrate_on must",
    ),
    "members-of-text": (lambda s: s["parameters"].update(members="2"), "'parameters'"),
    "head-of-nothing": (lambda s: s["parameters"].update(head={}), "'parameters'"),
    "parameters-of-a-list": (lambda s: s.update(parameters=[1]), "'parameters'"),
    "vast-passes": (
        lambda s: s["parameters"].update(network="mc_dropout", passes=10**12),
        "was changed",
    ),
    "vast-head": (
        lambda s: s["parameters"].update(
            head={"head": "gaussian_mixture", "options": {"components": 10**12}}
        ),
        "was changed",
    ),
    "text-for-a-number": (lambda s: s.update(features="4"), "'features'"),
    "another-network": (
        lambda s: s["parameters"].update(network="../../etc/passwd"),
        "no network is called",
    ),
    "no-such-transform": (
        lambda s: s.update(transform='{"name": "os.system"}'),
        "must be a transform's",
    ),
    "a-recalibrator-of-its-own": (
        lambda s: s.update(recalibrator='{"name": "os.system"}'),
        "must be a recalibrator's",
    ),
}
WEIGHTS = "networks.0.stack.weights.0"
ENCODING = "networks.0.stack.encoding."
ARRAYS: dict[str, tuple[Change, str]] = {
    "no-columns": (lambda a: a.pop(f"{ENCODING}column"), "feature of each bin"),
    "no-bins": (
        lambda a: a.update({n: v[:0] for n, v in a.items() if n.startswith(ENCODING)}),
        "feature of each bin",
    ),
    "columns-of-nothing": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] + 1}),
        "must be of its 2 features",
    ),
    "columns-before-the-first": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] - 1}),
        "must be of its 2 features",
    ),
    "columns-that-are-none": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] / 1}),
        "must be whole numbers",
    ),
    "a-part-of-its-own": (
        lambda a: a.update({f"{ENCODING}forward": torch.zeros(3)}),
        "is none of an encoding",
    ),
    "bins-without-edges": (lambda a: a.pop(f"{ENCODING}left"), "encoding.left"),
    "bins-with-fewer-edges": (
        lambda a: a.update({f"{ENCODING}left": a[f"{ENCODING}left"][:-1]}),
        "encoding.left",
    ),
    "weights-of-whole-numbers": (
        lambda a: a.update({WEIGHTS: a[WEIGHTS].int()}),
        "stack.weights.0",
    ),
    "weights-of-another-shape": (
        lambda a: a.update({WEIGHTS: a[WEIGHTS][..., :-1]}),
        "'arrays'",
    ),
    "no-weights": (lambda a: a.pop(WEIGHTS), "'arrays'"),
    "vast-weights": (lambda a: a.update({WEIGHTS: 1e38 + a[WEIGHTS]}), "predictions"),
    "no-center": (lambda a: a.pop("inputs.center"), "inputs.center"),
    "scales-of-single-precision": (
        lambda a: a.update({"inputs.scale": a["inputs.scale"].float()}),
        "inputs.scale",
    ),
    "limits-upside-down": (
        lambda a: a.update({"inputs.low": a["inputs.high"] + 1}),
        "inputs.low",
    ),
    "bins-without-width": (
        lambda a: a.update({f"{ENCODING}width": 0 * a[f"{ENCODING}width"]}),
        "must be above 0",
    ),
    "vast-encoding": (
        lambda a: a.update(
            {n: v.repeat(400) for n, v in a.items() if n.startswith(ENCODING)}
        ),
        "was changed",
    ),
}


@pytest.mark.parametrize("name", [*CHANGES, *ARRAYS])
def test_what_does_not_fit_together_is_refused(
    fitted: CalibratedRegressor, tmp_path: Path, name: str
) -> None:
    arrays, description = described(fitted)
    change, said = (CHANGES | ARRAYS)[name]
    change(description if name in CHANGES else arrays)
    folder = write_folder(
        tmp_path / "model",
        arrays=arrays,
        description=description,
        kind="CalibratedRegressor",
    )
    with pytest.raises(StorageError, match=said) as caught:
        load(folder)
    text = str(caught.value)
    assert text.startswith(f"{folder}: ")
    assert re.search(r" of (model\.json|arrays\.safetensors) ", text)
    assert "damaged or was not written by calibrant" in text
    assert not re.search(r"\w+Error\b|unpack|object is|argument", text)


def test_names_of_arrays_are_no_paths(
    fitted: CalibratedRegressor, tmp_path: Path
) -> None:
    arrays, description = described(fitted)
    folder = write_folder(
        tmp_path / "inner" / "model",
        arrays=arrays | {"../../outside": torch.zeros(1)},
        description=description,
        kind="CalibratedRegressor",
    )
    load(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
