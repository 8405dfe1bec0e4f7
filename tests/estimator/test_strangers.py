"""A folder from a stranger: right checksums, wrong content."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant._checks import InputError
from calibrant.estimator import CalibratedRegressor, load
from calibrant.estimator._state import described
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
    "vast-members": (
        lambda s: s.update(transform_of_member=[0] * 100_000),
        "must have shape",
    ),
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
        lambda s: s.update(transform_of_member=[7, 7, 7, 7]),
        "IndexError",
    ),
    "a-recalibrator-of-its-own": (
        lambda s: s.update(recalibrators=['{"name": "os.system"}'] * 2),
        "must be a recalibrator's",
    ),
    "units-of-nobody": (
        lambda s: s.update(units=[{"members": [99], "weight": 1.0}] * 2),
        "units must be of its 4 members",
    ),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES.keys())
def test_what_does_not_fit_together_is_refused(
    fitted: CalibratedRegressor, tmp_path: Path, change: Change, said: str
) -> None:
    arrays, description = described(fitted)
    change(description)
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
