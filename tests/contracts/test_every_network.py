"""What every network and head must do. A new one is tested by its one line."""

from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import Recipe, TrainingData, train
from calibrant.distributions.base import AbstractDistribution
from calibrant.learners import HEADS, NETWORKS


@pytest.fixture(params=list(NETWORKS))
def kind(request: pytest.FixtureRequest) -> Any:
    return NETWORKS[request.param]


@pytest.fixture(params=list(HEADS))
def head(request: pytest.FixtureRequest) -> Any:
    return HEADS[request.param]()


def made(
    kind: Any, head: Any, members: int = 3, features: int = 4, **options: Any
) -> Any:
    return kind(
        features,
        members=members,
        head=head,
        hidden=options.pop("hidden", (8, 8)),
        generator=torch.Generator().manual_seed(0),
        **options,
    )


def test_shapes(kind: Any, head: Any) -> None:
    network = made(kind, head)
    assert (network.members, network.head) == (3, head)
    assert network.passes >= 1
    for x in (torch.randn(6, 4), torch.randn(3, 6, 4)):
        predictive = network(x)
        assert isinstance(predictive, AbstractDistribution)
        assert predictive.batch_shape == (3, 6)
    assert network.deterministic().members == 3 * network.passes


def test_the_predictive_distribution_has_one_entry_for_each_row(
    kind: Any, head: Any
) -> None:
    predictive = made(kind, head).predictive(torch.randn(6, 4))
    assert predictive.batch_shape == (6,)
    for value in (
        predictive.mean,
        predictive.variance,
        predictive.quantile(0.3),
        predictive.crps(torch.zeros(6)),
    ):
        assert value.shape == (6,)
        assert torch.isfinite(value).all()
    torch.testing.assert_close(
        predictive.cdf(predictive.quantile(0.3)), torch.full((6,), 0.3)
    )


def test_a_gradient_reaches_every_parameter(kind: Any, head: Any) -> None:
    network = made(kind, head)
    # Many rows: some light up any unit, dropped or not.
    x = torch.randn(200, 4)
    network(x).log_prob(torch.randn(200)).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.flatten(1).abs().sum(1) > 0).all(), name


def test_overfits_a_line(kind: Any, head: Any) -> None:
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    y = x.T.repeat(2, 1)
    network = made(kind, head, members=2, features=1, hidden=(32,))
    data = TrainingData(x=x, y=y, rows=[torch.arange(64)] * 2)
    generator = torch.Generator().manual_seed(0)
    recipe = Recipe(epochs=200, batch_size=64)
    history = train(network, data, recipe, generator=generator)
    assert history.loss[-1] < history.loss[0] - 0.5
    assert (network.predictive(x).mean - y[0]).abs().mean() < 0.15


def test_the_generator_makes_the_network(kind: Any, head: Any) -> None:
    state = torch.random.get_rng_state()
    first, second = made(kind, head), made(kind, head)
    assert torch.equal(state, torch.random.get_rng_state())
    for name, values in first.state_dict().items():
        assert torch.equal(values, second.state_dict()[name]), name


def test_a_saved_network_predicts_the_same(kind: Any, head: Any) -> None:
    network = made(kind, head)
    other = kind(4, members=3, head=head, hidden=(8, 8))
    other.load_state_dict(network.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(network.predictive(x).mean, other.predictive(x).mean)


@pytest.mark.parametrize("name", list(HEADS))
def test_a_head_turns_its_numbers_into_distributions_of_any_batch_shape(
    name: str,
) -> None:
    head = HEADS[name](floor=0.1)
    for shape in ((), (5,), (2, 3, 5)):
        raw: Tensor = torch.randn(*shape, head.size, requires_grad=True)
        predictive = head(raw)
        assert isinstance(predictive, AbstractDistribution)
        assert predictive.batch_shape == shape
        predictive.log_prob(torch.zeros(shape)).sum().backward()
        assert raw.grad is not None
        assert torch.isfinite(raw.grad).all()
    assert head.floor == 0.1
    assert HEADS[name].__doc__
