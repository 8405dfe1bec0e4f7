"""Ranks over n + 1, and the coverage that they promise."""

import pytest
import torch

from calibrant import Gaussian
from calibrant.recalibration.maps import EmpiricalRecalibrator

REPEATS = 400


def test_ranks_by_hand() -> None:
    fitted = EmpiricalRecalibrator().fit_pit([0.9, 0.3, 0.1])
    expected = torch.tensor([0, 0.25, 0.375, 0.5, 0.75, 0.875, 1])
    torch.testing.assert_close(
        fitted.apply([0, 0.1, 0.2, 0.3, 0.9, 0.95, 1]), expected.double()
    )


def test_ties_take_the_highest_rank_and_the_ends_stay() -> None:
    fitted = EmpiricalRecalibrator().fit_pit([0.0, 0.0, 0.5, 0.5, 1.0])
    assert fitted.unit_map.knots.tolist() == [0.0, 0.5, 1.0]
    assert fitted.apply([0.5]).tolist() == [4 / 6]


def one_sided_coverage(n: int, levels: torch.Tensor) -> torch.Tensor:
    """Share of fresh targets below the quantiles, each with a map of its own."""
    generator = torch.Generator().manual_seed(n)
    hits = torch.zeros(len(levels))
    for _ in range(REPEATS):
        y = torch.randn(n + 200, generator=generator) + 0.3  # off, and too narrow
        law = Gaussian(torch.zeros(n), 0.6)
        fitted = EmpiricalRecalibrator().fit(law, y[:n])
        same = Gaussian(torch.zeros(len(levels)), 0.6)
        bounds = fitted.transform(same).quantile(levels)
        hits += (y[n:, None] <= bounds).double().mean(0)
    return hits / REPEATS


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_coverage_is_what_the_ranks_promise(n: int) -> None:
    ranks = torch.tensor([0.05, 0.25, 0.5, 0.8, 0.95]).mul(n + 1).round()
    exact, between = ranks / (n + 1), (ranks + 0.4) / (n + 1)
    # The rows of one repeat share a map, which is most of the noise for small n.
    noise = (exact * (1 - exact) * (1 / (n + 2) + 1 / 200) / REPEATS).sqrt()
    observed = one_sided_coverage(n, torch.cat([exact, between]))
    assert ((observed[:5] - exact).abs() < 4 * noise).all()
    observed = observed[5:]
    assert (observed > exact - 4 * noise).all()
    assert (observed < exact + 1 / (n + 1) + 4 * noise).all()
