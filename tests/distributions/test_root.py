"""The root finder on functions that Newton alone would not survive."""

from functools import partial

import pytest
import torch
from calibrant.distributions._numerics import solve_increasing, with_implicit_gradient
from torch import Tensor

double = partial(torch.tensor, dtype=torch.float64)
ROOTS = double([-3.0, 0.0, 1e-6, 0.7, 900.0])


def cube(x: Tensor) -> tuple[Tensor, Tensor]:
    return (x - ROOTS) ** 3, 3 * (x - ROOTS) ** 2


def arc_tangent(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.atan(x - ROOTS), 1 / (1 + (x - ROOTS) ** 2)


def step(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(x < ROOTS, -1.0, 1.0), torch.zeros_like(x)


@pytest.mark.parametrize("function", [arc_tangent, step])
@pytest.mark.parametrize("start", [None, 5000.0 + ROOTS])
def test_finds_roots(function: object, start: Tensor | None) -> None:
    bound = torch.full_like(ROOTS, 1000.0)
    found = solve_increasing(function, -bound, bound, start=start)
    torch.testing.assert_close(found, ROOTS, rtol=1e-12, atol=1e-12)


def test_a_flat_root_is_one_to_the_precision_of_the_function() -> None:
    bound = torch.full_like(ROOTS, 1000.0)
    found = solve_increasing(cube, -bound, bound)
    assert (cube(found)[0].abs() < 1e-12).all()


def test_gives_the_nearer_end_where_there_is_no_root() -> None:
    found = solve_increasing(lambda x: (x + 10, torch.ones_like(x)), ROOTS, ROOTS + 1)
    torch.testing.assert_close(found, ROOTS)


def test_gradient_is_the_implicit_one() -> None:
    # x^2 = a has dx/da = 1 / (2 x).
    a = torch.tensor([4.0, 9.0], requires_grad=True)
    root = torch.tensor([2.0, 3.0])
    with_implicit_gradient(root, root**2 - a, 2 * root).sum().backward()
    torch.testing.assert_close(a.grad, torch.tensor([1 / 4, 1 / 6]))
