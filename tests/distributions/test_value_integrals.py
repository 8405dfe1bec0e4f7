"""Integrals over values against closed forms and against integrals over levels."""

import pytest
import torch
from calibrant.distributions._value_integrals import crps_by_values, moments_by_values

from calibrant import Gaussian, GaussianMixture, Laplace, StudentT
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration import RECALIBRATORS

GENERATOR = torch.Generator().manual_seed(0)
MEANS = torch.randn(4, 60, generator=GENERATOR, dtype=torch.float64)
SPREADS = 0.3 + torch.rand(4, 60, generator=GENERATOR, dtype=torch.float64)

LAWS: dict[str, tuple[AbstractDistribution, float]] = {
    "gaussian": (Gaussian(MEANS[0], SPREADS[0]), 1e-9),
    "mixture": (GaussianMixture(MEANS, SPREADS), 2e-6),
    "narrow components far apart": (GaussianMixture(9 * MEANS, 0.01), 5e-4),
    "laplace": (Laplace(MEANS[0], SPREADS[0]), 1e-6),
    "student_t": (StudentT(5.0, MEANS[0], SPREADS[0]), 1e-6),
    "huge numbers": (GaussianMixture(1e12 + 1e9 * MEANS, 1e9 * SPREADS), 2e-6),
    "tiny numbers": (GaussianMixture(1e-12 * MEANS, 1e-12 * SPREADS), 2e-6),
}


@pytest.mark.parametrize("name", LAWS)
def test_known_moments_and_scores_are_met(name: str) -> None:
    law, error = LAWS[name]
    mean, variance = moments_by_values(law)
    spread = law.stddev
    assert ((mean - law.mean) / spread).abs().max() < error
    assert (variance / law.variance - 1).abs().max() < 10 * error
    for distance in (-30.0, -1.0, 0.0, 0.4, 5.0):
        y = law.mean + distance * spread
        wrong = (crps_by_values(law, y) - law.crps(y)) / spread
        assert wrong.abs().max() < error * max(1, abs(distance))


@pytest.mark.parametrize("name", ["smooth", "beta", "empirical", "isotonic"])
def test_a_map_over_one_normal_law_agrees_with_the_levels(name: str) -> None:
    pit = torch.rand(150, generator=torch.Generator().manual_seed(1)).double() ** 1.3
    law = RECALIBRATORS[name]().fit_pit(pit).transform(LAWS["gaussian"][0])
    error = 1e-6 if name in ("smooth", "beta") else 1e-3
    mean, variance = moments_by_values(law)
    assert ((mean - law.mean) / law.stddev).abs().max() < error
    assert (variance / law.variance - 1).abs().max() < 3 * error
    y = law.quantile(0.7)
    assert ((crps_by_values(law, y) - law.crps(y)) / law.stddev).abs().max() < error


def test_blocks_of_rows_and_axes_in_front_change_nothing() -> None:
    law = GaussianMixture(MEANS.repeat(1, 20), SPREADS.repeat(1, 20))
    mean, _ = moments_by_values(law)
    torch.testing.assert_close(mean.reshape(20, 60)[7], mean[:60], rtol=0, atol=1e-12)
    y = torch.stack([law.mean - 1, law.mean + 2])
    both = crps_by_values(law, y)
    torch.testing.assert_close(both[1], crps_by_values(law, y[1]))
    stacked = GaussianMixture(MEANS.reshape(4, 3, 20), SPREADS.reshape(4, 3, 20))
    assert moments_by_values(stacked)[0].shape == (3, 20)
    torch.testing.assert_close(
        crps_by_values(stacked, stacked.mean), stacked.crps(stacked.mean)
    )
    single = GaussianMixture(MEANS[:, 0], SPREADS[:, 0])
    assert moments_by_values(single)[0].shape == ()
    torch.testing.assert_close(
        crps_by_values(single, single.mean), single.crps(single.mean)
    )


def test_the_mean_and_the_crps_carry_gradients() -> None:
    means = MEANS[:, :3].clone().requires_grad_()
    pit = torch.rand(80, generator=torch.Generator().manual_seed(1)).double() ** 1.3
    recalibrator = RECALIBRATORS["beta"]().fit_pit(pit)

    def value(shift: float) -> torch.Tensor:
        law = recalibrator.transform(GaussianMixture(means + shift, SPREADS[:, :3]))
        return law.mean.sum() + law.crps(torch.ones(3, dtype=torch.float64)).sum()

    (gradient,) = torch.autograd.grad(value(0.0), means)
    slope = (value(1e-4) - value(-1e-4)) / 2e-4
    torch.testing.assert_close(gradient.sum(), slope.detach(), rtol=1e-4, atol=1e-5)
