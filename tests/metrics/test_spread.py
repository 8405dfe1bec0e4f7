"""ENCE and UCE, and their noise floors."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.floors import predictive_noise_floor
from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.spread import (
    Binning,
    _spread_bins,
    ence,
    spread_noise_floors,
    uce,
)
from calibrant.protocols import Distribution

N = 25_000


def drawn(n: int, factor: float, generator: torch.Generator) -> tuple[Gaussian, object]:
    """Return predictions whose spread is ``factor`` times the true one, and targets."""
    stddev = 0.5 + torch.rand(n, generator=generator)
    y = stddev * torch.randn(n, generator=generator)
    return Gaussian(torch.zeros(n), factor * stddev), y


def test_by_hand_in_two_bins_of_two() -> None:
    predictive = Gaussian(torch.zeros(4), [1.0, 1.0, 3.0, 3.0])
    y = [2.0, 2.0, 0.0, 18**0.5]
    # RMSE 2 against 1, and 3 against 3; MSE 4 against 1, and 9 against 9.
    assert ence(predictive, y, bins=2) == pytest.approx((1 + 0) / 2)
    assert uce(predictive, y, bins=2) == pytest.approx((3 + 0) / 2)


def test_widths_leave_bins_empty_that_counts_fill() -> None:
    predictive = Gaussian(torch.zeros(4), [1.0, 1.1, 1.2, 100.0])
    y = [1.0, 1.1, 0.0, 100.0]
    # By width the first three rows share a bin, and the other bins are empty.
    variance, error = (1 + 1.21 + 1.44) / 3, (1 + 1.21) / 3
    gap = abs(error**0.5 - variance**0.5) / variance**0.5
    assert ence(predictive, y, bins=4, binning="width") == pytest.approx(gap / 2)
    assert ence(predictive, y, bins=4, binning="count") == pytest.approx(1 / 4)


@pytest.mark.parametrize("bins", [1, 10, 30])
@pytest.mark.parametrize("ties", [False, True])
def test_spread_bins_against_a_search(bins: int, ties: bool) -> None:
    by = torch.rand(500).round(decimals=1) if ties else torch.rand(500)
    first = torch.arange(1, bins) * 500 // bins
    index = torch.bucketize(by, by.sort().values[first], right=True)
    _, index, size = index.unique(return_inverse=True, return_counts=True)
    found = _spread_bins(by, by.square(), bins=bins)
    assert torch.equal(found.bin_of, index)
    assert torch.equal(found.size, size)


@pytest.mark.parametrize("binning", ["count", "width"])
def test_finds_the_factor_of_a_wrong_spread(
    binning: Binning, generator: torch.Generator
) -> None:
    right, y = drawn(50_000, 1.0, generator)
    assert ence(right, y, binning=binning) < 0.02
    narrow, y = drawn(50_000, 0.5, generator)
    assert ence(narrow, y, binning=binning) == pytest.approx(1.0, abs=0.05)
    constant = Gaussian(torch.zeros(6), 2.0)  # equal spreads share one bin
    y = torch.tensor([2.0, -2.0, 4.0, 0.0, 1.0, 3.0])
    gap = abs(float(y.square().mean().sqrt()) - 2) / 2
    assert ence(constant, y, binning=binning) == pytest.approx(gap)


def test_calibrated_ence_is_about_what_the_docstring_says(
    generator: torch.Generator,
) -> None:
    values = [ence(*drawn(400, 1.0, generator)) for _ in range(300)]
    assert np.mean(values) == pytest.approx((10 / (np.pi * 400)) ** 0.5, rel=0.05)


def test_bad_input_is_refused() -> None:
    predictive = Gaussian([0.0], 1.0)
    with pytest.raises(InputError, match="bins must be a whole number >= 1, got 0"):
        ence(predictive, [0.0], bins=0)
    with pytest.raises(InputError, match="binning must be 'count' or 'width'"):
        uce(predictive, [0.0], binning="equal")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"not in 1 of 2 rows.*mean_width"):
        ence(StudentT([2.0, 5.0], [0.0, 0.0], 1.0), [0.0, 0.0])
    without = Empirical([[1.0, 2.0]])
    with pytest.raises(InputError, match="divides by the predicted spread"):
        ence(without, [1.0, 2.0])
    assert uce(without, [1.0, 3.0]) == pytest.approx(0.5)


def of_kind(kind: str) -> Distribution:
    source = torch.Generator().manual_seed(0)
    spread = 0.5 + 1.5 * torch.rand(N, generator=source)
    if kind == "mixture":
        centers = torch.stack([torch.zeros(N), spread])
        return GaussianMixture(centers, torch.stack([spread, spread]))
    if kind == "few rows with most variance":
        spread = torch.exp(torch.randn(N, generator=source))
    elif kind == "constant":
        spread = torch.full((N,), 2.0)
    return Gaussian(torch.zeros(N), spread)


@pytest.mark.parametrize(
    "kind", ["gaussian", "mixture", "constant", "few rows with most variance"]
)
@pytest.mark.parametrize("grid", [None, TargetGrid(step=1)], ids=["exact", "rounded"])
def test_combined_parts_have_the_distribution_of_drawn_rows(
    kind: str, grid: TargetGrid | None
) -> None:
    predictive = of_kind(kind)
    for name, metric in (("ence", ence), ("uce", uce)):
        quick = spread_noise_floors(predictive, torch.zeros(N), grid=grid)[name]
        assert quick.method == "2000 simulated models"
        slow = predictive_noise_floor(predictive, metric, grid=grid, draws=150, seed=1)
        ordered = [floor.tail.args[0] for floor in (quick, slow)]  # type: ignore[attr-defined]
        # Where one row has most variance, some hundred draws of it leave much noise.
        tolerance = 0.35 if kind.startswith("few") else 0.12
        means = [np.mean(values) for values in ordered]
        assert means[0] == pytest.approx(means[1], rel=tolerance)
        assert ks_2samp(*ordered).pvalue > 1e-3


@pytest.mark.parametrize(("name", "metric"), [("ence", ence), ("uce", uce)])
def test_floors_are_those_of_drawn_targets(name: str, metric: object) -> None:
    predictive = Gaussian(torch.zeros(400), torch.linspace(0.5, 2, 400))
    quick = spread_noise_floors(predictive, torch.zeros(400))[name]
    slow = predictive_noise_floor(predictive, metric, draws=400, seed=1)  # type: ignore[arg-type]
    assert quick.expectation == pytest.approx(slow.expectation, rel=0.08)
    assert quick.high == pytest.approx(slow.high, rel=0.15)
    assert quick.method == "200 simulated models"


def test_floors_of_samples_know_that_few_samples_err() -> None:
    samples = Empirical(torch.randn(8, 400))
    few = spread_noise_floors(samples, torch.randn(400), grid=TargetGrid(step=0.5))
    many = spread_noise_floors(Gaussian(torch.zeros(400), 1.0), torch.zeros(400))
    assert few["ence"].expectation > 3 * many["ence"].expectation
