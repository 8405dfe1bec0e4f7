"""The mixture of any distributions against GaussianMixture, scipy and brute force."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    InputError,
    Laplace,
    Mixture,
    QuantileTable,
    StudentT,
    UnsupportedError,
)
from calibrant.distributions import AbstractDistribution
from calibrant.recalibration import RECALIBRATORS

double = partial(torch.tensor, dtype=torch.float64)
MEANS = double([[0.0, -1.0, 5.0], [3.0, -1.0, 5.5], [-2.0, 4.0, 5.0]])
STDDEVS = double([[1.0, 0.2, 1.0], [0.5, 2.0, 1.0], [2.0, 1.0, 0.01]])
WEIGHTS = double([[0.2, 0.5, 0.1], [0.5, 0.3, 0.9], [0.3, 0.2, 0.0]])
Y = double([0.5, -1.1, 7.0])
LEVELS = double([0.0, 1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.7, 1 - 1e-12, 1.0])
MAPS = ["empirical", "isotonic", "smooth", "beta"]


def normal(means: Tensor = MEANS, stddevs: Tensor = STDDEVS) -> list[Gaussian]:
    return [Gaussian(*each) for each in zip(means, stddevs, strict=True)]


def mixed(
    location: Tensor = MEANS, scale: Tensor = STDDEVS, weights: Tensor = WEIGHTS
) -> Mixture:
    predictives = [
        Gaussian(location[0], scale[0]),
        Laplace(location[1], scale[1]),
        StudentT(3.0, location[2], scale[2]),
    ]
    return Mixture(predictives, weights)


def recalibrated(name: str, n: int = 60) -> Mixture:
    """Three components of three families, each through a map of its own."""
    bases: list[AbstractDistribution] = [
        Gaussian(MEANS[0], STDDEVS[0]),
        GaussianMixture(MEANS, STDDEVS.clamp_min(0.3), WEIGHTS),
        Laplace(MEANS[1], STDDEVS[1]),
    ]
    predictives = []
    for number, base in enumerate(bases):
        generator = torch.Generator().manual_seed(number)
        y = torch.randn(n, generator=generator, dtype=torch.float64)
        held_out = Gaussian(torch.full((n,), 0.2 * number).double(), 0.5 + number)
        predictives.append(RECALIBRATORS[name]().fit(held_out, y).transform(base))
    return Mixture(predictives, [0.5, 0.3, 0.2])


def test_normal_components_are_a_gaussian_mixture() -> None:
    predictive, exact = (
        Mixture(normal(), WEIGHTS),
        GaussianMixture(MEANS, STDDEVS, WEIGHTS),
    )
    close = partial(torch.testing.assert_close, rtol=1e-8, atol=1e-8)
    close(predictive.mean, exact.mean)
    close(predictive.variance, exact.variance)
    for y in (Y, Y - 20, Y + 20, torch.stack([Y, Y + 1])):
        for mine, theirs in zip(predictive.pit(y), exact.pit(y), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=0)
        torch.testing.assert_close(predictive.cdf(y), exact.cdf(y), rtol=1e-12, atol=0)
        torch.testing.assert_close(
            predictive.survival(y), exact.survival(y), rtol=1e-12, atol=0
        )
        close(predictive.log_prob(y), exact.log_prob(y))
        close(predictive.crps(y), exact.crps(y))
    levels = LEVELS[:, None].expand(-1, 3)
    close(predictive.quantile(levels), exact.quantile(levels))
    close(predictive.interval(1 - 1e-12)[1], exact.interval(1 - 1e-12)[1])


def test_agrees_with_scipy() -> None:
    parts = [
        stats.norm(MEANS[0], STDDEVS[0]),
        stats.laplace(MEANS[1], STDDEVS[1]),
        stats.t(3.0, MEANS[2], STDDEVS[2]),
    ]
    for y in (Y, Y - 9, Y + 9):
        for mine, name in (("cdf", "cdf"), ("survival", "sf")):
            expected = sum(
                weight * getattr(part, name)(y.numpy())
                for weight, part in zip(WEIGHTS.numpy(), parts, strict=True)
            )
            found = getattr(mixed(), mine)(y)
            torch.testing.assert_close(found, double(expected), rtol=1e-10, atol=0)
        density = np.log(
            sum(
                weight * part.pdf(y.numpy())
                for weight, part in zip(WEIGHTS.numpy(), parts, strict=True)
            )
        )
        torch.testing.assert_close(mixed().log_prob(y), double(density))


def test_logs_stay_apart_where_probabilities_underflow() -> None:
    pit = Mixture(normal(), WEIGHTS).pit(Y - 1e4)
    assert (pit.log_cdf < -1e5).all()
    assert pit.log_cdf.isfinite().all()
    mirrored = Mixture(normal(-MEANS), WEIGHTS).pit(1e4 - Y)
    torch.testing.assert_close(mirrored.log_survival, pit.log_cdf)


def test_moments_follow_the_components() -> None:
    predictives = [
        Gaussian(MEANS[0], 1.0),
        StudentT(double([0.9, 1.5, 4.0]), MEANS[1], 1.0),
    ]
    predictive = Mixture(predictives, double([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]))
    assert predictive.mean.isnan().tolist() == [True, False, False]
    assert predictive.variance.isnan().tolist() == [True, False, False]
    assert predictive.variance.isinf().tolist() == [False, True, False]
    torch.testing.assert_close(predictive.variance[2], double(1.5 + 0.0625))
    # A component without weight has no say.
    alone = Mixture(predictives, [1.0, 0.0])
    torch.testing.assert_close(alone.mean, MEANS[0])
    torch.testing.assert_close(alone.variance, torch.ones(3))
    torch.testing.assert_close(alone.crps(Y), predictives[0].crps(Y), rtol=0, atol=1e-8)
    with pytest.raises(UnsupportedError, match="and 1 rows of a component"):
        predictive.crps(Y)


def crps_on_fine_panels(predictive: Mixture, y: Tensor) -> Tensor:
    """Integrate the definition between 900 quantiles of the mixture itself."""
    tail = torch.logspace(-10, -3, 40)
    levels = torch.cat([tail, torch.linspace(0.002, 0.998, 800), 1 - tail.flip(0)])
    knots = predictive.quantile(levels[:, None].expand(-1, 3))
    ends = torch.cat([knots, y[None]]).sort(0).values
    half = ends.diff(dim=0) / 2
    nodes, weights = (
        torch.tensor(part)[:, None, None] for part in np.polynomial.legendre.leggauss(8)
    )
    cdf = predictive.cdf(ends[:-1] + half * (1 + nodes))
    square = torch.where(ends[1:] <= y, cdf, 1 - cdf).square()
    return (weights * half * square).sum((0, 1))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("n", [20, 300])
def test_crps_is_its_definition_through_any_map(name: str, n: int) -> None:
    predictive = recalibrated(name, n)
    error = (
        predictive.crps(Y - 1) - crps_on_fine_panels(predictive, Y - 1)
    ) / predictive.stddev
    kinked = name in ("empirical", "isotonic")
    assert error.abs().max() < (5e-4 if kinked else 1e-5)


@pytest.mark.parametrize("shift", [0.0, -6.0, 6.0])
def test_crps_is_its_definition(shift: float) -> None:
    predictives = [
        Laplace(MEANS[0], STDDEVS[0]),
        StudentT(2.5, MEANS[1], STDDEVS[0]),
        QuantileTable([0.2, 0.5, 0.9], MEANS[0][:, None] + double([-1.0, 0.0, 2.0])),
    ]
    predictive = Mixture(predictives)
    y = Y + shift
    error = (
        predictive.crps(y) - crps_on_fine_panels(predictive, y)
    ) / predictive.stddev
    assert error.abs().max() < 1e-6


def test_crps_of_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 300, 3, generator=generator)
    predictive = Mixture([Empirical(first), Empirical(second + 1)])
    exact = Empirical(torch.cat([first, second + 1]))
    for y in (Y, Y - 5, Y + 5):
        error = (predictive.crps(y) - exact.crps(y)).abs()
        assert (error / exact.stddev).max() < 2e-3
    few = Mixture([Empirical(first[:9]), Empirical(second[:9])])
    torch.testing.assert_close(
        few.crps(Y), Empirical(torch.cat([first[:9], second[:9]])).crps(Y)
    )


@pytest.mark.parametrize("name", ["mixed", *MAPS])
@settings(max_examples=30)
@given(level=st.floats(1e-12, 1 - 1e-12), weight=st.floats(0, 1))
def test_quantile_inverts_the_cdf(name: str, level: float, weight: float) -> None:
    predictives = (mixed() if name == "mixed" else recalibrated(name, 20)).components
    predictive = Mixture(predictives, [weight / 2, weight / 2, 1 - weight])
    pit = predictive.pit(predictive.quantile(level))
    error = pit.cdf - level if level < 0.5 else 1 - level - pit.survival
    assert (error.abs() <= 1e-9 * min(level, 1 - level)).all()


def test_quantiles_of_steps_and_plateaus_are_the_smallest_values() -> None:
    predictive = Mixture([Empirical([[0.0], [1.0]]), Empirical([[5.0], [8.0]])])
    levels = double([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0])
    expected = double([0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 8.0, 8.0])
    found = predictive.quantiles(levels)[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (predictive.cdf(found[:, None])[:, 0] >= levels - 1e-12).all()
    flat = RECALIBRATORS["isotonic"](floor=0).fit_pit([0.1, 0.2, 0.8])
    stepped = Mixture([flat.transform(Gaussian([0.0], 1.0))] * 2)
    torch.testing.assert_close(
        stepped.quantiles(levels), stepped.components[0].quantiles(levels)
    )


def test_levels_of_0_and_1_are_the_ends_of_the_support() -> None:
    bounded = Empirical(double([[1.0], [2.0]]))
    predictive = Mixture([bounded, Gaussian([0.0], 1.0)], double([[1.0], [0.0]]))
    assert predictive.quantiles([0.0, 1.0]).tolist() == [[1.0, 2.0]]
    both = Mixture([bounded, Gaussian([0.0], 1.0)])
    assert both.quantiles([0.0, 1.0]).tolist() == [[-math.inf, math.inf]]


def test_upper_tail_reaches_beyond_the_last_level() -> None:
    predictive = Mixture([Gaussian([0.0], 1.0), Laplace([0.0], 1.0)])
    far = predictive._upper_quantile(double(1e-40))
    torch.testing.assert_close(
        predictive.survival(far), double([1e-40]), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(far, -predictive.quantile(1e-40))


def test_zero_weights_leave_finite_gradients() -> None:
    weights = WEIGHTS.clone().requires_grad_()
    predictive = mixed(weights=weights)
    total = (
        predictive.log_prob(Y)
        + predictive.pit(Y).log_cdf
        + predictive.crps(Y)
        + predictive.mean
    )
    total.sum().backward()
    assert weights.grad.isfinite().all()


def test_samples_among_the_components_have_no_density() -> None:
    samples = torch.randn(4, 3).requires_grad_()
    predictive = Mixture([Empirical(samples), Gaussian(MEANS[0], 1.0)])
    predictive.mean.sum().backward()
    assert samples.grad.isfinite().all()
    assert not predictive.quantile(0.3).requires_grad
    with pytest.raises(UnsupportedError, match="samples have none"):
        predictive.log_prob(Y)


def test_a_diverged_row_does_not_hide_the_others() -> None:
    predictive = Mixture([Gaussian([math.nan, 0.0], 1.0), Gaussian([0.0, 0.0], 1.0)])
    found = predictive.quantile(0.5)
    assert found.isnan().tolist() == [True, False]
    assert predictive.cdf(double([0.0, 0.0])).isnan().tolist() == [True, False]


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="at least one distribution"):
        Mixture([])
    with pytest.raises(InputError, match=r"one batch shape.*got \[\(3,\), \(2,\)\]"):
        Mixture([Gaussian(MEANS[0], 1.0), Gaussian([0.0, 1.0], 1.0)])
    with pytest.raises(InputError, match=r"pool\(distribution\)"):
        Mixture(Gaussian(MEANS[0], 1.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"'Normal'\].*as_distribution"):
        Mixture([normal()[0], torch.distributions.Normal(Y, 1.0)])  # type: ignore[list-item]
    with pytest.raises(InputError, match="sum to 1"):
        Mixture(normal(), [0.5, 0.5, 0.5])
    with pytest.raises(InputError, match="at least 0"):
        Mixture(normal(), [1.5, -0.5, 0.0])
    with pytest.raises(InputError, match=r"weights must have shape \(3,\)"):
        Mixture(normal(), [0.5, 0.5])
