"""The crps of each law against scoringrules, an independent implementation."""

import numpy as np
import pytest
import torch

from calibrant.distributions import (
    Empirical,
    Gaussian,
    GaussianMixture,
    Laplace,
    StudentT,
)

scoringrules = pytest.importorskip("scoringrules")

RANDOM = np.random.default_rng(0)
N, MEMBERS = 200, 6
LOCATION, SCALE = RANDOM.normal(size=N), RANDOM.uniform(0.1, 3, size=N)
Y = LOCATION + SCALE * RANDOM.normal(size=N) * 3


def close(actual: torch.Tensor, expected: np.ndarray, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(actual.numpy(), expected, rtol=rtol, atol=1e-12)


def test_gaussian() -> None:
    expected = scoringrules.crps_normal(Y, LOCATION, SCALE)
    close(Gaussian(LOCATION, SCALE).crps(Y), expected)


def test_laplace() -> None:
    expected = scoringrules.crps_laplace(Y, LOCATION, SCALE)
    close(Laplace(LOCATION, SCALE).crps(Y), expected)


@pytest.mark.parametrize("df", [1.1, 2.0, 5.0, 24.0, 26.0, 100.0])
def test_student_t(df: float) -> None:
    expected = scoringrules.crps_t(Y, df, LOCATION, SCALE)
    close(StudentT(df, LOCATION, SCALE).crps(Y), expected, rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_mixture(weighted: bool) -> None:
    means = LOCATION + RANDOM.normal(size=(MEMBERS, N))
    stddevs = RANDOM.uniform(0.1, 2, size=(MEMBERS, N))
    weights = RANDOM.dirichlet(np.ones(MEMBERS), size=N).T if weighted else None
    expected = scoringrules.crps_mixnorm(Y, means, stddevs, weights, m_axis=0)
    close(GaussianMixture(means, stddevs, weights).crps(Y), expected)


@pytest.mark.parametrize("estimator", ["nrg", "qd", "pwm"])
def test_empirical_is_the_plain_energy_estimator(estimator: str) -> None:
    samples = LOCATION + SCALE * RANDOM.normal(size=(50, N))
    expected = scoringrules.crps_ensemble(Y, samples, m_axis=0, estimator=estimator)
    actual = Empirical(samples).crps(Y)
    if estimator == "pwm":  # the fair one: pairs of a sample with itself left out
        spread = np.abs(samples[:, None] - samples).mean((0, 1))
        actual = actual - torch.tensor(spread / 2 / 49)
    close(actual, expected, rtol=1e-8)
