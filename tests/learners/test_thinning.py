"""Dropout from random bytes."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from calibrant import InputError
from calibrant.learners._thinning import (
    _random_bytes,
    drop_threshold,
    keep_masks,
    kept_scale,
    relu_and_drop,
)
from calibrant.learners.mlp import MLPStack

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("probability", "threshold"),
    [(0.0, 0), (0.25, 64), (0.5, 128), (0.1, 26), (1e-9, 1), (0.9999, 255), (0.3, 77)],
)
def test_a_probability_is_rounded_but_never_to_all_or_nothing(
    probability: float, threshold: int
) -> None:
    assert drop_threshold(probability) == threshold


@pytest.mark.parametrize("probability", [-0.1, 1.0, math.nan])
def test_refuses_what_is_no_share(probability: float) -> None:
    with pytest.raises(InputError, match=r"dropout must lie in \[0, 1\), got"):
        drop_threshold(probability)


def test_every_byte_of_a_word_is_uniform_up_to_its_highest_bit(
    generator: torch.Generator,
) -> None:
    # A place in a word that never reaches 128 would be dropped twice as often.
    draws = _random_bytes((200_000, 8), generator, CPU)
    for place in range(8):
        counts = torch.bincount(draws[:, place].long(), minlength=256)
        assert stats.chisquare(counts.numpy()).pvalue > 1e-4
        for bit in range(8):
            ones = int((draws[:, place].long() >> bit & 1).sum())
            assert stats.binomtest(ones, len(draws)).pvalue > 1e-5


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5), (2, 3, 11)])
def test_draws_any_shape(shape: tuple[int, ...]) -> None:
    assert _random_bytes(shape, None, CPU).shape == shape


@pytest.mark.parametrize("probability", [0.05, 0.25, 0.5, 0.9])
def test_units_are_dropped_as_often_as_asked(
    probability: float, generator: torch.Generator
) -> None:
    threshold = drop_threshold(probability)
    share = threshold / 256
    kept = keep_masks((1000, 101), threshold, generator)
    dropped = int((~kept).sum())
    assert stats.binomtest(dropped, kept.numel(), share).pvalue > 1e-4
    out = relu_and_drop(torch.ones(1000, 101), threshold, generator)
    dropped = int((out == 0).sum())
    assert stats.binomtest(dropped, out.numel(), share).pvalue > 1e-4
    assert torch.equal(out.unique(), torch.tensor([0.0, kept_scale(threshold)]))


def test_value_and_gradient_are_those_of_dropout_with_the_same_mask(
    generator: torch.Generator,
) -> None:
    values = torch.randn(6, 50, generator=generator)
    weights = torch.randn(6, 50, generator=generator)
    ours, plain = (values.clone().requires_grad_() for _ in range(2))
    out = relu_and_drop(ours.clone(), 64, torch.Generator().manual_seed(1))
    mask = keep_masks((6, 50), 64, torch.Generator().manual_seed(1))
    expected = plain.relu() * mask / 0.75
    torch.testing.assert_close(out, expected)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)


def test_the_scale_is_that_of_dropout() -> None:
    values = torch.ones(64, 64, dtype=torch.float32)
    ours = relu_and_drop(values.clone(), 64, None)
    assert torch.equal(ours.unique(), nn.Dropout(0.25)(values).unique())


def test_the_same_generator_gives_the_same_passes_and_goes_on() -> None:
    stack = MLPStack(3, 2, dropout=0.5)
    x = torch.randn(9, 3)
    first, second = (torch.Generator().manual_seed(4) for _ in range(2))
    one, two = stack(x, generator=first), stack(x, generator=first)
    assert not torch.equal(one, two)
    assert torch.equal(stack(x, generator=second), one)
    assert torch.equal(stack(x, generator=second), two)
    state = torch.random.get_rng_state()
    stack(x, generator=first)
    assert torch.equal(state, torch.random.get_rng_state())


def test_dropout_keeps_the_expectation_and_ends_with_training() -> None:
    stack = MLPStack(3, 1, hidden=(400,), dropout=0.25)
    x = torch.randn(1, 3)
    drawn = stack(x.expand(20_000, 3))[0, :, 0]
    stack.eval()
    plain = stack(x)
    error = drawn.std() / len(drawn) ** 0.5
    assert abs(drawn.mean() - plain) < 4 * error
    assert torch.equal(plain, stack(x))


def test_member_gradients_pass_through_several_layers_of_dropout() -> None:
    stack = MLPStack(3, 2, members=2, hidden=(5, 4), dropout=0.25)
    x = torch.randn(2, 3, 3, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: stack(x, generator=torch.Generator().manual_seed(7)), [x]
    )
