"""The distribution of samples against counting, pairs and scipy."""

from functools import partial

import numpy as np
import pytest
import torch

from calibrant.distributions import Empirical
from calibrant.validation import InputError

double = partial(torch.tensor, dtype=torch.float64)
SAMPLES = torch.randn(
    7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
)
Y = double([0.3, -5.0, 5.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [1, 3, 10, 49, 1000])
def test_quantile_undoes_the_cdf_at_every_sample(dtype: torch.dtype, m: int) -> None:
    predictive = Empirical(torch.randn(m, 2, dtype=dtype))
    samples = predictive.samples
    assert torch.equal(predictive.quantile(predictive.cdf(samples)), samples)
    assert torch.equal(predictive.quantile(0.0), samples[0])
    assert torch.equal(predictive.quantile(1.0), samples[-1])
    inverse = np.quantile(samples, 0.37, axis=0, method="inverted_cdf")
    torch.testing.assert_close(predictive.quantile(0.37), torch.tensor(inverse))


def test_crps_is_the_energy_form_over_all_pairs() -> None:
    predictive = Empirical(SAMPLES)
    for y in (Y, SAMPLES[0], torch.stack([Y, Y + 1])):
        distance = (SAMPLES - y.unsqueeze(-2)).abs().mean(-2)
        spread = (SAMPLES[:, None] - SAMPLES).abs().mean((0, 1))
        torch.testing.assert_close(predictive.crps(y), distance - 0.5 * spread)


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
