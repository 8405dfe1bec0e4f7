"""Heads: from numbers to distributions; what ensembles and passes predict."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibrant import (
    DeepEnsemble,
    GaussianMixture,
    InputError,
    MCDropout,
)
from calibrant.learners import HEADS, GaussianHead, GaussianMixtureHead
from calibrant.learners.mlp import StandardizedInputs
from calibrant.protocols import Head


@pytest.fixture
def x(generator: torch.Generator) -> Tensor:
    return torch.randn(33, 3, generator=generator)


def test_an_ensemble_is_the_mixture_of_its_members(x: Tensor) -> None:
    network = DeepEnsemble(3, members=4, hidden=(8,))
    predictive, each = network.predictive(x), network(x)
    assert isinstance(predictive, GaussianMixture)
    mean = each.mean.mean(0)
    torch.testing.assert_close(predictive.mean, mean)
    spread = each.variance.mean(0) + (each.mean - mean).square().mean(0)
    torch.testing.assert_close(predictive.variance, spread)
    y = torch.randn(33)
    torch.testing.assert_close(predictive.cdf(y), each.cdf(y).mean(0))
    assert network.deterministic() is network.stack


def test_dropout_passes_have_the_moments_of_the_paper(x: Tensor) -> None:
    network = MCDropout(3, hidden=(16, 8), passes=50).eval()
    predictive = network.predictive(x)
    assert isinstance(predictive, GaussianMixture)
    # Fifty passes by hand, each with its masks on all rows.
    stack = network.stack
    means, variances = [], []
    for number in range(50):
        hidden = x
        for layer in range(2):
            hidden = (hidden @ stack.weights[layer][0] + stack.biases[layer][0]).relu()
            hidden = hidden * network.get_buffer(f"masks_{layer}")[0, number] / 0.75
        raw = hidden @ stack.weights[2][0] + stack.biases[2][0]
        one = network.head(raw)
        means.append(one.mean)
        variances.append(one.variance)
    mean = torch.stack(means).mean(0)
    variance = torch.stack(variances).mean(0)
    variance = variance + (torch.stack(means) - mean).square().mean(0)
    torch.testing.assert_close(predictive.mean, mean)
    torch.testing.assert_close(predictive.variance, variance)


@pytest.mark.parametrize("kind", [DeepEnsemble, MCDropout])
def test_a_prediction_depends_on_its_row_alone(
    kind: type[DeepEnsemble | MCDropout], x: Tensor
) -> None:
    network = kind(3, hidden=(32, 32)).float()
    rows = x.float()
    predictive = network.predictive(rows)
    parts = [network.predictive(part) for part in rows.split(7)]
    order = torch.randperm(33)
    shuffled = network.predictive(rows[order])
    for name in ("mean", "stddev"):
        whole = getattr(predictive, name)
        cut = torch.cat([getattr(part, name) for part in parts])
        torch.testing.assert_close(cut, whole, atol=1e-6, rtol=0)
        back = getattr(shuffled, name)
        torch.testing.assert_close(back, whole[order], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", [DeepEnsemble, MCDropout])
def test_prediction_is_the_same_in_training_mode_and_draws_nothing(
    kind: type[DeepEnsemble | MCDropout], x: Tensor
) -> None:
    network = kind(3)
    state = torch.random.get_rng_state()
    first, second = network.predictive(x), network.eval().predictive(x)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("options", [{"passes": 0}, {"hidden": ()}])
def test_dropout_needs_a_pass_and_a_hidden_layer(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least one pass and one hidden layer, got"):
        MCDropout(3, **options)  # type: ignore[arg-type]


def test_any_module_can_have_its_inputs_standardized() -> None:
    network = StandardizedInputs(torch.nn.Linear(2, 1), 2)
    center, scale = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
    network.standardize(center, scale)
    x = torch.randn(5, 2)
    assert torch.equal(network(x), network.module((x - center) / scale))
    assert {"center", "scale"} <= set(network.state_dict())


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
