"""A stack of networks is as many ordinary ones, also with dropout."""

import copy
import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from calibrant import InputError
from calibrant.learners.mlp import (
    MLPStack,
    PiecewiseLinear,
    _NarrowProduct,
    _Relu,
    random_bytes,
)

HIDDEN = (16, 8)


def ordinary(stack: MLPStack, member: int) -> nn.Sequential:
    """Build an ``nn.Sequential`` with the weights of one member."""
    layers: list[nn.Module] = []
    for weight, bias in zip(stack.weights, stack.biases, strict=True):
        linear = nn.Linear(*weight.shape[1:])
        linear.weight.data = weight.data[member].T.clone()
        linear.bias.data = bias.data[member, 0].clone()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def loss_of(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs[..., 0] - y).square().mean(-1) + outputs[..., 1].square().mean(-1)


@pytest.fixture
def x(generator: torch.Generator) -> Tensor:
    return torch.randn(3, 20, 5, generator=generator)


@pytest.fixture
def stack(generator: torch.Generator) -> MLPStack:
    return MLPStack(5, 2, members=3, hidden=HIDDEN, generator=generator)


def test_forward_equals_ordinary_networks(stack: MLPStack, x: Tensor) -> None:
    expected = torch.stack([ordinary(stack, i)(x[i]) for i in range(3)])
    torch.testing.assert_close(stack(x), expected, atol=1e-12, rtol=0)
    shared = torch.stack([ordinary(stack, i)(x[0]) for i in range(3)])
    torch.testing.assert_close(stack(x[0]), shared, atol=1e-12, rtol=0)


def test_gradients_and_adam_steps_equal_ordinary_networks(
    stack: MLPStack, x: Tensor, generator: torch.Generator
) -> None:
    y = torch.randn(3, 20, generator=generator)
    networks = [ordinary(stack, i) for i in range(3)]
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in networks]
    own = torch.optim.Adam(stack.parameters(), lr=0.01, fused=True)
    for _ in range(8):
        own.zero_grad()
        loss_of(stack(x), y).sum().backward()
        for i, (network, optimizer) in enumerate(
            zip(networks, optimizers, strict=True)
        ):
            optimizer.zero_grad()
            loss_of(network(x[i]), y[i]).backward()
            for layer, weight, bias in zip(
                network[::2], stack.weights, stack.biases, strict=True
            ):
                torch.testing.assert_close(
                    gradient(layer.weight), gradient(weight)[i].T, atol=1e-9, rtol=0
                )
                torch.testing.assert_close(
                    gradient(layer.bias), gradient(bias)[i, 0], atol=1e-9, rtol=0
                )
            optimizer.step()
        own.step()
    for i, network in enumerate(networks):
        torch.testing.assert_close(stack(x)[i], network(x[i]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("outputs", [1, 2, 9])
def test_the_product_of_the_last_layer_is_the_plain_one(outputs: int) -> None:
    shapes = ((3, 1, outputs), (3, 7, 4), (3, 4, outputs))
    parts = [torch.randn(shape, requires_grad=True) for shape in shapes]
    torch.testing.assert_close(_NarrowProduct.apply(*parts), torch.baddbmm(*parts))
    assert torch.autograd.gradcheck(_NarrowProduct.apply, parts)


def test_each_member_standardizes_by_its_own_center_and_scale(
    stack: MLPStack, x: Tensor
) -> None:
    center, scale = torch.randn(3, 5), 1 + torch.rand(3, 5)
    before = copy.deepcopy(stack)
    stack.standardize(center, scale)
    expected = before((x[0] - center[:, None]) / scale[:, None])
    torch.testing.assert_close(stack(x[0]), expected)


def test_initial_weights_follow_the_rule_of_linear_layers_and_the_generator() -> None:
    first, second = (
        MLPStack(4, 2, members=50, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    for weight, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(weight, other)
    weight = first.weights[1].detach()
    bound = 128**-0.5
    assert weight.abs().max() <= bound
    assert abs(weight.std().item() / (bound / 3**0.5) - 1) < 0.01
    assert first.biases[0].abs().max() <= 0.5


def test_selected_members_are_copies_that_draw_nothing(
    stack: MLPStack, x: Tensor
) -> None:
    stack.standardize(torch.randn(3, 5), 1 + torch.rand(3, 5))
    state = torch.random.get_rng_state()
    chosen = stack.float().select(torch.tensor([2, 0, 2]))
    assert torch.equal(state, torch.random.get_rng_state())
    assert chosen.members == 3
    assert not chosen.training
    rows = x[0].float()
    assert torch.equal(chosen(rows), stack(rows)[[2, 0, 2]])
    with torch.no_grad():
        chosen.weights[0].zero_()
    assert stack.weights[0].abs().min() > 0


def test_thinned_networks_equal_masked_passes(x: Tensor) -> None:
    stack = MLPStack(5, 2, members=3, hidden=HIDDEN, dropout=0.25)
    masks = [torch.rand(3, 4, units) > 0.3 for units in HIDDEN]
    thinned = stack.thinned(masks)
    assert thinned.members == 12
    for member in range(3):
        first, second, last = ordinary(stack, member)[::2]
        for number in range(4):
            hidden = first(x[0]).relu() * masks[0][member, number] / 0.75
            hidden = second(hidden).relu() * masks[1][member, number] / 0.75
            torch.testing.assert_close(thinned(x[0])[4 * member + number], last(hidden))


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (torch.zeros(4, 1), r"shape \(n, 5\) or \(3, n, 5\) .*, got \(4, 1\)"),
        (torch.zeros(2, 4, 5), r"got \(2, 4, 5\)"),
        (torch.zeros(5), r"dtype|shape"),
        (torch.zeros(4, 5, dtype=torch.float16), "network's dtype torch.float64, got"),
    ],
)
def test_refuses_inputs_that_do_not_fit(stack: MLPStack, x: Tensor, match: str) -> None:
    x = x.to(stack.center.dtype) if x.dtype == torch.float32 else x
    with pytest.raises(InputError, match=match):
        stack(x)


@pytest.mark.parametrize(
    "sizes", [{"members": 0}, {"hidden": (3, 0)}, {"features": 0}, {"outputs": -1}]
)
def test_refuses_sizes_below_one(sizes: dict[str, int]) -> None:
    options: Any = {"features": 3, "outputs": 2, **sizes}
    with pytest.raises(InputError, match="must be at least 1, got features="):
        MLPStack(**options)


class TestEncoding:
    """Positions within bins, beside the features."""

    def test_each_value_is_that_of_its_definition(
        self, generator: torch.Generator
    ) -> None:
        x = torch.randn(200, 3, generator=generator)
        x[:, 1] = (x[:, 1] > 0).double()  # two values: nothing to encode
        encoding = PiecewiseLinear.of_rows(x, 4)
        assert encoding.column.tolist() == [0] * 4 + [2] * 4
        far = torch.tensor([[-1e6, 0.0, 1e6]])
        for rows in (x, far):
            found = encoding(rows)
            for place, feature in enumerate(encoding.column.tolist()):
                left, width = encoding.left[place], encoding.width[place]
                low = -2.0 if place % 4 == 0 else 0.0
                high = 3.0 if place % 4 == 3 else 1.0
                expected = ((rows[:, feature] - left) / width).clamp(low, high)
                torch.testing.assert_close(found[:, place], expected)
        # A quarter of the rows lies in each bin.
        inside = ((encoding(x) > 0) & (encoding(x) < 1)).double().mean(0)
        assert (inside - 0.25).abs().max() < 0.02

    def test_the_first_layer_sees_features_and_encoding(
        self, generator: torch.Generator
    ) -> None:
        x = torch.randn(50, 2, generator=generator)
        encoding = PiecewiseLinear.of_rows(x, 5)
        stack = MLPStack(
            2, 2, members=3, hidden=(4,), encoding=encoding, generator=generator
        )
        stack.standardize(torch.ones(3, 2), 2 * torch.ones(3, 2))
        seen = torch.cat([(x - 1) / 2, encoding(x)], -1)
        expected = torch.stack([ordinary(stack, member)(seen) for member in range(3)])
        torch.testing.assert_close(stack(x), expected)
        torch.testing.assert_close(stack(x.expand(3, -1, -1)), expected)
        chosen = torch.tensor([2, 0])
        torch.testing.assert_close(stack.select(chosen)(x), expected[chosen])


CPU = torch.device("cpu")


@pytest.mark.parametrize("probability", [-0.1, 1.0, math.nan])
def test_refuses_what_is_not_a_share(probability: float) -> None:
    with pytest.raises(InputError, match=r"dropout must lie in \[0, 1\), got"):
        MLPStack(1, 1, dropout=probability)


def test_every_byte_of_a_word_is_uniform_up_to_its_highest_bit(
    generator: torch.Generator,
) -> None:
    # A place in a word that never reaches 128 would be dropped twice as often.
    draws = random_bytes((200_000, 8), generator, CPU)
    for place in range(8):
        counts = torch.bincount(draws[:, place].long(), minlength=256)
        assert stats.chisquare(counts.numpy()).pvalue > 1e-4
    assert random_bytes((2, 3, 11), generator, CPU).shape == (2, 3, 11)


def test_relu_and_mask_are_those_of_plain_torch(generator: torch.Generator) -> None:
    values = torch.randn(6, 50, generator=generator)
    weights = torch.randn(6, 50, generator=generator)
    for kept in (None, torch.rand(6, 50, generator=generator) > 0.25):
        ours, plain = (values.clone().requires_grad_() for _ in range(2))
        out = _Relu.apply(ours.clone(), kept, 4 / 3)  # type: ignore[no-untyped-call]
        expected = plain.relu() if kept is None else plain.relu() * kept / 0.75
        torch.testing.assert_close(out, expected)
        (out * weights).sum().backward()
        (expected * weights).sum().backward()
        torch.testing.assert_close(ours.grad, plain.grad)


@pytest.mark.parametrize("dropout", [0.05, 0.25, 0.9])
def test_units_are_dropped_and_scaled_as_by_nn_dropout(dropout: float) -> None:
    stack = MLPStack(1, 1000, hidden=(1000,), dropout=dropout, members=1)
    with torch.no_grad():
        for part in stack.parameters():
            part.zero_()
        stack.biases[0].fill_(1.0)  # hidden values of 1, and the outputs are they
        stack.weights[1].copy_(torch.eye(1000))
    share = stack.threshold / 256
    out = stack(torch.zeros(100, 1))
    assert stats.binomtest(int((out == 0).sum()), out.numel(), share).pvalue > 1e-4
    scales = nn.Dropout(share)(torch.ones(100)).unique()
    torch.testing.assert_close(out.unique(), scales)
    assert (stack.eval()(torch.zeros(2, 1)) == 1).all()
