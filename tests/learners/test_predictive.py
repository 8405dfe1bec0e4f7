"""What ensembles and dropout passes predict together."""

import pytest
import torch
from torch import Tensor

from calibrant import (
    DeepEnsemble,
    GaussianMixture,
    InputError,
    MCDropout,
)
from calibrant.learners.mlp import StandardizedInputs


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
