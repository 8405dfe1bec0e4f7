"""Heads: from numbers to laws."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibrant import (
    HEADS,
    GaussianHead,
    GaussianMixtureHead,
    InputError,
    LaplaceHead,
    StudentTHead,
)
from calibrant.contracts import Head


def test_gaussian_of_the_paper() -> None:
    raw = torch.randn(4, 5, 2)
    law = GaussianHead(floor=0.1)(raw)
    assert law.batch_shape == (4, 5)
    torch.testing.assert_close(law.mean, raw[..., 0])
    torch.testing.assert_close(law.stddev, 0.1 + 0.9 * torch.log1p(raw[..., 1].exp()))


def test_laplace() -> None:
    law = LaplaceHead(floor=0.2)(torch.tensor([[3.0, 0.0]]))
    assert law.location.item() == 3
    assert law.scale.item() == pytest.approx(0.2 + 0.8 * math.log(2))


def test_student_t_starts_near_seven_degrees_of_freedom() -> None:
    raw = torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, -2.0]])
    law = StudentTHead(floor=0.2)(raw)
    torch.testing.assert_close(
        law.degrees_of_freedom, 2 + softplus(torch.tensor([5.0, 3.0]))
    )
    assert law.scale[0].item() == pytest.approx(0.2 + 0.8 * math.log(2))


def test_mixture_takes_means_then_spreads_then_weights() -> None:
    raw = torch.tensor([[1.0, 2.0, 0.0, 1.0, 0.0, math.log(3)]])
    law = GaussianMixtureHead(floor=0.1, components=2)(raw)
    assert law.batch_shape == (1,)
    assert law.means[:, 0].tolist() == [1, 2]
    spreads = 0.1 + 0.9 * softplus(torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(law.stddevs[:, 0], spreads)
    torch.testing.assert_close(law.weights[:, 0], torch.tensor([0.25, 0.75]))


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
def test_extreme_outputs_give_finite_laws_and_gradients(
    name: str, dtype: torch.dtype, floor: float
) -> None:
    head: Head = HEADS[name](floor=floor)
    extremes = torch.tensor([-1e4, -150.0, -1.0, 0.0, 1.0, 150.0, 1e4], dtype=dtype)
    columns = torch.cartesian_prod(extremes, extremes, extremes)
    raw = columns.repeat(1, 3)[:, : head.size].clone().requires_grad_()
    law = head(raw)
    for value in (law.mean, law.variance, law.cdf(torch.zeros(len(raw), dtype=dtype))):
        assert torch.isfinite(value).all()
    for y in (0.0, 3.0, -100.0):
        target = torch.full((len(raw),), y, dtype=dtype)
        score = -law.log_prob(target)
        assert torch.isfinite(score).all()
        (slope,) = torch.autograd.grad(score.sum(), raw, retain_graph=True)
        assert not slope.isnan().any()


def gradient_case(name: str, raw: Tensor) -> Tensor:
    law = HEADS[name](floor=0.1)(raw)
    value: Tensor = law.log_prob(torch.linspace(-1, 1, raw.shape[-2]))
    return value


@pytest.mark.parametrize("name", list(HEADS))
def test_gradients_match_finite_differences(name: str) -> None:
    raw = torch.randn(2, 4, HEADS[name]().size, requires_grad=True)
    assert torch.autograd.gradcheck(lambda raw: gradient_case(name, raw), [raw])
