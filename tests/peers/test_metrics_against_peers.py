"""Every number equals that of an independent implementation."""

import numpy as np
import pytest
import torch

from calibrant import Gaussian
from calibrant.metrics.accuracy import mae, r2, rmse, sharpness
from calibrant.metrics.calibration import (
    coverage,
    mean_absolute_calibration_error,
    mean_width,
    miscalibration_area,
    root_mean_squared_calibration_error,
)
from calibrant.metrics.scores import crps_decomposition
from calibrant.metrics.spread import ence, uce
from calibrant.scores import crps, interval_score, mean_pinball, nll, pinball

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

toolbox = pytest.importorskip("uncertainty_toolbox")
rules = pytest.importorskip("scoringrules")

RNG = np.random.default_rng(0)
N = 400
MEAN = RNG.normal(size=N)
STDDEV = RNG.uniform(0.3, 1.5, size=N)
Y = MEAN + 0.2 + 0.8 * RNG.normal(size=N)
LAW = Gaussian(MEAN, STDDEV)
PIT = LAW.cdf(Y)
HUNDRED = np.linspace(0, 1, 100)
NINETY_NINE = np.linspace(0.01, 0.99, 99)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (mean_absolute_calibration_error, "mean_absolute_calibration_error"),
        (root_mean_squared_calibration_error, "root_mean_squared_calibration_error"),
        (miscalibration_area, "miscalibration_area"),
    ],
)
@pytest.mark.parametrize("vectorized", [True, False])
def test_calibration_equals_uncertainty_toolbox(
    ours: object, theirs: str, vectorized: bool
) -> None:
    function = getattr(toolbox.metrics_calibration, theirs)
    intervals = function(MEAN, STDDEV, Y, vectorized=vectorized)
    assert ours(PIT, levels=HUNDRED, kind="interval") == pytest.approx(intervals)
    quantiles = function(MEAN, STDDEV, Y, vectorized=vectorized, prop_type="quantile")
    # It takes prediction minus target, hence the other tail.
    assert ours(1 - PIT, levels=HUNDRED) == pytest.approx(quantiles)


def test_sharpness_and_accuracy_equal_uncertainty_toolbox() -> None:
    assert sharpness(LAW) == pytest.approx(
        toolbox.metrics_calibration.sharpness(STDDEV)
    )
    theirs = toolbox.metrics_accuracy.prediction_error_metrics(MEAN, Y)
    assert rmse(LAW, Y) == pytest.approx(theirs["rmse"])
    assert mae(LAW, Y) == pytest.approx(theirs["mae"])
    assert r2(LAW, Y) == pytest.approx(theirs["r2"])


def test_scores_equal_uncertainty_toolbox() -> None:
    theirs = toolbox.metrics_scoring_rule
    given = (MEAN, STDDEV, Y)
    assert nll(LAW, Y).mean().item() == pytest.approx(theirs.nll_gaussian(*given))
    assert crps(LAW, Y).mean().item() == pytest.approx(theirs.crps_gaussian(*given))
    check = mean_pinball(LAW, Y, levels=NINETY_NINE).mean().item()
    assert check == pytest.approx(theirs.check_score(*given))
    intervals = [interval_score(LAW, Y, coverage=c).mean() for c in NINETY_NINE]
    assert np.mean(intervals) == pytest.approx(theirs.interval_score(*given))


def test_logarithmic_score_equals_scoringrules() -> None:
    np.testing.assert_allclose(nll(LAW, Y), rules.logs_normal(Y, MEAN, STDDEV))


def test_quantile_and_interval_scores_equal_scoringrules() -> None:
    levels = np.array([0.05, 0.5, 0.9])
    quantiles = LAW.quantiles(levels).numpy()
    theirs = rules.quantile_score(Y[:, None], quantiles, levels)
    np.testing.assert_allclose(pinball(LAW, Y, level=levels), theirs)
    lower, upper = (bound.numpy() for bound in LAW.interval(0.8))
    expected = rules.interval_score(Y, lower, upper, 0.2)
    np.testing.assert_allclose(interval_score(LAW, Y, coverage=0.8), expected)


class TestNetcal:
    """netcal bins by equal width, and its quantiles are central intervals."""

    @pytest.fixture(autouse=True)
    def _netcal(self) -> None:
        self.peer = pytest.importorskip("netcal.metrics.regression")

    @pytest.mark.parametrize("bins", [1, 7, 10, 40])
    def test_ence_and_uce(self, bins: int) -> None:
        normalized = self.peer.ENCE(bins=bins).measure((MEAN, STDDEV), Y)
        ours = ence(LAW, Y, bins=bins, binning="width")
        assert ours == pytest.approx(float(normalized))
        plain = self.peer.UCE(bins=bins).measure((MEAN, STDDEV), Y)
        assert uce(LAW, Y, bins=bins, binning="width") == pytest.approx(float(plain))

    def test_quantile_calibration_error(self) -> None:
        levels = np.linspace(0.05, 0.95, 19)
        metric = self.peer.QCE(marginal=True)
        theirs = metric.measure((MEAN, STDDEV), Y, q=levels)
        ours = mean_absolute_calibration_error(PIT, levels=levels, kind="interval")
        assert ours == pytest.approx(theirs.item())

    def test_coverage_and_width(self) -> None:
        levels = np.array([0.5, 0.9])
        theirs = self.peer.PICP().measure((MEAN, STDDEV), Y, q=levels, reduction="none")
        for index, level in enumerate(levels):
            share = coverage(LAW, Y, level=level)
            assert share == pytest.approx(theirs.picp[index].mean())
            width = mean_width(LAW, level=level)
            assert width == pytest.approx(theirs.mpiw[index].mean())


def test_decomposition_equals_isotonic_regression_of_scikit_learn() -> None:
    peer = pytest.importorskip("sklearn.isotonic")
    # Rounded, so that many rows share a promise.
    law = Gaussian((3 * MEAN).round() / 3, 0.7)
    ordered, p = np.sort(Y), np.arange(1, N) / N
    shares = np.diff(ordered) * p * (1 - p)
    half = np.searchsorted(shares.cumsum(), shares.sum() / 2)
    inside = shares.sum() / 2 - shares[:half].sum()
    threshold = ordered[half] + np.diff(ordered)[half] * inside / shares[half]
    promised, happened = law.cdf(torch.tensor(threshold)).numpy(), threshold >= Y
    fitted = peer.IsotonicRegression().fit_transform(promised, happened)
    kept = np.square(fitted - happened).mean() / happened.var()
    parts = crps_decomposition(law, Y, thresholds=1)
    assert parts.resolution == pytest.approx(parts.uncertainty * (1 - kept))
