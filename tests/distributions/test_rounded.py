"""Distributions rounded to values: each number is a sum over the values."""

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import InputError
from calibrant.distributions import Gaussian, GaussianMixture, Recalibrated, Rounded
from calibrant.metrics import calibration_error, noise_floor
from calibrant.metrics.pit import TargetGrid, pit_values
from calibrant.recalibration.maps import BetaMap

VALUES = torch.tensor([-1.0, 0.0, 0.5, 2.0, 3.0, 7.0]).double()
MEAN = torch.tensor([-3.0, 0.2, 1.9, 9.0]).double()
BASES = {
    "gaussian": Gaussian(MEAN, torch.full_like(MEAN, 0.8)),
    "mixture": GaussianMixture(
        torch.stack([MEAN, MEAN + 2]), torch.ones(2, 4).double()
    ),
    "recalibrated": Recalibrated(Gaussian(MEAN, 1.0), BetaMap(0.8, 1.3, 0.2)),
}


@pytest.fixture(params=BASES)
def rounded(request: pytest.FixtureRequest) -> Rounded:
    return Rounded(BASES[request.param], VALUES)


def masses(rounded: Rounded) -> Tensor:
    """Probability of each value, ``(k, n)``, by the cdf of the base."""
    middles = (VALUES[1:] + VALUES[:-1]) / 2
    cdf = torch.stack([rounded.base.cdf(middle.expand(4)) for middle in middles])
    ends = torch.zeros(1, 4).double(), torch.ones(1, 4).double()
    return torch.cat([ends[0], cdf, ends[1]]).diff(dim=0)


def test_numbers_are_sums_over_the_values(rounded: Rounded) -> None:
    mass, column = masses(rounded), VALUES[:, None]
    mean = (mass * column).sum(0)
    assert rounded.mean.tolist() == pytest.approx(mean.tolist(), abs=1e-12)
    variance = (mass * (column - mean).square()).sum(0)
    assert rounded.variance.tolist() == pytest.approx(variance.tolist(), abs=1e-12)
    for value, own in zip(VALUES, mass, strict=True):
        found = rounded.log_prob(value.expand(4)).exp()
        assert found.tolist() == pytest.approx(own.tolist(), abs=1e-12)
    for y in (-2.0, -1.0, 0.3, 2.0, 8.0):  # the energy form, on and between values
        pairs = (column - VALUES).abs()
        energy = (mass * (column - y).abs()).sum(0)
        energy = energy - torch.einsum("in,ij,jn->n", mass, pairs, mass) / 2
        found = rounded.crps(torch.full((4,), y).double())
        assert found.tolist() == pytest.approx(energy.tolist(), abs=1e-12)


def test_the_cdf_jumps_at_values_alone(rounded: Rounded) -> None:
    cdf = masses(rounded).cumsum(0)
    for place, value in enumerate(VALUES):
        at, before = value.expand(4), rounded.cdf_before(value.expand(4))
        assert rounded.cdf(at).tolist() == pytest.approx(cdf[place].tolist(), abs=1e-12)
        assert torch.equal(rounded.cdf(at + 0.4), rounded.cdf(at))
        expected = cdf[place - 1] if place else torch.zeros(4)
        assert before.tolist() == pytest.approx(expected.tolist(), abs=1e-7)
        assert rounded.log_prob(at + 0.1).isneginf().all()
    assert rounded.survival(VALUES[-1].expand(4)).tolist() == [0.0] * 4


def test_quantiles_undo_the_cdf(rounded: Rounded) -> None:
    for place, value in enumerate(VALUES):
        level = rounded.cdf(value.expand(4))
        sure = masses(rounded)[place] > 1e-6  # a value that can come
        found = rounded.quantile(level.clamp(1e-9, 1 - 1e-9))
        assert (found[sure] == value).all()
    low, high = rounded.interval(0.9)
    inside = rounded.cdf(high) - rounded.cdf_before(low)
    assert (inside >= 0.9 - 1e-9).all()
    assert set(low.tolist()) | set(high.tolist()) <= set(VALUES.tolist())


def test_samples_are_values(rounded: Rounded) -> None:
    draws = rounded.sample((20_000,), generator=torch.Generator().manual_seed(0))
    assert set(draws.flatten().tolist()) <= set(VALUES.tolist())
    error = (draws.mean(0) - rounded.mean).abs() / (rounded.stddev + 1e-3)
    assert float(error.max()) < 0.05


def test_rows_and_shapes() -> None:
    rounded = Rounded(BASES["gaussian"], VALUES)
    assert torch.equal(rounded[1:3].mean, rounded.mean[1:3])
    assert rounded.cdf(torch.zeros(5, 4).double()).shape == (5, 4)
    assert rounded.crps(torch.zeros(5, 4).double()).shape == (5, 4)
    assert rounded.quantiles([0.1, 0.5]).shape == (4, 2)
    one = Rounded(BASES["gaussian"], [2.0])
    assert one.mean.tolist() == [2.0] * 4
    assert one.variance.tolist() == [0.0] * 4
    assert one.log_prob(torch.full((4,), 2.0).double()).tolist() == [0.0] * 4
    assert one.crps(torch.full((4,), 3.5).double()).tolist() == [1.5] * 4


def test_values_are_known_in_every_float_type() -> None:
    steps = 0.1 * torch.arange(30)
    base = Gaussian(torch.full((30,), 1.5), torch.ones(30))  # float32
    rounded = Rounded(base, steps)
    assert rounded.log_prob(np.arange(30) / 10).isfinite().all()
    wide = Rounded(Gaussian(1.5 * torch.ones(30).double(), 1.0), np.arange(30) * 0.1)
    assert wide.log_prob(np.arange(30) / 10).isfinite().all()


def test_tails_are_exact() -> None:
    far = Rounded(Gaussian([0.0], [1.0]), [0.0, 20.0, 40.0])
    assert far.log_prob([40.0]).item() == pytest.approx(-454.3212, abs=1e-3)


def test_a_diverged_model_says_nan() -> None:
    rounded = Rounded(Gaussian([float("nan")], [1.0]), VALUES)
    assert rounded.mean.isnan().all()
    assert rounded.cdf([0.5]).isnan().all()
    assert rounded.log_prob([0.5]).isnan().all()


def test_true_models_of_rounded_targets_are_calibrated() -> None:
    random = np.random.default_rng(0)
    mean = random.normal(3, 1, 4000)
    y = np.round(mean + random.normal(size=4000)).clip(0, 6)
    rounded = Rounded(Gaussian(mean, 1.0), np.arange(7.0))
    pit = pit_values(rounded, y, grid=TargetGrid(step=1.0))
    assert calibration_error(pit) < 3 * noise_floor(n=4000).expectation


@pytest.mark.parametrize("values", [[2.0, 1.0], [[1.0, 2.0]], [1.0, 1.0]])
def test_values_must_ascend(values: list[float]) -> None:
    with pytest.raises(InputError, match="ascending"):
        Rounded(BASES["gaussian"], values)
