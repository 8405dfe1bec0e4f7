"""Gaussian, Laplace and StudentT against scipy, row by row and far out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant.distributions import AbstractDistribution, Gaussian, Laplace, StudentT
from calibrant.validation import InputError

double = partial(torch.tensor, dtype=torch.float64)
LOCATION = double([0.0, -1.0, 3.0, 100.0])
SCALE = double([1.0, 0.1, 4.0, 10.0])
DF = double([1.5, 4.0, 30.0, 1e5])
Pair = tuple[AbstractDistribution, Any]
PREDICTIVES: dict[str, Pair] = {
    "gaussian": (Gaussian(LOCATION, SCALE), stats.norm(LOCATION, SCALE)),
    "laplace": (Laplace(LOCATION, SCALE), stats.laplace(LOCATION, SCALE)),
    "student_t": (StudentT(DF, LOCATION, SCALE), stats.t(DF, LOCATION, SCALE)),
}
Z = double([-30.0, -8.0, -2.0, -0.3, 0.0, 1e-9, 0.7, 1.8, 5.0, 20.0])
VALUES = LOCATION + SCALE * Z[:, None]


@pytest.fixture(params=PREDICTIVES.values(), ids=PREDICTIVES.keys())
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.param


def close(actual: Tensor, expected: np.ndarray, rtol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=rtol, atol=1e-300)


def test_tails_have_relative_precision(pair: Pair) -> None:
    predictive, reference = pair
    # (y - m) / s itself rounds to 1e-14 at these locations.
    close(predictive.cdf(VALUES), reference.cdf(VALUES), 1e-10)
    close(predictive.survival(VALUES), reference.sf(VALUES), 1e-10)
    close(predictive.pit(VALUES).log_cdf, reference.logcdf(VALUES), 1e-10)
    close(predictive.pit(VALUES).log_survival, reference.logsf(VALUES), 1e-10)


def test_density_moments_and_quantiles(pair: Pair) -> None:
    predictive, reference = pair
    close(predictive.log_prob(VALUES), reference.logpdf(VALUES), 1e-10)
    close(predictive.mean, reference.mean())
    close(predictive.variance, reference.var(), 1e-10)
    close(predictive.stddev, reference.std(), 1e-10)
    levels = torch.tensor([1e-9, 0.02, 0.25, 0.5, 0.9, 1 - 1e-6])
    expected = np.stack([reference.ppf(level) for level in levels.tolist()], -1)
    # scipy's own t quantiles are good to 1e-8.
    close(predictive.quantiles(levels), expected, 1e-8)
    assert predictive.quantile(0.0).eq(-torch.inf).all()
    assert predictive.quantile(1.0).eq(torch.inf).all()


@pytest.mark.parametrize("z", [-3.0, 0.0, 0.4, 6.0])
def test_crps_is_its_definition(
    pair: Pair, crps_by_definition: Callable[..., Tensor], z: float
) -> None:
    predictive, _ = pair
    predictive, y = predictive[1:], (LOCATION + z * SCALE)[1:]
    expected = crps_by_definition(predictive, y)
    torch.testing.assert_close(predictive.crps(y), expected, rtol=1e-6, atol=1e-8)


def test_gradient_at_the_median_is_the_density(
    pair: Pair,
) -> None:
    predictive, reference = pair
    y = LOCATION.clone().requires_grad_()
    predictive.cdf(y).sum().backward()
    close(y.grad, reference.pdf(LOCATION), 1e-11)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian([0.0], [0.0]), "stddev must be above 0.*softplus"),
        (lambda: Laplace([0.0], [-1.0]), "scale must be above 0.*-1"),
        (lambda: Laplace([0.0, 1.0], [1.0, 1.0, 1.0]), r"one shape, got \(2,\)"),
        (lambda: StudentT(0.0, [0.0], 1.0), "degrees_of_freedom must be above 0"),
        (lambda: StudentT([1.0, 2.0], [0.0], 1.0), r"shape \(1,\), got \(2,\)"),
        (lambda: Gaussian(torch.tensor([1, 2]), 1.0), "must be a float tensor"),
    ],
)
def test_refuses_parameters_with_the_fix(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build()
