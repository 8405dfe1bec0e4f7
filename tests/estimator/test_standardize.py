"""Center and scale in blocks, against the plain formulas."""

import numpy as np
import pytest

from calibrant.estimator import _standardize
from calibrant.estimator._standardize import center_and_scale

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
