"""The mixture against its components, scipy and hard quantiles."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant._checks import InputError
from calibrant.distributions import Gaussian, GaussianMixture

double = partial(torch.tensor, dtype=torch.float64)
MEANS = double([[0.0, -1.0, 5.0], [3.0, -1.0, 5.5], [-2.0, 4.0, 5.0]])
STDDEVS = double([[1.0, 0.2, 1.0], [0.5, 2.0, 1.0], [2.0, 1.0, 0.01]])
WEIGHTS = double([[0.2, 0.5, 0.1], [0.5, 0.3, 0.9], [0.3, 0.2, 0.0]])
Y = double([0.5, -1.1, 7.0])


def law() -> GaussianMixture:
    return GaussianMixture(MEANS, STDDEVS, WEIGHTS)


def by_scipy(name: str, y: Tensor) -> Tensor:
    parts = getattr(stats.norm(MEANS.numpy(), STDDEVS.numpy()), name)(y.numpy())
    return torch.tensor((WEIGHTS.numpy() * parts).sum(0))


def test_agrees_with_scipy() -> None:
    for y in (Y, Y - 20, Y + 20):
        torch.testing.assert_close(law().cdf(y), by_scipy("cdf", y), rtol=1e-12, atol=0)
        torch.testing.assert_close(
            law().survival(y), by_scipy("sf", y), rtol=1e-12, atol=0
        )
        torch.testing.assert_close(law().log_prob(y).exp(), by_scipy("pdf", y))
        pit = law().pit(y)
        torch.testing.assert_close(pit.log_cdf.exp(), pit.cdf, rtol=1e-10, atol=0)
        torch.testing.assert_close(
            pit.log_survival.exp(), pit.survival, rtol=1e-10, atol=0
        )


def test_logs_stay_apart_where_probabilities_underflow() -> None:
    logs = law().pit(Y - 1e4).log_cdf
    assert (logs < -1e5).all()
    assert logs.isfinite().all()


def test_moments_are_those_of_total_variance() -> None:
    mean = (WEIGHTS * MEANS).sum(0)
    second = (WEIGHTS * (STDDEVS**2 + MEANS**2)).sum(0)
    torch.testing.assert_close(law().mean, mean)
    torch.testing.assert_close(law().variance, second - mean**2)
    matched = law().moment_matched()
    assert isinstance(matched, Gaussian)
    torch.testing.assert_close(matched.variance, law().variance)


def test_crps_is_its_definition(crps_by_definition: Callable[..., Tensor]) -> None:
    for y in (Y, Y - 6, Y + 6):
        expected = crps_by_definition(law(), y)
        torch.testing.assert_close(law().crps(y), expected, rtol=1e-6, atol=1e-8)


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


def test_one_member_is_the_normal_law() -> None:
    mixture = GaussianMixture(torch.tensor([[1.0, -2.0]]), torch.tensor([[2.0, 0.1]]))
    normal = Gaussian([1.0, -2.0], [2.0, 0.1])
    levels = torch.tensor([0.0, 1e-300, 0.1, 0.5, 0.99, 1.0])
    torch.testing.assert_close(mixture.quantiles(levels), normal.quantiles(levels))
    torch.testing.assert_close(mixture.crps(0.3), normal.crps(0.3))


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


def test_weights_of_members_hold_for_every_row() -> None:
    given = torch.tensor([0.2, 0.5, 0.3])
    each = GaussianMixture(MEANS, STDDEVS, given[:, None].expand(3, 3))
    shared = GaussianMixture(MEANS, STDDEVS, given)
    torch.testing.assert_close(shared.cdf(Y), each.cdf(Y))
    assert shared.means.shape == shared.stddevs.shape == shared.weights.shape


def test_more_axes_in_front_and_matrix_batches() -> None:
    many = torch.stack([Y, Y + 1])
    torch.testing.assert_close(law().crps(many)[1], law().crps(Y + 1))
    grid = GaussianMixture(MEANS[:, None].expand(3, 2, 3), STDDEVS[0, 0])
    assert grid.cdf(Y).shape == grid.quantile(0.3).shape == (2, 3)
    assert grid.sample((4,)).shape == (4, 2, 3)


def test_samples_follow_the_weights(generator: torch.Generator) -> None:
    mixture = GaussianMixture([[0.0], [100.0]], 1.0, [0.3, 0.7])
    share = (mixture.sample((20_000,), generator=generator) > 50).double().mean()
    assert abs(share - 0.7) < 5 * (0.21 / 20_000) ** 0.5


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


@pytest.mark.parametrize("means", [0.0, np.zeros((0, 3))])
def test_refuses_a_mixture_of_nothing(means: npt.ArrayLike) -> None:
    with pytest.raises(InputError, match="at least one member"):
        GaussianMixture(means, 1.0)


def test_weights_may_be_as_rough_as_their_own_type() -> None:
    means, weights = np.zeros((3, 50)), np.random.default_rng(0).uniform(size=(3, 50))
    rough = (weights / weights.sum(0)).astype(np.float32)
    assert abs(rough.astype(np.float64).sum(0) - 1).max() > 2e-8
    law = GaussianMixture(means, np.ones((3, 50)), rough)
    torch.testing.assert_close(law.weights.sum(0), torch.ones(50))
    with pytest.raises(InputError, match="sum to 1"):
        GaussianMixture(means, np.ones((3, 50)), 1.01 * rough)
