"""The conditioned distribution against scipy, quadrature and its limits."""

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    InputError,
    Laplace,
    QuantileTable,
    StudentT,
    UnsupportedError,
    as_distribution,
)
from calibrant.distributions import Recalibrated, Truncated
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration.maps import BetaMap

INF = math.inf
MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
SCALE = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
STEPS = torch.linspace(-2, 2, 9, dtype=torch.float64)
LOW, HIGH = MEAN - 0.7 * SCALE, MEAN + 1.9 * SCALE
SMOOTH: dict[str, AbstractDistribution] = {
    "gaussian": Gaussian(MEAN, SCALE),
    "laplace": Laplace(MEAN, SCALE),
    "student_t": StudentT(3.0, MEAN, SCALE),
    "mixture": GaussianMixture(torch.stack([MEAN, MEAN + 1, MEAN - 0.5]), 0.7),
    "quantile_table": QuantileTable(STEPS.sigmoid(), MEAN[:, None] + STEPS),
    "torch": as_distribution(torch.distributions.Gumbel(MEAN, SCALE)),
    "recalibrated": Recalibrated(Gaussian(MEAN, SCALE), BetaMap(0.8, 1.1, 0.2)),
}
BOUNDS = [
    (-1.0, 2.0),
    (0.0, INF),
    (-INF, 0.5),
    (5.0, 6.0),
    (-INF, -8.0),
    (20.0, INF),
    (30.0, 30.01),
    (-0.01, 0.02),
]


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_a_normal_distribution_becomes_scipys_truncnorm(
    low: float, high: float
) -> None:
    mean, stddev = 1.5, 0.5
    predictive = Truncated(
        Gaussian([mean], stddev), mean + stddev * low, mean + stddev * high
    )
    given = stats.truncnorm(low, high, loc=mean, scale=stddev)
    for level in (1e-6, 0.1, 0.5, 0.9, 0.999):
        y = float(given.ppf(level))
        unit = float(given.std())
        assert math.isclose(predictive.quantile(level).item(), y, abs_tol=1e-9 * unit)
        assert math.isclose(
            predictive.log_prob([y]).item(), given.logpdf(y), abs_tol=1e-9
        )
        assert math.isclose(
            predictive.cdf([y]).item(), given.cdf(y), rel_tol=1e-7, abs_tol=1e-10
        )
        assert math.isclose(
            predictive.survival([y]).item(), given.sf(y), rel_tol=1e-7, abs_tol=1e-10
        )
        upper = predictive.interval(0.98)[1].item()
        assert math.isclose(upper, given.isf(0.01), abs_tol=1e-8 * unit)
    assert math.isclose(predictive.mean.item(), given.mean(), abs_tol=1e-8 * unit)
    # scipy's variance loses digits far out.
    assert math.isclose(predictive.variance.item(), given.var(), rel_tol=1e-4)


@pytest.mark.parametrize("bounds", [(LOW, HIGH), (LOW, INF), (-INF, HIGH)])
@pytest.mark.parametrize("base", [*SMOOTH, "empirical"])
def test_moments_and_crps_are_those_of_a_large_even_sample(
    base: str,
    bounds: tuple[Tensor | float, Tensor | float],
    gaps_to_even_sample: Any,
) -> None:
    draws = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
    given = Empirical(MEAN + SCALE * draws) if base == "empirical" else SMOOTH[base]
    slow = base in ("student_t", "mixture")
    predictive, count = Truncated(given, *bounds), 10_000 if slow else 100_000
    places = (predictive.quantile(0.8), LOW - 1, HIGH + 1)
    mean, stddev, crps = gaps_to_even_sample(predictive, *places, count=count)
    heavy = base == "student_t" and any(isinstance(each, float) for each in bounds)
    steps = base == "empirical"
    allowed = 5e-3 if steps or heavy else 1e-3 if slow else 1e-4
    assert max(mean, crps) < allowed
    assert heavy or stddev < max(allowed, 1e-3)


def test_nothing_lies_outside_of_the_bounds() -> None:
    predictive = Truncated(Gaussian(MEAN, SCALE), LOW, HIGH)
    y = torch.stack([LOW - 1, LOW, HIGH, HIGH + 1])
    # The probability of exactly the bound is that of one rounding.
    assert predictive.cdf(y)[0].tolist() == [0, 0, 0]
    assert predictive.cdf(y)[1].max() < 1e-15
    assert predictive.cdf(y)[2:].tolist() == [[1, 1, 1]] * 2
    assert predictive.survival(y)[2:].tolist() == [[0, 0, 0]] * 2
    assert predictive.log_prob(y).isfinite().tolist() == [
        [False] * 3,
        [True] * 3,
        [True] * 3,
        [False] * 3,
    ]
    assert (predictive.log_prob(y)[[0, 3]] == -INF).all()
    assert all(part.isfinite().all() for part in predictive.pit(y))


def test_samples_on_a_bound_belong_to_the_interval() -> None:
    draws = torch.tensor([[-1.0], [0.0], [0.0], [2.0], [5.0]])
    predictive = Truncated(Empirical(draws), 0.0, 2.0)
    assert predictive.cdf([0.0]).item() == pytest.approx(2 / 3)
    assert predictive.quantile(0.6).item() == 0.0
    assert predictive.quantile(0.7).item() == 2.0
    assert predictive.mean.item() == pytest.approx(2 / 3, abs=1e-2)


@pytest.mark.parametrize(
    ("center", "nearest"), [(-1e9, 0.0), (1e9, 2.0), (-INF, 0.0), (INF, 2.0)]
)
def test_a_row_without_mass_lies_at_the_nearest_bound(
    center: float, nearest: float, generator: torch.Generator
) -> None:
    if math.isinf(center):  # samples, all on one side
        side = math.copysign(10.0, center)
        base: AbstractDistribution = Empirical(torch.full((4, 2), side))
    else:
        base = as_distribution(
            torch.distributions.Gumbel(torch.full((2,), center), torch.ones(2))
        )
    predictive = Truncated(base, 0.0, 2.0)
    at = [nearest, nearest]
    assert predictive.mean.tolist() == predictive.quantile(0.3).tolist() == at
    assert predictive.quantile(0.0).tolist() == predictive.quantile(1.0).tolist() == at
    assert predictive.variance.tolist() == [0.0, 0.0]
    assert predictive.sample((3,), generator=generator).tolist() == [at] * 3
    y = torch.tensor([nearest, 1.0])
    assert predictive.cdf(y).tolist() == [1.0, 1.0 if nearest < 1 else 0.0]
    torch.testing.assert_close(predictive.crps(y), (y - nearest).abs())
    if not math.isinf(center):
        assert predictive.log_prob(y).tolist() == [INF, -INF]
    assert all(part.isfinite().all() for part in predictive.pit(y))


def test_far_normal_distributions_keep_their_likelihood_and_never_give_nan() -> None:
    mean = torch.tensor([-30.0, -200.0, -1e8], requires_grad=True)
    predictive = Truncated(Gaussian(mean, 1.0), 0.0)
    y = torch.tensor([0.02, 0.002, 1e-9])
    # Far below the bound it is exponential with the distance as its rate.
    distance = -mean.detach()
    torch.testing.assert_close(
        predictive.log_prob(y).detach()[:2],
        (distance.log() - distance * y - y**2 / 2)[:2],
        atol=2e-3,
        rtol=0,
    )
    predictive.log_prob(y)[:2].sum().backward()
    assert mean.grad is not None
    assert mean.grad.isfinite().all()
    for answer in (
        predictive.mean,
        predictive.variance,
        predictive.crps(y),
        predictive.quantile(0.5),
        predictive.cdf(y),
    ):
        assert not answer.isnan().any()
    assert predictive.mean[0].item() == pytest.approx(1 / 30, rel=0.01)
    assert predictive.mean[1:].tolist() == [0.0, 0.0]


def test_infinite_moments_are_told() -> None:
    df = torch.tensor([1.0, 1.5, 3.0])
    above = Truncated(StudentT(df, MEAN, SCALE), LOW)
    assert above.mean.isinf().tolist() == [True, False, False]
    assert above.variance.isinf().tolist() == [True, True, False]
    with pytest.raises(
        UnsupportedError, match="crps needs a distribution with a finite mean"
    ):
        above.crps(MEAN)
    assert (Truncated(StudentT(1.0, MEAN, SCALE), -INF, HIGH).mean == -INF).all()
    between = Truncated(StudentT(1.0, torch.zeros(1), 1.0), -1.0, 1.0)
    # E Y^2 = 4 / pi - 1 on [-1, 1], by hand.
    assert between.variance.item() == pytest.approx(4 / math.pi - 1, rel=1e-7)


def test_wrong_bounds_are_named() -> None:
    base = Gaussian(MEAN, SCALE)
    with pytest.raises(InputError, match=r"low must be below high.*in 3 of 3.*Swap"):
        Truncated(base, 1.0, 1.0)
    with pytest.raises(InputError, match="in 3 of 3"):
        Truncated(base, math.nan, 1.0)
    with pytest.raises(InputError, match=r"high must be a number or.*\(3,\), got \(2,"):
        Truncated(base, 0.0, [1.0, 2.0])
