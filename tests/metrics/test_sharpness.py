"""Spread of the predictions, and how much it varies."""

import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.student_t import StudentT
from calibrant.metrics.sharpness import (
    dispersion,
    has_constant_spread,
    mean_stddev,
    sharpness,
)


def test_by_hand() -> None:
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


def test_tells_a_nearly_constant_spread() -> None:
    zero = torch.zeros(100)
    assert has_constant_spread(Gaussian(zero, 1 + 0.01 * torch.rand(100)))
    assert not has_constant_spread(Gaussian(zero, 1 + torch.rand(100)))
    assert not has_constant_spread(
        Gaussian(zero, 1 + 0.01 * torch.rand(100)), below=0.001
    )


def test_takes_laws_of_single_rows_only() -> None:
    with pytest.raises(InputError, match=r"batch shape \(n,\) .* got \(2, 3\)"):
        sharpness(Gaussian(torch.zeros(2, 3), 1.0))
    with pytest.raises(InputError, match="variance must be finite"):
        dispersion(StudentT([1.5], [0.0], 1.0))
