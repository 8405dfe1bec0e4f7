"""Quick moments and scores against many panels and against exact quantiles."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from calibrant.distributions._level_integrals import LevelIntegrals, quantiles_at
from calibrant.distributions._level_rule import LevelRule, panel_edges
from calibrant.distributions._outline import Tails
from calibrant.distributions._panels import Rule
from calibrant.distributions._tabulated_quantiles import TabulatedQuantiles
from calibrant.distributions._through_map import moments_through_map
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from calibrant import GaussianMixture, Mixture
from calibrant.distributions import Censored, Transformed, _value_integrals
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration import RECALIBRATORS
from calibrant.transforms import TRANSFORMS

GENERATOR = torch.Generator().manual_seed(0)
MEANS, NOISE = torch.randn(2, 5, 40, generator=GENERATOR, dtype=torch.float64)
PIT = torch.rand(120, generator=GENERATOR, dtype=torch.float64) ** 1.4
MAPS = ["beta", "smooth", "empirical", "isotonic"]
FINE = Rule(600, 4, places=200, follow=True)


def alike() -> GaussianMixture:
    return GaussianMixture(0.3 * MEANS, (0.2 * NOISE).exp())


def unlike() -> GaussianMixture:
    return GaussianMixture(2 * MEANS, NOISE.exp())


def mapped(name: str, law: AbstractDistribution) -> Recalibrated:
    return Recalibrated(law, RECALIBRATORS[name]().fit_pit(PIT).unit_map)


def by_exact_quantiles(law: Recalibrated) -> tuple[Tensor, Tensor]:
    """Mean and variance over levels, each quantile by its own search."""
    rule = LevelRule(law.unit_map, panel_edges(), degree=8)
    center = law.base.quantile(0.5)
    integrals = LevelIntegrals(
        rule, lambda pit: quantiles_at(law.base, pit), law.batch_shape, center.device
    )
    first, second = integrals.around(center)
    return center + first, second - first.square()


@pytest.mark.parametrize("name", MAPS)
def test_moments_through_a_map_are_those_over_its_levels(name: str) -> None:
    law = mapped(name, alike())
    mean, variance = by_exact_quantiles(law)
    assert ((law.mean - mean) / law.stddev).abs().max() < 1e-5
    assert (law.variance / variance - 1).abs().max() < 3e-5


@pytest.mark.parametrize("name", MAPS)
def test_moments_of_unlike_members_are_those_on_fine_panels(name: str) -> None:
    law = mapped(name, unlike())
    (mean, variance), _ = _value_integrals._moments(law, MEANS[0], FINE, learned=False)
    error = 2e-3 if name in ("empirical", "isotonic") else 1e-5
    assert ((law.mean - mean) / law.stddev).abs().max() < error
    assert (law.variance / variance - 1).abs().max() < 3 * error


@pytest.mark.parametrize("name", MAPS)
def test_scores_are_those_on_fine_panels(name: str) -> None:
    parts = [mapped(name, alike()), mapped(name, unlike())]
    y = MEANS[0] + NOISE[0]
    kinked = name in ("empirical", "isotonic")
    for law in (parts[0], parts[1], Mixture(parts)):
        expected, _ = _value_integrals._crps(law, y, FINE, learned=False)
        error = ((law.crps(y) - expected[0]) / law.stddev).abs().max()
        assert error < (1e-3 if kinked else 1e-5)


def test_only_rough_rows_get_many_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    means, spreads = MEANS.clone(), (0.2 * NOISE).exp()
    means[0, 3], spreads[0, 3] = 50.0, 0.01
    asked, integrate = [], _value_integrals._moments

    def counted(law: Any, y: Tensor, rule: Rule, *, learned: bool) -> Any:
        asked.append((law.batch_shape.numel(), rule.panels))
        return integrate(law, y, rule, learned=learned)

    monkeypatch.setattr(_value_integrals, "_moments", counted)
    law = GaussianMixture(0.3 * means, spreads)
    mean, variance = _value_integrals.moments_by_values(law)
    assert asked == [(40, 4), (1, 64)]
    torch.testing.assert_close(mean, law.mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(variance, law.variance, rtol=1e-4, atol=0)
    single = GaussianMixture(0.3 * means[:, 3], spreads[:, 3])
    mean, variance = _value_integrals.moments_by_values(single)
    torch.testing.assert_close(mean, single.mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(variance, single.variance, rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", ["beta", "empirical"])
def test_blocks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.stack([MEANS[0], NOISE[0]])

    def answers() -> Iterator[Tensor]:
        law = mapped(name, unlike())
        yield from (law.mean, law.variance, law.crps(y), Mixture([law, law]).crps(y))

    expected = list(answers())
    monkeypatch.setattr(_value_integrals, "_ENTRIES", 1000)
    torch.testing.assert_close(list(answers()), expected, rtol=1e-9, atol=1e-12)


def test_the_table_is_exact_for_one_normal_law_and_doubts_a_gap() -> None:
    law = GaussianMixture(MEANS[:1], NOISE[:1].exp())
    table = TabulatedQuantiles(law)
    for level in (1e-30, 0.01, 0.3, 0.5, 0.9):
        pit = law.pit(law.quantile(level))
        torch.testing.assert_close(table.at(pit), law.quantile(level))
    assert table.doubt().max() < 1e-10
    gap = GaussianMixture(torch.tensor([[0.0, 0.0], [0.0, 7.0], [0.0, 9.0]]), 1.0)
    assert (TabulatedQuantiles(gap).doubt() > 1e-3).tolist() == [False, True]


def test_a_table_without_densities_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    tails = GaussianMixture._tails

    def without(law: GaussianMixture, value: Tensor, **_: Any) -> Tails:
        return tails(law, value)

    law, fresh = (mapped("empirical", alike()) for _ in range(2))
    expected = law.mean
    monkeypatch.setattr(GaussianMixture, "_tails", without)
    assert moments_through_map(fresh, fresh.unit_map)[1].all()
    assert ((fresh.mean - expected) / law.stddev).abs().max() < 2e-3


def test_atoms_and_other_units_are_integrated_as_before() -> None:
    law = mapped("empirical", Censored(alike(), low=0.0))
    other = Transformed(mapped("beta", alike()), TRANSFORMS["log"]())
    levels = (torch.arange(2000, dtype=torch.float64)[:, None] + 0.5) / 2000
    for each, error in ((law, 1e-3), (other, 5e-3)):
        sample = each.quantile(levels.expand(-1, 40))
        assert ((each.mean - sample.mean(0)) / sample.std(0)).abs().max() < error
        assert each.variance is not None


def test_what_is_kept_without_a_graph_is_not_given_to_who_wants_one() -> None:
    means = MEANS[:, :3].clone().requires_grad_()
    base = GaussianMixture(means, 1.0)
    for law in (mapped("beta", base), Censored(base, low=0.0)):
        with torch.no_grad():
            before = law.mean
        assert not before.requires_grad
        (slope,) = torch.autograd.grad(law.mean.sum(), means)
        assert (slope.sum(0) > 0.1).all()
        torch.testing.assert_close(law.mean.detach(), before, rtol=0, atol=1e-4)


class _Largest(TorchDispatchMode):
    """Remember the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(part, Tensor):
                self.elements = max(self.elements, part.untyped_storage().nbytes() // 8)
        return result


@pytest.mark.parametrize("name", ["beta", "isotonic"])
def test_memory_does_not_grow_with_rows_times_panels(name: str) -> None:
    rows = 3000
    means, spreads = MEANS[:, :1], (0.2 * NOISE[:, :1]).exp()
    base = GaussianMixture(means.repeat(1, rows), spreads.repeat(1, rows))
    law = Mixture([mapped(name, base), base])
    with _Largest() as largest:
        _ = law.mean, law.variance
        law.quantiles([0.1, 0.5, 0.9])
        law[:300].crps(torch.zeros(300))
    assert largest.elements <= 2 * _value_integrals._ENTRIES
