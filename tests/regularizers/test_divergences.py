"""The other regularizers against closed forms and their stated expectations."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.integrate import quad
from scipy.special import digamma, expit
from scipy.stats import beta, logistic
from torch import Tensor

from calibrant import ConditionalRegularizer, Gaussian, InputError, QuantileRegularizer
from calibrant.protocols import Regularizer
from calibrant.regularizers import (
    beta_kernel_entropy,
    cramer_von_mises,
    cumulative_kl,
    cumulative_kl_divergence,
    cumulative_residual_entropy,
    kernel_calibration,
    pit_entropy,
    quantile_distance,
    spacing_entropy,
)
from calibrant.validation import pit_from_cdf

DRAWS = 4000


def assert_mean(values: Tensor, expected: float) -> None:
    error = float(values.std()) / math.sqrt(len(values))
    assert abs(float(values.mean()) - expected) < 4 * error


def of_order_statistics(n: int, power: int) -> float:
    """Mean of |u_(i) - i / (n + 1)|^p, where u_(i) is Beta(i, n + 1 - i)."""
    predictives = [beta(i, n + 1 - i) for i in range(1, n + 1)]
    if power == 2:
        return sum(predictive.var() for predictive in predictives) / n
    # E|u - E u| = 2 (E u F(E u) - E[u; u <= E u]), and u Beta(a, b) is Beta(a + 1, b).
    total = 0.0
    for i in range(1, n + 1):
        mean = i / (n + 1)
        below = beta(i, n + 1 - i).cdf(mean) - beta(i + 1, n + 1 - i).cdf(mean)
        total += 2 * mean * below
    return total / n


def of_soft_indicators(n: int, h: float = 0.01, levels: int = 64) -> float:
    """Mean over levels of the variance of sigma((t - U) / h), over n."""
    total = 0.0
    for j in range(levels):
        t = (j + 0.5) / levels
        edges = {"points": [max(t - 0.1, 0), t, min(t + 0.1, 1)], "limit": 200}
        first = quad(lambda u, t=t: expit((t - u) / h), 0, 1, **edges)[0]
        second = quad(lambda u, t=t: expit((t - u) / h) ** 2, 0, 1, **edges)[0]
        total += (second - first**2) / levels
    return total / n


@pytest.mark.parametrize("n", [1, 2, 9, 60])
def test_means_at_perfect_calibration_are_as_stated(
    n: int, generator: torch.Generator
) -> None:
    # As PitValues, because a plain (draws, 1) is refused as a likely mistake.
    pit = pit_from_cdf(torch.rand(DRAWS, n, generator=generator))
    assert_mean(cramer_von_mises(pit), 1 / (6 * n))
    assert_mean(quantile_distance(pit), of_order_statistics(n, 1))
    assert of_order_statistics(n, 2) == pytest.approx(1 / (6 * (n + 1)))
    assert_mean(quantile_distance(pit, power=2), 1 / (6 * (n + 1)))
    assert_mean(kernel_calibration(pit), of_soft_indicators(n))
    assert 0.9 < of_soft_indicators(n) * 6 * n < 1
    if n == 1:
        assert (spacing_entropy(pit) == 0).all()
    for spacing in (1, math.isqrt(n)) if n > 1 else ():
        mean = digamma(n + 1) - digamma(spacing) - math.log((n + 1) / spacing)
        assert_mean(spacing_entropy(pit, spacing=spacing), mean)
    if n == 60:
        assert of_order_statistics(n, 1) == pytest.approx(0.31 / n**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("form", "n", "stated"),
    [
        (beta_kernel_entropy, 32, 0.036),
        (beta_kernel_entropy, 128, 0.013),
        (beta_kernel_entropy, 512, 0.0048),
        (pit_entropy, 32, 0.098),
        (pit_entropy, 128, 0.032),
    ],
)
def test_expectations_of_kernel_forms_are_as_stated(
    form: Regularizer, n: int, stated: float, generator: torch.Generator
) -> None:
    values = form(torch.rand(1000, n, generator=generator))
    error = float(values.std()) / math.sqrt(1000)
    assert abs(float(values.mean()) - stated) < 4 * error + 0.01 * stated


def test_cramer_von_mises_is_the_integral(generator: torch.Generator) -> None:
    pit = torch.rand(7, generator=generator).sort().values
    edges = [0.0, *pit.tolist(), 1.0]
    integral = sum(
        quad(lambda p, share=i / 7: (share - p) ** 2, edges[i], edges[i + 1])[0]
        for i in range(8)
    )
    assert abs(float(cramer_von_mises(pit)) - integral) < 1e-12


@pytest.mark.parametrize("spacing", [1, 4, 16])
def test_spacing_entropy_is_zero_for_evenly_spread_values(spacing: int) -> None:
    n = 32
    pit = torch.arange(1, n + 1) / (n + 1)
    value = spacing_entropy(pit[torch.randperm(n)], spacing=spacing)
    torch.testing.assert_close(value, torch.zeros(()))


def test_spacing_entropy_is_the_log_of_the_shrinkage() -> None:
    n, shrink = 20, 0.25
    pit = 0.5 + shrink * (torch.arange(1, n + 1) / (n + 1) - 0.5)
    value = spacing_entropy(pit, spacing=2)
    torch.testing.assert_close(value, -torch.tensor(shrink).log())


@pytest.mark.parametrize("n", [2, 3, 17, 64, 65])
def test_spacing_entropy_takes_a_short_batch(
    n: int, generator: torch.Generator
) -> None:
    pit = torch.rand(n, generator=generator)
    root = spacing_entropy(pit, spacing=math.isqrt(n))
    torch.testing.assert_close(spacing_entropy(pit), root)
    if n <= 64:  # the authors' own code gives NaN here
        torch.testing.assert_close(spacing_entropy(pit, spacing=64), root)


def test_a_large_spacing_rewards_over_confidence_as_documented(
    generator: torch.Generator,
) -> None:
    y = torch.randn(200, 512, generator=generator)
    ratios = torch.arange(0.6, 1.2, 0.05)

    def best_ratio(spacing: int) -> float:
        means = [
            spacing_entropy(Gaussian(torch.zeros(512), ratio).cdf(y), spacing=spacing)
            .mean()
            .item()
            for ratio in ratios
        ]
        return float(ratios[means.index(min(means))])

    assert abs(best_ratio(64) - 0.75) < 0.06
    assert abs(best_ratio(22) - 0.9) < 0.06
    assert abs(best_ratio(8) - 0.95) < 0.06


def test_quantile_distance_by_hand() -> None:
    pit = torch.tensor([0.9, 0.1])
    gaps = [abs(0.1 - 1 / 3), abs(0.9 - 2 / 3)]
    assert abs(float(quantile_distance(pit)) - sum(gaps) / 2) < 1e-15
    squares = sum(gap**2 for gap in gaps) / 2
    assert abs(float(quantile_distance(pit, power=2)) - squares) < 1e-15


def test_kernel_calibration_becomes_the_integral_as_the_kernel_narrows(
    generator: torch.Generator,
) -> None:
    pit = torch.rand(40, generator=generator) ** 2
    sharp = kernel_calibration(pit, bandwidth=1e-5, levels=4096)
    assert abs(float(sharp - cramer_von_mises(pit))) < 1e-4


def test_beta_kernel_entropy_is_the_divergence_of_its_density(
    generator: torch.Generator,
) -> None:
    pit, width = torch.rand(6, generator=generator), 0.1

    def density(t: float) -> float:
        return float(beta(t / width + 1, (1 - t) / width + 1).pdf(pit.numpy()).mean())

    expected = quad(lambda t: density(t) * math.log(density(t)) - density(t) + 1, 0, 1)
    value = beta_kernel_entropy(pit, bandwidth=width)
    assert abs(float(value) - expected[0]) < 1e-8


def test_beta_kernel_entropy_has_a_gradient_where_its_density_underflows() -> None:
    pit = torch.tensor([1e-5, *[0.0] * 7], dtype=torch.float32, requires_grad=True)
    (gradient,) = torch.autograd.grad(beta_kernel_entropy(pit), pit)
    assert gradient[0] < 0  # away from the crowd at 0
    assert (gradient[1:] == 0).all()


def reflected_log_density(pit: npt.NDArray[np.float64], b: float) -> float:
    """Mean log density by loops over values, images and centers."""
    h = b * len(pit) ** (-1 / 5)
    logs = []
    for a in pit:
        images = [logistic(u, h).pdf([a, -a, 2 - a]).sum() for u in pit]
        logs.append(math.log(sum(images) / len(pit)))
    return sum(logs) / len(pit)


@pytest.mark.parametrize(("n", "bandwidth"), [(1, 0.1), (2, 0.5), (23, 0.1)])
def test_pit_entropy_is_the_mean_log_of_the_reflected_density(
    n: int, bandwidth: float, generator: torch.Generator
) -> None:
    pit = torch.rand(n, generator=generator) ** 2
    value = float(pit_entropy(pit, bandwidth=bandwidth))
    assert value == pytest.approx(reflected_log_density(pit.numpy(), bandwidth))


def test_pit_entropy_in_its_limits() -> None:
    # Equal values are one kernel, whose top is 1 / (4 h).
    h = 0.1 * 50**-0.2
    equal = pit_entropy(torch.full((50,), 0.5))
    assert float(equal) == pytest.approx(-math.log(4 * h), abs=1e-5)
    even = (torch.arange(2000) + 0.5) / 2000
    assert abs(float(pit_entropy(even))) < 1e-3
    # Beta(2, 2) on many rows: KL to the uniform distribution by quadrature.
    density = beta(2, 2).pdf
    exact = quad(lambda u: density(u) * math.log(density(u)), 1e-12, 1 - 1e-12)[0]
    quantiles = torch.from_numpy(beta(2, 2).ppf(even.numpy()))
    assert float(pit_entropy(quantiles)) == pytest.approx(exact, abs=0.01)


def test_pit_entropy_moves_both_values_and_centers(generator: torch.Generator) -> None:
    pit = torch.rand(8, generator=generator, requires_grad=True)
    (gradient,) = torch.autograd.grad(pit_entropy(pit), pit)
    values, step = pit.detach().numpy(), 1e-6
    for place in range(8):
        moved = [values.copy(), values.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (reflected_log_density(own, 0.1) for own in moved)
        assert float(gradient[place]) == pytest.approx((up - down) / (2 * step), 1e-5)


def test_strength_of_minus_1_is_quantile_recalibration_training(
    generator: torch.Generator,
) -> None:
    # -mean log f(y) - mean log phi(F(y)): the NLL of the recalibrated distribution.
    mean, spread, y = torch.randn(3, 40, generator=generator)
    predictive = torch.distributions.Normal(mean, spread.exp())
    pit = predictive.cdf(y).numpy()
    formula = float(-predictive.log_prob(y).mean()) - reflected_log_density(pit, 0.1)
    for module in (QuantileRegularizer, ConditionalRegularizer):
        own = {"groups": 1} if module is ConditionalRegularizer else {}
        regularizer = module("pit_entropy", strength=-1, **own)
        loss = -predictive.log_prob(y).mean() + regularizer(predictive, y)
        assert float(loss) == pytest.approx(formula)


def test_cumulative_residual_entropy_of_known_distributions(
    generator: torch.Generator,
) -> None:
    uniform = torch.rand(100_000, generator=generator)
    assert abs(float(cumulative_residual_entropy(uniform)) - 0.25) < 2e-3
    exponential = -uniform.clamp_min(1e-12).log() * 3
    assert abs(float(cumulative_residual_entropy(exponential)) - 3) < 0.1
    constant = torch.full((2, 5), 4.0)
    assert (cumulative_residual_entropy(constant) == 0).all()


def test_divergence_of_two_samples(generator: torch.Generator) -> None:
    first = torch.rand(3, 40, generator=generator)
    torch.testing.assert_close(
        cumulative_kl_divergence(first, first.flip(-1)), torch.zeros(3)
    )
    # By hand: S = {1, 2}, T = {3}; survival of S is 1, 1/2 on [1, 2), of T 1 up to 3.
    by_hand = 0.5 * math.log(0.5) - 1.5 + 3
    value = cumulative_kl_divergence(torch.tensor([1.0, 2.0]), torch.tensor([3.0]))
    torch.testing.assert_close(value, torch.tensor(by_hand))
    # A sample of uniform values in place of their distribution: Proposition 2.
    pit = torch.rand(500, generator=generator) ** 2
    grid = torch.linspace(0, 1, 200_001)
    assert abs(float(cumulative_kl_divergence(pit, grid) - cumulative_kl(pit))) < 1e-4
    few = torch.rand(12, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: cumulative_kl_divergence(x, grid), [few])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: spacing_entropy(torch.rand(9), spacing=0), "spacing must be at least"),
        (lambda: quantile_distance(torch.rand(9), power=3), "power must be 1 or 2"),
        (lambda: kernel_calibration(torch.rand(9), bandwidth=0.0), "bandwidth must be"),
        (
            lambda: kernel_calibration(torch.rand(9), levels=0),
            "levels must be at least",
        ),
        (lambda: beta_kernel_entropy(torch.rand(9), bandwidth=-1.0), "bandwidth must"),
        (lambda: pit_entropy(torch.rand(9), bandwidth=0.0), "bandwidth must"),
        (lambda: cumulative_residual_entropy([-1.0, 2.0]), "numbers at least 0"),
        (lambda: cumulative_residual_entropy([]), "n >= 1"),
        (
            lambda: cumulative_kl_divergence(torch.rand(2, 3), torch.rand(3)),
            r"same leading shape, got \(2, 3\) and \(3,\)",
        ),
    ],
)
def test_refuses_bad_options(call: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call()  # type: ignore[operator]
