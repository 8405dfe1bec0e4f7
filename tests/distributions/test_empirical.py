"""The law of samples against counting, pairs and scipy."""

from functools import partial

import numpy as np
import pytest
import torch

from calibrant._checks import InputError, UnsupportedError
from calibrant.distributions import Empirical

double = partial(torch.tensor, dtype=torch.float64)
SAMPLES = torch.randn(
    7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
)
Y = double([0.3, -5.0, 5.0])


def test_cdf_counts_samples_up_to_the_value() -> None:
    law = Empirical(SAMPLES)
    torch.testing.assert_close(law.cdf(Y), (SAMPLES <= Y).double().mean(0))
    third = SAMPLES[2]
    torch.testing.assert_close(law.cdf(third), (third >= SAMPLES).double().mean(0))
    assert law.survival(Y).tolist()[1:] == [1.0, 0.0]
    assert law.pit(Y).log_cdf.isfinite().all()


def test_ties_jump_at_once() -> None:
    law = Empirical(torch.tensor([1.0, 2.0, 2.0, 3.0]))
    assert law.cdf(torch.tensor([1.99, 2.0])).tolist() == [0.25, 0.75]
    assert law.quantile(torch.tensor([0.25, 0.26, 0.75])).tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [1, 3, 10, 49, 1000])
def test_quantile_undoes_the_cdf_at_every_sample(dtype: torch.dtype, m: int) -> None:
    law = Empirical(torch.randn(m, 2, dtype=dtype))
    samples = law.samples
    assert torch.equal(law.quantile(law.cdf(samples)), samples)
    assert torch.equal(law.quantile(0.0), samples[0])
    assert torch.equal(law.quantile(1.0), samples[-1])
    inverse = np.quantile(samples, 0.37, axis=0, method="inverted_cdf")
    torch.testing.assert_close(law.quantile(0.37), torch.tensor(inverse))


def test_crps_is_the_energy_form_over_all_pairs() -> None:
    law = Empirical(SAMPLES)
    for y in (Y, SAMPLES[0], torch.stack([Y, Y + 1])):
        distance = (SAMPLES - y.unsqueeze(-2)).abs().mean(-2)
        spread = (SAMPLES[:, None] - SAMPLES).abs().mean((0, 1))
        torch.testing.assert_close(law.crps(y), distance - 0.5 * spread)


def test_crps_of_two_steps_by_hand() -> None:
    law = Empirical(torch.tensor([[0.0, 1.0], [1.0, 1.5]]))
    y = torch.tensor([0.25, 3.0])
    # Two steps at known places: (1/2)^2 between them, 1 beyond.
    torch.testing.assert_close(law.crps(y), torch.tensor([0.25, 0.125 + 1.5]))


def test_crps_keeps_its_digits_far_from_zero() -> None:
    far = Empirical((SAMPLES + 1e4).float())
    near = Empirical((SAMPLES + 1e4).float().double() - 1e4)
    torch.testing.assert_close(
        far.crps(Y.float() + 1e4).double(), near.crps(Y), atol=2e-3, rtol=0
    )


def test_gradients_reach_the_samples() -> None:
    samples, y = SAMPLES.clone().requires_grad_(), Y.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, at: Empirical(x).crps(at), (samples, y))
    assert torch.autograd.gradcheck(lambda x: Empirical(x).quantile(0.4), samples)
    assert torch.autograd.gradcheck(lambda x: Empirical(x).variance, samples)
    assert not Empirical(samples).cdf(Y).requires_grad


def test_moments_are_those_of_the_law() -> None:
    law = Empirical(SAMPLES)
    torch.testing.assert_close(law.mean, SAMPLES.mean(0))
    torch.testing.assert_close(law.variance, SAMPLES.var(0, correction=0))


def test_samples_are_drawn_from_the_samples(generator: torch.Generator) -> None:
    drawn = Empirical(SAMPLES).sample((500,), generator=generator)
    assert all(
        set(drawn[:, row].tolist()) == set(SAMPLES[:, row].tolist()) for row in range(3)
    )


def test_takes_float64_values_for_float32_samples() -> None:
    assert Empirical(SAMPLES.float()).cdf(Y.double()).dtype == torch.float32


def test_has_no_density_and_says_what_to_do() -> None:
    with pytest.raises(UnsupportedError, match=r"samples have none.*GaussianMixture"):
        Empirical(SAMPLES).log_prob(Y)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (torch.tensor(1.0), "m >= 1"),
        (torch.zeros(0, 3), "m >= 1"),
        (torch.tensor([1.0, torch.nan]), r"samples must be finite.*samples\[1\]"),
    ],
)
def test_refuses_bad_samples(samples: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Empirical(samples)
