"""A folder from a stranger: right checksums, wrong content."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant._checks import InputError
from calibrant.estimators import CalibratedRegressor, load
from calibrant.estimators._state import described
from calibrant.storage import write_folder

Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, tuple[Change, str]] = {
    "no-parameters": (lambda s: s.pop("parameters"), "KeyError: 'parameters'"),
    "unknown-parameter": (
        lambda s: s["parameters"].update(surprise=1),
        "unexpected keyword argument 'surprise'",
    ),
    "vast-features": (lambda s: s.update(features=10**12), "must have shape"),
    "vast-layer": (lambda s: s["parameters"].update(hidden=[10**9, 10**9]), "was ch"),
    "vast-members": (lambda s: s.update(members=100_000), "must have shape"),
    "no-members": (lambda s: s.update(members=0), "members must be a whole number"),
    "truth-for-a-number": (lambda s: s.update(members=True), "must be a whole number"),
    "less-than-no-disagreement": (lambda s: s.update(disagreement=-1.0), "at least 0"),
    "endless-disagreement": (lambda s: s.update(disagreement="inf"), "at least 0"),
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
    "text-for-a-number": (lambda s: s.update(features="4"), "must have shape"),
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
        "RuntimeError",
    ),
    "a-part-of-its-own": (
        lambda a: a.update({f"{ENCODING}forward": torch.zeros(3)}),
        "is none of an encoding",
    ),
    "bins-without-edges": (lambda a: a.pop(f"{ENCODING}left"), "the very weights"),
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
    with pytest.raises(InputError, match=said):
        load(folder)


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
