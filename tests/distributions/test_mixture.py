"""The mixture of any laws against GaussianMixture, scipy and brute force."""

import math
from functools import partial
from typing import Any

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
from calibrant.distributions import AbstractDistribution, Recalibrated
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
    laws = [
        Gaussian(location[0], scale[0]),
        Laplace(location[1], scale[1]),
        StudentT(3.0, location[2], scale[2]),
    ]
    return Mixture(laws, weights)


def recalibrated(name: str, n: int = 60) -> Mixture:
    """Three components of three families, each through a map of its own."""
    bases: list[AbstractDistribution] = [
        Gaussian(MEANS[0], STDDEVS[0]),
        GaussianMixture(MEANS, STDDEVS.clamp_min(0.3), WEIGHTS),
        Laplace(MEANS[1], STDDEVS[1]),
    ]
    laws = []
    for number, base in enumerate(bases):
        generator = torch.Generator().manual_seed(number)
        y = torch.randn(n, generator=generator, dtype=torch.float64)
        held_out = Gaussian(torch.full((n,), 0.2 * number).double(), 0.5 + number)
        laws.append(RECALIBRATORS[name]().fit(held_out, y).transform(base))
    return Mixture(laws, [0.5, 0.3, 0.2])


def test_normal_components_are_a_gaussian_mixture() -> None:
    law, exact = Mixture(normal(), WEIGHTS), GaussianMixture(MEANS, STDDEVS, WEIGHTS)
    close = partial(torch.testing.assert_close, rtol=1e-8, atol=1e-8)
    close(law.mean, exact.mean)
    close(law.variance, exact.variance)
    for y in (Y, Y - 20, Y + 20, torch.stack([Y, Y + 1])):
        for mine, theirs in zip(law.pit(y), exact.pit(y), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=0)
        torch.testing.assert_close(law.cdf(y), exact.cdf(y), rtol=1e-12, atol=0)
        torch.testing.assert_close(
            law.survival(y), exact.survival(y), rtol=1e-12, atol=0
        )
        close(law.log_prob(y), exact.log_prob(y))
        close(law.crps(y), exact.crps(y))
    levels = LEVELS[:, None].expand(-1, 3)
    close(law.quantile(levels), exact.quantile(levels))
    close(law.interval(1 - 1e-12)[1], exact.interval(1 - 1e-12)[1])


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
    laws = [Gaussian(MEANS[0], 1.0), StudentT(double([0.9, 1.5, 4.0]), MEANS[1], 1.0)]
    law = Mixture(laws, double([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]))
    assert law.mean.isnan().tolist() == [True, False, False]
    assert law.variance.isnan().tolist() == [True, False, False]
    assert law.variance.isinf().tolist() == [False, True, False]
    torch.testing.assert_close(law.variance[2], double(1.5 + 0.0625))
    # A component without weight has no say.
    alone = Mixture(laws, [1.0, 0.0])
    torch.testing.assert_close(alone.mean, MEANS[0])
    torch.testing.assert_close(alone.variance, torch.ones(3))
    torch.testing.assert_close(alone.crps(Y), laws[0].crps(Y), rtol=0, atol=1e-8)
    with pytest.raises(UnsupportedError, match="finite mean, and that of 1 rows"):
        law.crps(Y)


@pytest.mark.parametrize("name", MAPS)
def test_recalibrated_components_against_a_large_even_sample(name: str) -> None:
    law = recalibrated(name)
    levels = (torch.arange(10_000, dtype=torch.float64)[:, None] + 0.5) / 10_000
    sample = law.quantile(levels.expand(-1, 3))
    spread = sample.std(0)
    assert ((law.mean - sample.mean(0)) / spread).abs().max() < 1e-4
    assert (law.stddev / spread - 1).abs().max() < 3e-3
    for y in (Y, Y - 4, Y + 9):
        energy = (sample - y).abs().mean(0) - ((2 * levels - 1) * sample).mean(0)
        assert ((law.crps(y) - energy) / spread).abs().max() < 1e-3


def crps_on_fine_panels(law: Mixture, y: Tensor) -> Tensor:
    """Integrate the definition between 900 quantiles of the mixture itself."""
    tail = torch.logspace(-10, -3, 40)
    levels = torch.cat([tail, torch.linspace(0.002, 0.998, 800), 1 - tail.flip(0)])
    knots = law.quantile(levels[:, None].expand(-1, 3))
    ends = torch.cat([knots, y[None]]).sort(0).values
    half = ends.diff(dim=0) / 2
    nodes, weights = (
        torch.tensor(part)[:, None, None] for part in np.polynomial.legendre.leggauss(8)
    )
    cdf = law.cdf(ends[:-1] + half * (1 + nodes))
    square = torch.where(ends[1:] <= y, cdf, 1 - cdf).square()
    return (weights * half * square).sum((0, 1))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("n", [20, 300])
def test_crps_is_its_definition_through_any_map(name: str, n: int) -> None:
    law = recalibrated(name, n)
    error = (law.crps(Y - 1) - crps_on_fine_panels(law, Y - 1)) / law.stddev
    kinked = name in ("empirical", "isotonic")
    assert error.abs().max() < (5e-4 if kinked else 1e-5)


@pytest.mark.parametrize("shift", [0.0, -6.0, 6.0])
def test_crps_is_its_definition(shift: float) -> None:
    laws = [
        Laplace(MEANS[0], STDDEVS[0]),
        StudentT(2.5, MEANS[1], STDDEVS[0]),
        QuantileTable([0.2, 0.5, 0.9], MEANS[0][:, None] + double([-1.0, 0.0, 2.0])),
    ]
    law = Mixture(laws)
    y = Y + shift
    error = (law.crps(y) - crps_on_fine_panels(law, y)) / law.stddev
    assert error.abs().max() < 1e-6


def test_crps_of_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 300, 3, generator=generator)
    law = Mixture([Empirical(first), Empirical(second + 1)])
    exact = Empirical(torch.cat([first, second + 1]))
    for y in (Y, Y - 5, Y + 5):
        error = (law.crps(y) - exact.crps(y)).abs()
        assert (error / exact.stddev).max() < 2e-3
    few = Mixture([Empirical(first[:9]), Empirical(second[:9])])
    torch.testing.assert_close(
        few.crps(Y), Empirical(torch.cat([first[:9], second[:9]])).crps(Y)
    )


@pytest.mark.parametrize("name", ["mixed", *MAPS])
@settings(max_examples=30)
@given(level=st.floats(1e-12, 1 - 1e-12), weight=st.floats(0, 1))
def test_quantile_inverts_the_cdf(name: str, level: float, weight: float) -> None:
    laws = (mixed() if name == "mixed" else recalibrated(name, 20)).components
    law = Mixture(laws, [weight / 2, weight / 2, 1 - weight])
    pit = law.pit(law.quantile(level))
    error = pit.cdf - level if level < 0.5 else 1 - level - pit.survival
    assert (error.abs() <= 1e-9 * min(level, 1 - level)).all()


def test_quantiles_of_steps_and_plateaus_are_the_smallest_values() -> None:
    law = Mixture([Empirical([[0.0], [1.0]]), Empirical([[5.0], [8.0]])])
    levels = double([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0])
    expected = double([0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 8.0, 8.0])
    found = law.quantiles(levels)[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (law.cdf(found[:, None])[:, 0] >= levels - 1e-12).all()
    flat = RECALIBRATORS["isotonic"](floor=0).fit_pit([0.1, 0.2, 0.8])
    stepped = Mixture([flat.transform(Gaussian([0.0], 1.0))] * 2)
    torch.testing.assert_close(
        stepped.quantiles(levels), stepped.components[0].quantiles(levels)
    )


def test_levels_of_0_and_1_are_the_ends_of_the_support() -> None:
    bounded = Empirical(double([[1.0], [2.0]]))
    law = Mixture([bounded, Gaussian([0.0], 1.0)], double([[1.0], [0.0]]))
    assert law.quantiles([0.0, 1.0]).tolist() == [[1.0, 2.0]]
    both = Mixture([bounded, Gaussian([0.0], 1.0)])
    assert both.quantiles([0.0, 1.0]).tolist() == [[-math.inf, math.inf]]


def test_upper_tail_reaches_beyond_the_last_level() -> None:
    law = Mixture([Gaussian([0.0], 1.0), Laplace([0.0], 1.0)])
    far = law._upper_quantile(double(1e-40))
    torch.testing.assert_close(law.survival(far), double([1e-40]), rtol=1e-9, atol=0)
    torch.testing.assert_close(far, -law.quantile(1e-40))


@pytest.mark.parametrize("method", ["cdf", "survival", "log_prob", "crps"])
def test_gradients_match_finite_differences(method: str) -> None:
    location, scale = MEANS[:, :2], STDDEVS[:, :2]
    raw = WEIGHTS[:, :2].log()
    parameters = [each.clone().requires_grad_() for each in (location, scale, raw)]
    y = double([0.4, 0.9]).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda at, m, s, w: getattr(mixed(m, s, w.softmax(0)), method)(at),
        (y, *parameters),
        atol=1e-4 if method == "crps" else 1e-6,
    )


def test_quantile_mean_and_logs_carry_gradients() -> None:
    def answers(m: Tensor, s: Tensor, raw: Tensor, level: Tensor) -> tuple[Tensor, ...]:
        law = Mixture(normal(m, s), raw.softmax(0))
        pit = law.pit(Y[:2])
        return law.quantile(level), law.mean, pit.log_cdf, pit.log_survival

    raw = WEIGHTS[:, :2].log()
    given_ = [p.clone().requires_grad_() for p in (MEANS[:, :2], STDDEVS[:, :2], raw)]
    level = double([[0.1, 0.5], [0.3, 0.999]]).requires_grad_()
    assert torch.autograd.gradcheck(answers, (*given_, level))


def test_zero_weights_leave_finite_gradients() -> None:
    weights = WEIGHTS.clone().requires_grad_()
    law = mixed(weights=weights)
    total = law.log_prob(Y) + law.pit(Y).log_cdf + law.crps(Y) + law.mean
    total.sum().backward()
    assert weights.grad.isfinite().all()


def test_samples_among_the_components_have_no_density() -> None:
    samples = torch.randn(4, 3).requires_grad_()
    law = Mixture([Empirical(samples), Gaussian(MEANS[0], 1.0)])
    law.mean.sum().backward()
    assert samples.grad.isfinite().all()
    assert not law.quantile(0.3).requires_grad
    with pytest.raises(UnsupportedError, match="samples have none"):
        law.log_prob(Y)


def test_samples_follow_the_law(generator: torch.Generator) -> None:
    law, n = mixed(), 20_000
    drawn = law.sample((n,), generator=generator)
    assert drawn.shape == (n, 3)
    assert not drawn.requires_grad
    for level in (0.05, 0.5, 0.9):
        share = (drawn <= law.quantile(level)).double().mean(0)
        assert ((share - level).abs() < 5 * (level * (1 - level) / n) ** 0.5).all()
    generator.manual_seed(0)
    assert torch.equal(drawn, law.sample((n,), generator=generator))
    first = Mixture([Gaussian([0.0], 1.0), Gaussian([100.0], 1.0)], [0.0, 1.0])
    assert (first.sample((1000,), generator=generator) > 50).all()


@pytest.mark.parametrize("rows", [slice(1, 3), torch.tensor([2, 0])])
def test_selects_rows(rows: Any) -> None:
    law = recalibrated("isotonic")
    part = law[rows]
    assert type(part) is Mixture
    assert part.batch_shape == (2,)
    assert all(isinstance(each, Recalibrated) for each in part.components)
    torch.testing.assert_close(part.weights, law.weights[:, rows])
    torch.testing.assert_close(part.quantile(0.3), law.quantile(0.3)[rows])
    torch.testing.assert_close(part.crps(Y[rows]), law.crps(Y)[rows])


def test_matrix_batches_and_single_laws() -> None:
    grid = Mixture([Gaussian(MEANS, 1.0), Laplace(MEANS + 1, 2.0)], [0.3, 0.7])
    row = Mixture([Gaussian(MEANS[1], 1.0), Laplace(MEANS[1] + 1, 2.0)], [0.3, 0.7])
    for name in ("cdf", "survival", "log_prob", "crps"):
        found = getattr(grid, name)(Y)
        assert found.shape == (3, 3)
        torch.testing.assert_close(found[1], getattr(row, name)(Y))
    assert grid.quantile(0.3).shape == grid.mean.shape == (3, 3)
    assert grid.sample((4,)).shape == (4, 3, 3)
    single = Mixture([Gaussian(0.0, 1.0), Gaussian(1.0, 1.0)])
    assert single.crps(0.2).shape == single.quantile(0.2).shape == ()
    assert single.quantile([0.1, 0.2]).shape == (2,)
    empty = Mixture([Gaussian(torch.empty(0), 1.0)])
    assert empty.crps(torch.empty(0)).shape == empty.quantile(0.2).shape == (0,)


def test_mixtures_of_mixtures_are_mixtures() -> None:
    parts = normal()
    nested = Mixture([Mixture(parts[:2], [0.25, 0.75]), parts[2]], [0.8, 0.2])
    flat = Mixture(parts, [0.2, 0.6, 0.2])
    for name in ("cdf", "log_prob", "crps"):
        torch.testing.assert_close(getattr(nested, name)(Y), getattr(flat, name)(Y))
    torch.testing.assert_close(nested.quantile(0.9), flat.quantile(0.9))
    torch.testing.assert_close(nested.variance, flat.variance)


def test_dtypes_are_promoted_and_float32_stays() -> None:
    narrow = [
        Gaussian(m.float(), s.float()) for m, s in zip(MEANS, STDDEVS, strict=True)
    ]
    law = Mixture(narrow)
    y = Y.float()
    answers = [law.mean, law.variance, law.cdf(y), law.crps(y), law.quantile(0.3)]
    assert all(answer.dtype == torch.float32 for answer in answers)
    assert law.sample().dtype == torch.float32
    exact = GaussianMixture(MEANS, STDDEVS)
    torch.testing.assert_close(law.quantile(0.3), exact.quantile(0.3).float())
    torch.testing.assert_close(law.crps(y), exact.crps(Y).float())
    assert Mixture([narrow[0], normal()[1]]).dtype == torch.float64


def test_a_diverged_row_does_not_hide_the_others() -> None:
    law = Mixture([Gaussian([math.nan, 0.0], 1.0), Gaussian([0.0, 0.0], 1.0)])
    found = law.quantile(0.5)
    assert found.isnan().tolist() == [True, False]
    assert law.cdf(double([0.0, 0.0])).isnan().tolist() == [True, False]


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="at least one distribution"):
        Mixture([])
    with pytest.raises(InputError, match=r"one batch shape, got \[\(3,\), \(2,\)\]"):
        Mixture([Gaussian(MEANS[0], 1.0), Gaussian([0.0, 1.0], 1.0)])
    with pytest.raises(InputError, match=r"pool\(distribution\)"):
        Mixture(Gaussian(MEANS[0], 1.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"got \['Normal'\].*as_distribution"):
        Mixture([normal()[0], torch.distributions.Normal(Y, 1.0)])  # type: ignore[list-item]
    with pytest.raises(InputError, match="sum to 1"):
        Mixture(normal(), [0.5, 0.5, 0.5])
    with pytest.raises(InputError, match="at least 0"):
        Mixture(normal(), [1.5, -0.5, 0.0])
    with pytest.raises(InputError, match=r"weights must have shape \(3,\)"):
        Mixture(normal(), [0.5, 0.5])


def test_the_rounding_of_weights_does_not_exceed_1() -> None:
    weights = [100 / 480, *[95 / 480] * 4]
    law = Mixture([Gaussian([0.0], 1.0) for _ in weights], weights)
    for end, name in ((50.0, "cdf"), (-50.0, "survival")):
        value = torch.tensor([end])
        assert float(getattr(law, name)(value)) == 1.0
        assert float(getattr(law.pit(value), name)) == 1.0
