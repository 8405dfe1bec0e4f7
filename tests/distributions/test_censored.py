"""Laws with mass on their bounds, against closed forms and samples."""

import pytest
import torch
from scipy import stats

from calibrant import Censored, Gaussian, GaussianMixture, InputError

MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
LAW = Censored(Gaussian(MEAN, 1.0), -0.5, 2.0)


def test_moments_are_those_of_recorded_values() -> None:
    z = torch.distributions.Normal(0.0, 1.0)
    low, high = -0.5 - MEAN, 2.0 - MEAN
    first = (
        -0.5 * z.cdf(low)
        + 2.0 * (1 - z.cdf(high))
        + MEAN * (z.cdf(high) - z.cdf(low))
        + z.log_prob(low).exp()
        - z.log_prob(high).exp()
    )
    torch.testing.assert_close(LAW.mean, first, atol=1e-7, rtol=0)
    draws = LAW.sample((200_000,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(LAW.stddev, draws.std(0), atol=5e-3, rtol=0)
    assert draws.min() == -0.5
    assert draws.max() == 2.0


def test_the_cdf_jumps_at_the_bounds() -> None:
    assert LAW.cdf(torch.full((3,), -0.6)).tolist() == [0.0] * 3
    assert LAW.survival(torch.full((3,), 2.0)).tolist() == [0.0] * 3
    assert LAW.cdf(torch.full((3,), 2.0)).tolist() == [1.0] * 3
    y = torch.full((3,), 0.4)
    torch.testing.assert_close(LAW.cdf(y), Gaussian(MEAN, 1.0).cdf(y))
    torch.testing.assert_close(LAW.cdf(y) + LAW.survival(y), torch.ones(3))
    for value in (-1.0, -0.5, 0.4, 2.0, 3.0):
        y = torch.full((3,), value)
        pit = LAW.pit(y)
        torch.testing.assert_close(pit.cdf, LAW.cdf(y))
        torch.testing.assert_close(pit.log_survival.exp(), LAW.survival(y))


def test_a_bound_has_a_probability_and_the_rest_a_density() -> None:
    known = stats.norm(MEAN.numpy())
    at_low = LAW.log_prob(torch.full((3,), -0.5))
    torch.testing.assert_close(at_low, torch.from_numpy(known.logcdf(-0.5)))
    at_high = LAW.log_prob(torch.full((3,), 2.0))
    torch.testing.assert_close(at_high, torch.from_numpy(known.logsf(2.0)))
    inside = LAW.log_prob(torch.full((3,), 1.0))
    torch.testing.assert_close(inside, torch.from_numpy(known.logpdf(1.0)))
    assert LAW.log_prob(torch.full((3,), 2.1)).tolist() == [-torch.inf] * 3


def test_intervals_hold_the_bounds_and_the_crps_is_that_of_samples() -> None:
    lower, upper = LAW.interval(0.9)
    assert lower.tolist() == [-0.5, -0.5, -0.5]
    assert upper[2] == -0.5
    draws = LAW.sample((4000,), generator=torch.Generator().manual_seed(1))
    y = torch.tensor([-0.5, 0.3, 2.0])
    pairs = (draws[:2000] - draws[2000:]).abs().mean(0) / 2
    expected = (draws - y).abs().mean(0) - pairs
    torch.testing.assert_close(LAW.crps(y), expected, atol=0.02, rtol=0)
    mixture = Censored(GaussianMixture(torch.stack([MEAN, MEAN + 1]), 1.0), 0.0)
    assert mixture[1:].mean.shape == (2,)
    assert mixture.base.batch_shape == (3,)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, 0.0), ([0.0, 1.0], 2.0)])
def test_bounds_are_two_ordered_numbers(bounds: tuple[object, float]) -> None:
    with pytest.raises(InputError, match="low < high"):
        Censored(Gaussian(MEAN, 1.0), *bounds)  # type: ignore[arg-type]
