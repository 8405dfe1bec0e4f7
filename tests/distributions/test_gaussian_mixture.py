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
    """The closed form pair by pair, as the path with gradients computes it."""
    parameters = (mixture.means, mixture.stddevs, mixture.weights)
    distance = mean_distance(y, *mixture._against(y))
    return distance - 0.5 * mean_pair_distance(*parameters)


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
def test_crps_without_gradient_is_the_plain_one(
    members: int, batch: tuple[int, ...], generator: torch.Generator
) -> None:
    def draw(*shape: int) -> Tensor:
        return torch.empty(shape).normal_(generator=generator)

    mixture = GaussianMixture(
        3 * draw(members, *batch),
        draw(members, *batch).exp(),
        draw(members, *batch).softmax(0),
    )
    for y in (draw(), 1e4 * draw(*batch), draw(4, *batch), draw(0, *batch)):
        actual, expected = mixture.crps(y), plain_crps(mixture, y)
        torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("entries", [1, 7, 40])
def test_crps_without_gradient_does_not_depend_on_its_blocks(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = torch.stack([Y, Y + 1, Y - 2])
    expected = law().crps(y)
    monkeypatch.setattr("calibrant.distributions._normal_mixture._ENTRIES", entries)
    torch.testing.assert_close(law().crps(y), expected)


@pytest.mark.parametrize(
    ("means", "stddevs"),
    [
        ([0.0, 1e300], [1e-300, 1e-300]),
        ([0.0, 0.0], [1e-310, 1e-310]),
        ([0.0, 1.0], [1e300, 1e300]),
        ([0.0, 1e20, -1e20], [1.0, 1e-200, 1e200]),
        ([0.0, torch.nan], [1.0, 1.0]),
    ],
    ids=["far apart", "subnormal", "wide", "mixed", "diverged"],
)
def test_crps_of_extreme_members(means: list[float], stddevs: list[float]) -> None:
    mixture = GaussianMixture(means, stddevs)
    actual, expected = mixture.crps(0.5), plain_crps(mixture, double(0.5))
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=0, equal_nan=True)


@pytest.mark.parametrize("learned", [False, True], ids=["plain", "learned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_widest_members_are_normal_laws(dtype: torch.dtype, learned: bool) -> None:
    largest = torch.finfo(dtype).max
    means, stddevs = torch.zeros(2, 3, dtype=dtype), torch.full((2, 3), largest)
    mixture = GaussianMixture(means, stddevs.to(dtype).requires_grad_(learned))
    normal = Gaussian(means[0], stddevs[0].to(dtype))
    y = torch.tensor([-largest, largest / 4, largest], dtype=dtype)
    for name in ("cdf", "survival", "log_prob", "crps"):
        found, expected = getattr(mixture, name)(y), getattr(normal, name)(y)
        torch.testing.assert_close(found.detach(), expected, rtol=2e-6, atol=0)
    for found, expected in zip(mixture.pit(y), normal.pit(y), strict=True):
        torch.testing.assert_close(found.detach(), expected, rtol=2e-6, atol=0)
    # The first quantile is too far for a number.
    levels = torch.tensor([0.1, 0.3, 0.75], dtype=dtype)
    found, expected = mixture.quantile(levels).detach(), normal.quantile(levels)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize("members", [1, 3])
def test_both_tails_and_density_are_those_of_scipy(members: int) -> None:
    mixture = GaussianMixture(MEANS[:members], STDDEVS[:members])
    y = torch.linspace(-9, 9, 60)[:, None].expand(60, 3)
    tails = mixture._tails(y, density=True)
    assert tails.density is not None
    for name, found in (("cdf", tails.cdf), ("sf", tails.survival)):
        expected = equal_members_by_scipy(mixture, name, y)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-300)
    expected = equal_members_by_scipy(mixture, "pdf", y)
    torch.testing.assert_close(tails.density, expected, rtol=1e-12, atol=1e-300)


def equal_members_by_scipy(mixture: GaussianMixture, name: str, y: Tensor) -> Tensor:
    """Give the mean of a function of all members."""
    normal = stats.norm(mixture.means[:, None], mixture.stddevs[:, None])
    return torch.as_tensor(getattr(normal, name)(y)).mean(0)


@pytest.mark.parametrize("name", ["crps", "cdf", "survival"])
@pytest.mark.parametrize("value_dtype", [torch.float32, torch.float64])
def test_the_wider_dtype_is_kept(name: str, value_dtype: torch.dtype) -> None:
    batch = [MEANS.float(), STDDEVS.float(), WEIGHTS.float()]
    for parameters in (batch, [each[:, 0] for each in batch]):
        trained = [each.clone().requires_grad_() for each in parameters]
        for y in (Y.to(value_dtype), Y[0].to(value_dtype)):
            actual = getattr(GaussianMixture(*parameters), name)(y)
            expected = getattr(GaussianMixture(*trained), name)(y).detach()
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pit_without_gradient_is_that_with_one(dtype: torch.dtype) -> None:
    means, stddevs, weights = (each.to(dtype) for each in (MEANS, STDDEVS, WEIGHTS))
    still = GaussianMixture(means, stddevs, weights)
    trained = GaussianMixture(means.clone().requires_grad_(), stddevs, weights)
    steps = torch.tensor([0.0, -2.0, 2.0, 9.0, 30.0, -40.0, 1e3, -1e5, 1e12, -1e30])
    close = 1e-12 if dtype == torch.float64 else 1e-4
    y = Y.to(dtype)
    infinite = y.sign() * torch.inf  # other laws may ask for it
    for value in (y + steps[:, None].to(dtype), infinite, y[0].double()):
        actual, expected = still._pit(value), trained._pit(value)
        for one, other in zip(actual, expected, strict=True):
            small = torch.finfo(dtype).tiny
            torch.testing.assert_close(one, other.detach(), rtol=close, atol=small)


def test_lopsided_mixtures_keep_both_tails() -> None:
    # Nearly all of the law lies on one side of its expectation.
    weights = double([[1 - 1e-14, 0.5], [1e-14, 0.5]])
    means = double([[0.0, 0.0], [1e20, 1e20]])
    mixture = GaussianMixture(means, 1.0, weights)
    tails = mixture._tails(double([1e4, 1e4]))
    torch.testing.assert_close(tails.cdf, weights[0], rtol=1e-13, atol=0)
    torch.testing.assert_close(tails.survival, weights[1], rtol=1e-13, atol=0)


@pytest.mark.parametrize("entries", [1, 7, 40, 1000])
def test_crps_does_not_depend_on_its_blocks(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(means: Tensor) -> Tensor:
        mixture = GaussianMixture(means, STDDEVS, WEIGHTS)
        return mixture.crps(torch.stack([Y, Y + 1]))

    means = MEANS.clone().requires_grad_()
    expected = score(means)
    (gradient,) = torch.autograd.grad(expected.sum(), means)
    monkeypatch.setattr("calibrant.distributions._mixture._ENTRIES", entries)
    actual = score(means)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(torch.autograd.grad(actual.sum(), means)[0], gradient)


def test_crps_keeps_little_for_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each of the 300 pairs would keep some 8 tensors of rows.
    monkeypatch.setattr("calibrant.distributions._mixture._ENTRIES", 1000)
    members, rows = 24, 50
    sizes: dict[int, int] = {}
    means = torch.randn(members, rows, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: (sizes.update({saved.data_ptr(): saved.numel()}), saved)[1],
        lambda saved: saved,
    ):
        GaussianMixture(means, 1.0).crps(torch.zeros(rows)).sum().backward()
    assert sum(sizes.values()) < 30 * members * rows
    assert means.grad.isfinite().all()


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
