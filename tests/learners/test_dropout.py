"""Dropout from random bytes, and ReLU in place."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from calibrant import InputError
from calibrant.learners.mlp import MLPStack, _Relu, random_bytes

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
