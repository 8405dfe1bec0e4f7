"""What only the t distribution has: degrees of freedom from almost 0 to infinity."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import special, stats

from calibrant.distributions import Gaussian, StudentT
from calibrant.distributions.student_t import (
    log_far_tail,
    log_gamma_ratio,
    standard_quantile,
)
from calibrant.validation import InputError, UnsupportedError

double = partial(torch.tensor, dtype=torch.float64)
# Both sides of the switch between the continued fraction and the expansion.
DF = [0.1, 0.5, 1.0, 2.0, 7.0, 24.9, 25.1, 60.0, 1e3, 1e7]
Z = double([1e-3, 0.01, 0.5, 1.0, 1.6, 1.8, 3.0, 4.9, 5.1, 12.0, 80.0, 1e4, 1e6])


@pytest.mark.parametrize("df", DF)
def test_tail_agrees_with_scipy(df: float) -> None:
    expected = torch.tensor(stats.t.sf(Z, df))
    actual = log_far_tail(Z, torch.tensor(df)).exp()
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("df", DF)
def test_float32_is_finite_and_near_float64(df: float) -> None:
    z = torch.cat([Z, torch.tensor([1e12, 1e20, 1e37])]).float()
    parameter = torch.tensor(df, dtype=torch.float32, requires_grad=True)
    single = log_far_tail(z.requires_grad_(), parameter)
    double = log_far_tail(z.detach().double(), parameter.detach().double())
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-5)
    single.sum().backward()
    assert z.grad.isfinite().all()
    assert parameter.grad.isfinite()


@pytest.mark.parametrize("df", DF)
def test_quantile_inverts_the_tail(df: float) -> None:
    tail = torch.tensor([1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.49, 0.499999])
    z = standard_quantile(tail, torch.tensor(df))
    back = log_far_tail(z, torch.tensor(df)).exp()
    torch.testing.assert_close(back, tail, rtol=1e-10, atol=0)
    mirrored = standard_quantile(1 - tail[2:], torch.tensor(df))
    torch.testing.assert_close(mirrored, -z[2:], rtol=1e-9, atol=0)


def test_quantile_far_beyond_the_square_root_of_the_largest_float() -> None:
    # The Cauchy distribution: z = 1 / (pi p).
    z = standard_quantile(torch.tensor([1e-300]), torch.tensor(1.0))
    torch.testing.assert_close(z, torch.tensor([-1e300 / math.pi]), rtol=1e-10, atol=0)


@pytest.mark.parametrize("df", [0.3, 1.0, 4.0, 24.0, 26.0, 500.0])
def test_gradients_match_finite_differences(df: float) -> None:
    z = torch.tensor([-40.0, -4.0, -1.5, -0.2, 0.1, 0.9, 2.5, 30.0], requires_grad=True)
    freedom = torch.full_like(z, df, requires_grad=True)
    assert torch.autograd.gradcheck(log_far_tail, (z, freedom))
    level = torch.tensor([0.01, 0.2, 0.45, 0.7, 0.999], requires_grad=True)
    freedom = torch.full_like(level, df, requires_grad=True)
    assert torch.autograd.gradcheck(standard_quantile, (level, freedom), rtol=2e-3)


@pytest.mark.parametrize("df", [1e18, math.inf])
def test_limit_is_the_normal_distribution(df: float) -> None:
    y = torch.tensor([-30.0, -1.0, 0.0, 2.0, 8.0])
    predictive, normal = (
        StudentT(df, torch.zeros(5), 1.0),
        Gaussian(torch.zeros(5), 1.0),
    )
    for actual, expected in zip(predictive.pit(y), normal.pit(y), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        predictive.log_prob(y), normal.log_prob(y), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(predictive.crps(y), normal.crps(y), rtol=1e-9, atol=0)
    torch.testing.assert_close(predictive.variance, normal.variance)
    torch.testing.assert_close(predictive.quantile(0.975), normal.quantile(0.975))


def test_moments_where_there_are_none() -> None:
    predictive = StudentT([0.5, 1.0, 1.5, 2.0, 4.0], 1.0, 3.0)
    nan, inf = math.nan, math.inf
    assert np.array_equal(predictive.mean, [nan, nan, 1, 1, 1], equal_nan=True)
    assert np.array_equal(
        predictive.variance, [nan, nan, inf, inf, 18.0], equal_nan=True
    )
    with pytest.raises(UnsupportedError, match=r"degrees_of_freedom > 1.*is 0\.5"):
        predictive.crps(0.0)
    assert issubclass(UnsupportedError, InputError)
    assert (
        predictive.degrees_of_freedom.shape
        == predictive.location.shape
        == predictive.scale.shape
    )


def test_nan_of_a_diverged_model_ends_the_iterations() -> None:
    predictive = StudentT(3.0, torch.tensor([math.nan, 0.0]), 1.0)
    cdf = predictive.cdf(torch.zeros(2))
    assert cdf[0].isnan()
    assert cdf[1].item() == pytest.approx(0.5, abs=1e-12)


def test_gamma_ratio_and_beta_fraction_against_scipy() -> None:
    a = np.logspace(-2, 1.5, 50)
    expected = special.gammaln(a + 0.5) - special.gammaln(a) - 0.5 * np.log(a)
    actual = log_gamma_ratio(torch.tensor(a))
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-9, atol=1e-13)
