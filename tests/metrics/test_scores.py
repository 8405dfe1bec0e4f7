"""Reliability, resolution and uncertainty add up to the mean CRPS."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calibrant import Gaussian, InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.metrics.scores import (
    _ascending,
    _share_after_recalibration,
    crps_decomposition,
)
from calibrant.scores import crps

N = 2000


@pytest.fixture
def mean(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(N, generator=generator)


@pytest.fixture
def y(mean: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return mean + 0.7 * torch.randn(N, generator=generator)


def laws(mean: torch.Tensor) -> list[AbstractDistribution]:
    quantiles = mean[:, None] + torch.tensor([-1.0, -0.2, 0.0, 0.3, 1.5])
    return [
        Gaussian(mean, 0.3),
        GaussianMixture(torch.stack([mean - 1, mean]), 0.5),
        Empirical(torch.stack([mean - 1, mean, mean + 0.5])),
        QuantileTable([0.05, 0.3, 0.5, 0.7, 0.95], quantiles),
    ]


def test_parts_add_up_and_none_is_negative(mean: torch.Tensor, y: torch.Tensor) -> None:
    for law in laws(mean):
        parts = crps_decomposition(law, y)
        assert parts.crps == pytest.approx(float(crps(law, y).mean()))
        assert parts.resolution > 0.2
        assert parts.reliability > 0
        assert parts.uncertainty > parts.resolution


def test_uncertainty_is_half_the_mean_distance_of_two_targets(y: torch.Tensor) -> None:
    parts = crps_decomposition(Gaussian(torch.zeros(N), 1.0), y)
    pairs = (y[:, None] - y).abs().mean() / 2
    assert parts.uncertainty == pytest.approx(float(pairs))


def test_the_targets_own_law_has_no_resolution_and_no_error(y: torch.Tensor) -> None:
    climatology = Empirical(y[:, None].expand(N, N))
    parts = crps_decomposition(climatology, y, thresholds=5)
    assert parts.resolution == pytest.approx(0, abs=1e-12)
    assert parts.reliability == pytest.approx(0, abs=1e-12)
    assert parts.crps == pytest.approx(parts.uncertainty)


def test_calibrated_model_is_reliable(mean: torch.Tensor, y: torch.Tensor) -> None:
    right = crps_decomposition(Gaussian(mean, 0.7), y)
    narrow = crps_decomposition(Gaussian(mean, 0.2), y)
    shifted = crps_decomposition(Gaussian(mean + 1, 0.7), y)
    assert 0 < right.reliability < 0.03
    assert right.reliability < narrow.reliability < shifted.reliability
    # A shift is a monotone map of the probabilities at every threshold.
    assert shifted.resolution == pytest.approx(right.resolution)


def test_reliability_vanishes_with_the_rows(generator: torch.Generator) -> None:
    center = torch.randn(50_000, generator=generator)
    y = center + torch.randn(50_000, generator=generator)
    law = Gaussian(center, 1.0)
    few = crps_decomposition(law[:500], y[:500], thresholds=20).reliability
    assert crps_decomposition(law, y, thresholds=20).reliability < few / 5


def test_equal_targets_leave_only_reliability() -> None:
    law = Gaussian([0.0, 1.0], 1.0)
    parts = crps_decomposition(law, [2.0, 2.0])
    assert (parts.resolution, parts.uncertainty) == (0, 0)
    assert parts.reliability == pytest.approx(float(crps(law, [2.0, 2.0]).mean()))


def test_no_thresholds_are_refused() -> None:
    with pytest.raises(
        InputError, match="thresholds must be a whole number >= 1, got 0"
    ):
        crps_decomposition(Gaussian([0.0], 1.0), [0.0], thresholds=0)


def plain_share(probability: np.ndarray, happened: np.ndarray) -> float:
    """Isotonic regression with one point for each distinct probability."""
    distinct, place = np.unique(probability, return_inverse=True)
    weight = np.bincount(place, minlength=len(distinct)).astype(float)
    events = np.bincount(place, weights=happened, minlength=len(distinct))
    fitted = isotonic_regression(events / weight, weights=weight).x
    score = (weight * fitted * (1 - fitted)).sum() / len(probability)
    return min(score / (happened.mean() * (1 - happened.mean())), 1.0)


class Given:
    """Predictions whose cdf is the same at every point."""

    def __init__(self, probability: np.ndarray) -> None:
        self.probability = torch.from_numpy(probability)

    def cdf(self, _: torch.Tensor) -> torch.Tensor:
        return self.probability


ROWS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1, width=16), st.sampled_from([0.0, 0.5, 1.0])),
        st.booleans(),
    ),
    max_size=40,
)


@given(ROWS, st.sampled_from([np.float32, np.float64]))
def test_runs_of_events_give_the_score_of_single_rows(
    rows: list[tuple[float, bool]], dtype: type
) -> None:
    rows = [*rows, (0.25, True), (0.75, False)]  # an event that may come or not
    probability = np.array([row[0] for row in rows], dtype=dtype)
    happened = np.array([event for _, event in rows])
    order = _ascending(Given(probability), torch.tensor(0.0))  # type: ignore[arg-type]
    share = _share_after_recalibration(order, happened)
    assert share == pytest.approx(plain_share(probability, happened), abs=1e-12)


@pytest.mark.parametrize("factor", [0.3, 1.0, 20.0, 1e5, 1e9])
@pytest.mark.parametrize("outlier", [False, True])
def test_distances_order_normal_distributions_as_their_cdf_does(
    factor: float, outlier: bool
) -> None:
    n = 5000
    mean, spread = torch.randn(n), 0.5 + torch.rand(n)
    y = mean + spread * torch.randn(n)
    if outlier:
        mean[5] = 100 * factor
    predictive = Gaussian(mean, factor * spread)
    for point in (-2.0, 0.0, 1.5):
        happened = (y <= point).numpy()
        order = _ascending(predictive, torch.tensor(point))
        distance = ((point - mean) / (factor * spread)).clamp(-38, 8.3).numpy()
        share = _share_after_recalibration(order, happened)
        assert share == pytest.approx(plain_share(distance, happened), abs=1e-5)
        if factor < 1e3:
            plain = plain_share(predictive.cdf(torch.tensor(point)).numpy(), happened)
            assert share == pytest.approx(plain, rel=1e-5)
