"""The cumulative KL divergence: closed forms, bounds, expectation, gradient, tails."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from torch import Tensor

from calibrant import Gaussian, QuantileRegularizer
from calibrant.regularizers import cumulative_kl, expected_cumulative_kl

unit_interval = arrays(
    np.float64, st.integers(1, 40), elements=st.floats(0, 1, allow_subnormal=True)
)


def by_gaps(pit: Tensor) -> float:
    """Proposition 3 as it is written, with the parentheses around the gap."""
    ordered = pit.sort().values
    n = len(ordered)
    total = 0.5 + float(torch.special.xlogy(1 - pit, 1 - pit).mean())
    for i in range(1, n):
        share = (n - i) / n
        total += share * math.log(share) * float(ordered[i] - ordered[i - 1])
    return total


def by_integration(pit: Tensor) -> float:
    """Definition 4 for the empirical and the uniform one, integrated piecewise."""
    ordered = pit.sort().values.tolist()
    n = len(ordered)
    total = 0.5 - float(pit.mean())
    edges = [0.0, *ordered]
    for passed, (low, high) in enumerate(zip(edges, [*ordered, 1.0], strict=True)):
        above = (n - passed) / n
        if above > 0 and high > low:
            total += quad(
                lambda x, s=above: s * math.log(s / (1 - x)), low, high, epsabs=1e-13
            )[0]
    return total


@pytest.mark.parametrize("constant", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_values_have_a_closed_form(constant: float, n: int) -> None:
    survival = 1 - constant
    expected = 0.5 + (survival * math.log(survival) if survival else 0.0)
    value = cumulative_kl(torch.full((n,), constant))
    torch.testing.assert_close(value, torch.tensor(expected))


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 5.0])
def test_estimates_the_divergence_of_a_known_distribution(
    shape: float, generator: torch.Generator
) -> None:
    # 1 - u = v^(1/k) has S(x) = (1-x)^k, and Proposition 2 gives 1/2 - 2k/(k+1)^2.
    uniform = torch.rand(200_000, generator=generator)
    value = cumulative_kl(1 - uniform ** (1 / shape))
    expected = 0.5 - 2 * shape / (shape + 1) ** 2
    assert abs(float(value) - expected) < 2e-3


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50])
def test_both_forms_and_the_definition_agree(
    n: int, generator: torch.Generator
) -> None:
    for _ in range(5):
        pit = torch.rand(n, generator=generator)
        value = float(cumulative_kl(pit))
        assert abs(value - by_gaps(pit)) < 1e-12
        assert abs(value - by_integration(pit)) < 1e-10


@given(unit_interval)
def test_lies_between_zero_and_one_half(values: np.ndarray) -> None:
    value = float(cumulative_kl(torch.from_numpy(values)))
    assert 0 < value <= 0.5 + 1e-15


@pytest.mark.parametrize(
    ("n", "stated", "lowest", "evenly", "decimals"),
    [
        (8, 0.03364, 0.0034, 0.0084, 4),
        (32, 0.00808, 0.00027, 0.00078, 5),
        (128, 0.00198, 0.00002, 0.00006, 5),
    ],
)
def test_expectation_and_minimum(
    n: int,
    stated: float,
    lowest: float,
    evenly: float,
    decimals: int,
    generator: torch.Generator,
) -> None:
    expected = expected_cumulative_kl(n)
    assert round(expected, 5) == stated
    approximation = 1 / (4 * (n + 1)) + (math.log(n) + 2.985) / (12 * n * (n + 1))
    assert abs(expected - approximation) < 0.01 * expected

    draws = cumulative_kl(torch.rand(20_000, n, generator=generator))
    assert abs(draws.mean() - expected) < 4 * draws.std() / math.sqrt(20_000)

    spread = torch.arange(1, n + 1) / (n + 1)
    assert round(float(cumulative_kl(spread)), decimals) == evenly
    free = torch.logit(spread).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [free], max_iter=500, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )

    def closure() -> float:
        optimizer.zero_grad()
        value = cumulative_kl(free.sigmoid())
        value.backward()
        return value.item()

    optimizer.step(closure)
    reached = cumulative_kl(free.sigmoid()).item()
    assert round(reached, decimals) == lowest


def test_the_two_sided_form_cancels_the_pull_of_small_batches(
    generator: torch.Generator,
) -> None:
    # u = sqrt(v): E u = 2/3; those of u and of 1 - u are known exactly.
    n, draws = 50, 40_000
    pit = torch.rand(draws, n, generator=generator).sqrt()
    many = torch.linspace(0, 1, 2_000_001)[1:-1].sqrt()
    biases = []
    for values, predictive in ((pit, many), (1 - pit, 1 - many)):
        biases.append(float(cumulative_kl(values).mean() - cumulative_kl(predictive)))
    assert abs(biases[0] - (1 - 2 / 3) / (2 * n)) < 4e-4
    assert abs(biases[1] - (2 / 3) / (2 * n)) < 4e-4
    # Their mean does not depend on E u: 1 / (4n), that of uniform values.
    assert abs((biases[0] + biases[1]) / 2 - 1 / (4 * n)) < 2e-4


def test_first_and_second_derivatives(generator: torch.Generator) -> None:
    z = torch.randn(9, generator=generator, requires_grad=True)
    predictive = Gaussian(torch.zeros(9), torch.ones(9))
    assert torch.autograd.gradcheck(lambda y: cumulative_kl(predictive.pit(y)), [z])
    assert torch.autograd.gradgradcheck(lambda y: cumulative_kl(predictive.pit(y)), [z])


def test_gradient_at_ties_is_the_mean_of_the_orders() -> None:
    pit = torch.tensor([0.5, 0.5, 0.2], requires_grad=True)
    (gradient,) = torch.autograd.grad(cumulative_kl(pit), pit)
    sides = []
    for nudge in ([0.0, 1e-9, 0.0], [1e-9, 0.0, 0.0]):
        near = (pit.detach() + torch.tensor(nudge)).requires_grad_()
        sides.append(torch.autograd.grad(cumulative_kl(near), near)[0])
    torch.testing.assert_close(gradient, (sides[0] + sides[1]) / 2, atol=1e-7, rtol=0)


def gaussian_gradient(z: Tensor) -> tuple[Tensor, Tensor]:
    leaf = z.clone().requires_grad_()
    predictive = Gaussian(torch.zeros_like(z), torch.ones_like(z))
    value = QuantileRegularizer()(predictive, leaf)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@pytest.mark.parametrize("spread", [1.0, 3.0, 6.0])
def test_float32_gradient_of_a_gaussian_is_that_of_float64(
    spread: float, generator: torch.Generator
) -> None:
    z = (spread * torch.randn(512, generator=generator)).float()
    value, gradient = gaussian_gradient(z)
    exact_value, exact = gaussian_gradient(z.double())
    torch.testing.assert_close(value.double(), exact_value, atol=2e-6, rtol=0)
    # What float32 can represent: normal numbers, no difference of two like terms.
    density = torch.exp(-0.5 * z.double() ** 2) / math.sqrt(2 * math.pi)
    scale = 20 * density * (1 - torch.special.log_ndtr(-z.double())) / len(z)
    normal = exact.abs() > 10 * torch.finfo(torch.float32).tiny
    distinct = exact.abs() > 1e-3 * scale
    assert distinct[normal].float().mean() > 0.95
    error = (gradient.double() - exact).abs()
    assert (error[normal & distinct] < 1e-4 * exact.abs()[normal & distinct]).all()
    assert (error[normal] < 2e-5 * scale[normal]).all()  # relative to the terms


def test_float32_is_finite_up_to_a_million_and_zero_beyond_the_density() -> None:
    far = torch.tensor([14.5, 20.0, 1e2, 1e3, 1e4, 1e5, 1e6], dtype=torch.float32)
    near = torch.linspace(-3, 3, 50, dtype=torch.float32)
    value, gradient = gaussian_gradient(torch.cat([near, far, -far]))
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    assert (gradient[50:] == 0).all()
    assert (gradient[:50] != 0).all()
