"""The hard sort: its gradient, its ties, and a key that resolves them."""

import torch

from calibrant import hard_sort


def test_gradient_is_the_permutation() -> None:
    values = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (hard_sort(values) * torch.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [30.0, 10.0, 20.0]


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
