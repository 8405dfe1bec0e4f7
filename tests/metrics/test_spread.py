"""ENCE and UCE, and their noise floors."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from calibrant import Gaussian, InputError
from calibrant.contracts import Distribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.pit import TargetGrid, torch_generator
from calibrant.metrics.spread import (
    Binning,
    _normal_square,
    _relative_moments,
    _spread_bins,
    _values_of_bins,
    _values_of_rows,
    ence,
    spread_noise_floors,
    uce,
)

BINNINGS = pytest.mark.parametrize("binning", ["count", "width"])


def drawn(n: int, factor: float, generator: torch.Generator) -> tuple[Gaussian, object]:
    """Return laws whose spread is ``factor`` times the true one, and targets."""
    stddev = 0.5 + torch.rand(n, generator=generator)
    y = stddev * torch.randn(n, generator=generator)
    return Gaussian(torch.zeros(n), factor * stddev), y


def test_by_hand_in_two_bins_of_two() -> None:
    law = Gaussian(torch.zeros(4), [1.0, 1.0, 3.0, 3.0])
    y = [2.0, 2.0, 0.0, 18**0.5]
    # RMSE 2 against 1, and 3 against 3; MSE 4 against 1, and 9 against 9.
    assert ence(law, y, bins=2) == pytest.approx((1 + 0) / 2)
    assert uce(law, y, bins=2) == pytest.approx((3 + 0) / 2)


def test_widths_leave_bins_empty_that_counts_fill() -> None:
    law = Gaussian(torch.zeros(4), [1.0, 1.1, 1.2, 100.0])
    y = [1.0, 1.1, 0.0, 100.0]
    # By width the first three rows share a bin, and the other bins are empty.
    variance, error = (1 + 1.21 + 1.44) / 3, (1 + 1.21) / 3
    gap = abs(error**0.5 - variance**0.5) / variance**0.5
    assert ence(law, y, bins=4, binning="width") == pytest.approx(gap / 2)
    assert ence(law, y, bins=4, binning="count") == pytest.approx(1 / 4)


def test_equal_spreads_share_one_bin() -> None:
    law = Gaussian(torch.zeros(6), 2.0)
    y = torch.tensor([2.0, -2.0, 4.0, 0.0, 1.0, 3.0])
    rmse = float(y.square().mean().sqrt())
    for binning in ("count", "width"):
        assert ence(law, y, binning=binning) == pytest.approx(abs(rmse - 2) / 2)


@BINNINGS
def test_finds_the_factor_of_a_wrong_spread(
    binning: Binning, generator: torch.Generator
) -> None:
    right, y = drawn(50_000, 1.0, generator)
    assert ence(right, y, binning=binning) < 0.02
    narrow, y = drawn(50_000, 0.5, generator)
    assert ence(narrow, y, binning=binning) == pytest.approx(1.0, abs=0.05)


def test_calibrated_ence_is_about_what_the_docstring_says(
    generator: torch.Generator,
) -> None:
    values = [ence(*drawn(400, 1.0, generator)) for _ in range(300)]
    assert np.mean(values) == pytest.approx((10 / (np.pi * 400)) ** 0.5, rel=0.05)


def test_bad_options_are_refused() -> None:
    law = Gaussian([0.0], 1.0)
    with pytest.raises(InputError, match="bins must be at least 1, got 0"):
        ence(law, [0.0], bins=0)
    with pytest.raises(InputError, match="binning must be 'count' or 'width'"):
        uce(law, [0.0], binning="equal")  # type: ignore[arg-type]


def test_infinite_variance_is_refused() -> None:
    law = StudentT([2.0, 5.0], [0.0, 0.0], 1.0)
    with pytest.raises(InputError, match=r"not in 1 of 2 rows.*mean_width"):
        ence(law, [0.0, 0.0])


def test_spread_of_zero_is_refused_by_ence_alone() -> None:
    law = Empirical([[1.0, 2.0]])
    with pytest.raises(InputError, match="divides by the predicted spread"):
        ence(law, [1.0, 2.0])
    assert uce(law, [1.0, 3.0]) == pytest.approx(0.5)


N = 25_000


def laws() -> dict[str, Distribution]:
    spread = 0.5 + 1.5 * torch.rand(N)
    centers = torch.stack([torch.zeros(N), spread])
    return {
        "gaussian": Gaussian(torch.zeros(N), spread),
        "mixture": GaussianMixture(centers, torch.stack([spread, spread])),
        "constant": Gaussian(torch.zeros(N), 2.0),
    }


@pytest.mark.parametrize("name", ["gaussian", "mixture", "constant"])
def test_drawn_bins_have_the_law_of_drawn_rows(name: str) -> None:
    law = laws()[name]
    generator = torch.Generator().manual_seed(1)
    bins = _values_of_bins(law, 2000, generator)
    assert bins is not None
    rows = _values_of_rows(law, torch.zeros(N), None, 200, generator)
    for of_bins, of_rows in zip(bins.T, rows.T, strict=True):
        assert ks_2samp(of_bins, of_rows).pvalue > 0.01
        assert of_bins.mean() == pytest.approx(of_rows.mean(), rel=0.1)


def test_heavy_tails_are_drawn_row_by_row() -> None:
    heavy = StudentT(torch.full((N,), 3.0), torch.zeros(N), 1.0)
    generator = torch.Generator().manual_seed(1)
    assert _values_of_bins(heavy, 2000, generator) is None
    # Of the same law more rows are enough, if its moments are finite.
    few = Laplace(torch.zeros(N), 0.5 + torch.rand(N))
    assert _values_of_bins(few, 2000, generator) is None
    many = Laplace(torch.zeros(8 * N), 0.5 + torch.rand(8 * N))
    assert _values_of_bins(many, 2000, generator) is not None


def lognormal(sigma: float, seed: int) -> Gaussian:
    source = torch.Generator().manual_seed(seed)
    spread = torch.exp(sigma * torch.randn(N, generator=source))
    return Gaussian(torch.zeros(N), spread)


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_few_rows_with_most_variance_are_drawn_row_by_row(sigma: float) -> None:
    # Whatever the draws: what makes the last bin skewed is known.
    law = lognormal(sigma, 0)
    for seed in range(8):
        assert _values_of_bins(law, 50, torch.Generator().manual_seed(seed)) is None
    generator = torch_generator(0, law.mean.device)
    assert _values_of_bins(law, 50, generator) is None
    rows = _values_of_rows(law, torch.zeros(N), None, 40, generator)
    floor = spread_noise_floors(law, torch.zeros(N), draws=40)["uce"]
    assert floor.expectation == pytest.approx(rows[:, 1].mean())


@pytest.mark.parametrize("seed", range(4))
def test_bins_of_unequal_variances_have_the_law_of_drawn_rows(seed: int) -> None:
    law, generator = lognormal(0.3, seed), torch.Generator().manual_seed(50 + seed)
    bins = _values_of_bins(law, 2000, generator)
    assert bins is not None
    rows = _values_of_rows(law, torch.zeros(N), None, 100, generator)
    for of_bins, of_rows in zip(bins.T, rows.T, strict=True):
        assert ks_2samp(of_bins, of_rows).pvalue > 0.01
    # The spread of a bin is known here: the mean of 2 v^2.
    variance = law.variance
    parts = _spread_bins(variance, variance)
    moments = _relative_moments(law, variance, generator)
    square = _normal_square(parts, variance, *moments)
    assert square is not None
    exact = 2 * parts.average(variance.square())
    torch.testing.assert_close(square, exact, rtol=0.12, atol=0)


def test_shapes_that_change_within_a_bin_are_drawn_row_by_row() -> None:
    # Two points at +-1 have no excess at all; laws of twice the variance are normal.
    wide = torch.arange(N) % 2 == 0
    variance = torch.where(wide, 2.0, 1.0)
    one_bin = _spread_bins(torch.ones(N), variance)
    assert _normal_square(one_bin, variance, 2.0 * wide, 8.0 * wide) is None
    alike = 2 * torch.ones(N), 8 * torch.ones(N)
    square = _normal_square(one_bin, variance, *alike)
    torch.testing.assert_close(square, torch.tensor([5.0]))


def test_which_way_is_taken() -> None:
    law, y = Gaussian(torch.zeros(N), 1.0), torch.zeros(N)
    few = spread_noise_floors(law[:20_000], y[:20_000], draws=40)
    many = spread_noise_floors(law, y, draws=40)
    rounded = spread_noise_floors(law, y, draws=40, grid=TargetGrid(step=1))
    samples = spread_noise_floors(Empirical(torch.randn(5, N)), y, draws=40)
    methods = [each["ence"].method for each in (few, many, rounded, samples)]
    assert methods == [f"{k} simulated models" for k in (40, 2000, 40, 40)]


def test_one_seed_one_floor() -> None:
    law, y = Gaussian(torch.zeros(N), 1.0), torch.zeros(N)
    floors = [spread_noise_floors(law, y, seed=seed)["uce"] for seed in (3, 3, 4)]
    assert floors[0] == floors[1] != floors[2]
    # Close to the mean distance of a normal number from 0, for bins of all rows.
    assert floors[0].expectation == pytest.approx((4 / (np.pi * N)) ** 0.5, rel=0.06)
