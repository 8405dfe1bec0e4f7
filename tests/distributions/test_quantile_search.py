"""Searched quantiles against bisection, and the plain tails that the search uses."""

from functools import partial
from typing import Any

import pytest
import torch
from calibrant.distributions._outline import Tails, without_copies
from torch import Tensor

from calibrant import Empirical, Gaussian, GaussianMixture, Mixture, StudentT
from calibrant.distributions import Censored, Transformed, Truncated, _quantile_search
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import Affine
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.beta import BetaMap
from calibrant.transforms import TRANSFORMS

double = partial(torch.tensor, dtype=torch.float64)
GENERATOR = torch.Generator().manual_seed(0)
MEANS, NOISE = torch.randn(2, 4, 30, generator=GENERATOR, dtype=torch.float64)
PIT = torch.rand(80, generator=GENERATOR, dtype=torch.float64) ** 1.4
LEVELS = double([1e-200, 1e-30, 1e-4, 0.05, 0.5, 0.8, 0.999, 1 - 1e-12])


def members(width: float = 0.3) -> GaussianMixture:
    weights = (width * NOISE).softmax(0)
    return GaussianMixture(MEANS, (width * NOISE).exp(), weights)


def mapped(name: str, law: AbstractDistribution) -> Recalibrated:
    return Recalibrated(law, RECALIBRATORS[name]().fit_pit(PIT).unit_map)


LAWS: dict[str, AbstractDistribution] = {
    "members": members(),
    "of very different widths": members(3.0),
    "far apart": GaussianMixture(1e4 * MEANS, 0.01, [0.1, 0.25, 0.3, 0.35]),
    "float32": GaussianMixture(MEANS.float(), NOISE.float().exp()),
    "beta": mapped("beta", members()),
    "smooth": mapped("smooth", members()),
    "empirical": mapped("empirical", members()),
    "isotonic": mapped("isotonic", members()),
    "mixed families": Mixture([members(), StudentT(4.0, MEANS[0], 2.0)], [0.3, 0.7]),
    "three maps": Mixture([mapped("beta", members(k / 3)) for k in range(1, 4)]),
    "transformed": Transformed(members(), TRANSFORMS["log"]()),
    "truncated": Truncated(members(), -1.0, 2.0),
    "censored": Censored(members(), low=-0.5, high=1.0),
    "affine": Affine(members(), MEANS[0], NOISE[0].exp()),
}


@pytest.mark.parametrize("name", LAWS)
def test_tails_are_those_of_the_law_itself(name: str) -> None:
    law = LAWS[name]
    # Below 1e-300 a map knows more from logarithms than from numbers.
    close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-150)
    for distance in (-40.0, -6.0, -0.3, 0.0, 0.9, 8.0):
        y = MEANS[0] + distance * NOISE[0].exp()
        tails, pit = law._tails(y, density=True), law.pit(y)
        close(tails.cdf, pit.cdf.double())
        close(tails.survival, pit.survival.double())
        assert tails.density is not None
        inside = (y > -0.5) & (y < 1.0) if name == "censored" else y.isfinite()
        expected = law.log_prob(y).double().exp()[inside]
        single = law.dtype == torch.float32  # the logarithm of its spread is rounded
        close(tails.density[inside], expected, rtol=1e-6 if single else 1e-10)
        assert law._tails(y).density is None


def test_a_heavy_member_far_from_the_mean_keeps_both_tails() -> None:
    # The mean is 1000, far in the upper tail of nearly all of the law.
    law = GaussianMixture(double([[0.0], [1e9]]), 1.0, double([1 - 1e-6, 1e-6]))
    tails = law._tails(double([500.0]))
    torch.testing.assert_close(tails.survival, double([1e-6]), rtol=1e-13, atol=0)
    tails = law._tails(double([-9.0]))
    torch.testing.assert_close(tails.cdf, law.cdf([-9.0]), rtol=1e-13, atol=0)


def test_a_moved_law_is_searched_between_moved_values() -> None:
    moved = LAWS["affine"]
    law, level = Mixture([moved, moved]), 0.3
    torch.testing.assert_close(law.quantile(level), moved.quantile(level))
    other = Recalibrated(moved, BetaMap(1.0, 1.0, 0.0))
    torch.testing.assert_close(other.mean, moved.mean, rtol=0, atol=1e-6)


def test_a_mixture_with_samples_has_no_density() -> None:
    law = Mixture([Gaussian([0.0], 1.0), Empirical(double([[0.0], [1.0]]))])
    assert law._tails(double([0.5]), density=True).density is None


def bisected(law: AbstractDistribution, level: float) -> Tensor:
    """Halve a bracket 72 times, by the logarithm of the tail that is not rounded."""
    low, high = (torch.full(law.batch_shape, end).double() for end in (-1e6, 1e6))
    tail = double(min(level, 1 - level)).log()
    for _ in range(72):
        middle = (low + high) / 2
        pit = law.pit(middle)
        below = pit.log_cdf < tail if level < 0.5 else pit.log_survival > tail
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high


@pytest.mark.parametrize("name", ["isotonic", "three maps", "far apart"])
def test_quantiles_are_those_of_bisection(name: str) -> None:
    law = LAWS[name][:8]
    # A map over a mixture does not follow tails of 2e-38 and less.
    levels = LEVELS[1::2] if isinstance(law, Recalibrated) else LEVELS[::2]
    found = law.quantiles(levels)
    for number, level in enumerate(levels.tolist()):
        expected = bisected(law, level)
        torch.testing.assert_close(found[:, number], expected, rtol=1e-10, atol=1e-10)


def test_tails_below_all_floats_are_searched_by_their_logarithms() -> None:
    # R goes like u^0.2: a level of 1e-80 is 1e-400 of the law before the map.
    flat = Recalibrated(members(), BetaMap(0.2, 0.2, 0.0))
    law = Mixture([flat, flat])
    found = law.quantile(1e-80)
    torch.testing.assert_close(found, flat.quantile(1e-80), rtol=1e-3, atol=0)
    deep = members().quantile(1e-307)
    expected = double(1e-307).log().expand(30)
    torch.testing.assert_close(members().pit(deep).log_cdf, expected)


def test_jumps_are_left_to_the_slow_search() -> None:
    law = Mixture([Censored(members(), low=0.0), members()])
    at_zero = members().cdf(torch.zeros(30))
    # The cdf of the mixture jumps there from a half of this to all of it.
    assert law.quantile(0.75 * at_zero).abs().max() < 1e-9
    below = law.quantile(members().cdf(-torch.ones(30)) / 2)
    torch.testing.assert_close(below, -torch.ones(30), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("entries", [60, 777])
def test_blocks_change_nothing(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    law, levels = LAWS["three maps"], LEVELS[1:]
    rows = torch.linspace(0.1, 0.9, 30).double()
    expected = law.quantiles(levels), law.quantile(rows)
    monkeypatch.setattr(_quantile_search, "_ENTRIES", entries)
    found = law.quantiles(levels), law.quantile(rows)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def test_hard_rows_do_not_cost_the_easy_ones_their_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, tails = [], GaussianMixture._tails

    def counted(law: GaussianMixture, value: Tensor, **options: Any) -> Tails:
        sizes.append(value.numel())
        return tails(law, value, **options)

    means = torch.zeros(2, 1000)
    means[1, :3] = 1e5
    law = GaussianMixture(means, 1.0)
    monkeypatch.setattr(GaussianMixture, "_tails", counted)
    found = law.quantiles([0.1, 0.7])
    assert len(sizes) > 5
    assert sum(sizes) < 2 * 2000
    expected = Gaussian([0.0, 1e5], 1.0).quantile(double([0.2, 0.4]))
    torch.testing.assert_close(found[0], expected, rtol=1e-12, atol=1e-12)


def test_matrices_of_laws_and_single_laws() -> None:
    grid = GaussianMixture(MEANS.view(4, 5, 6), NOISE.exp().view(4, 5, 6))
    line = GaussianMixture(MEANS, NOISE.exp())
    found = grid.quantiles([0.1, 0.99])
    torch.testing.assert_close(found.view(30, 2), line.quantiles([0.1, 0.99]))
    per_column = double([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    expected = line.quantile(per_column.expand(5, 6).reshape(30)).view(5, 6)
    torch.testing.assert_close(grid.quantile(per_column), expected)
    deep = Mixture([Censored(grid, low=0.0)] * 2).quantile(0.3)
    expected = grid.quantile(0.3).clamp_min(0)
    torch.testing.assert_close(deep, expected, atol=1e-9, rtol=1e-9)
    single = GaussianMixture(MEANS[:, 0], NOISE[:, 0].exp())
    torch.testing.assert_close(single.quantile(0.3), line.quantile(0.3)[0])


def test_levels_that_repeat_are_seen_once() -> None:
    levels = double([0.1, 0.2])[:, None]
    assert without_copies(levels.expand(2, 7)).shape == (2, 1)
    assert without_copies(double(0.5).expand(3, 4)).shape == (1, 1)
    assert without_copies(double([[0.1, 0.2]])).shape == (1, 2)


def test_gradients_of_quantiles_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quantile_search, "_ENTRIES", 4)
    beta = RECALIBRATORS["beta"]().fit_pit(PIT)

    def ask(means: Tensor, level: Tensor) -> Tensor:
        law = beta.transform(GaussianMixture(means, 0.7))
        return Mixture([law, Gaussian(means[0], 1.0)]).quantile(level)

    means = MEANS[:, :3].clone().requires_grad_()
    level = double([[0.1, 0.5, 0.9], [0.01, 0.6, 0.7]]).requires_grad_()
    assert torch.autograd.gradcheck(ask, (means, level))
