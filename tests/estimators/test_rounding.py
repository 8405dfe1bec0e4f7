"""Targets that take few values get distributions on these values."""

from pathlib import Path

import numpy as np
import pytest

from calibrant import CalibratedRegressor, Gaussian, UnsupportedError, load
from calibrant.distributions import Rounded
from calibrant.estimators.onnx import export_onnx


def ratings(n: int = 300, step: float = 1.0, *, top: float = 5.0) -> tuple:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (n, 2))
    y = np.round((3 + x[:, 0] + 0.6 * random.normal(size=n)) / step) * step
    return x, y.clip(1, top)


def model(**changes: object) -> CalibratedRegressor:
    options = {"members": 2, "folds": 3, "epochs": 20, "random_state": 0}
    return CalibratedRegressor(**(options | {"learners": ["network"]} | changes))


@pytest.mark.slow
def test_ratings_are_predicted_as_ratings(tmp_path: Path) -> None:
    x, y = ratings()
    fitted = model().fit(x[:200], y[:200])
    predictive = fitted.predict_distribution(x[200:])
    assert isinstance(predictive, Rounded)
    ends = fitted.predict_interval(x)
    assert set(np.unique(ends)) <= set(fitted.model_.values)
    plain = model(options={"round_targets": False}).fit(x[:200], y[:200])
    score = predictive.crps(y[200:]).mean()
    assert score < 0.95 * plain.predict_distribution(x[200:]).crps(y[200:]).mean()
    again = load(fitted.save(tmp_path / "model"))
    assert (again.predict_interval(x) == ends).all()
    assert fitted.refresh(x[200:], y[200:]).model_.values == fitted.model_.values
    with pytest.raises(UnsupportedError, match="round_targets"):
        export_onnx(fitted, tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "step", "top", "expected"),
    [
        ({}, 1.0, 5.0, (0.0, 8.0)),  # half as many beyond, never below 0
        ({"bounds": (1, 5)}, 1.0, 5.0, (1.0, 5.0)),
        ({}, 0.25, 3.0, (0.0, 3.0)),  # targets pile up at 3
    ],
)
def test_which_values_may_come(
    changes: dict[str, object], step: float, top: float, expected: tuple[float, float]
) -> None:
    values = model(epochs=1, **changes).fit(*ratings(step=step, top=top)).model_.values
    assert (values[0], values[-1]) == expected
    assert np.diff(values) == pytest.approx(step)


@pytest.mark.slow
def test_other_targets_stay_continuous() -> None:
    x, y = ratings(step=0.01)
    fitted = model(epochs=1).fit(x, y)
    assert fitted.model_.values is None
    assert not isinstance(fitted.predict_distribution(x), Rounded | Gaussian)
