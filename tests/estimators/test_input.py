"""Bad input gives a clear error, strange input a finite model."""

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calibrant.estimators import CalibratedRegressor
from calibrant.estimators.folds import Design, design_for
from calibrant.training import DivergedError
from calibrant.validation import InputError

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]
Rows = tuple[Array, Array]


def check_finite(model: CalibratedRegressor, x: Any, y: Any) -> None:
    law = model.predict_distribution(x)
    assert np.isfinite(model.predict_interval(x)).all()
    assert law.log_prob(np.asarray(y, dtype=float)).isfinite().all()
    assert law.quantile(0.5).isfinite().all()


def rows(n: int = 30, d: int = 2) -> Rows:
    random = np.random.default_rng(1)
    x = random.standard_normal((n, d))
    return x, x[:, 0] + 0.3 * random.standard_normal(n)


def with_value(where: str, value: float) -> Rows:
    x, y = rows()
    (x if where == "x" else y).flat[5] = value
    return x, y


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "NaN in x": (*with_value("x", np.nan), "Input X contains NaN"),
    "infinity in x": (*with_value("x", np.inf), "infinity"),
    "NaN in y": (*with_value("y", np.nan), "Input y contains NaN"),
    "infinity in y": (*with_value("y", -np.inf), "Input y contains infinity"),
    "words": (np.array([["a"], ["b"], ["c"]] * 9), rows(27)[1], "could not convert"),
    "words as targets": (rows(3)[0], ["a", "b", "c"], "could not convert|dtype"),
    "one row": (rows(1)[0], rows(1)[1], "minimum of 2"),
    "no rows": (np.empty((0, 2)), np.empty(0), "minimum of 2"),
    "no features": (np.empty((9, 0)), rows(9)[1], r"0 feature\(s\)"),
    "one axis": (rows()[1], rows()[1], "Expected 2D array"),
    "two targets": (rows()[0], rows()[0], "should be a 1d array"),
    "lengths": (rows()[0], rows(20)[1], "inconsistent numbers of samples"),
    "vast targets": (*with_value("y", 1e160), r"within ±1e\+150.*Change their unit"),
    "no targets": (rows()[0], None, "requires y to be passed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, cheap: Make) -> None:
    x, y, text = REFUSED[name]
    with pytest.raises(ValueError, match=text):
        cheap().fit(x, y)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (np.full(30, -1.0), "sample_weight must be at least 0"),
        (np.zeros(30), "zero|sample_weight must be at least 0"),
        (np.ones(29), r"sample_weight.shape == \(29,\)"),
        (np.full(30, np.nan), "contains NaN"),
    ],
)
def test_weights_that_are_none(weights: Array, text: str, cheap: Make) -> None:
    with pytest.raises(ValueError, match=text):
        cheap().fit(*rows(), weights)


SETTINGS: list[tuple[dict[str, Any], str]] = [
    (
        {"members": 0},
        'members must be a whole number from 1 to 10000, or "auto", got 0',
    ),
    ({"members": 2.0}, "members must be a whole number"),
    ({"folds": 1}, "folds must be a whole number from 2 to 10000, got 1"),
    ({"held_out_share": 0}, "held_out_share must lie strictly between 0 and 1"),
    ({"learning_rate": "x"}, "learning_rate must be a number, got 'x'"),
    ({"patience": "x"}, 'patience must be a number or "auto" or None, got'),
    ({"spread_floor": None}, "spread_floor must be a number, got None"),
    ({"device": "x"}, 'device must be "auto", "cpu"'),
    ({"device": None}, 'device must be "auto", "cpu"'),
    ({"learners": [Path]}, "objects, not classes"),
    ({"validation_share": 1.5}, "validation_share must lie strictly between"),
    ({"hidden": 16}, r'numbers, as \(64,\), or "auto", got 16'),
    ({"hidden": (0,)}, "hidden"),
    (
        {"distribution": "normal"},
        'distribution must be one of "pooled", "mixture", "moment_matched", got',
    ),
    ({"bins": 1025}, "bins must be a whole number from 0 to 1024, got 1025"),
    ({"bins": 4.0}, "bins must be a whole number"),
    ({"regularize_on": "test"}, "regularize_on must be one of"),
    ({"learners": "boosting"}, "learners must be a list"),
    ({"learners": ()}, "learners must be a list"),
    ({"bounds": (-0.1, 0.1)}, r"within bounds=\(-0.1, 0.1\).*Widen"),
    ({"strength": "much"}, r'strength must be a number or "auto", got .much'),
    ({"strength": math.nan}, "strength must be finite"),
    ({"strength": "auto", "strength_grid": ()}, r"strength_grid must be a list"),
    ({"strength": "auto", "strength_rule": "best"}, "strength_rule"),
    ({"network": "transformer"}, "no network is called 'transformer'"),
    ({"head": "gausian"}, "Did you mean 'gaussian'"),
    ({"target_transform": "boxcox"}, "target_transform: .*Did you mean 'box_cox'"),
    ({"recalibrator": "betas"}, "Did you mean 'beta'"),
    ({"recalibrate_on": "cross_fit"}, "recalibrate_on must be one of .*out_of_fold"),
    ({"spread_floor": 2}, "floor must lie in"),
    ({"epochs": 0}, "epochs must be a whole number"),
    ({"loss": "mse"}, "score"),
    ({"schedule": "step"}, "schedule"),
    ({"network": "mc_dropout", "passes": 0}, "at least one pass"),
]


@pytest.mark.parametrize(("settings", "text"), SETTINGS)
def test_parameters_that_are_none(
    settings: dict[str, Any], text: str, cheap: Make
) -> None:
    with pytest.raises(InputError, match=text):
        cheap(**settings).fit(*rows())


def readonly(values: Array) -> Array:
    values.setflags(write=False)
    return values


STRANGE: dict[str, tuple[Any, Any]] = {
    "vast features": (rows()[0] * 1e200, rows()[1]),
    "vastest features": (np.sign(rows()[0]) * 1.7e308, rows()[1]),
    "tiny features": (rows()[0] * 1e-300, rows()[1]),
    "large targets": (rows()[0], rows()[1] * 1e140),
    "tiny targets": (rows()[0], rows()[1] * 1e-140),
    "far targets": (rows()[0], rows()[1] + 1e9),
    "an outlier among targets": with_value("y", 1e6),
    "an outlier among features": with_value("x", 1e12),
    "constant features": (np.ones((30, 2)), rows()[1]),
    "a constant feature": (rows()[0] * [1, 0] + [0, 7], rows()[1]),
    "copies of two rows": (np.tile(rows(2)[0], (15, 1)), np.tile(rows(2)[1], 15)),
    "every row twice": (np.tile(rows(15)[0], (2, 1)), np.tile(rows(15)[1], 2)),
    "integers": (np.arange(60).reshape(30, 2), np.arange(30)),
    "booleans": (rows()[0] > 0, rows()[1]),
    "boolean targets": (rows()[0], rows()[1] > 0),
    "float32": (rows()[0].astype(np.float32), rows()[1].astype(np.float32)),
    "lists": (rows()[0].tolist(), rows()[1].tolist()),
    "read-only": (readonly(rows()[0]), readonly(rows()[1])),
    "Fortran order": (np.asfortranarray(rows()[0]), rows()[1]),
    "more features than rows": rows(12, 40),
    "mostly zeros": (rows()[0], np.where(rows()[1] > 1, rows()[1], 0.0)),
}


@pytest.mark.parametrize("strategy", ["out_of_fold", None])
@pytest.mark.parametrize("name", STRANGE)
def test_strange(name: str, strategy: str | None, cheap: Make) -> None:
    x, y = STRANGE[name]
    check_finite(cheap(recalibrate_on=strategy, members=1).fit(x, y), x, y)


@pytest.mark.parametrize("strategy", ["out_of_fold", None])
def test_a_constant_target(strategy: str | None, cheap: Make) -> None:
    x, y = rows()[0], np.full(30, 3e4)
    model = cheap(recalibrate_on=strategy, members=1)
    with pytest.warns(UserWarning, match=r"constant \(30000\)"):
        model.fit(x, y)
    check_finite(model, x, y)


@pytest.mark.parametrize("offset", [1e12, -1e14])
def test_an_offset_that_float64_does_not_resolve(offset: float, cheap: Make) -> None:
    x, y = rows()
    advice = re.escape(f"Subtract {offset:.3g} from all targets")
    with pytest.warns(UserWarning, match=advice):
        cheap(members=1, epochs=1).fit(x, y + offset)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("patience", [3, None])
@pytest.mark.parametrize("strategy", ["out_of_fold", "held_out"])
def test_few_rows(strategy: str, patience: int | None, n: int, cheap: Make) -> None:
    x, y = rows(n)
    model = cheap(members=2, patience=patience, epochs=2, recalibrate_on=strategy)
    # One row for the map, and the other one cannot be cut again. Pools need no rows of
    # their own to stop early.
    if n == 2 and patience and strategy == "held_out":
        with pytest.raises(InputError, match=r"patience=None"):
            model.fit(x, y)
        return
    check_finite(model.fit(x, y), x, y)


def test_groups_and_time_reach_the_folds(
    cheap: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    designs: list[Design] = []

    def kept(*given: Any, **options: Any) -> Design:
        designs.append(design_for(*given, **options))
        return designs[-1]

    monkeypatch.setattr("calibrant.estimators.regressor.design_for", kept)
    x, y = rows()
    groups, time = np.arange(30) % 6, np.arange(30)[::-1]
    cheap(epochs=1, members=2, folds=3).fit(x, y, groups=groups)
    cheap(epochs=1, members=1, folds=3).fit(x, y, time=time)
    by_group, by_time = designs
    assert len(by_group.rows) == 6
    for seen in by_group.rows:
        unseen = np.setdiff1d(np.arange(30), seen)
        assert not set(groups[unseen]) & set(groups[seen])
    stretches = [sorted(np.setdiff1d(time, time[seen])) for seen in by_time.rows]
    assert stretches == np.arange(30).reshape(3, 10).tolist()


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
targets = st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1.0, 1e155, np.nan])


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), n=st.integers(1, 12), d=st.integers(1, 3))
def test_whatever_comes_is_refused_or_learned(
    data: st.DataObject, n: int, d: int, cheap: Make
) -> None:
    elements = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), numbers)
    x = data.draw(arrays.arrays(np.float64, (n, d), elements=elements))
    y = data.draw(arrays.arrays(np.float64, n, elements=targets))
    model = cheap(
        epochs=1,
        members=1,
        hidden=(4,),
        strength=data.draw(st.sampled_from([0.0, 5.0])),
        recalibrate_on=data.draw(st.sampled_from([None, "out_of_fold", "held_out"])),
        recalibrator=data.draw(st.sampled_from(["beta", "empirical"])),
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the target is constant")
        warnings.filterwarnings("ignore", message="the targets are around")
        try:
            model.fit(x, y)
        except ValueError:
            return
    check_finite(model, x, y)


@pytest.mark.parametrize("epochs", [1, 9])
def test_a_diverging_training_says_why(epochs: int, cheap: Make) -> None:
    x, y = rows()
    with pytest.raises(DivergedError, match="Likely cause"):
        cheap(learning_rate=1e30, gradient_clip=None, epochs=epochs).fit(x, y)
