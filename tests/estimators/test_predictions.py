"""Every public method says what the predicted law says."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import calibrant
from calibrant.estimators import CalibratedRegressor
from calibrant.metrics.evaluate import evaluate

Make = Callable[..., CalibratedRegressor]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class TestConsistency:
    def test_mean_deviation_and_variance(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        x = line[0][:7]
        law = fitted.predict_distribution(x)
        mean, deviation = fitted.predict(x, return_std=True)
        assert mean.shape == deviation.shape == (7,)
        assert mean.dtype == np.float64
        np.testing.assert_array_equal(mean, law.mean)
        np.testing.assert_array_equal(fitted.predict(x), mean)
        np.testing.assert_array_equal(deviation, law.stddev)
        np.testing.assert_allclose(fitted.predict_var(x), deviation**2)

    def test_one_map_corrects_the_pool_of_all_members(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        x, y = line
        inner = fitted.model_
        recalibrator: Any = inner.recalibrator
        plain = inner.members.law(x, range(4))
        found = fitted.predict_distribution(x).cdf(y)
        torch.testing.assert_close(found, recalibrator.transform(plain).cdf(y))
        assert (found - plain.cdf(y)).abs().max() > 0.01

    def test_interval(self, fitted: CalibratedRegressor, line: Rows) -> None:
        x = line[0][:7]
        law = fitted.predict_distribution(x)
        interval = fitted.predict_interval(x, coverage=0.8)
        assert interval.shape == (7, 2)
        for side, level in ((0, 0.1), (1, 0.9)):
            reached = law.cdf(interval[:, side])
            np.testing.assert_allclose(reached, level, atol=1e-6)
        assert (fitted.predict_interval(x)[:, 1] > interval[:, 1]).all()

    def test_quantiles(self, fitted: CalibratedRegressor, line: Rows) -> None:
        x = line[0][:7]
        levels = [0.05, 0.5, 0.9]
        quantiles = fitted.predict_quantiles(x, levels)
        assert quantiles.shape == (7, 3)
        assert (np.diff(quantiles, axis=1) > 0).all()
        law = fitted.predict_distribution(x)
        for place, level in enumerate(levels):
            np.testing.assert_allclose(law.cdf(quantiles[:, place]), level, atol=1e-6)
        assert fitted.predict_quantiles(x).shape == (7, 5)

    def test_samples_follow_the_law(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        x = line[0][:5]
        draws = fitted.sample(x, 4000, random_state=1)
        assert draws.shape == (5, 4000)
        pit = fitted.predict_distribution(x).cdf(torch.from_numpy(draws.T))
        # The largest gap of 4000 uniform numbers stays below this with p = 1e-6.
        ordered = np.sort(pit.numpy(), axis=0)
        gap = np.abs(ordered - (np.arange(4000)[:, None] + 0.5) / 4000).max()
        assert gap < np.sqrt(np.log(2 / 1e-6) / 2 / 4000)

    def test_samples_have_a_seed(self, fitted: CalibratedRegressor, line: Rows) -> None:
        x = line[0][:5]
        first, again, other = (
            fitted.sample(x, 3, random_state=seed) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).all()
        assert fitted.sample(x).shape == (5, 100)

    def test_evaluate(self, cheap: Make, line: Rows) -> None:
        x, y = line
        fitted = cheap(recalibrate_on=None, epochs=1).fit(x, y)
        found = fitted.evaluate(x, list(y), seed=3)
        expected = evaluate(fitted.predict_distribution(x), y, seed=3)
        assert found.to_dict() == expected.to_dict()

    def test_everything_is_wide_and_on_the_cpu(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        law = fitted.predict_distribution(line[0].astype(np.float32))
        assert law.dtype == torch.float64
        assert law.cdf(line[1]).device.type == "cpu"


NETWORKS: dict[str, dict[str, Any]] = {
    "deep_ensemble": {"network": "deep_ensemble"},
    "mc_dropout": {"network": "mc_dropout", "passes": 3},
    "student_t": {"head": "student_t", "members": 1, "recalibrate_on": "held_out"},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_any_chunks_and_any_order(name: str, cheap: Make, line: Rows) -> None:
    x, y = line
    model = cheap(epochs=2, **NETWORKS[name]).fit(x, y)
    levels = (0.1, 0.5, 0.99)
    at_once = model.predict_quantiles(x, levels)
    parts = np.concatenate(
        [model.predict_quantiles(each, levels) for each in (x[:1], x[1:8], x[8:])]
    )
    np.testing.assert_allclose(parts, at_once, rtol=1e-5)
    order = np.random.default_rng(0).permutation(len(x))
    np.testing.assert_allclose(
        model.predict_quantiles(x[order], levels), at_once[order], rtol=1e-5
    )


def test_blocks_of_rows_change_nothing(
    fitted: CalibratedRegressor, line: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.tile(line[0], (3, 1))
    whole = fitted.predict_quantiles(x, [0.3])
    monkeypatch.setattr("calibrant.estimators._members._BLOCK", 1)
    np.testing.assert_allclose(fitted.predict_quantiles(x, [0.3]), whole, rtol=1e-5)


def test_a_row_beside_a_vast_one_is_the_same(
    fitted: CalibratedRegressor, line: Rows
) -> None:
    x = line[0][:2].copy()
    alone = fitted.predict_quantiles(x[:1], [0.3])
    x[1] = 1e308, -1e308
    beside = fitted.predict_quantiles(x, [0.3])
    np.testing.assert_allclose(beside[0], alone[0], rtol=1e-6)
    assert np.isfinite(beside).all()


def test_importing_calibrant_does_not_wait_for_torch() -> None:
    code = (
        "import sys, calibrant; "
        "assert 'torch' not in sys.modules; assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names() -> None:
    for name in (
        "CalibratedRegressor",
        "StrengthPath",
        "SerialDependenceWarning",
        "load",
        "Mixture",
    ):
        assert hasattr(calibrant, name)
