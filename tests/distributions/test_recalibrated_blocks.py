"""Recalibrated laws block by block, against all rows and both tails at once."""

from typing import Any

import pytest
import torch
from calibrant.distributions._tail_map import with_logs
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions._upper_rows import SMALLEST, quantiles_by_tails
from torch import Tensor

from calibrant import Gaussian, GaussianMixture, Laplace, StudentT
from calibrant._checks import pit_from_cdf
from calibrant.distributions import _row_blocks
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration import RECALIBRATORS

MAPS = ["isotonic", "empirical", "smooth", "beta"]
ROWS = 300
MEAN = torch.linspace(-2, 2, ROWS, dtype=torch.float64)
SCALE = torch.linspace(0.5, 2, ROWS, dtype=torch.float64)
BASES: dict[str, AbstractDistribution] = {
    "gaussian": Gaussian(MEAN, SCALE),
    "laplace": Laplace(MEAN, SCALE),
    "student_t": StudentT(5.0, MEAN, SCALE),
    "mixture": GaussianMixture(torch.stack([MEAN, MEAN + 1]), 0.7),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_row_blocks, "_BLOCK", 128)


def learned(name: str, factor: float = 0.4) -> Any:
    """Give the recalibrator of a model whose spread is too small by a factor."""
    generator = torch.Generator().manual_seed(5)
    y = torch.randn(400, generator=generator, dtype=torch.float64)
    law = Gaussian(torch.zeros(400, dtype=torch.float64), factor)
    return RECALIBRATORS[name]().fit(law, y)


def values_far_and_near(generator: torch.Generator) -> Tensor:
    """Targets up to 30 standard deviations away."""
    z = torch.randn(ROWS, generator=generator)
    return MEAN + SCALE * torch.where(torch.arange(ROWS) % 7 > 0, z, 10 * z)


def mapped_at_once(law: Recalibrated, value: Tensor) -> Tensor:
    """Give the cdf from both tails of the base and their logarithms."""
    pit = with_logs(law.base.cdf(value), law.base.survival(value))
    return law.unit_map.forward(pit).cdf


def quantiles_at_once(law: Recalibrated, level: Tensor) -> Tensor:
    """Give the quantiles from both tails of the mapped levels."""
    inner = law.unit_map.inverse(pit_from_cdf(level))
    return plain_quantiles(law.base, inner.cdf, inner.survival, SMALLEST)


def plain_quantiles(
    law: AbstractDistribution, cdf: Tensor, survival: Tensor, smallest: float
) -> Tensor:
    """Ask every row for the quantile from either tail."""
    cdf, survival = cdf.clamp_min(smallest), survival.clamp_min(smallest)
    above = survival < 1e-3
    lower = law.quantile(torch.where(above, 0.5, cdf))
    upper = upper_quantile(law, torch.where(above, survival, 0.5))
    return torch.where(above, upper, lower)


@pytest.mark.parametrize("smallest", [1e-38, 1e-300])
@pytest.mark.parametrize("far", [0, 1, ROWS // 2, ROWS])
@pytest.mark.parametrize("base", BASES)
def test_quantiles_by_tails_are_those_from_either_tail(
    base: str, far: int, smallest: float, generator: torch.Generator
) -> None:
    survival = 0.01 + 0.98 * torch.rand(2, ROWS, generator=generator)
    survival[:, :far] = torch.logspace(-320, -4, ROWS)[:far]
    cdf = 1 - survival
    found = quantiles_by_tails(BASES[base], cdf, survival, smallest=smallest)
    expected = plain_quantiles(BASES[base], cdf, survival, smallest)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", MAPS)
def test_cdf_and_quantile_are_those_of_all_rows_at_once(
    name: str, base: str, generator: torch.Generator
) -> None:
    law = learned(name).transform(BASES[base])
    y = values_far_and_near(generator)
    torch.testing.assert_close(law.cdf(y), mapped_at_once(law, y), rtol=1e-9, atol=0)
    level = torch.rand(ROWS, generator=generator)
    level[:3] = torch.tensor([1e-12, 1 - 1e-12, 1 - 1e-4])
    expected = quantiles_at_once(law, level)
    torch.testing.assert_close(law.quantile(level), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (ROWS,), (5, ROWS), (2, 3, ROWS)], ids=str)
@pytest.mark.parametrize("rows", [ROWS, 40])
def test_blocks_keep_the_shape(
    rows: int, shape: tuple[int, ...], generator: torch.Generator
) -> None:
    law = learned("isotonic").transform(Gaussian(MEAN, SCALE))[:rows]
    asked = (*shape[:-1], rows) if shape else shape
    level = torch.rand(asked, generator=generator)
    value = 3 * level - 1
    assert law.cdf(value).shape == (asked or (rows,))
    torch.testing.assert_close(
        law.cdf(value), mapped_at_once(law, value), rtol=1e-12, atol=0
    )
    expected = quantiles_at_once(law, level.expand(asked or (rows,)))
    torch.testing.assert_close(law.quantile(level), expected, rtol=1e-12, atol=1e-12)


def test_levels_of_zero_and_one_reach_the_ends_in_their_block_only() -> None:
    law = learned("empirical").transform(Gaussian(MEAN, SCALE))
    level = torch.full((ROWS,), 0.3)
    level[0], level[-1] = 0, 1
    found = law.quantile(level)
    assert found[[0, -1]].tolist() == [-torch.inf, torch.inf]
    torch.testing.assert_close(found[1:-1], law.quantile(0.3)[1:-1])


@pytest.mark.parametrize("name", MAPS)
def test_far_tails_keep_their_digits(name: str) -> None:
    recalibrator = learned(name, factor=0.05)
    law = recalibrator.transform(Gaussian(MEAN, SCALE))
    low = law.cdf(MEAN - 36 * SCALE)
    pit = law.base.pit(MEAN - 36 * SCALE)
    torch.testing.assert_close(
        low, recalibrator.unit_map.forward(pit).cdf, rtol=1e-9, atol=0
    )
    # Most of the held-out rows lie where the cdf of the base is 1.
    steps = torch.linspace(8, 30, ROWS)
    upper = law.cdf(MEAN + steps * SCALE)
    exact = recalibrator.unit_map.forward(law.base.pit(MEAN + steps * SCALE)).cdf
    torch.testing.assert_close(upper, exact, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", MAPS)
def test_gradients_are_those_without_blocks(
    name: str, generator: torch.Generator
) -> None:
    y = values_far_and_near(generator)
    level = 0.01 + 0.98 * torch.rand(ROWS, generator=generator)

    def gradients(cdf: Any, quantile: Any) -> list[Tensor]:
        parameters = [MEAN.clone().requires_grad_(), SCALE.clone().requires_grad_()]
        law = learned(name).transform(Gaussian(*parameters))
        total = cdf(law, y).sum() + quantile(law, level).sum()
        return list(torch.autograd.grad(total, parameters))

    here = gradients(Recalibrated.cdf, Recalibrated.quantile)
    there = gradients(mapped_at_once, quantiles_at_once)
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_row_that_is_not_a_number_stays_so() -> None:
    mean = MEAN.clone()
    mean[7] = torch.nan
    law = learned("isotonic").transform(Gaussian(mean, SCALE))
    y = MEAN.expand(20, ROWS)
    assert law.cdf(y).isnan().any(0).nonzero().flatten().tolist() == [7]
