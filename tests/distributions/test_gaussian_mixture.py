"""The mixture against its components, scipy and hard quantiles."""

from functools import partial

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant.distributions import GaussianMixture
from calibrant.validation import InputError

double = partial(torch.tensor, dtype=torch.float64)
MEANS = double([[0.0, -1.0, 5.0], [3.0, -1.0, 5.5], [-2.0, 4.0, 5.0]])
STDDEVS = double([[1.0, 0.2, 1.0], [0.5, 2.0, 1.0], [2.0, 1.0, 0.01]])
WEIGHTS = double([[0.2, 0.5, 0.1], [0.5, 0.3, 0.9], [0.3, 0.2, 0.0]])
Y = double([0.5, -1.1, 7.0])


def predictive() -> GaussianMixture:
    return GaussianMixture(MEANS, STDDEVS, WEIGHTS)


def by_scipy(name: str, y: Tensor) -> Tensor:
    parts = getattr(stats.norm(MEANS.numpy(), STDDEVS.numpy()), name)(y.numpy())
    return torch.tensor((WEIGHTS.numpy() * parts).sum(0))


def test_agrees_with_scipy() -> None:
    for y in (Y, Y - 20, Y + 20):
        torch.testing.assert_close(
            predictive().cdf(y), by_scipy("cdf", y), rtol=1e-12, atol=0
        )
        torch.testing.assert_close(
            predictive().survival(y), by_scipy("sf", y), rtol=1e-12, atol=0
        )
        torch.testing.assert_close(predictive().log_prob(y).exp(), by_scipy("pdf", y))
        pit = predictive().pit(y)
        torch.testing.assert_close(pit.log_cdf.exp(), pit.cdf, rtol=1e-10, atol=0)
        torch.testing.assert_close(
            pit.log_survival.exp(), pit.survival, rtol=1e-10, atol=0
        )


def test_logs_stay_apart_where_probabilities_underflow() -> None:
    logs = predictive().pit(Y - 1e4).log_cdf
    assert (logs < -1e5).all()
    assert logs.isfinite().all()


@pytest.mark.parametrize("level", [1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.7, 1 - 1e-12])
@pytest.mark.parametrize("distance", [0.0, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("ratio", [1.0, 1e-6])
def test_quantile_inverts_hard_mixtures(
    level: float, distance: float, ratio: float
) -> None:
    mixture = GaussianMixture([[0.0], [distance]], [[1.0], [ratio]], [0.25, 0.75])
    root = mixture.quantile(level)
    # One unit in the last place of the root moves the cdf by this much, relatively.
    step = torch.nextafter(root.abs(), torch.tensor([torch.inf])) - root.abs()
    lower, upper = mixture.cdf(root - 2 * step), mixture.cdf(root + 2 * step)
    slack = 1e-12 * min(level, 1 - level) + 1e-16 * (level > 0.5)
    assert lower.item() - slack <= level <= upper.item() + slack


def test_quantile_gradient_is_the_implicit_one() -> None:
    parameters = [MEANS, STDDEVS, WEIGHTS.clamp_min(0.05).log()]
    parameters = [parameter.clone().requires_grad_() for parameter in parameters]
    level = torch.tensor([[0.1, 0.5, 0.9], [0.3, 0.8, 0.999]], requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda means, stddevs, raw, asked: GaussianMixture(
            means, stddevs, raw.softmax(0)
        ).quantile(asked),
        (*parameters, level),
    )


def test_zero_weights_leave_finite_gradients() -> None:
    weights = WEIGHTS.clone().requires_grad_()
    mixture = GaussianMixture(MEANS, STDDEVS, weights)
    (mixture.log_prob(Y) + mixture.pit(Y).log_cdf + mixture.crps(Y)).sum().backward()
    assert weights.grad.isfinite().all()


def plain_crps(mixture: GaussianMixture, y: Tensor) -> Tensor:
    """The energy form over all ordered pairs."""

    def distance(mean: Tensor, stddev: Tensor) -> Tensor:
        normal = torch.distributions.Normal(0.0, 1.0)
        z = mean / stddev
        return mean * (2 * normal.cdf(z) - 1) + 2 * stddev * normal.log_prob(z).exp()

    means, stddevs, weights = mixture.means, mixture.stddevs, mixture.weights
    total = sum(
        w * distance(y - m, s) for m, s, w in zip(means, stddevs, weights, strict=True)
    )
    pairs = distance(
        means[:, None] - means, (stddevs[:, None] ** 2 + stddevs**2).sqrt()
    )
    return total - (weights[:, None] * weights * pairs).sum((0, 1)) / 2


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
def test_crps_is_the_plain_energy_form(
    members: int, batch: tuple[int, ...], generator: torch.Generator
) -> None:
    def draw(*shape: int) -> Tensor:
        return torch.empty(shape).normal_(generator=generator)

    mixture = GaussianMixture(
        3 * draw(members, *batch),
        draw(members, *batch).exp(),
        draw(members, *batch).softmax(0),
    )
    for y in (draw(), draw(*batch), draw(4, *batch), draw(0, *batch)):
        actual, expected = mixture.crps(y), plain_crps(mixture, y)
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.6, 0.1], r"sum to 1.*off by 0\.2.*softmax"),
        ([1.5, -0.6, 0.1], r"at least 0.*-0\.6"),
        ([0.5, 0.5], r"shape \(3,\) or that of the means, \(3, 3\), got \(2,\)"),
    ],
)
def test_refuses_weights_with_the_fix(weights: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GaussianMixture(MEANS, STDDEVS, weights)


def test_probabilities_are_at_most_one_whatever_the_rounding() -> None:
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(12, 2000, generator=random).softmax(0)
    mixture = GaussianMixture(torch.zeros(12, 2000), torch.ones(12, 2000), weights)
    assert mixture.cdf(torch.full((2000,), 40.0)).max() == 1
    assert mixture.pit(torch.full((2000,), -40.0)).survival.max() == 1
