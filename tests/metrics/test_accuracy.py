"""Errors of the point predictions, and the spread."""

import numpy as np
import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.accuracy import (
    bias,
    dispersion,
    mae,
    mean_stddev,
    r2,
    rmse,
    sharpness,
)

LAW = Gaussian([1.0, 2.0, 6.0], 1.0)


Y = [0.0, 2.0, 4.0]


def test_by_hand() -> None:
    assert rmse(LAW, Y) == pytest.approx((5 / 3) ** 0.5)
    assert mae(LAW, Y) == pytest.approx(1.0)
    assert bias(LAW, Y) == pytest.approx(1.0)
    assert r2(LAW, Y) == pytest.approx(1 - 5 / 8)
    # The median and the mean differ.
    skewed = GaussianMixture([[0.0], [0.0], [9.0]], 1e-3)
    assert mae(skewed, [0.0]) == pytest.approx(0, abs=1e-2)
    assert rmse(skewed, [0.0]) == bias(skewed, [0.0]) == pytest.approx(3.0)


def test_float32_sums_do_not_lose_digits() -> None:
    n = 300_000
    law = Gaussian(torch.full((n,), 1e4, dtype=torch.float32), 1.0)
    y = torch.full((n,), 1e4 - 0.125, dtype=torch.float32)
    assert bias(law, y) == 0.125


def test_constant_targets_have_no_r2() -> None:
    with pytest.raises(InputError, match="targets that differ, got 3 equal ones"):
        r2(LAW, np.ones(3))


def test_law_without_a_mean_is_refused() -> None:
    law = StudentT([1.0, 5.0], [0.0, 0.0], 1.0)
    with pytest.raises(InputError, match=r"mean must be finite.*1 of 2 rows.*mae"):
        rmse(law, [0.0, 1.0])
    assert mae(law, [0.0, 1.0]) == pytest.approx(0.5)


def test_spread_by_hand() -> None:
    law = Gaussian([0.0, 0.0, 0.0], [1.0, 2.0, 2.0])
    assert sharpness(law) == pytest.approx(3**0.5)
    assert mean_stddev(law) == pytest.approx(5 / 3)
    assert dispersion(law) == pytest.approx((2 / 9) ** 0.5 / (5 / 3))


def test_calibrated_sharpness_is_the_error(generator: torch.Generator) -> None:
    stddev = 1 + torch.rand(100_000, generator=generator)
    y = stddev * torch.randn(100_000, generator=generator)
    law = Gaussian(torch.zeros(100_000), stddev)
    assert sharpness(law) == pytest.approx(float(y.square().mean().sqrt()), rel=0.01)


def test_dispersion_has_no_unit_and_is_exactly_zero_for_one_spread() -> None:
    stddev = 1 + torch.rand(20)
    zero = torch.zeros(20)
    once, tenfold = Gaussian(zero, stddev), Gaussian(zero, 10 * stddev)
    assert dispersion(once) == pytest.approx(dispersion(tenfold))
    assert dispersion(Gaussian(zero, 0.1)) == 0.0
    assert dispersion(Empirical([[1.0, 2.0]])) == 0.0  # one sample: no spread at all


def test_takes_laws_of_single_rows_only() -> None:
    with pytest.raises(InputError, match=r"batch shape \(n,\) .* got \(2, 3\)"):
        sharpness(Gaussian(torch.zeros(2, 3), 1.0))
    with pytest.raises(InputError, match="variance must be finite"):
        dispersion(StudentT([1.5], [0.0], 1.0))
