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
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.scores import (
    _order_of_rows,
    _share_after_recalibration,
    _sortable,
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


def plain_share(promised: np.ndarray, happened: np.ndarray) -> float:
    """Isotonic regression with one point for each distinct promise."""
    distinct, place = np.unique(promised, return_inverse=True)
    weight = np.bincount(place, minlength=len(distinct)).astype(float)
    events = np.bincount(place, weights=happened, minlength=len(distinct))
    fitted = isotonic_regression(events / weight, weights=weight).x
    score = (weight * fitted * (1 - fitted)).sum() / len(promised)
    return min(score / (happened.mean() * (1 - happened.mean())), 1.0)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1, width=32), st.sampled_from([0.0, -0.0, 0.5, 1.0])),
        st.booleans(),
    ),
    max_size=40,
)


@given(ROWS, st.sampled_from([np.float32, np.float64]))
def test_runs_of_events_give_the_score_of_single_rows(
    rows: list[tuple[float, bool]], dtype: type
) -> None:
    rows = [*rows, (0.25, True), (0.75, False)]  # an event that may come or not
    promised = np.array([promise for promise, _ in rows], dtype=dtype)
    happened = np.array([event for _, event in rows])
    before = promised.copy()
    share = _share_after_recalibration(_sortable(promised), happened)
    assert share == pytest.approx(plain_share(promised, happened), abs=1e-12)
    np.testing.assert_array_equal(promised, before)


@pytest.mark.parametrize("factor", [0.3, 1.0, 20.0])
def test_distances_order_many_normal_laws_as_their_cdf_does(factor: float) -> None:
    n = 21_000
    mean, spread = torch.randn(n), 0.5 + torch.rand(n)
    y = mean + spread * torch.randn(n)
    law = Gaussian(mean, factor * spread)
    for point in (-2.0, 0.0, 1.5):
        happened = (y <= point).numpy()
        by_distance = _order_of_rows(law, torch.tensor(point))
        share = _share_after_recalibration(by_distance, happened)
        plain = plain_share(law.cdf(point).numpy(), happened)
        assert share == pytest.approx(plain, rel=1e-5)


def check_order(law: Gaussian, happened: np.ndarray) -> None:
    """Against the order of the distances themselves, at threshold 0."""
    by_distance = _order_of_rows(law, torch.tensor(0.0))
    share = _share_after_recalibration(by_distance, happened)
    plain = plain_share((-law.mean / law.stddev).clamp(-38, 8.3).numpy(), happened)
    assert share == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("factor", [1e5, 1e7, 1e9])
def test_laws_far_wider_than_the_distances_keep_their_order(factor: float) -> None:
    n = 21_000
    mean = torch.randn(n)
    y = mean + 0.3 * torch.randn(n)
    happened = (y <= 0).numpy()
    check_order(Gaussian(mean, factor), happened)
    outlier = mean.clone()
    outlier[5] = 100 * factor
    check_order(Gaussian(outlier, factor), happened)
    mixed = torch.where(torch.arange(n) % 5 == 0, factor, 0.5)
    check_order(Gaussian(mean, mixed), happened)
    parts = crps_decomposition(Gaussian(mean, factor), y, thresholds=10)
    plain = crps_decomposition(Gaussian(mean, 1.0), y, thresholds=10)
    assert parts.resolution == pytest.approx(
        plain.resolution, abs=1e-4 * plain.uncertainty
    )


def test_other_laws_and_fewer_rows_are_ordered_by_their_cdf() -> None:
    point = torch.tensor(0.3)
    few = Gaussian(torch.randn(50), 1.0)
    many = StudentT(torch.full((21_000,), 4.0), torch.zeros(21_000), 1.0)
    for law in (few, many):
        order = _sortable(law.cdf(point).numpy())
        np.testing.assert_array_equal(_order_of_rows(law, point), order)
