"""Scores: values by hand, limits, gradients and refused input."""

import math

import numpy as np
import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.mixture import GaussianMixture
from calibrant.scores import (
    SCORES,
    Score,
    absolute_error,
    crps,
    interval_score,
    mean_pinball,
    nll,
    pinball,
    squared_error,
)

EVERY = [pytest.param(SCORES[name], id=name) for name in SCORES]
# A skewed distribution: its median is not its mean.
SKEWED = GaussianMixture([[0.0], [0.0], [9.0]], 1.0)


def test_nll_is_that_of_the_normal_density() -> None:
    values = nll(Gaussian([0.0, 1.0], [1.0, 2.0]), [1.0, 1.0])
    by_hand = [(1 + math.log(2 * math.pi)) / 2, math.log(2 * math.pi) / 2 + math.log(2)]
    np.testing.assert_allclose(values, by_hand)


def test_crps_at_the_mean_and_far_away() -> None:
    predictive = Gaussian([0.0, 0.0], 1.0)
    values = crps(predictive, [0.0, 1000.0])
    at_mean = (math.sqrt(2) - 1) / math.sqrt(math.pi)
    np.testing.assert_allclose(values, [at_mean, 1000 - 1 / math.sqrt(math.pi)])


def test_pinball_at_many_levels_is_one_column_per_level() -> None:
    predictive = Gaussian(torch.randn(7), 2.0)
    y = torch.randn(7)
    table = pinball(predictive, y, level=[0.1, 0.5])
    assert table.shape == (7, 2)
    torch.testing.assert_close(table[:, 1], pinball(predictive, y, level=0.5))
    torch.testing.assert_close(
        table.mean(-1), mean_pinball(predictive, y, levels=[0.1, 0.5])
    )


def test_pinball_over_all_levels_is_half_the_crps() -> None:
    predictive = Gaussian([0.0, 1.0], [1.0, 3.0])
    levels = (torch.arange(2000) + 0.5) / 2000
    mean = mean_pinball(predictive, [0.3, -4.0], levels=levels)
    torch.testing.assert_close(
        mean, crps(predictive, [0.3, -4.0]) / 2, rtol=1e-3, atol=0
    )


def test_interval_score_is_width_plus_fine() -> None:
    predictive = Gaussian([0.0, 0.0, 0.0], 1.0)
    half = 1.959963984540054
    values = interval_score(predictive, [0.0, 3.0, -4.0], coverage=0.95)
    fines = np.array([0, 3 - half, 4 - half]) * 2 / 0.05
    np.testing.assert_allclose(values, 2 * half + fines)


def test_squared_error_takes_the_mean_and_absolute_error_the_median() -> None:
    assert squared_error(SKEWED, [0.0]).item() == pytest.approx(9.0)
    median = SKEWED.quantile(0.5).item()
    assert absolute_error(SKEWED, [0.0]).item() == pytest.approx(median)
    assert median < 1


@pytest.mark.parametrize("score", EVERY)
def test_true_distribution_scores_best_on_average(
    score: Score, generator: torch.Generator
) -> None:
    y = torch.randn(20_000, generator=generator)
    true = score(Gaussian(torch.zeros(len(y)), 1.0), y).mean()
    for mean, stddev in ((0.5, 1.0), (0.0, 2.0), (0.0, 0.5)):
        other = score(Gaussian(torch.full((len(y),), mean), stddev), y).mean()
        assert true <= other + 1e-9


@pytest.mark.parametrize("score", EVERY)
def test_one_number_per_row_with_gradient(
    score: Score, generator: torch.Generator
) -> None:
    mean = torch.randn(6, generator=generator).requires_grad_()
    stddev = (1 + torch.rand(6, generator=generator)).requires_grad_()
    y = torch.randn(6, generator=generator)

    def loss(mean: torch.Tensor, stddev: torch.Tensor) -> torch.Tensor:
        return score(Gaussian(mean, stddev), y)

    assert loss(mean, stddev).shape == (6,)
    assert torch.autograd.gradcheck(loss, [mean, stddev])


@pytest.mark.parametrize("score", EVERY)
def test_takes_pairs_arrays_and_torch_distributions_alike(score: Score) -> None:
    mean, stddev, y = np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.array([1.0, 1.0])
    expected = score(Gaussian(mean, stddev), torch.tensor(y))
    pair = score((mean, stddev), y)
    predictive = torch.distributions.Normal(torch.tensor(mean), torch.tensor(stddev))
    torch.testing.assert_close(pair, expected)
    torch.testing.assert_close(score(predictive, y), expected)


@pytest.mark.parametrize("score", EVERY)
def test_column_of_targets_is_refused(score: Score) -> None:
    with pytest.raises(InputError, match=r"y must have .* Use y.squeeze\(-1\)"):
        score(Gaussian([0.0, 1.0], 1.0), [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.0, "strictly between 0 and 1"),
        ([0.5, 1.0], "strictly between 0 and 1"),
        (90.0, "Write 0.9 for 90 %"),
        ([[0.5]], r"number or have shape \(k,\), got \(1, 1\)"),
        ([], r"number or have shape \(k,\), got \(0,\)"),
    ],
)
def test_bad_levels_are_refused(level: float, text: str) -> None:
    with pytest.raises(InputError, match=text):
        pinball(Gaussian([0.0], 1.0), [0.0], level=level)


def test_bad_coverage_is_refused() -> None:
    with pytest.raises(InputError, match="coverage must lie strictly between 0 and 1"):
        interval_score(Gaussian([0.0], 1.0), [0.0], coverage=1.0)
