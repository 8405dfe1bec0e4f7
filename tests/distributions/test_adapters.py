"""Laws of torch, of scipy and of nobody in particular."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, distributions

from calibrant._checks import InputError, UnsupportedError
from calibrant.distributions import (
    AbstractDistribution,
    CdfDistribution,
    Gaussian,
    Laplace,
    ScipyDistribution,
    TorchDistribution,
)

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
    law, frozen = pair
    other = ScipyDistribution(frozen)
    inside = torch.stack([law.quantile(level) for level in (0.01, 0.5, 0.97)])
    assert law.batch_shape == other.batch_shape == (3,)
    for method in ("cdf", "survival", "log_prob"):
        actual, expected = getattr(law, method)(inside), getattr(other, method)(inside)
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-9)
    for y in (inside, law.mean - 40, law.mean + 40):
        torch.testing.assert_close(law.crps(y), other.crps(y), rtol=1e-5, atol=1e-7)
    for level in (1e-6, 0.2, 0.5, 0.9):
        actual, expected = law.quantile(level), other.quantile(level)
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(law.mean, other.mean)
    torch.testing.assert_close(law.variance, other.variance)
    torch.testing.assert_close(law[1:].cdf(1.0), other[1:].cdf(1.0))
    torch.testing.assert_close(law[1:].cdf(1.0), law.cdf(1.0)[1:])


def test_quadrature_agrees_with_closed_forms() -> None:
    z = torch.tensor([-30.0, -2.0, 0.0, 0.7, 6.0])
    normal, laplace = stats.norm([0.0] * 5), stats.laplace([0.0] * 5)
    # The Laplace density has a kink in the middle of an integral.
    for frozen, law, tolerance in (
        (normal, Gaussian(z * 0, 1.0), 1e-8),
        (laplace, Laplace(z * 0, 1.0), 2e-5),
    ):
        torch.testing.assert_close(
            ScipyDistribution(frozen).crps(z),
            law.crps(z),
            rtol=tolerance,
            atol=tolerance,
        )


def test_values_outside_the_support_are_answered() -> None:
    law = TorchDistribution(distributions.Uniform(torch.zeros(3), torch.ones(3)))
    y = torch.tensor([-0.5, 0.5, 1.5])
    assert law.cdf(y).tolist() == [0.0, 0.5, 1.0]
    assert law.log_prob(y).tolist() == [-torch.inf, 0.0, -torch.inf]
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


def test_mixtures_of_other_families_are_adapted() -> None:
    parts = distributions.Exponential(torch.tensor([[1.0, 3.0], [2.0, 0.5]]))
    weights = distributions.Categorical(torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    law = TorchDistribution(distributions.MixtureSameFamily(weights, parts))
    expected = 1 - 0.5 * (-torch.tensor([1.0, 3.0])).exp().sum()
    torch.testing.assert_close(law.cdf(torch.ones(2))[0], expected)
    torch.testing.assert_close(law.cdf(law.quantile(0.3)), torch.tensor([0.3, 0.3]))
    with pytest.raises(UnsupportedError, match="selection of rows"):
        law[:1]


def test_torch_laws_without_what_is_asked() -> None:
    with pytest.raises(InputError, match=r"torch's Beta has none.*scipy\.stats"):
        TorchDistribution(distributions.Beta(SHAPE, RATE))
    with pytest.raises(InputError, match=r"event_shape \(3,\)"):
        TorchDistribution(distributions.Dirichlet(SHAPE))
    with pytest.raises(UnsupportedError, match="finite mean"):
        TorchDistribution(distributions.Cauchy(SHAPE, RATE)).crps(Y)
    squared = distributions.TransformedDistribution(
        distributions.Normal(SHAPE, RATE), distributions.transforms.ExpTransform()
    )
    law = TorchDistribution(squared)
    assert law.dtype == torch.float64
    assert law.crps(Y).isfinite().all()
    for name in ("mean", "variance"):
        with pytest.raises(UnsupportedError, match=f"LogNormal|cannot give its {name}"):
            getattr(law, name)
    beta = distributions.TransformedDistribution(
        distributions.Beta(SHAPE, RATE), distributions.transforms.ExpTransform()
    )
    with pytest.raises(UnsupportedError, match="cdf"):
        TorchDistribution(beta).cdf(Y)


def test_scipy_laws_have_their_limits() -> None:
    with pytest.raises(UnsupportedError, match="finite mean"):
        ScipyDistribution(stats.cauchy([0.0, 1.0])).crps(torch.zeros(2))
    law = ScipyDistribution(stats.expon(scale=[1.0, 2.0]))
    assert law.pit(torch.tensor([-1.0, 1.0])).log_cdf.isfinite().all()
    assert not law.cdf(torch.ones(2, requires_grad=True)).requires_grad
    chosen = law[torch.tensor([True, False])]
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
    law = CdfDistribution(Logistic())
    y = torch.tensor([[0.0, 1.0]], requires_grad=True)
    pit = law.pit(y)
    torch.testing.assert_close(pit.cdf, y.sigmoid())
    assert pit.survival.requires_grad
    for ask in (law.crps, law.log_prob, law.quantile):
        with pytest.raises(UnsupportedError, match="only its cdf is known"):
            ask(0.5)
    for name in ("mean", "variance"):
        with pytest.raises(UnsupportedError, match=f"has no {name}"):
            getattr(law, name)


def test_moments_may_be_methods() -> None:
    class Methods(Logistic):
        def mean(self) -> list[float]:
            return [0.0, 1.0]

        def variance(self) -> Tensor:
            return torch.ones(2)

    law = CdfDistribution(Methods())
    assert law.mean.tolist() == [0.0, 1.0]
    assert law.variance.tolist() == [1.0, 1.0]


def test_an_object_answers_what_it_can() -> None:
    law = CdfDistribution(Squashed())
    assert law.batch_shape == (2,)
    assert law.mean.tolist() == [0.0, 0.0]
    assert law.variance.tolist() == [1.0, 1.0]
    assert law.quantile(0.5).tolist() == [0.0, 0.0]
    assert law.crps([-1.0, 1.0]).tolist() == [1.0, 1.0]
    assert law[:1].batch_shape == ()
    with pytest.raises(InputError, match=r"keep the shape.*\(2,\), got \(\)"):
        law.log_prob([1.0, 2.0])
