"""A calibration that is learned again, and the networks that stay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from calibrant._checks import InputError
from calibrant.estimators import CalibratedRegressor
from calibrant.estimators._refresh import cross_fitted_law

Array = npt.NDArray[np.float64]
Make = Callable[..., CalibratedRegressor]
Rows = tuple[Array, Array]


@pytest.fixture(scope="module")
def shifted() -> Rows:
    """400 rows of the same line, 12 higher and noisier than in training."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (400, 2))
    return x, 32 + 5 * x[:, 0] + 2 * random.standard_normal(400)


def test_new_rows_mend_the_coverage_and_the_old_model_stays(
    fitted: CalibratedRegressor, shifted: Rows
) -> None:
    x, y = shifted
    before = fitted.predict_interval(x[200:], 0.8)
    refreshed = fitted.refresh(x[:200], y[:200])
    after = refreshed.predict_interval(x[200:], 0.8)
    held = [
        float(((y[200:] >= a[:, 0]) & (y[200:] <= a[:, 1])).mean())
        for a in (before, after)
    ]
    assert held[0] < 0.5
    assert 0.72 < held[1] < 0.88  # 0.8, up to 2.8 deviations of 200 rows
    assert np.array_equal(fitted.predict_interval(x[200:], 0.8), before)
    assert refreshed.model_.members is fitted.model_.members


def test_one_map_corrects_the_pool_of_all_members(
    fitted: CalibratedRegressor, shifted: Rows
) -> None:
    x, y = shifted
    refreshed = fitted.refresh(x, y, recalibrator="isotonic")
    assert refreshed.recalibrator == "isotonic"
    recalibrator: Any = refreshed.model_.recalibrator
    expected = recalibrator.transform(fitted.model_.members.law(x))
    target = torch.from_numpy(y)
    assert torch.equal(
        refreshed.predict_distribution(x).cdf(target), expected.cdf(target)
    )


def test_it_survives_its_folder(
    fitted: CalibratedRegressor, shifted: Rows, tmp_path: object
) -> None:
    from calibrant.estimators import load

    x, y = shifted
    refreshed = fitted.refresh(x, y, recalibrator="empirical")
    again = load(refreshed.save(f"{tmp_path}/model"))
    assert again.recalibrator == "empirical"
    assert np.array_equal(again.predict_interval(x), refreshed.predict_interval(x))


def test_each_row_goes_by_its_own_fold(
    fitted: CalibratedRegressor, shifted: Rows
) -> None:
    x, y = shifted
    models = [fitted.refresh(x[:100], y[:100]), fitted.refresh(x[100:], y[100:])]
    fold = np.arange(400) % 2
    law = cross_fitted_law(models, fold, x)
    target = torch.from_numpy(y)
    for number, model in enumerate(models):
        own = torch.from_numpy(fold == number)
        expected = model.predict_distribution(x).cdf(target)[own]
        assert torch.allclose(law.cdf(target)[own], expected, rtol=1e-12)


def test_too_few_rows_and_no_recalibrator_are_refused(
    fitted: CalibratedRegressor, cheap: Make, line: Rows, shifted: Rows
) -> None:
    x, y = shifted
    with pytest.raises(InputError, match=r"at least 20 rows .* got 19"):
        fitted.refresh(x[:19], y[:19])
    plain = cheap(recalibrator=None, epochs=1).fit(*line)
    with pytest.raises(InputError, match="made without a recalibrator"):
        plain.refresh(x, y)
    assert plain.refresh(x, y, recalibrator="beta").recalibrator == "beta"
