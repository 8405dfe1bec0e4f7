"""Reliability, resolution and uncertainty add up to the mean CRPS."""

import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.gaussian_mixture import GaussianMixture
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.metrics.decomposition import crps_decomposition
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


def test_constant_wrong_law_has_an_error_and_no_resolution(y: torch.Tensor) -> None:
    parts = crps_decomposition(Gaussian(torch.full((N,), 2.0), 1.0), y)
    assert parts.resolution == pytest.approx(0, abs=1e-12)
    assert parts.reliability > 0.5


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


def test_perfect_foresight_explains_all_uncertainty(y: torch.Tensor) -> None:
    parts = crps_decomposition(Gaussian(y, 1e-9), y)
    assert parts.resolution == pytest.approx(parts.uncertainty)
    assert parts.crps == pytest.approx(0, abs=1e-8)


def test_few_thresholds_come_close_to_many(mean: torch.Tensor, y: torch.Tensor) -> None:
    law = Gaussian(mean, 0.5)
    few, many = (crps_decomposition(law, y, thresholds=k) for k in (50, 800))
    assert few.resolution == pytest.approx(many.resolution, rel=0.01)
    assert few.uncertainty == many.uncertainty


def test_equal_targets_leave_only_reliability() -> None:
    law = Gaussian([0.0, 1.0], 1.0)
    parts = crps_decomposition(law, [2.0, 2.0])
    assert (parts.resolution, parts.uncertainty) == (0, 0)
    assert parts.reliability == pytest.approx(float(crps(law, [2.0, 2.0]).mean()))


def test_no_thresholds_are_refused() -> None:
    with pytest.raises(InputError, match="thresholds must be at least 1, got 0"):
        crps_decomposition(Gaussian([0.0], 1.0), [0.0], thresholds=0)
