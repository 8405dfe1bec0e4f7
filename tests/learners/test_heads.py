"""Heads: from numbers to distributions."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibrant import InputError
from calibrant.contracts import Head
from calibrant.learners import HEADS, GaussianHead, GaussianMixtureHead


def test_gaussian_of_the_paper() -> None:
    raw = torch.randn(4, 5, 2)
    predictive = GaussianHead(floor=0.1)(raw)
    assert predictive.batch_shape == (4, 5)
    torch.testing.assert_close(predictive.mean, raw[..., 0])
    torch.testing.assert_close(
        predictive.stddev, 0.1 + 0.9 * torch.log1p(raw[..., 1].exp())
    )


def test_mixture_takes_means_then_spreads_then_weights() -> None:
    raw = torch.tensor([[1.0, 2.0, 0.0, 1.0, 0.0, math.log(3)]])
    predictive = GaussianMixtureHead(floor=0.1, components=2)(raw)
    assert predictive.batch_shape == (1,)
    assert predictive.means[:, 0].tolist() == [1, 2]
    spreads = 0.1 + 0.9 * softplus(torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(predictive.stddevs[:, 0], spreads)
    torch.testing.assert_close(predictive.weights[:, 0], torch.tensor([0.25, 0.75]))


@pytest.mark.parametrize("floor", [-0.1, 1.0, math.nan])
@pytest.mark.parametrize("name", list(HEADS))
def test_refuses_a_floor_outside_of_its_range(name: str, floor: float) -> None:
    with pytest.raises(InputError, match=r"floor must lie in \[0, 1\), got"):
        HEADS[name](floor=floor)


def test_refuses_a_mixture_of_nothing() -> None:
    with pytest.raises(InputError, match="components must be at least 1, got 0"):
        GaussianMixtureHead(components=0)


@pytest.mark.parametrize("floor", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(HEADS))
def test_extreme_outputs_give_finite_distributions_and_gradients(
    name: str, dtype: torch.dtype, floor: float
) -> None:
    head: Head = HEADS[name](floor=floor)
    extremes = torch.tensor([-1e4, -150.0, -1.0, 0.0, 1.0, 150.0, 1e4], dtype=dtype)
    columns = torch.cartesian_prod(extremes, extremes, extremes)
    raw = columns.repeat(1, 3)[:, : head.size].clone().requires_grad_()
    predictive = head(raw)
    for value in (
        predictive.mean,
        predictive.variance,
        predictive.cdf(torch.zeros(len(raw), dtype=dtype)),
    ):
        assert torch.isfinite(value).all()
    for y in (0.0, 3.0, -100.0):
        target = torch.full((len(raw),), y, dtype=dtype)
        score = -predictive.log_prob(target)
        assert torch.isfinite(score).all()
        (slope,) = torch.autograd.grad(score.sum(), raw, retain_graph=True)
        assert not slope.isnan().any()


def gradient_case(name: str, raw: Tensor) -> Tensor:
    predictive = HEADS[name](floor=0.1)(raw)
    value: Tensor = predictive.log_prob(torch.linspace(-1, 1, raw.shape[-2]))
    return value


@pytest.mark.parametrize("name", list(HEADS))
def test_gradients_match_finite_differences(name: str) -> None:
    raw = torch.randn(2, 4, HEADS[name]().size, requires_grad=True)
    assert torch.autograd.gradcheck(lambda raw: gradient_case(name, raw), [raw])
