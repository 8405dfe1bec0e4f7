"""The recalibrated distribution against brute force, over every base and every map."""

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    Laplace,
    QuantileTable,
    StudentT,
    UnsupportedError,
    as_distribution,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.maps import BetaMap
from calibrant.validation import pit_from_cdf

MAPS = ["isotonic", "empirical", "smooth", "beta"]
IDENTITY = BetaMap(1.0, 1.0, 0.0)
MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
SCALE = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
STEPS = torch.linspace(-2, 2, 9, dtype=torch.float64)

SMOOTH_BASES: dict[str, AbstractDistribution] = {
    "gaussian": Gaussian(MEAN, SCALE),
    "mixture": GaussianMixture(torch.stack([MEAN, MEAN + 1, MEAN - 0.5]), 0.7),
    "laplace": Laplace(MEAN, SCALE),
    "quantile_table": QuantileTable(STEPS.sigmoid(), MEAN[:, None] + STEPS),
    "torch": as_distribution(torch.distributions.Gumbel(MEAN, SCALE)),
    "scipy": as_distribution(stats.gamma([2.0, 3.0, 4.0])),
}
BASES = SMOOTH_BASES | {
    "student_t": StudentT(5.0, MEAN, SCALE),
    "empirical": Empirical(MEAN + STEPS[:, None]),
}


def learned(name: str, n: int = 300, factor: float = 0.5) -> Any:
    """Give the recalibrator of a model whose spread is too small by a factor."""
    generator = torch.Generator().manual_seed(n)
    y = torch.randn(n, generator=generator, dtype=torch.float64)
    predictive = Gaussian(torch.zeros(n, dtype=torch.float64), factor)
    return RECALIBRATORS[name]().fit(predictive, y)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", MAPS)
def test_moments_and_crps_are_those_of_a_large_even_sample(
    name: str, base: str, gaps_to_even_sample: Any
) -> None:
    predictive, heavy = learned(name).transform(BASES[base]), base == "student_t"
    y = BASES[base].quantile(0.8) + 0.1
    count = 10_000 if heavy else 100_000
    mean, stddev, crps = gaps_to_even_sample(predictive, y, count=count)
    # The panels over values do not end at the kinks of a map.
    kinked = base == "mixture" and name in ("isotonic", "empirical")
    # What the even sample lacks are its tails.
    assert mean < (2e-2 if heavy else 1e-3 if kinked else 2e-5)
    assert heavy or stddev < (1e-3 if kinked else 2e-4)
    assert crps < (1e-4 if heavy else 5e-4 if kinked else 1e-5)


@pytest.mark.parametrize("base", BASES)
def test_the_identity_changes_nothing(base: str) -> None:
    given = BASES[base]
    predictive = Recalibrated(given, IDENTITY)
    y = given.quantile(0.83)
    loose = 1e4 if base == "mixture" else 1.0  # by values, see Recalibrated
    torch.testing.assert_close(
        predictive.mean, given.mean, atol=1e-9 * loose, rtol=1e-9
    )
    torch.testing.assert_close(
        predictive.variance, given.variance, atol=0, rtol=1e-7 * min(loose, 100)
    )
    torch.testing.assert_close(
        predictive.crps(y), given.crps(y), atol=1e-12, rtol=1e-9 * loose
    )
    torch.testing.assert_close(predictive.cdf(y), given.cdf(y))
    torch.testing.assert_close(predictive.quantile(0.3), given.quantile(0.3))


def test_crps_of_a_wider_normal_distribution_is_known() -> None:
    # An exact map for a spread twice too small: R(u) = Phi(Phi^-1(u) / 2).
    narrow, wide = Gaussian(MEAN, SCALE / 2), Gaussian(MEAN, SCALE)
    predictive = Recalibrated(narrow, _Halving())
    for y in (MEAN - 3, MEAN, MEAN + 0.7, MEAN + 20, MEAN - 50):
        torch.testing.assert_close(
            predictive.crps(y), wide.crps(y), atol=1e-9, rtol=1e-9
        )
    y = MEAN - 3
    torch.testing.assert_close(
        predictive.log_prob(y), wide.log_prob(y), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(predictive.mean, MEAN, atol=1e-10, rtol=0)
    torch.testing.assert_close(predictive.stddev, SCALE, atol=0, rtol=1e-8)


class _Halving:
    """A map of one's own: all that the contract asks for."""

    knots = torch.tensor([0.0, 1.0], dtype=torch.float64)

    def forward(self, pit: Any) -> Any:
        z = torch.special.ndtri(pit.cdf)
        upper = -torch.special.ndtri(pit.survival)
        return Gaussian(0.0, 2.0).pit(torch.where(z < 0, z, upper).nan_to_num())

    def inverse(self, levels: Any) -> Any:
        z = torch.special.ndtri(levels.cdf)
        return Gaussian(0.0, 0.5).pit(z.clamp(-1e3, 1e3))

    def log_density(self, pit: Any) -> Tensor:
        z = torch.special.ndtri(pit.cdf)
        z = torch.where(z < 0, z, -torch.special.ndtri(pit.survival)).nan_to_num()
        return 0.375 * z.square() - torch.tensor(2.0).log()


@pytest.mark.parametrize("base", SMOOTH_BASES)
@pytest.mark.parametrize("name", MAPS)
def test_the_density_integrates_to_the_cdf(name: str, base: str) -> None:
    predictive = learned(name, n=30).transform(SMOOTH_BASES[base])
    # Between the kinks of the density: those of the map and of the base.
    kinks = torch.cat([predictive.unit_map.knots, STEPS.sigmoid(), torch.tensor([0.5])])
    mapped = predictive.unit_map.forward(pit_from_cdf(kinks)).cdf
    levels = torch.cat([mapped, torch.linspace(0.001, 0.999, 401)])
    inner = levels[(levels >= 0.001) & (levels <= 0.999)].sort().values
    edges = predictive.quantile(inner[:, None].expand(-1, 3))
    middle, half = (edges[1:] + edges[:-1]) / 2, edges.diff(dim=0) / 2
    mass = torch.zeros(3)
    for point, weight in ((-(0.6**0.5), 5 / 9), (0.0, 8 / 9), (0.6**0.5, 5 / 9)):
        mass += (weight * half * predictive.log_prob(middle + point * half).exp()).sum(
            0
        )
    torch.testing.assert_close(mass, torch.full((3,), 0.998), atol=1e-4, rtol=0)


@pytest.mark.parametrize("base", SMOOTH_BASES)
@pytest.mark.parametrize("name", MAPS)
def test_the_quantile_inverts_the_cdf(name: str, base: str) -> None:
    predictive = learned(name).transform(SMOOTH_BASES[base])
    levels = torch.tensor([1e-4, 0.01, 0.2, 0.5, 0.77, 0.99, 0.9999])[:, None].expand(
        -1, 3
    )
    back = predictive.pit(predictive.quantile(levels))
    # torch's own Gumbel has no precise tails.
    tolerance = 1e-5 if base == "torch" else 1e-8
    torch.testing.assert_close(back.cdf, levels, atol=0, rtol=tolerance)
    torch.testing.assert_close(back.survival, 1 - levels, atol=0, rtol=tolerance)


@pytest.mark.parametrize("name", MAPS)
def test_float32_agrees_with_float64(name: str) -> None:
    recalibrator = learned(name)
    wide = recalibrator.transform(Gaussian(MEAN, SCALE))
    narrow = recalibrator.transform(Gaussian(MEAN.float(), SCALE.float()))
    y = MEAN + SCALE * torch.tensor([-2.9, 0.3, 3.1])
    for ask in (
        lambda predictive, _: predictive.mean,
        lambda predictive, _: predictive.variance,
        lambda predictive, y: predictive.crps(y),
        lambda predictive, y: predictive.cdf(y),
        lambda predictive, y: predictive.log_prob(y),
        lambda predictive, _: predictive.quantile(0.999),
        lambda predictive, _: predictive.interval(0.99)[0],
    ):
        here, there = ask(narrow, y.float()), ask(wide, y)
        assert here.dtype == torch.float32
        torch.testing.assert_close(here.double(), there, atol=2e-4, rtol=2e-4)


def test_float32_keeps_upper_quantiles_that_its_levels_cannot_say() -> None:
    # A spread 3 times too small: level 0.999 is 1 - 1e-20 of the given distribution.
    recalibrator = learned("smooth", n=2000, factor=1 / 3)
    predictive = recalibrator.transform(Gaussian(torch.zeros(1).float(), 1.0))
    lower, upper = predictive.interval(0.99)
    assert 6 < float(upper) < 9
    assert -9 < float(lower) < -6
    lower, upper = predictive.interval(1 - 1e-8)
    wide = recalibrator.transform(Gaussian(torch.zeros(1), 1.0)).interval(1 - 1e-8)
    torch.testing.assert_close(lower.double(), wide[0], rtol=1e-4, atol=0)
    torch.testing.assert_close(upper.double(), wide[1], rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", MAPS)
def test_a_recalibrated_distribution_can_be_recalibrated(
    name: str, gaps_to_even_sample: Any
) -> None:
    once = learned("smooth").transform(Gaussian(MEAN, SCALE))
    twice = learned(name, n=100, factor=0.8).transform(once)
    assert twice.base is once.base
    y = MEAN + 0.4
    inner = once.pit(y)
    outer = learned(name, n=100, factor=0.8).unit_map
    torch.testing.assert_close(twice.cdf(y), outer.forward(inner).cdf)
    expected = once.log_prob(y) + outer.log_density(inner)
    torch.testing.assert_close(twice.log_prob(y), expected)
    assert gaps_to_even_sample(twice, y)[0] < 1e-4
    levels = torch.tensor([0.01, 0.5, 0.99])[:, None].expand(-1, 3)
    torch.testing.assert_close(
        twice.cdf(twice.quantile(levels)), levels, atol=1e-7, rtol=0
    )


def test_samples_are_weighted_exactly() -> None:
    recalibrator = learned("empirical")
    predictive = recalibrator.transform(BASES["empirical"])
    edges = recalibrator.apply(torch.linspace(0, 1, 10))
    points = MEAN + STEPS[:, None]
    weights = edges.diff()[:, None]
    mean = (weights * points).sum(0)
    torch.testing.assert_close(predictive.mean, mean)
    torch.testing.assert_close(
        predictive.variance, (weights * (points - mean) ** 2).sum(0)
    )
    y = MEAN + 0.3
    pairs = (points[:, None] - points).abs() * weights[:, None] * weights
    expected = (weights * (points - y).abs()).sum(0) - pairs.sum((0, 1)) / 2
    torch.testing.assert_close(predictive.crps(y), expected)


def test_moments_that_do_not_exist_stay_so() -> None:
    predictive = learned("empirical").transform(StudentT([0.8, 1.5, 3.0], MEAN, SCALE))
    assert predictive.mean.isnan().tolist() == [True, False, False]
    assert predictive.variance[1] == torch.inf
    assert torch.isfinite(predictive.variance[2])
    with pytest.raises(UnsupportedError, match="finite mean"):
        predictive.crps(MEAN)


class _Largest(TorchDispatchMode):
    """Remember the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        parts = result if isinstance(result, (tuple, list)) else [result]
        for part in parts:
            if isinstance(part, Tensor):
                self.elements = max(self.elements, part.untyped_storage().nbytes() // 8)
        return result


def test_memory_is_rows_plus_knots_not_their_product(
    generator: torch.Generator,
) -> None:
    rows, knots = 50_000, 20_000
    recalibrator = RECALIBRATORS["empirical"]().fit_pit(
        torch.rand(knots, generator=generator) ** 2
    )
    predictive = recalibrator.transform(Gaussian(torch.zeros(rows), 1.0))
    y = torch.randn(rows, generator=generator)
    with _Largest() as largest:
        predictive.cdf(y)
        predictive.quantile(0.9)
        predictive.quantile(torch.rand(rows, generator=generator))
        predictive.log_prob(y)
        predictive.sample(generator=generator)
        _ = predictive.variance
        predictive.crps(y)
    # The integral up to each target holds 12 points of a quadrature.
    assert largest.elements <= 12 * (rows + knots)
