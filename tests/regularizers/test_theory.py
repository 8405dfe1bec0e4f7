"""Definition 1, Definition 2 and Proposition 1, in simulation."""

import torch
from torch.distributions import Gamma, Normal

from calibrant import Empirical, Gaussian
from calibrant.metrics import calibration_error, expected_calibration_error


def test_complete_calibration_holds_for_the_true_distribution_only(
    generator: torch.Generator,
) -> None:
    # Definition 1: the mean of G_n(F_n^{-1}(p)) over rows is p for every p.
    mean = torch.randn(500, generator=generator)
    truth = Gaussian(mean, 1 + mean.square())
    narrow = Gaussian(mean, 0.5 * (1 + mean.square()))
    for level in (0.05, 0.3, 0.5, 0.8, 0.95):
        right = truth.cdf(truth.quantile(level)).mean()
        torch.testing.assert_close(right, torch.tensor(level))
        wrong = truth.cdf(narrow.quantile(level)).mean()
        assert abs(float(wrong) - level) > 0.03 or level == 0.5


def test_complete_calibration_implies_quantile_calibration(
    generator: torch.Generator,
) -> None:
    n = 20_000
    mean = torch.randn(n, generator=generator)
    truth = Gaussian(mean, 1 + mean.square())
    y = truth.sample(generator=generator)
    floor = expected_calibration_error(n)
    assert calibration_error(truth.cdf(y)) < 3 * floor
    assert calibration_error(Gaussian(mean, 0.5).cdf(y)) > 100 * floor


def test_the_canonical_map_calibrates_any_model(generator: torch.Generator) -> None:
    # Proposition 1: with R the cdf of the PIT value, R o F is quantile calibrated.
    # The truth is a skewed distribution, the model a shifted, over-confident Gaussian.
    n = 20_000
    x = torch.rand(2, n, generator=generator)
    noise = Gamma(torch.tensor(2.0), torch.tensor(1.0)).sample((2, n))
    y = 3 * x + (0.5 + x) * noise
    model = Normal(3 * x + 1, 0.6 * (0.5 + x))
    pit = model.cdf(y)
    canonical = Empirical(pit[0])  # R, from one half of the rows
    floor = expected_calibration_error(n)
    assert calibration_error(pit[1]) > 100 * floor
    mapped = torch.stack([canonical.cdf(value) for value in pit[1].split(2000)])
    # Twice the floor: the map is estimated from as many rows as it is judged on.
    assert calibration_error(mapped.flatten()) < 4 * floor
