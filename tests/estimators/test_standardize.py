"""Center and scale in blocks, against the plain formulas; cells beyond any reason."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from calibrant import export_onnx, load
from calibrant.estimators import CalibratedRegressor, _standardize
from calibrant.estimators._standardize import (
    center_and_scale,
    feature_limits,
    usual_range,
)

Make = Callable[..., CalibratedRegressor]
Rows = tuple[np.ndarray, np.ndarray]

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(1000, 4)) * [1e-5, 1.0, 1e200, 0.0] + [1.0, 0.0, 0.0, 7.0]


def plain(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(values).max(0)
    unit = np.where(largest > 0, largest, 1.0)
    center, scale = (values / unit).mean(0), (values / unit).std(0)
    return center * unit, np.where(scale > 1e-14, scale * unit, 1.0)


@pytest.mark.parametrize("block", [10_000, 300, 7])
def test_blocks_give_what_the_whole_gives(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_standardize, "BLOCK", block)
    for found, expected in zip(center_and_scale(TABLE), plain(TABLE), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_rows_are_those_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RANDOM.choice(1000, 600, replace=False)
    whole = center_and_scale(TABLE[rows])
    for found, expected in zip(center_and_scale(TABLE, rows), whole, strict=True):
        assert np.array_equal(found, expected)
    monkeypatch.setattr(_standardize, "BLOCK", 101)
    for found, expected in zip(center_and_scale(TABLE, rows), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_float32_is_computed_with_in_float64() -> None:
    values = (1e4 + RANDOM.normal(size=(5000, 1))).astype(np.float32)
    for found, expected in zip(
        center_and_scale(values), plain(values.astype(np.float64)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


NORMAL = np.random.default_rng(1).normal(size=600)


@pytest.mark.parametrize(
    ("usual", "wild"),
    [
        (NORMAL, [-9999.0]),
        (NORMAL, [1e12]),
        (NORMAL, [1e12, 3e11, -9999.0]),
        (NORMAL, [-1e12, 1e6]),
        (NORMAL, [1e308, -1e308]),
        (50 + 10 * NORMAL, [-9999.0] * 30),
        (np.exp(NORMAL), [1e12]),
        (np.round(5 * np.abs(NORMAL)), [-999.0]),
        (np.round(5 * np.abs(NORMAL)), [1e12]),
        (np.where(NORMAL > 1, np.exp(NORMAL), 0.0), [1e12]),
    ],
)
def test_values_beyond_any_reason_are_none_of_the_range(
    usual: np.ndarray, wild: list[float]
) -> None:
    found = usual_range(RANDOM.permutation(np.append(usual, wild)))
    assert found == (usual.min(), usual.max())


HEAVY = {
    "normal": lambda r, n: r.normal(size=n),
    "t, 3 degrees": lambda r, n: r.standard_t(3, n),
    "t, 2 degrees": lambda r, n: r.standard_t(2, n),
    "lognormal": lambda r, n: r.lognormal(0, 1, n),
    "wide lognormal": lambda r, n: r.lognormal(0, 2, n),
    "prices": lambda r, n: np.round(r.lognormal(7, 1.5, n)) - 0.01,
    "counts": lambda r, n: r.negative_binomial(0.3, 0.01, n),
    "mixed counts": lambda r, n: r.poisson(r.lognormal(-1, 2, n)),
    "claims": lambda r, n: np.where(r.random(n) < 0.95, 0, r.lognormal(6, 2, n)),
    "flag": lambda r, n: r.random(n) < 0.01,
    "two groups": lambda r, n: r.normal(size=n) + 1e6 * (r.random(n) < 0.1),
    "weibull": lambda r, n: r.weibull(0.3, n),
}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_are_within_reason(name: str) -> None:
    random = np.random.default_rng(0)
    for count, repeats in ((30, 300), (200, 500), (2000, 200)):
        for _ in range(repeats):
            values = HEAVY[name](random, count).astype(float)
            assert usual_range(values) == (values.min(), values.max())


def test_limits_are_the_range_and_as_much_again() -> None:
    x = np.column_stack([np.linspace(0, 1, 600), NORMAL, np.ones(600), NORMAL > 2])
    expected = feature_limits(x)
    np.testing.assert_allclose(expected[0][[0, 2, 3]], [-1, 1, -1])
    np.testing.assert_allclose(expected[1][[0, 2, 3]], [2, 1, 2])
    wild = x.copy()
    wild[300, 0], wild[301, 0], wild[5, 1] = -9999, 1e12, -1e300
    np.testing.assert_allclose(feature_limits(wild), expected, rtol=0.1)
    np.testing.assert_array_equal(feature_limits(x[:, 1:])[0], expected[0][1:])
    largest = feature_limits(np.array([[-1e308], [1e308]]))
    assert np.isfinite(largest).all()


def test_a_wild_cell_is_clipped_wherever_the_model_goes(
    cheap: Make, line: Rows, tmp_path: Path
) -> None:
    """In training, in new rows, in a folder, in an ONNX file."""
    x, y = line
    model = cheap().fit(x, y)
    plain = cheap(clip_features=False).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), plain.predict(x))
    wild = x.copy()
    wild[7, 0] = 1e12
    longer = {"epochs": 40, "patience": None, "learning_rate": 0.05}
    calm = cheap(**longer).fit(wild, y)
    rest = np.delete(np.arange(60), 7)
    assert calm.score(x[rest], y[rest]) > 0.7
    assert cheap(**longer, clip_features=False).fit(wild, y).score(x, y) < 0.2
    low, high = calm.model_.members.limits
    expected = calm.predict(wild.clip(low, high))
    np.testing.assert_array_equal(calm.predict(wild), expected)
    calm.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(wild), expected)
    assert CalibratedRegressor.paper(epochs=1).fit(x, y).model_.members.limits is None
    session = onnxruntime.InferenceSession(export_onnx(calm, tmp_path / "model.onnx"))
    np.testing.assert_allclose(
        session.run(["mean"], {"features": wild})[0], expected, rtol=1e-4
    )


def test_a_wild_target_is_told(cheap: Make, line: Rows) -> None:
    x, y = line
    with pytest.warns(UserWarning, match=r"1 of 61 targets are beyond .* is -9999"):
        cheap(epochs=1).fit(np.vstack([x, x[:1] + 1e-3]), np.append(y, -9999))
