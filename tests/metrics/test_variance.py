"""ENCE and UCE."""

import numpy as np
import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.variance import Binning, ence, uce

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


@BINNINGS
def test_units_scale_uce_by_their_square_and_leave_ence(
    binning: Binning, generator: torch.Generator
) -> None:
    law, y = drawn(500, 0.7, generator)
    scaled = Gaussian(10 * law.mean, 10 * law.stddev)
    before = ence(law, y, binning=binning), uce(law, y, binning=binning)
    after = ence(scaled, 10 * y, binning=binning), uce(scaled, 10 * y, binning=binning)
    assert after[0] == pytest.approx(before[0])
    assert after[1] == pytest.approx(100 * before[1])


def test_more_bins_than_rows() -> None:
    assert uce(Gaussian([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0], bins=50) == 0


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
