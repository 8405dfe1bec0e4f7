"""The conditioned law against scipy, quadrature and its limits."""

import math
from collections.abc import Callable

import numpy as np
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
    Recalibrated,
    StudentT,
    Truncated,
    UnsupportedError,
    as_distribution,
)
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
def test_a_normal_law_becomes_scipys_truncnorm(low: float, high: float) -> None:
    mean, stddev = 1.5, 0.5
    law = Truncated(Gaussian([mean], stddev), mean + stddev * low, mean + stddev * high)
    given = stats.truncnorm(low, high, loc=mean, scale=stddev)
    for level in (1e-6, 0.1, 0.5, 0.9, 0.999):
        y = float(given.ppf(level))
        unit = float(given.std())
        assert math.isclose(law.quantile(level).item(), y, abs_tol=1e-9 * unit)
        assert math.isclose(law.log_prob([y]).item(), given.logpdf(y), abs_tol=1e-9)
        assert math.isclose(
            law.cdf([y]).item(), given.cdf(y), rel_tol=1e-7, abs_tol=1e-10
        )
        assert math.isclose(
            law.survival([y]).item(), given.sf(y), rel_tol=1e-7, abs_tol=1e-10
        )
        upper = law.interval(0.98)[1].item()
        assert math.isclose(upper, given.isf(0.01), abs_tol=1e-8 * unit)
    assert math.isclose(law.mean.item(), given.mean(), abs_tol=1e-8 * unit)
    # scipy's variance loses digits far out.
    assert math.isclose(law.variance.item(), given.var(), rel_tol=1e-4)


@pytest.mark.parametrize("bounds", [(LOW, HIGH), (LOW, INF), (-INF, HIGH)])
@pytest.mark.parametrize("base", SMOOTH)
def test_the_density_is_the_slope_of_the_cdf_and_holds_all_mass(
    base: str, bounds: tuple[Tensor | float, Tensor | float]
) -> None:
    law = Truncated(SMOOTH[base], *bounds)
    tail = [1e-7, 1e-5, 1e-4, 1e-3]
    levels = [*tail, *np.linspace(0.005, 0.995, 100), *(1 - each for each in tail)]
    # Kinks of the base: at its own levels.
    inner = [*(SMOOTH[base].quantile(each) for each in [*STEPS.sigmoid(), 0.5])]
    edges = [law.quantile(each) for each in sorted(levels)]
    edges += [torch.minimum(torch.maximum(k, edges[0]), edges[-1]) for k in inner]
    knots = torch.stack(edges).sort(0).values
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half, at = knots.diff(dim=0) / 2, (knots[1:] + knots[:-1]) / 2
    mass = torch.zeros(3)
    for node, weight in zip(nodes, weights, strict=True):
        mass += (weight * half * law.log_prob(at + node * half).exp()).sum(0)
    torch.testing.assert_close(mass, torch.ones(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("bounds", [(LOW, HIGH), (LOW, INF), (-INF, HIGH)])
@pytest.mark.parametrize("base", [*SMOOTH, "empirical"])
def test_moments_and_crps_are_those_of_a_large_even_sample(
    base: str, bounds: tuple[Tensor | float, Tensor | float]
) -> None:
    draws = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
    given = Empirical(MEAN + SCALE * draws) if base == "empirical" else SMOOTH[base]
    slow = base in ("student_t", "mixture")
    law, count = Truncated(given, *bounds), 10_000 if slow else 100_000
    levels = ((torch.arange(count) + 0.5) / count)[:, None]
    sample = law.quantile(levels.expand(-1, 3))
    spread = sample.std(0)
    heavy = base == "student_t" and any(isinstance(each, float) for each in bounds)
    steps = base == "empirical"
    allowed = 5e-3 if steps or heavy else 1e-3 if slow else 1e-4
    assert ((law.mean - sample.mean(0)) / spread).abs().max() < allowed
    assert heavy or (law.stddev / spread - 1).abs().max() < max(allowed, 1e-3)
    for y in (law.quantile(0.8), LOW - 1, HIGH + 1):
        energy = (sample - y).abs().mean(0) - ((2 * levels - 1) * sample).mean(0)
        assert ((law.crps(y) - energy) / spread).abs().max() < allowed


@pytest.mark.parametrize("base", SMOOTH)
def test_the_quantile_inverts_the_cdf(base: str) -> None:
    law = Truncated(SMOOTH[base], LOW, HIGH)
    levels = torch.tensor([1e-6, 0.01, 0.3, 0.5, 0.8, 0.99])[:, None].expand(-1, 3)
    values = law.quantile(levels)
    torch.testing.assert_close(law.cdf(values), levels, atol=1e-9, rtol=1e-7)
    pit = law.pit(values)
    torch.testing.assert_close(pit.cdf + pit.survival, torch.ones(6, 3))
    torch.testing.assert_close(pit.log_cdf.exp(), pit.cdf)
    torch.testing.assert_close(pit.log_survival.exp(), pit.survival)
    assert torch.equal(law.quantile(0.0), LOW)
    assert torch.equal(law.quantile(1.0), HIGH)


@pytest.mark.parametrize("base", SMOOTH)
def test_without_bounds_nothing_changes(base: str) -> None:
    given = SMOOTH[base]
    law = Truncated(given)
    y = given.quantile(0.83)
    for own, theirs in zip(law.pit(y), given.pit(y), strict=True):
        torch.testing.assert_close(own, theirs)
    torch.testing.assert_close(law.log_prob(y), given.log_prob(y))
    torch.testing.assert_close(law.quantile(0.3), given.quantile(0.3))
    assert torch.equal(law.quantile(0.0), given.quantile(0.0))


def test_nothing_lies_outside_of_the_bounds() -> None:
    law = Truncated(Gaussian(MEAN, SCALE), LOW, HIGH)
    y = torch.stack([LOW - 1, LOW, HIGH, HIGH + 1])
    # The probability of exactly the bound is that of one rounding.
    assert law.cdf(y)[0].tolist() == [0, 0, 0]
    assert law.cdf(y)[1].max() < 1e-15
    assert law.cdf(y)[2:].tolist() == [[1, 1, 1]] * 2
    assert law.survival(y)[2:].tolist() == [[0, 0, 0]] * 2
    assert law.log_prob(y).isfinite().tolist() == [
        [False] * 3,
        [True] * 3,
        [True] * 3,
        [False] * 3,
    ]
    assert (law.log_prob(y)[[0, 3]] == -INF).all()
    assert all(part.isfinite().all() for part in law.pit(y))


def test_samples_on_a_bound_belong_to_the_interval() -> None:
    draws = torch.tensor([[-1.0], [0.0], [0.0], [2.0], [5.0]])
    law = Truncated(Empirical(draws), 0.0, 2.0)
    assert law.cdf([0.0]).item() == pytest.approx(2 / 3)
    assert law.quantile(0.6).item() == 0.0
    assert law.quantile(0.7).item() == 2.0
    assert law.mean.item() == pytest.approx(2 / 3, abs=1e-2)


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
    law = Truncated(base, 0.0, 2.0)
    at = [nearest, nearest]
    assert law.mean.tolist() == law.quantile(0.3).tolist() == at
    assert law.quantile(0.0).tolist() == law.quantile(1.0).tolist() == at
    assert law.variance.tolist() == [0.0, 0.0]
    assert law.sample((3,), generator=generator).tolist() == [at] * 3
    y = torch.tensor([nearest, 1.0])
    assert law.cdf(y).tolist() == [1.0, 1.0 if nearest < 1 else 0.0]
    torch.testing.assert_close(law.crps(y), (y - nearest).abs())
    if not math.isinf(center):
        assert law.log_prob(y).tolist() == [INF, -INF]
    assert all(part.isfinite().all() for part in law.pit(y))


def test_far_normal_laws_keep_their_likelihood_and_never_give_nan() -> None:
    mean = torch.tensor([-30.0, -200.0, -1e8], requires_grad=True)
    law = Truncated(Gaussian(mean, 1.0), 0.0)
    y = torch.tensor([0.02, 0.002, 1e-9])
    # Far below the bound it is an exponential law with the distance as its rate.
    distance = -mean.detach()
    torch.testing.assert_close(
        law.log_prob(y).detach()[:2],
        (distance.log() - distance * y - y**2 / 2)[:2],
        atol=2e-3,
        rtol=0,
    )
    law.log_prob(y)[:2].sum().backward()
    assert mean.grad is not None
    assert mean.grad.isfinite().all()
    for answer in (law.mean, law.variance, law.crps(y), law.quantile(0.5), law.cdf(y)):
        assert not answer.isnan().any()
    assert law.mean[0].item() == pytest.approx(1 / 30, rel=0.01)
    assert law.mean[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("base", ["gaussian", "laplace"])
def test_gradients_reach_the_parameters(base: str) -> None:
    family = {"gaussian": Gaussian, "laplace": Laplace}[base]
    parameters = [MEAN.clone().requires_grad_(), SCALE.clone().requires_grad_()]
    y = Truncated(family(MEAN, SCALE), LOW, HIGH).quantile(0.7)

    def asked(method: str, high: Tensor | float) -> Callable[..., Tensor]:
        def value(mean: Tensor, scale: Tensor) -> Tensor:
            law = Truncated(family(mean, scale), LOW, high)
            if method in ("mean", "variance"):
                return getattr(law, method)
            return getattr(law, method)(0.3 if method == "quantile" else y)

        return value

    for high in (HIGH, INF):
        for method in ("log_prob", "cdf", "quantile", "mean", "variance", "crps"):
            assert torch.autograd.gradcheck(asked(method, high), parameters), method


def test_one_law_can_be_differentiated_twice_over() -> None:
    mean = MEAN.clone().requires_grad_()
    law = Truncated(Gaussian(mean, SCALE), LOW, HIGH)
    law.log_prob(MEAN).sum().backward()
    law.crps(MEAN).sum().backward()
    law.mean.sum().backward()


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_types_and_members(dtype: torch.dtype, generator: torch.Generator) -> None:
    law = Truncated(Gaussian(MEAN.to(dtype), SCALE.to(dtype)), LOW, HIGH)
    y = MEAN.to(dtype)
    drawn = law.sample((20_000,), generator=generator)
    answers = [law.mean, law.variance, law.crps(y), law.log_prob(y), drawn, *law.pit(y)]
    assert {answer.dtype for answer in [*answers, *law.interval(0.9)]} == {dtype}
    assert (drawn >= LOW - 1e-6).all()
    assert (drawn <= HIGH + 1e-6).all()
    error = drawn.double().mean(0) - law.mean
    assert (error.abs() < 5 * law.stddev / math.sqrt(20_000)).all()
    rows = law[torch.tensor([2, 0])]
    torch.testing.assert_close(rows.mean, law.mean[[2, 0]])
    assert torch.equal(rows.low, LOW[[2, 0]])
    assert torch.equal(rows.high, HIGH[[2, 0]])
    assert isinstance(rows.base, Gaussian)
    stacked = Truncated(Gaussian(y.expand(4, 3), SCALE.to(dtype).expand(4, 3)), -4.0)
    assert stacked.crps(y).shape == stacked.cdf(y).shape == stacked.mean.shape == (4, 3)
    assert law.quantile(torch.full((5, 3), 0.5)).shape == (5, 3)


def test_some_rows_may_have_no_bound() -> None:
    low = torch.tensor([-INF, 0.0, -INF])
    law = Truncated(Gaussian(MEAN, SCALE), low, [INF, INF, -3.0])
    torch.testing.assert_close(law.cdf(MEAN)[0], torch.tensor(0.5))
    alone = Truncated(Gaussian(MEAN[1:2], SCALE[1:2]), 0.0)
    torch.testing.assert_close(law.cdf(MEAN)[1:2], alone.cdf(MEAN[1:2]))
    assert law.cdf(MEAN)[2].item() == 1.0


def test_wrong_bounds_are_named() -> None:
    base = Gaussian(MEAN, SCALE)
    with pytest.raises(InputError, match=r"low must be below high.*in 3 of 3.*Swap"):
        Truncated(base, 1.0, 1.0)
    with pytest.raises(InputError, match="in 3 of 3"):
        Truncated(base, math.nan, 1.0)
    with pytest.raises(InputError, match=r"high must be a number or.*\(3,\), got \(2,"):
        Truncated(base, 0.0, [1.0, 2.0])
