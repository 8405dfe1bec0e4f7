"""Distributions of transformed targets against scipy, quadrature, definitions."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    Laplace,
    QuantileTable,
    StudentT,
    UnsupportedError,
)
from calibrant.distributions import Recalibrated, Transformed, Truncated
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration.maps import BetaMap
from calibrant.transforms import TRANSFORMS, from_functions

MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
SCALE = torch.tensor([1.0, 0.5, 0.1], dtype=torch.float64)
STEPS = torch.linspace(-2, 2, 9, dtype=torch.float64)
LOG = TRANSFORMS["log"]()
TARGETS = stats.gamma(2.0).ppf((np.arange(50) + 0.5) / 50)
MAPS: dict[str, Any] = {
    "identity": TRANSFORMS["identity"](),
    "log": LOG,
    "box_cox": TRANSFORMS["box_cox"]().fit(TARGETS),
    "box_cox up": TRANSFORMS["box_cox"](power=0.5).fit(1 + TARGETS),
    "box_cox down": TRANSFORMS["box_cox"](power=-0.5).fit(TARGETS),
    "yeo_johnson": TRANSFORMS["yeo_johnson"]().fit(TARGETS),
    "logit": TRANSFORMS["logit"](low=-1.0, high=4.0),
    "asinh": from_functions(torch.asinh, torch.sinh, lambda y: -(1 + y**2).log() / 2),
}
BASES: dict[str, AbstractDistribution] = {
    "gaussian": Gaussian(MEAN, SCALE),
    "laplace": Laplace(MEAN, SCALE / 4),
    "mixture": GaussianMixture(torch.stack([MEAN, MEAN + 1]), 0.7),
    "quantile_table": QuantileTable(STEPS.sigmoid(), MEAN[:, None] + STEPS / 5),
    "empirical": Empirical(MEAN + STEPS[:, None]),
    "recalibrated": Recalibrated(Gaussian(MEAN, SCALE / 2), BetaMap(0.8, 1.1, 0.2)),
}


def lognormal_crps(y: float, mean: float, stddev: float) -> float:
    """Closed form of Baran and Lerch (2015)."""
    w = (math.log(y) - mean) / stddev
    normal = stats.norm.cdf
    rest = normal(w - stddev) + normal(stddev / math.sqrt(2)) - 1
    return y * (2 * normal(w) - 1) - 2 * math.exp(mean + stddev**2 / 2) * float(rest)


@pytest.mark.parametrize("stddev", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_the_log_of_a_normal_distribution_is_log_normal(stddev: float) -> None:
    predictive = Transformed(Gaussian([0.3], stddev), LOG)
    given = stats.lognorm(stddev, scale=math.exp(0.3))
    for y in (1e-3, 0.5, 3.0, 500.0):
        assert math.isclose(
            predictive.log_prob([y]).item(), given.logpdf(y), rel_tol=1e-12
        )
        pit = predictive.pit([y])
        # scipy's logcdf is that of a rounded cdf at the end; logsf is exact.
        assert math.isclose(
            pit.log_cdf.item(), given.logcdf(y), abs_tol=1e-12, rel_tol=1e-10
        )
        assert math.isclose(
            pit.log_survival.item(), given.logsf(y), abs_tol=1e-12, rel_tol=1e-10
        )
        wanted = lognormal_crps(y, 0.3, stddev)
        if y < 500:  # where the closed form does not cancel
            assert math.isclose(predictive.crps([y]).item(), wanted, rel_tol=1e-8)
    for level in (1e-6, 0.3, 0.999):
        assert math.isclose(
            predictive.quantile(level).item(), given.ppf(level), rel_tol=1e-9
        )
    assert math.isclose(
        predictive.interval(1 - 1e-9)[1].item(), given.isf(5e-10), rel_tol=1e-6
    )
    assert math.isclose(predictive.mean.item(), given.mean(), rel_tol=1e-9)
    assert math.isclose(predictive.variance.item(), given.var(), rel_tol=1e-6)


@pytest.mark.parametrize("transform", MAPS)
@pytest.mark.parametrize("base", BASES)
def test_moments_and_crps_are_those_of_a_large_even_sample(
    base: str, transform: str, gaps_to_even_sample: Any
) -> None:
    predictive, slow = Transformed(BASES[base], MAPS[transform]), base == "mixture"
    count, allowed = (10_000, 1e-3) if slow else (100_000, 1e-4)
    y = predictive.quantile(0.8)
    mean, stddev, crps = gaps_to_even_sample(predictive, y, count=count)
    assert max(mean, crps) < allowed
    assert stddev < (3e-2 if slow else 5e-3)


def test_recalibration_and_units_can_be_exchanged() -> None:
    base, unit_map = Gaussian(MEAN, SCALE), BetaMap(0.7, 1.3, 0.1)
    first = Transformed(Recalibrated(base, unit_map), LOG)
    last = Recalibrated(Transformed(base, LOG), unit_map)
    y = torch.tensor([0.7, 4.0, 0.06])
    for name in ("cdf", "log_prob", "crps"):
        torch.testing.assert_close(getattr(first, name)(y), getattr(last, name)(y))
    torch.testing.assert_close(first.mean, last.mean)
    # Steps of samples keep their levels in every unit.
    samples = Empirical(MEAN + STEPS[:, None])
    stepped = Recalibrated(Transformed(samples, LOG), BetaMap(1.0, 1.0, 0.0))
    exact = Empirical(samples.samples.exp())
    torch.testing.assert_close(stepped.mean, exact.mean)
    torch.testing.assert_close(stepped.crps(y), exact.crps(y))


def test_nothing_lies_outside_of_the_support() -> None:
    mean = torch.zeros(4, requires_grad=True)
    predictive = Transformed(
        Gaussian(mean, 1.0), TRANSFORMS["logit"](low=-1.0, high=4.0)
    )
    y = torch.tensor([-2.0, -1.0, 4.0, 9.0], requires_grad=True)
    assert predictive.cdf(y).tolist() == [0, 0, 1, 1]
    assert predictive.survival(y).tolist() == [1, 1, 0, 0]
    assert (predictive.log_prob(y) == -math.inf).all()
    assert all(part.isfinite().all() for part in predictive.pit(y))
    scores = predictive.crps(y)
    # One further outside costs its distance more.
    torch.testing.assert_close(scores[0] - scores[1], torch.tensor(1.0))
    torch.testing.assert_close(scores[3] - scores[2], torch.tensor(5.0))
    torch.where(
        predictive.log_prob(y).isfinite(), predictive.log_prob(y), 0.0
    ).sum().backward()
    assert mean.grad is not None
    assert y.grad is not None
    assert mean.grad.isfinite().all()
    assert y.grad.isfinite().all()
    assert predictive.quantile(0.0).tolist() == [-1.0] * 4
    assert predictive.quantile(1.0).tolist() == [4.0] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("df", [1.5, 5.0, 30.0, 90.0])
def test_students_t_has_no_mean_behind_a_logarithm(
    df: float, dtype: torch.dtype
) -> None:
    base = StudentT(df, MEAN.to(dtype), SCALE.to(dtype).clamp_min(0.5))
    predictive = Transformed(base, LOG)
    assert (predictive.mean == math.inf).all()
    assert (predictive.variance == math.inf).all()
    assert predictive.log_prob([1.0, 2.0, 3.0]).isfinite().all()
    with pytest.raises(
        UnsupportedError, match="crps needs a distribution with a finite mean"
    ):
        predictive.crps([1.0, 2.0, 3.0])


def test_infinite_moments_are_told_on_both_sides() -> None:
    identity = MAPS["identity"]
    df = torch.tensor([0.9, 1.5, 3.0])
    given = StudentT(df, MEAN, SCALE)
    predictive = Transformed(given, identity)
    assert torch.equal(predictive.mean.isnan(), given.mean.isnan())
    assert torch.equal(predictive.variance.isinf(), given.variance.isinf())
    assert torch.equal(predictive.variance.isnan(), given.variance.isnan())
    below = from_functions(
        lambda y: -(-y).log(), lambda z: -(-z).exp(), lambda y: -(-y).log()
    )
    assert (Transformed(StudentT(5.0, MEAN, SCALE), below).mean == -math.inf).all()
    # E exp(Z) of a Laplace distribution of scale b is 1 / (1 - b^2), for b < 1.
    scale = torch.tensor([0.3, 0.8, 1.0])
    predictive = Transformed(Laplace(torch.zeros(3), scale), LOG)
    expected = torch.tensor([1 / 0.91, 1 / 0.36, math.inf])
    torch.testing.assert_close(predictive.mean, expected, rtol=1e-6, atol=0)
    assert predictive.variance.isfinite().tolist() == [True, False, False]


def test_a_map_of_half_the_line_takes_a_truncated_base() -> None:
    # The square of a normal variable that is known to be positive: chi-square.
    root = from_functions(
        torch.sqrt,
        torch.square,
        lambda y: -math.log(2) - y.log() / 2,
        support=(0.0, math.inf),
    )
    predictive = Transformed(Truncated(Gaussian(torch.zeros(1), 1.0), 0.0), root)
    given = stats.chi2(1)
    for y in (1e-3, 0.5, 3.0, 40.0):
        assert math.isclose(
            predictive.log_prob([y]).item(), given.logpdf(y), rel_tol=1e-9
        )
        assert math.isclose(predictive.survival([y]).item(), given.sf(y), rel_tol=1e-9)
    assert predictive.cdf([-1.0]).item() == 0
    assert math.isclose(predictive.mean.item(), 1.0, rel_tol=1e-6)
    assert math.isclose(predictive.variance.item(), 2.0, rel_tol=1e-5)


def test_targets_whose_image_is_no_float_have_no_likelihood() -> None:
    square = TRANSFORMS["box_cox"](power=2.0).fit(TARGETS)
    predictive = Transformed(Gaussian(MEAN, SCALE), square)
    far = torch.full((3,), 1e300)
    assert square.forward(far).isinf().all()
    assert (predictive.log_prob(far) < -1e20).all()
    assert predictive.cdf(far).tolist() == [1, 1, 1]
