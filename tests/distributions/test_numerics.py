"""The root finder and the integrator against closed forms and bisection."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import Empirical, Gaussian, GaussianMixture, Laplace, Mixture, StudentT
from calibrant.distributions import (
    AbstractDistribution,
    Affine,
    Censored,
    Recalibrated,
    Transformed,
    Truncated,
    _numerics,
)
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.maps import BetaMap
from calibrant.transforms import TRANSFORMS

double = partial(torch.tensor, dtype=torch.float64)
ROOTS = double([-3.0, 0.0, 1e-6, 0.7, 900.0])
GENERATOR = torch.Generator().manual_seed(0)
MEANS, NOISE = torch.randn(2, 4, 30, generator=GENERATOR, dtype=torch.float64)
PIT = torch.rand(80, generator=GENERATOR, dtype=torch.float64) ** 1.4
MAPS = ["beta", "smooth", "empirical", "isotonic"]


def members(width: float = 0.3) -> GaussianMixture:
    weights = (width * NOISE).softmax(0)
    return GaussianMixture(MEANS, (width * NOISE).exp(), weights)


def mapped(name: str, base: AbstractDistribution) -> Recalibrated:
    return Recalibrated(base, RECALIBRATORS[name]().fit_pit(PIT).unit_map)


def arc_tangent(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.atan(x - ROOTS), 1 / (1 + (x - ROOTS) ** 2)


def step(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(x < ROOTS, -1.0, 1.0), torch.zeros_like(x)


@pytest.mark.parametrize("function", [arc_tangent, step])
@pytest.mark.parametrize("start", [None, 5000.0 + ROOTS])
def test_finds_roots_that_newton_alone_would_miss(
    function: Any, start: Tensor | None
) -> None:
    bound = torch.full_like(ROOTS, 1000.0)
    found = _numerics.solve_increasing(function, -bound, bound, start=start)
    torch.testing.assert_close(found, ROOTS, rtol=1e-12, atol=1e-12)
    # Of a jump the upper side; 0 has no last place.
    assert (function(found)[0] >= -1e-12)[ROOTS != 0].all()


def test_the_gradient_of_a_root_is_the_implicit_one() -> None:
    # x^2 = a has dx/da = 1 / (2 x).
    a = torch.tensor([4.0, 9.0], requires_grad=True)
    root = torch.tensor([2.0, 3.0])
    _numerics.with_implicit_gradient(root, root**2 - a, 2 * root).sum().backward()
    torch.testing.assert_close(a.grad, torch.tensor([1 / 4, 1 / 6]))


def bisected(distribution: AbstractDistribution, level: float) -> Tensor:
    """Halve a bracket 95 times, by the logarithm of the tail that is not rounded."""
    low, high = (torch.full(distribution.batch_shape, end) for end in (-1e9, 1e9))
    tail = double(min(level, 1 - level)).log()
    for _ in range(95):
        middle = (low + high) / 2
        pit = distribution.pit(middle)
        below = pit.log_cdf < tail if level < 0.5 else pit.log_survival > tail
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high


SEARCHED: dict[str, AbstractDistribution] = {
    "members": members(),
    "of very different widths": members(3.0),
    "far apart": GaussianMixture(1e4 * MEANS, 0.01, [0.1, 0.25, 0.3, 0.35]),
    "isotonic": mapped("isotonic", members()),
    "mixed families": Mixture([members(), StudentT(4.0, MEANS[0], 2.0)], [0.3, 0.7]),
    "three maps": Mixture([mapped("beta", members(k / 3)) for k in range(1, 4)]),
    "truncated": Truncated(members(), -1.0, 2.0),
    "affine": Affine(members(), MEANS[0], NOISE[0].exp()),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_quantiles_are_those_of_bisection(name: str) -> None:
    distribution = SEARCHED[name][:8]
    levels = double([1e-30, 1e-4, 0.05, 0.5, 0.999, 1 - 1e-12])
    found = distribution.quantiles(levels)
    for number, level in enumerate(levels.tolist()):
        expected = bisected(distribution, level)
        torch.testing.assert_close(found[:, number], expected, rtol=1e-9, atol=1e-9)


def test_jumps_are_met() -> None:
    mixture = Mixture([Censored(members(), low=0.0), members()])
    at_zero = members().cdf(torch.zeros(30))
    # The cdf of the mixture jumps there from a half of this to all of it.
    assert mixture.quantile(0.75 * at_zero).abs().max() < 1e-9
    below = mixture.quantile(members().cdf(-torch.ones(30)) / 2)
    torch.testing.assert_close(below, -torch.ones(30), rtol=1e-9, atol=1e-9)


KNOWN: dict[str, tuple[AbstractDistribution, float]] = {
    "gaussian": (Gaussian(MEANS[0], NOISE[0].exp()), 1e-10),
    "laplace": (Laplace(MEANS[0], NOISE[0].exp()), 1e-8),
    "student_t": (StudentT(5.0, MEANS[0], NOISE[0].exp()), 1e-7),
    "mixture": (GaussianMixture(MEANS, NOISE.exp()), 1e-6),
    "narrow components far apart": (GaussianMixture(9 * MEANS, 0.01), 1e-4),
    "huge numbers": (GaussianMixture(1e12 + 1e9 * MEANS, 1e9 * NOISE.exp()), 1e-6),
    "tiny numbers": (GaussianMixture(1e-12 * MEANS, 1e-12 * NOISE.exp()), 1e-6),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_moments_and_scores_are_met(name: str) -> None:
    distribution, error = KNOWN[name]
    mean, variance = _numerics.moments(distribution)
    spread = distribution.stddev
    assert ((mean - distribution.mean) / spread).abs().max() < error
    assert (variance / distribution.variance - 1).abs().max() < 10 * error
    for distance in (-30.0, -1.0, 0.0, 0.4, 5.0):
        y = distribution.mean + distance * spread
        found = _numerics.integrated_crps(distribution, y)
        wrong = (found - distribution.crps(y)) / spread
        assert wrong.abs().max() < error * max(1, abs(distance))


@pytest.mark.parametrize("name", MAPS)
def test_the_rule_for_gaussians_agrees_with_integrals_over_values(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = mapped(name, Gaussian(MEANS[0], NOISE[0].exp()))
    by_values = mapped(
        name, Affine(Gaussian(0 * MEANS[0], 1.0), MEANS[0], NOISE[0].exp())
    )
    y = exact.quantile(0.7)
    expected = torch.stack([exact.mean, exact.stddev, exact.crps(y)])
    found = torch.stack([by_values.mean, by_values.stddev, by_values.crps(y)])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    by_values = mapped(name, by_values.base)  # nothing kept
    monkeypatch.setattr(Affine, "_searched", True)
    found = torch.stack([by_values.mean, by_values.stddev, by_values.crps(y)])
    error = ((found - expected) / exact.stddev).abs().max()
    assert error < (3e-4 if name in ("empirical", "isotonic") else 1e-7)


@pytest.mark.parametrize("entries", [1000, 20_000])
def test_blocks_of_rows_change_nothing(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = torch.stack([MEANS[0], NOISE[0]])

    def answers() -> list[Tensor]:
        found = []
        for base in (members(), Laplace(MEANS[0], NOISE[0].exp())):
            predictive = mapped("beta", base)
            found += [
                predictive.mean,
                predictive.variance,
                predictive.crps(y),
                predictive.quantiles([0.1, 0.9]),
            ]
        return [*found, Mixture([predictive, members()]).crps(y), members().crps(y)]

    expected = answers()
    monkeypatch.setattr(_numerics, "_ENTRIES", entries)
    torch.testing.assert_close(answers(), expected, rtol=1e-9, atol=1e-12)


def test_atoms_steps_and_other_units_are_integrated() -> None:
    levels = (torch.arange(2000, dtype=torch.float64)[:, None] + 0.5) / 2000
    steps = Empirical(MEANS)
    for distribution, error in (
        (mapped("empirical", Censored(members(), low=0.0)), 1e-3),
        (Transformed(mapped("beta", members()), TRANSFORMS["log"]()), 2e-2),
        (Mixture([Censored(members(), low=0.0), steps]), 1e-3),
        (mapped("isotonic", Transformed(steps, TRANSFORMS["log"]())), 1e-3),
    ):
        sample = distribution.quantile(levels.expand(-1, 30))
        spread, y = sample.std(0), sample[1600]
        assert ((distribution.mean - sample.mean(0)) / spread).abs().max() < error
        energy = (sample - y).abs().mean(0) - ((2 * levels - 1) * sample).mean(0)
        assert ((distribution.crps(y) - energy) / spread).abs().max() < error


def test_a_result_without_a_graph_is_not_kept_for_who_wants_one() -> None:
    means = MEANS[:, :3].clone().requires_grad_()
    base = GaussianMixture(means, 1.0)
    for distribution in (mapped("beta", base), Censored(base, low=0.0)):
        with torch.no_grad():
            before = distribution.mean
        assert not before.requires_grad
        (slope,) = torch.autograd.grad(distribution.mean.sum(), means)
        assert (slope.sum(0) > 0.1).all()
        torch.testing.assert_close(distribution.mean.detach(), before)


def test_gradients_of_integrals_and_roots_match_finite_differences() -> None:
    def ask(means: Tensor, level: Tensor) -> tuple[Tensor, ...]:
        predictive = Recalibrated(GaussianMixture(means, 0.7), BetaMap(0.8, 1.3, 0.2))
        both = Mixture([predictive, Gaussian(means[0], 1.0)])
        y = torch.ones(3, dtype=torch.float64)
        return predictive.mean, predictive.crps(y), both.crps(y), both.quantile(level)

    means = MEANS[:, :3].clone().requires_grad_()
    level = double([[0.1, 0.5, 0.9], [0.01, 0.6, 0.7]]).requires_grad_()
    assert torch.autograd.gradcheck(ask, (means, level), atol=1e-5)
