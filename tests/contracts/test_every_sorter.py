"""What every sorter in the table must do. A new sorter is tested by its one line."""

import pytest
import torch
from torch import Tensor

from calibrant import InputError
from calibrant.protocols import Sorter
from calibrant.sorting import SORTERS


@pytest.fixture(params=list(SORTERS))
def sorter(request: pytest.FixtureRequest) -> Sorter:
    return SORTERS[request.param]


def spread_values(n: int, generator: torch.Generator) -> Tensor:
    """Values at least 0.5 / n apart, in random order: no ties, nothing too close."""
    places = torch.randperm(n, generator=generator)
    return (places + 0.5 * torch.rand(n, generator=generator)) / n


def test_keeps_shape_and_ascends(sorter: Sorter, generator: torch.Generator) -> None:
    values = spread_values(25, generator)
    torch.testing.assert_close(
        sorter(values), values.sort().values, atol=2e-3, rtol=0, check_stride=False
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 65])
def test_takes_any_length(sorter: Sorter, n: int, generator: torch.Generator) -> None:
    values = spread_values(n, generator)
    torch.testing.assert_close(sorter(values), values.sort().values, atol=0.02, rtol=0)


def test_rows_of_a_batch_are_sorted_apart(
    sorter: Sorter, generator: torch.Generator
) -> None:
    values = torch.rand(2, 3, 9, generator=generator)
    one_by_one = torch.stack([sorter(row) for row in values.flatten(0, 1)])
    torch.testing.assert_close(sorter(values), one_by_one.unflatten(0, (2, 3)))


def test_ignores_the_order_of_its_input(
    sorter: Sorter, generator: torch.Generator
) -> None:
    values = spread_values(25, generator)
    shuffled = values[torch.randperm(25, generator=generator)]
    # The network's swaps are soft, so its result depends a little on the order.
    torch.testing.assert_close(sorter(values), sorter(shuffled), atol=2e-3, rtol=0)


def test_gradient_matches_finite_differences(
    sorter: Sorter, generator: torch.Generator
) -> None:
    values = torch.stack([spread_values(8, generator) for _ in range(2)])
    assert torch.autograd.gradcheck(sorter, [values.requires_grad_()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_float_type(sorter: Sorter, dtype: torch.dtype) -> None:
    values = torch.tensor([0.9, 0.1, 0.5, 0.3], dtype=dtype)
    out = sorter(values)
    assert out.dtype == dtype
    torch.testing.assert_close(out, values.sort().values, atol=1e-5, rtol=0)


def test_half_precision_is_widened(sorter: Sorter) -> None:
    values = torch.tensor([0.75, 0.25, 0.5], dtype=torch.bfloat16)
    assert sorter(values).dtype == torch.float32


def test_ties_and_constants_are_finite(sorter: Sorter) -> None:
    values = torch.tensor([0.5, 0.5, 0.2, 0.5], requires_grad=True)
    out = sorter(values)
    (out * torch.arange(4.0)).sum().backward()
    torch.testing.assert_close(out, values.sort().values, atol=1e-6, rtol=0)
    assert values.grad is not None
    assert torch.isfinite(values.grad).all()


def test_keeps_full_precision_under_autocast(sorter: Sorter) -> None:
    values = torch.tensor([0.9, 0.101, 0.5], dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = sorter(values)
    torch.testing.assert_close(out, values.sort().values, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (torch.tensor(1.0), r"shape \(\.\.\., n\) with n >= 1, got \(\)"),
        (torch.empty(3, 0), r"got \(3, 0\)"),
        (torch.arange(3), r"float tensor, got dtype torch.int64"),
    ],
)
def test_refuses_what_cannot_be_sorted(
    sorter: Sorter, values: Tensor, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        sorter(values)
