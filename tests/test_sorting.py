"""The sorts beside their contract: gradients, ties, limits, memory, randomness."""

import pytest
import torch
from torch import Tensor

from calibrant import InputError, sorting
from calibrant.sorting import (
    hard_sort,
    network_sort,
    neural_sort,
    soft_sort,
    stochastic_neural_sort,
)

RELAXED = [neural_sort, soft_sort, network_sort]


def test_ties_share_their_gradient_whatever_their_order() -> None:
    weights = torch.tensor([1.0, 3.0, 10.0])
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        values = torch.tensor([0.5, 0.5, 0.9])[order].requires_grad_()
        (hard_sort(values) * weights).sum().backward()
        assert values.grad is not None
        expected = torch.where(values.detach() == 0.5, 2.0, 10.0)
        torch.testing.assert_close(values.grad, expected)


def test_values_of_ties_are_kept_to_the_bit() -> None:
    values = torch.tensor([0.1, 0.1, 0.1, 0.7], dtype=torch.float32, requires_grad=True)
    assert torch.equal(hard_sort(values), values.detach())


def test_a_key_orders_values_that_tie() -> None:
    values = torch.tensor([1.0, 1.0, 0.0], requires_grad=True)
    out = hard_sort(values, key=torch.tensor([2.0, 1.0, 0.0]))
    (out * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [3.0, 2.0, 1.0]


def test_second_derivatives_exist() -> None:
    values = torch.tensor([0.3, 0.1, 0.8], requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: hard_sort(x).pow(3), [values])


def gradient(sort: object, values: Tensor, weights: Tensor) -> Tensor:
    leaf = values.clone().requires_grad_()
    (sort(leaf) * weights).sum().backward()  # type: ignore[operator]
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("sort", RELAXED)
def test_becomes_the_hard_sort_as_the_temperature_falls(
    sort: object, generator: torch.Generator
) -> None:
    values = torch.rand(20, generator=generator)
    weights = torch.randn(20, generator=generator)

    def errors(temperature: float) -> tuple[float, float]:
        def cold(x: Tensor) -> Tensor:
            return sort(x, temperature=temperature)  # type: ignore[operator]

        value = (cold(values) - values.sort().values).abs().max()
        slope = gradient(cold, values, weights) - gradient(hard_sort, values, weights)
        return float(value), float(slope.abs().max())

    warm, cold = errors(1e-2), errors(1e-6)
    assert cold[0] < 1e-12
    assert cold[1] < 1e-9
    assert warm[0] > 1e-4  # a sort that ignores its temperature would pass the above
    assert warm[1] > 1e-2


def test_neural_sort_is_the_formula_of_its_paper(generator: torch.Generator) -> None:
    n, tau = 6, 0.1
    values = torch.rand(n, generator=generator)
    distances = (values[:, None] - values[None, :]).abs().sum(1)
    slopes = [n + 1 - 2 * i for i in range(1, n + 1)]  # the paper's order descends
    descending = torch.stack(
        [torch.softmax((slope * values - distances) / tau, 0) for slope in slopes]
    )
    torch.testing.assert_close(
        neural_sort(values, temperature=tau), (descending @ values).flip(0)
    )


def test_the_network_keeps_the_sum(generator: torch.Generator) -> None:
    values = torch.rand(4, 13, generator=generator)
    out = network_sort(values, temperature=0.05)
    torch.testing.assert_close(out.sum(-1), values.sum(-1))


@pytest.mark.parametrize("sort", [neural_sort, soft_sort])
def test_blocks_change_neither_value_nor_gradient(
    sort: object, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = torch.rand(2, 33, generator=generator)
    weights = torch.randn(33, generator=generator)
    whole = sort(values), gradient(sort, values, weights)  # type: ignore[operator]
    monkeypatch.setattr(sorting, "BLOCK_ELEMENTS", 256)
    parts = sort(values), gradient(sort, values, weights)  # type: ignore[operator]
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("sort", [neural_sort, soft_sort])
def test_blocks_bound_what_the_backward_pass_keeps(
    sort: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 256
    monkeypatch.setattr(sorting, "BLOCK_ELEMENTS", 8 * n)
    largest = 0

    def note(tensor: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    values = torch.rand(n, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        sort(values).sum().backward()  # type: ignore[operator]
    assert 0 < largest <= 8 * n  # not the n * n of the whole matrix


@pytest.mark.parametrize("sort", RELAXED)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_refuses_a_temperature_that_is_not_positive(
    sort: object, temperature: float
) -> None:
    with pytest.raises(InputError, match="temperature must be a finite number above 0"):
        sort(torch.rand(3), temperature=temperature)  # type: ignore[operator]


def test_first_choices_follow_plackett_and_luce(
    generator: torch.Generator,
) -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    draws = 20_000
    matrices = stochastic_neural_sort(
        probabilities.log(), samples=draws, generator=generator
    )
    first = matrices[:, -1, :].argmax(-1).bincount(minlength=4) / draws
    error = (probabilities * (1 - probabilities) / draws).sqrt()
    assert ((first - probabilities).abs() < 4 * error).all()
    # Second choices given that item 0 came first: renormalized scores of the rest.
    rest = matrices[matrices[:, -1, :].argmax(-1) == 0]
    second = rest[:, -2, :].argmax(-1).bincount(minlength=4) / len(rest)
    expected = probabilities[1:] / probabilities[1:].sum()
    error = (expected * (1 - expected) / len(rest)).sqrt()
    assert ((second[1:] - expected).abs() < 4 * error).all()


def test_the_stochastic_form_is_reproducible_and_carries_gradient() -> None:
    scores = torch.tensor([0.2, 0.5, 0.3]).log().requires_grad_()
    draws = [
        stochastic_neural_sort(
            scores,
            temperature=0.5,
            samples=3,
            generator=torch.Generator().manual_seed(7),
        )
        for _ in range(2)
    ]
    assert torch.equal(draws[0], draws[1])
    torch.testing.assert_close(draws[0].sum(-1), torch.ones(3, 3))
    draws[0][:, -1, 0].sum().backward()
    assert scores.grad is not None
    assert scores.grad[0] > 0  # a larger score makes item 0 come first more often
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        stochastic_neural_sort(scores, samples=0)
