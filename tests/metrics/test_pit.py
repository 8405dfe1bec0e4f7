"""Randomized PIT values and the detection of rounded and capped targets."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from calibrant.distributions.empirical import Empirical
from calibrant.distributions.normal import Gaussian
from calibrant.metrics.pit import (
    GriddedTargetWarning,
    TargetGrid,
    detect_grid,
    material_grid,
    pit_values,
)
from calibrant.validation import InputError


def perfect(
    n: int, grid: TargetGrid | None, seed: int = 0
) -> tuple[Gaussian, torch.Tensor]:
    """A model that predicts the true law, and targets as they are recorded."""
    generator = torch.Generator().manual_seed(seed)
    mean = 5.5 + 0.1 * torch.randn(n, generator=generator)
    law = Gaussian(mean, 0.8)
    y = law.sample(generator=generator)
    return law, y if grid is None else grid.round(y)


GRIDS = {
    "rounded": TargetGrid(step=1),
    "half steps": TargetGrid(step=0.5, offset=0.25),
    "capped above": TargetGrid(upper_cap=6.0),
    "capped below": TargetGrid(lower_cap=5.0),
    "rounded and capped": TargetGrid(step=0.5, lower_cap=5.0, upper_cap=6.0),
}


@pytest.fixture(params=GRIDS.values(), ids=GRIDS.keys())
def grid(request: pytest.FixtureRequest) -> TargetGrid:
    return request.param


def test_plain_values_of_a_perfect_model_are_not_uniform(grid: TargetGrid) -> None:
    law, y = perfect(3000, grid)
    assert kstest(pit_values(law, y, randomized=False), "uniform").pvalue < 1e-6


def test_randomized_values_of_a_perfect_model_are_uniform(grid: TargetGrid) -> None:
    """A test of uniformity rejects them at its stated rate."""
    models = 300
    rejected = 0
    for seed in range(models):
        law, y = perfect(300, grid, seed=seed)
        rejected += kstest(pit_values(law, y, grid=grid), "uniform").pvalue < 0.05
    low, high = binom.interval(0.999, models, 0.05)
    assert low <= rejected <= high


def test_warns_and_randomizes_where_it_finds_integers() -> None:
    law, y = perfect(500, TargetGrid(step=1))
    with pytest.warns(GriddedTargetWarning, match=r"steps of 1 .* randomized=False"):
        found = pit_values(law, y)
    torch.testing.assert_close(found, pit_values(law, y, grid=TargetGrid(step=1)))


def test_warns_of_a_cap_and_leaves_other_rows_alone() -> None:
    law, y = perfect(500, TargetGrid(upper_cap=6.0))
    with pytest.warns(GriddedTargetWarning, match="piled up at its maximum 6"):
        found = pit_values(law, y)
    below = y < 6
    torch.testing.assert_close(found[below], law.cdf(y)[below])
    assert (found[~below] >= law.cdf(y)[~below]).all()


def test_leaves_a_continuous_target_alone() -> None:
    law, y = perfect(500, None)
    torch.testing.assert_close(pit_values(law, y), law.cdf(y))
    torch.testing.assert_close(pit_values(law, y, randomized=True), law.cdf(y))


def test_a_step_that_is_small_against_the_spread_does_not_matter() -> None:
    law, y = perfect(3000, TargetGrid(step=0.02))
    assert detect_grid(y) is not None
    assert material_grid(law, y) is None
    torch.testing.assert_close(pit_values(law, y), law.cdf(y))


def test_the_same_step_matters_with_very_many_rows() -> None:
    law, y = perfect(60_000, TargetGrid(step=0.02))
    with pytest.warns(GriddedTargetWarning, match=r"steps of 0\.02"):
        pit_values(law, y)


def test_keeps_the_cap_of_a_target_whose_step_does_not_matter() -> None:
    law, y = perfect(3000, TargetGrid(step=0.02, upper_cap=6.5))
    with pytest.warns(
        GriddedTargetWarning, match=r"y looks piled up at its maximum 6.5 "
    ):
        pit_values(law, y)


def test_randomized_true_takes_the_detected_grid_without_a_warning() -> None:
    law, y = perfect(3000, TargetGrid(step=0.02))
    pit = pit_values(law, y, randomized=True)
    assert not torch.equal(pit, law.cdf(y))
    assert ((pit - law.cdf(y)).abs() < 0.02).all()


def test_a_law_with_atoms_is_spread_over_them() -> None:
    law = Empirical(torch.tensor([1.0, 2.0, 2.0, 4.0])[:, None].expand(4, 200))
    pit = pit_values(law, torch.full((200,), 2.0), randomized=True)
    assert pit.min() > 0.25
    assert pit.max() < 0.75
    assert pit.std() > 0.1


@pytest.mark.parametrize("step", [None, 0.5], ids=["continuous", "rounded"])
@pytest.mark.parametrize("m", [10, 20, 50])
def test_ranks_of_a_perfect_sampler_are_uniform(m: int, step: float | None) -> None:
    models, grid = 200, None if step is None else TargetGrid(step=step)
    rejected = plain = 0
    for seed in range(models):
        generator = torch.Generator().manual_seed(seed)
        mean = torch.randn(400, generator=generator)
        law = Empirical(mean + torch.randn(m, 400, generator=generator))
        y = mean + torch.randn(400, generator=generator)
        y = y if grid is None else grid.round(y)
        rejected += kstest(pit_values(law, y, grid=grid), "uniform").pvalue < 0.05
        plain += kstest(law.cdf(y), "uniform").pvalue < 0.05
    low, high = binom.interval(0.999, models, 0.05)
    assert low <= rejected <= high
    assert m > 20 or plain > 0.3 * models


def test_a_rank_lies_between_those_of_the_neighbors_and_counts_ties() -> None:
    law = Empirical(torch.tensor([1.0, 2.0, 2.0, 4.0])[:, None].expand(4, 300))
    for y, low, high in ((0.0, 0, 1), (2.0, 1, 4), (3.0, 3, 4), (5.0, 4, 5)):
        pit = pit_values(law, torch.full((300,), y))
        assert low / 5 <= pit.min() < (low + 0.1) / 5
        assert (high - 0.1) / 5 < pit.max() <= high / 5
    assert pit_values(law, torch.full((300,), 2.0), randomized=False).unique() == 0.75


def test_takes_float32_targets_that_were_standardized() -> None:
    law, y = perfect(400, TargetGrid(step=1))
    scaled = ((y - 5.5) / 0.81).float()
    grid = detect_grid(scaled)
    assert grid is not None
    assert grid.step == pytest.approx(1 / 0.81, rel=1e-6)
    small = Gaussian((law.mean.float() - 5.5) / 0.81, (law.stddev.float()) / 0.81)
    pit = pit_values(small, scaled, grid=grid)
    assert pit.dtype == torch.float32
    torch.testing.assert_close(
        pit_values(law, y, randomized=False).float(),
        pit_values(small, scaled, randomized=False),
        atol=1e-5,
        rtol=0,
    )


def test_is_the_same_from_call_to_call_and_follows_the_generator() -> None:
    law, y = perfect(50, TargetGrid(step=1))
    grid = TargetGrid(step=1)
    first = pit_values(law, y, grid=grid)
    assert torch.equal(first, pit_values(law, y, grid=grid))
    other = torch.Generator().manual_seed(1)
    assert not torch.equal(first, pit_values(law, y, grid=grid, generator=other))


@given(
    st.floats(0.1, 3.0),
    st.floats(-2.0, 2.0),
    st.lists(st.floats(-5, 5), min_size=1, max_size=20),
)
def test_values_lie_in_the_cell_of_their_target(
    step: float, offset: float, outcomes: list[float]
) -> None:
    grid = TargetGrid(step=step, offset=offset)
    y = grid.round(torch.tensor(outcomes, dtype=torch.float64))
    law = Gaussian(torch.zeros(len(outcomes), dtype=torch.float64), 1.0)
    pit = pit_values(law, y, grid=grid)
    assert (pit >= law.cdf(y - step / 2)).all()
    assert (pit <= law.cdf(y + step / 2)).all()


INTEGERS = TargetGrid(step=1)
HALVES = perfect(20, TargetGrid(step=1, offset=0.5))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: pit_values(*HALVES, randomized="yes"), 'randomized must be "auto"'),
        (lambda: pit_values(*HALVES, randomized=False, grid=INTEGERS), "Drop one of"),
        (lambda: pit_values(*HALVES, grid=INTEGERS), "lie on the grid .* 20 of 20"),
        (
            lambda: pit_values(HALVES[0][:2], [5.0, 7.0], grid=TargetGrid(upper_cap=6)),
            "1 of 2 do not, the first is 7",
        ),
        (lambda: pit_values(HALVES[0], HALVES[1][:, None]), "batch shape"),
        (TargetGrid, "a step or a cap"),
        (lambda: TargetGrid(step=0), "step must be a finite number above 0"),
        (lambda: TargetGrid(lower_cap=2, upper_cap=1), "upper_cap, got 2 and 1"),
        (lambda: detect_grid(np.ones((2, 2))), r"shape \(n,\), got \(2, 2\)"),
    ],
)
def test_names_what_is_wrong(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


# What detect_grid finds in targets like those of the paper's data sets.

RNG = np.random.default_rng(0)
FOUND = {
    "scores of wines": (
        RNG.choice([3, 4, 5, 6, 7, 8], 320, p=[0.01, 0.03, 0.43, 0.4, 0.12, 0.01]),
        TargetGrid(step=1.0),
    ),
    "half points": (0.25 + 0.5 * RNG.integers(0, 9, 200), TargetGrid(0.5, 0.25)),
    "gaps in the grid": (RNG.choice([0, 4, 10], 60), TargetGrid(step=2.0)),
    "years": (
        2011 - RNG.gamma(1.5, 9.0, 50_000).astype(int).clip(0, 89),
        TargetGrid(step=1.0),
    ),
    "house prices, capped": (
        RNG.gamma(6, 3.5, 490).clip(max=49).round(1).tolist() + [50.0] * 16,
        TargetGrid(upper_cap=50.0),
    ),
    "rain": (RNG.exponential(3, 300).clip(1).round(3) - 1, TargetGrid(lower_cap=0.0)),
    "capped, many rows": (
        np.random.default_rng(1).permutation(np.minimum(np.arange(5000), 4900) / 7),
        TargetGrid(upper_cap=700),
    ),
    "small counts": (RNG.poisson(0.1, 2000), TargetGrid(1.0, 0.0, 0.0, None)),
}
CONTINUOUS = {
    "three decimals": RNG.normal(125, 7, 1503).round(3),
    "two decimals, many ties": RNG.exponential(10, 308).round(2),
    "three decimals, many rows": RNG.gamma(1.5, 5, 45_730).round(3),
    "a few rows at the end": np.r_[np.zeros(272), RNG.gamma(3, 3, 45_458).round(3)],
    "a few ties": np.r_[RNG.normal(size=900), [0.5, 0.5, 0.5, 1.5, 1.5]],
    "values with no common step": RNG.choice(RNG.random(20), 400),
    "finely rounded": np.arange(5000) // 9,
    "constant": np.ones(50),
    "one row": np.ones(1),
}


@pytest.mark.parametrize(("y", "grid"), FOUND.values(), ids=FOUND.keys())
def test_finds_the_grid(y: np.ndarray, grid: TargetGrid) -> None:
    found = detect_grid(np.asarray(y, dtype=float))
    assert found is not None
    assert (found.lower_cap, found.upper_cap) == (grid.lower_cap, grid.upper_cap)
    assert found.step == (None if grid.step is None else pytest.approx(grid.step))
    assert found.offset == pytest.approx(grid.offset)


@pytest.mark.parametrize("y", CONTINUOUS.values(), ids=CONTINUOUS.keys())
def test_does_not_invent_a_grid(y: np.ndarray) -> None:
    assert detect_grid(y) is None
