"""Distributions of torch, of scipy and of nobody in particular."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, distributions

from calibrant.distributions import (
    AbstractDistribution,
    CdfDistribution,
    Gaussian,
    Laplace,
    ScipyDistribution,
    TorchDistribution,
)
from calibrant.validation import InputError, UnsupportedError

double = partial(torch.tensor, dtype=torch.float64)
SHAPE, RATE = double([0.7, 2.0, 30.0]), double([1.0, 0.1, 5.0])
Y = double([0.2, 30.0, 6.0])
Pair = tuple[AbstractDistribution, Any]
PAIRS: dict[str, Pair] = {
    "gamma": (
        TorchDistribution(distributions.Gamma(SHAPE, RATE)),
        stats.gamma(SHAPE, scale=1 / RATE),
    ),
    "uniform": (
        TorchDistribution(distributions.Uniform(-SHAPE, RATE)),
        stats.uniform(-SHAPE, SHAPE + RATE),
    ),
    "lognormal": (
        TorchDistribution(distributions.LogNormal(0 * RATE, 1 / (1 + RATE))),
        stats.lognorm(1 / (1 + RATE)),
    ),
    "gumbel": (
        TorchDistribution(distributions.Gumbel(SHAPE, RATE)),
        stats.gumbel_r(SHAPE, RATE),
    ),
}


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.param


def test_torch_and_scipy_say_the_same(pair: Pair) -> None:
    predictive, frozen = pair
    other = ScipyDistribution(frozen)
    inside = torch.stack([predictive.quantile(level) for level in (0.01, 0.5, 0.97)])
    assert predictive.batch_shape == other.batch_shape == (3,)
    for method in ("cdf", "survival", "log_prob"):
        actual, expected = (
            getattr(predictive, method)(inside),
            getattr(other, method)(inside),
        )
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-9)
    for y in (inside, predictive.mean - 40, predictive.mean + 40):
        torch.testing.assert_close(
            predictive.crps(y), other.crps(y), rtol=1e-5, atol=1e-7
        )
    for level in (1e-6, 0.2, 0.5, 0.9):
        actual, expected = predictive.quantile(level), other.quantile(level)
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(predictive.mean, other.mean)
    torch.testing.assert_close(predictive.variance, other.variance)
    torch.testing.assert_close(predictive[1:].cdf(1.0), other[1:].cdf(1.0))
    torch.testing.assert_close(predictive[1:].cdf(1.0), predictive.cdf(1.0)[1:])


def test_quadrature_agrees_with_closed_forms() -> None:
    z = torch.tensor([-30.0, -2.0, 0.0, 0.7, 6.0])
    normal, laplace = stats.norm([0.0] * 5), stats.laplace([0.0] * 5)
    # The Laplace density has a kink in the middle of an integral.
    for frozen, predictive, tolerance in (
        (normal, Gaussian(z * 0, 1.0), 1e-8),
        (laplace, Laplace(z * 0, 1.0), 2e-5),
    ):
        torch.testing.assert_close(
            ScipyDistribution(frozen).crps(z),
            predictive.crps(z),
            rtol=tolerance,
            atol=tolerance,
        )


def test_values_outside_the_support_are_answered() -> None:
    predictive = TorchDistribution(distributions.Uniform(torch.zeros(3), torch.ones(3)))
    y = torch.tensor([-0.5, 0.5, 1.5])
    assert predictive.cdf(y).tolist() == [0.0, 0.5, 1.0]
    assert predictive.log_prob(y).tolist() == [-torch.inf, 0.0, -torch.inf]
    gamma, _ = PAIRS["gamma"]
    assert gamma.quantile(0.0).eq(0).all()
    assert gamma.quantile(1.0).eq(torch.inf).all()


def test_root_of_the_cdf_carries_gradients() -> None:
    rate = RATE[1:].clone().requires_grad_()

    def ask(method: str, at: Tensor | float) -> Callable[[Tensor], Tensor]:
        return lambda r: getattr(
            TorchDistribution(distributions.Gamma(SHAPE[1:], r)), method
        )(at)

    assert torch.autograd.gradcheck(ask("quantile", 0.3), rate)
    assert torch.autograd.gradcheck(ask("crps", Y[1:]), rate, atol=1e-5)


def test_torch_distributions_without_what_is_asked() -> None:
    with pytest.raises(InputError, match=r"torch's Beta has none.*scipy\.stats"):
        TorchDistribution(distributions.Beta(SHAPE, RATE))
    with pytest.raises(InputError, match=r"event_shape \(3,\)"):
        TorchDistribution(distributions.Dirichlet(SHAPE))
    with pytest.raises(UnsupportedError, match="finite mean"):
        TorchDistribution(distributions.Cauchy(SHAPE, RATE)).crps(Y)
    squared = distributions.TransformedDistribution(
        distributions.Normal(SHAPE, RATE), distributions.transforms.ExpTransform()
    )
    predictive = TorchDistribution(squared)
    assert predictive.dtype == torch.float64
    assert predictive.crps(Y).isfinite().all()
    for name in ("mean", "variance"):
        with pytest.raises(UnsupportedError, match=f"LogNormal|cannot give its {name}"):
            getattr(predictive, name)
    beta = distributions.TransformedDistribution(
        distributions.Beta(SHAPE, RATE), distributions.transforms.ExpTransform()
    )
    with pytest.raises(UnsupportedError, match="cdf"):
        TorchDistribution(beta).cdf(Y)


def test_scipy_distributions_have_their_limits() -> None:
    with pytest.raises(UnsupportedError, match="finite mean"):
        ScipyDistribution(stats.cauchy([0.0, 1.0])).crps(torch.zeros(2))
    predictive = ScipyDistribution(stats.expon(scale=[1.0, 2.0]))
    assert predictive.pit(torch.tensor([-1.0, 1.0])).log_cdf.isfinite().all()
    assert not predictive.cdf(torch.ones(2, requires_grad=True)).requires_grad
    chosen = predictive[torch.tensor([True, False])]
    assert chosen.batch_shape == (1,)


class Logistic:
    """Only a cdf."""

    def cdf(self, value: Tensor) -> Tensor:
        return value.sigmoid()


class Squashed(Logistic):
    """Has more, and a wrong cdf."""

    batch_shape = (2,)
    mean = torch.zeros(2)
    variance = torch.ones(2)

    def quantile(self, level: Tensor) -> Tensor:
        return level.logit().expand(2)

    def crps(self, value: Tensor) -> Tensor:
        return value.abs()

    def log_prob(self, value: Tensor) -> Tensor:
        return value.sum()

    def __getitem__(self, rows: slice) -> Logistic:
        return Logistic()


def test_a_cdf_is_enough_for_pit_values() -> None:
    predictive = CdfDistribution(Logistic())
    y = torch.tensor([[0.0, 1.0]], requires_grad=True)
    pit = predictive.pit(y)
    torch.testing.assert_close(pit.cdf, y.sigmoid())
    assert pit.survival.requires_grad
    for ask in (predictive.crps, predictive.log_prob, predictive.quantile):
        with pytest.raises(UnsupportedError, match="only its cdf is known"):
            ask(0.5)
    for name in ("mean", "variance"):
        with pytest.raises(UnsupportedError, match=f"has no {name}"):
            getattr(predictive, name)


def test_an_object_answers_what_it_can() -> None:
    predictive = CdfDistribution(Squashed())
    assert predictive.batch_shape == (2,)
    assert predictive.mean.tolist() == [0.0, 0.0]
    assert predictive.variance.tolist() == [1.0, 1.0]
    assert predictive.quantile(0.5).tolist() == [0.0, 0.0]
    assert predictive.crps([-1.0, 1.0]).tolist() == [1.0, 1.0]
    assert predictive[:1].batch_shape == ()
    with pytest.raises(InputError, match=r"keep the shape.*\(2,\), got \(\)"):
        predictive.log_prob([1.0, 2.0])
