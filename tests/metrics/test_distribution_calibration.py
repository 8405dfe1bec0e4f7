"""Calibration given what was predicted."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from calibrant._checks import InputError
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.calibration import calibration_error, expected_calibration_error
from calibrant.metrics.distribution_calibration import distribution_calibration
from calibrant.metrics.noise import noise_floor
from calibrant.metrics.pit import GriddedTargetWarning


def predictions(
    n: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, generator=generator)
    return mean, 0.3 + 1.5 * torch.rand(n, generator=generator), generator


def test_perfect_models_are_rejected_at_the_stated_rate() -> None:
    models = 400
    found = []
    for seed in range(models):
        mean, spread, generator = predictions(200, seed)
        law = Gaussian(mean, spread)
        y = law.sample(generator=generator)
        found.append(distribution_calibration(law, y, draws=200, seed=seed))
    low, high = binom.interval(0.999, models, 0.05)
    assert low <= sum(each.p_value <= 0.05 for each in found) <= high
    excess = np.array([each.excess for each in found])
    assert abs(excess.mean()) < 4 * excess.std() / models**0.5


def test_catches_a_model_that_is_right_on_average_only() -> None:
    """It says a spread at random, and the law of all targets together is right."""
    generator = torch.Generator().manual_seed(0)
    n = 1000
    claimed = torch.where(torch.rand(n, generator=generator) < 0.5, 0.6, 1.6)
    true = torch.where(torch.rand(n, generator=generator) < 0.5, 0.6, 1.6)
    law = Gaussian(torch.randn(n, generator=generator), claimed)
    z = torch.randn(n, generator=generator)
    # The PIT values of a mixture of both ratios are made uniform by hand: every row
    # gets the rank of its z among all, so that only the groups are wrong.
    z = z * true / claimed
    rank = z.argsort().argsort()
    y = law.quantile((rank + 0.5) / n)
    assert noise_floor(n=n).p_value(calibration_error(law.cdf(y))) > 0.5
    result = distribution_calibration(law, y)
    assert result.p_value < 0.01
    assert result.value > 2 * result.floor


def test_value_and_floor_by_hand() -> None:
    mean = torch.linspace(0, 1, 80)
    spread = 1 + torch.arange(80) % 2 * 0.5 + mean / 100
    law = Gaussian(mean, spread)
    y = law.sample(generator=torch.Generator().manual_seed(0))
    result = distribution_calibration(law, y, bins=2)
    pit = law.cdf(y)
    groups = [pit[start : start + 40][odd::2] for start in (0, 40) for odd in (0, 1)]
    by_hand = np.mean([calibration_error(each.contiguous()) for each in groups])
    assert result.value == pytest.approx(by_hand)
    assert result.floor == pytest.approx(expected_calibration_error(20))
    assert result.excess == pytest.approx(result.value - result.floor)
    assert (result.groups, result.n) == (4, 80)


@pytest.mark.parametrize(("n", "groups"), [(15, 1), (50, 2), (100, 4), (400, 16)])
def test_few_rows_make_few_groups(n: int, groups: int) -> None:
    mean, spread, generator = predictions(n, 0)
    law = Gaussian(mean, spread)
    y = law.sample(generator=generator)
    assert distribution_calibration(law, y, draws=40).groups == groups


def test_one_spread_for_all_rows_leaves_groups_of_the_mean() -> None:
    law = Gaussian(torch.linspace(0, 1, 400), 1.0)
    y = law.sample(generator=torch.Generator().manual_seed(0))
    assert distribution_calibration(law, y, draws=40).groups == 4


def test_a_rounded_target_is_treated_as_such() -> None:
    generator = torch.Generator().manual_seed(0)
    law = Gaussian(5.5 + 0.1 * torch.randn(500, generator=generator), 0.8)
    y = law.sample(generator=generator).round()
    with pytest.warns(GriddedTargetWarning):
        assert distribution_calibration(law, y).p_value > 0.01


def test_a_law_without_a_variance_is_grouped_by_its_quartiles() -> None:
    mean, spread, generator = predictions(400, 0)
    law = StudentT(torch.ones(400), mean, spread)
    y = law.sample(generator=generator)
    result = distribution_calibration(law, y)
    assert result.groups == 16
    assert result.p_value > 0.001


def test_takes_pit_values_that_are_there_already() -> None:
    mean, spread, generator = predictions(100, 0)
    law = Gaussian(mean, spread)
    y = law.sample(generator=generator)
    given = distribution_calibration(law, y, draws=40, pit=law.cdf(y))
    assert given == distribution_calibration(law, y, draws=40)


def test_is_reproducible() -> None:
    mean, spread, generator = predictions(100, 0)
    y = Gaussian(mean, spread).sample(generator=generator)
    first = distribution_calibration((mean, spread), y, draws=100)
    assert (
        distribution_calibration((mean.numpy(), spread.numpy()), y, draws=100) == first
    )


def test_names_what_is_wrong() -> None:
    law = Gaussian(torch.zeros(30), 1.0)
    y = torch.linspace(-1, 1, 30)
    with pytest.raises(InputError, match="bins must be a whole number"):
        distribution_calibration(law, y, bins=0)
    with pytest.raises(InputError, match="levels must be a whole number >= 2"):
        distribution_calibration(law, y, levels=1)
    with pytest.raises(InputError, match="draws must be"):
        distribution_calibration(law, y, draws=1)
    with pytest.raises(InputError, match="each of 30 targets, got 29"):
        distribution_calibration(law, y, pit=law.cdf(y)[1:])
