"""The law of a transformed target against scipy, quadrature and its own definition."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import (
    TRANSFORMS,
    Empirical,
    Gaussian,
    GaussianMixture,
    Laplace,
    QuantileTable,
    Recalibrated,
    StudentT,
    Transformed,
    Truncated,
    UnsupportedError,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration.maps import BetaMap
from calibrant.transforms import from_functions

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
def test_the_log_of_a_normal_law_is_log_normal(stddev: float) -> None:
    law = Transformed(Gaussian([0.3], stddev), LOG)
    given = stats.lognorm(stddev, scale=math.exp(0.3))
    for y in (1e-3, 0.5, 3.0, 500.0):
        assert math.isclose(law.log_prob([y]).item(), given.logpdf(y), rel_tol=1e-12)
        pit = law.pit([y])
        # scipy's logcdf is that of a rounded cdf where the law ends; logsf is exact.
        assert math.isclose(
            pit.log_cdf.item(), given.logcdf(y), abs_tol=1e-12, rel_tol=1e-10
        )
        assert math.isclose(
            pit.log_survival.item(), given.logsf(y), abs_tol=1e-12, rel_tol=1e-10
        )
        wanted = lognormal_crps(y, 0.3, stddev)
        if y < 500:  # where the closed form does not cancel
            assert math.isclose(law.crps([y]).item(), wanted, rel_tol=1e-8)
    for level in (1e-6, 0.3, 0.999):
        assert math.isclose(law.quantile(level).item(), given.ppf(level), rel_tol=1e-9)
    assert math.isclose(
        law.interval(1 - 1e-9)[1].item(), given.isf(5e-10), rel_tol=1e-6
    )
    assert math.isclose(law.mean.item(), given.mean(), rel_tol=1e-9)
    assert math.isclose(law.variance.item(), given.var(), rel_tol=1e-6)


@pytest.mark.parametrize("transform", MAPS)
@pytest.mark.parametrize("base", [name for name in BASES if name != "empirical"])
def test_the_density_is_the_slope_of_the_cdf_and_holds_all_mass(
    base: str, transform: str
) -> None:
    law = Transformed(BASES[base], MAPS[transform])
    tail = [1e-9, 1e-7, 1e-5, 1e-4, 1e-3]
    kinks = [*STEPS.sigmoid().tolist(), 0.5]
    middle = np.linspace(0.005, 0.995, 67).tolist()
    levels = sorted([*tail, *kinks, *middle, *(1 - each for each in tail)])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = law.quantiles(torch.tensor(levels)).T
    half, at = edges.diff(dim=0) / 2, (edges[1:] + edges[:-1]) / 2
    mass = torch.zeros(3)
    for node, weight in zip(nodes, weights, strict=True):
        mass += (weight * half * law.log_prob(at + node * half).exp()).sum(0)
    # The slope of g has a kink where Box-Cox goes on otherwise.
    tolerance = 1e-5 if "box_cox" in transform else 1e-7
    torch.testing.assert_close(mass, torch.ones(3), atol=tolerance, rtol=0)
    y = law.quantile(0.7).requires_grad_()
    (slope,) = torch.autograd.grad(law.cdf(y).sum(), y)
    torch.testing.assert_close(slope, law.log_prob(y).exp())


@pytest.mark.parametrize("transform", MAPS)
@pytest.mark.parametrize("base", BASES)
def test_moments_and_crps_are_those_of_a_large_even_sample(
    base: str, transform: str
) -> None:
    law, slow = Transformed(BASES[base], MAPS[transform]), base == "mixture"
    count, allowed = (10_000, 1e-3) if slow else (100_000, 1e-4)
    levels = ((torch.arange(count) + 0.5) / count)[:, None]
    sample = law.quantile(levels.expand(-1, 3))
    spread = sample.std(0)
    assert ((law.mean - sample.mean(0)) / spread).abs().max() < allowed
    assert (law.stddev / spread - 1).abs().max() < (3e-2 if slow else 5e-3)
    y = law.quantile(0.8)
    energy = (sample - y).abs().mean(0) - ((2 * levels - 1) * sample).mean(0)
    assert ((law.crps(y) - energy) / spread).abs().max() < allowed


@pytest.mark.parametrize("base", BASES)
def test_the_identity_changes_nothing(base: str) -> None:
    given, law = BASES[base], Transformed(BASES[base], MAPS["identity"])
    y = given.quantile(0.83)
    torch.testing.assert_close(law.mean, given.mean, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(law.variance, given.variance, atol=0, rtol=1e-6)
    torch.testing.assert_close(law.crps(y), given.crps(y), atol=1e-8, rtol=1e-7)
    for own, theirs in zip(law.pit(y), given.pit(y), strict=True):
        torch.testing.assert_close(own, theirs)
    assert torch.equal(law.quantile(0.3), given.quantile(0.3))


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
    law = Transformed(Gaussian(mean, 1.0), TRANSFORMS["logit"](low=-1.0, high=4.0))
    y = torch.tensor([-2.0, -1.0, 4.0, 9.0], requires_grad=True)
    assert law.cdf(y).tolist() == [0, 0, 1, 1]
    assert law.survival(y).tolist() == [1, 1, 0, 0]
    assert (law.log_prob(y) == -math.inf).all()
    assert all(part.isfinite().all() for part in law.pit(y))
    scores = law.crps(y)
    # One further outside costs its distance more.
    torch.testing.assert_close(scores[0] - scores[1], torch.tensor(1.0))
    torch.testing.assert_close(scores[3] - scores[2], torch.tensor(5.0))
    torch.where(law.log_prob(y).isfinite(), law.log_prob(y), 0.0).sum().backward()
    assert mean.grad is not None
    assert y.grad is not None
    assert mean.grad.isfinite().all()
    assert y.grad.isfinite().all()
    assert law.quantile(0.0).tolist() == [-1.0] * 4
    assert law.quantile(1.0).tolist() == [4.0] * 4


@pytest.mark.parametrize("transform", MAPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_have_a_likelihood_and_follow_the_law(
    transform: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    base = Gaussian(MEAN.to(dtype), SCALE.to(dtype))
    law = Transformed(base, MAPS[transform])
    drawn = law.sample((20_000,), generator=generator)
    assert drawn.dtype == law.mean.dtype == law.crps(drawn[0]).dtype == dtype
    assert law.log_prob(drawn[0]).dtype == law.cdf(drawn[0]).dtype == dtype
    assert law.log_prob(drawn).isfinite().all()
    share = (drawn <= law.quantile(0.9)).double().mean(0)
    assert (share - 0.9).abs().max() < 5 * math.sqrt(0.09 / 20_000)


def test_float32_samples_stay_inside_and_finite(generator: torch.Generator) -> None:
    wide = Gaussian(torch.zeros(3, dtype=torch.float32), 100.0)
    for transform in (LOG, TRANSFORMS["logit"]()):
        drawn = Transformed(wide, transform).sample((1000,), generator=generator)
        assert (drawn > 0).all()
        assert drawn.isfinite().all()
        high = transform.support[1]
        assert high == math.inf or (drawn < high).all()


@pytest.mark.parametrize("transform", MAPS)
def test_gradients_reach_the_parameters(transform: str) -> None:
    parameters = [MEAN.clone().requires_grad_(), SCALE.clone().requires_grad_()]
    y = Transformed(Gaussian(MEAN, SCALE), MAPS[transform]).quantile(0.7)

    def asked(method: str) -> Callable[..., Tensor]:
        def value(mean: Tensor, stddev: Tensor) -> Tensor:
            law = Transformed(Gaussian(mean, stddev), MAPS[transform])
            if method in ("mean", "variance"):
                return getattr(law, method)
            return getattr(law, method)(0.3 if method == "quantile" else y)

        return value

    for method in ("log_prob", "cdf", "quantile", "mean", "variance", "crps"):
        assert torch.autograd.gradcheck(asked(method), parameters), method


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("df", [1.5, 5.0, 30.0, 90.0])
def test_students_t_has_no_mean_behind_a_logarithm(
    df: float, dtype: torch.dtype
) -> None:
    base = StudentT(df, MEAN.to(dtype), SCALE.to(dtype).clamp_min(0.5))
    law = Transformed(base, LOG)
    assert (law.mean == math.inf).all()
    assert (law.variance == math.inf).all()
    assert law.log_prob([1.0, 2.0, 3.0]).isfinite().all()
    with pytest.raises(
        UnsupportedError, match="crps needs a distribution with a finite mean"
    ):
        law.crps([1.0, 2.0, 3.0])


def test_infinite_moments_are_told_on_both_sides() -> None:
    identity = MAPS["identity"]
    df = torch.tensor([0.9, 1.5, 3.0])
    given = StudentT(df, MEAN, SCALE)
    law = Transformed(given, identity)
    assert torch.equal(law.mean.isnan(), given.mean.isnan())
    assert torch.equal(law.variance.isinf(), given.variance.isinf())
    assert torch.equal(law.variance.isnan(), given.variance.isnan())
    below = from_functions(
        lambda y: -(-y).log(), lambda z: -(-z).exp(), lambda y: -(-y).log()
    )
    assert (Transformed(StudentT(5.0, MEAN, SCALE), below).mean == -math.inf).all()
    # E exp(Z) of a Laplace law of scale b is 1 / (1 - b^2), for b < 1.
    scale = torch.tensor([0.3, 0.8, 1.0])
    law = Transformed(Laplace(torch.zeros(3), scale), LOG)
    expected = torch.tensor([1 / 0.91, 1 / 0.36, math.inf])
    torch.testing.assert_close(law.mean, expected, rtol=1e-6, atol=0)
    assert law.variance.isfinite().tolist() == [True, False, False]


def test_a_map_of_half_the_line_takes_a_truncated_base() -> None:
    # The square of a normal variable that is known to be positive: chi-square.
    root = from_functions(
        torch.sqrt,
        torch.square,
        lambda y: -math.log(2) - y.log() / 2,
        support=(0.0, math.inf),
    )
    law = Transformed(Truncated(Gaussian(torch.zeros(1), 1.0), 0.0), root)
    given = stats.chi2(1)
    for y in (1e-3, 0.5, 3.0, 40.0):
        assert math.isclose(law.log_prob([y]).item(), given.logpdf(y), rel_tol=1e-9)
        assert math.isclose(law.survival([y]).item(), given.sf(y), rel_tol=1e-9)
    assert law.cdf([-1.0]).item() == 0
    assert math.isclose(law.mean.item(), 1.0, rel_tol=1e-6)
    assert math.isclose(law.variance.item(), 2.0, rel_tol=1e-5)


def test_rows_are_selected_and_members_stacked() -> None:
    law = Transformed(Gaussian(MEAN, SCALE), LOG)
    rows = law[torch.tensor([2, 0])]
    assert rows.batch_shape == (2,)
    assert rows.transform is LOG
    torch.testing.assert_close(rows.mean, law.mean[[2, 0]])
    assert len(law[:2]) == 2
    stacked = Transformed(Gaussian(MEAN.expand(4, 3), SCALE.expand(4, 3)), LOG)
    y = torch.tensor([1.0, 2.0, 0.1])
    for answer in (stacked.mean, stacked.crps(y), stacked.log_prob(y), stacked.cdf(y)):
        assert answer.shape == (4, 3)
    torch.testing.assert_close(stacked.crps(y)[1], law.crps(y))
    assert law.quantile(torch.full((5, 3), 0.5)).shape == (5, 3)


def test_samples_have_no_density_in_any_unit() -> None:
    with pytest.raises(UnsupportedError, match="samples have none"):
        Transformed(BASES["empirical"], LOG).log_prob([1.0, 1.0, 1.0])


def test_targets_whose_image_is_no_float_have_no_likelihood() -> None:
    square = TRANSFORMS["box_cox"](power=2.0).fit(TARGETS)
    law = Transformed(Gaussian(MEAN, SCALE), square)
    far = torch.full((3,), 1e300)
    assert square.forward(far).isinf().all()
    assert (law.log_prob(far) < -1e20).all()
    assert law.cdf(far).tolist() == [1, 1, 1]
