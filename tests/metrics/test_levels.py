"""Counting at levels by a multiplication, against a search."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError
from calibrant._checks import pit_from_cdf
from calibrant.metrics._levels import (
    ascending,
    count_at_most,
    level_places,
    pit_rows,
    promised_levels,
)
from calibrant.metrics.calibration import calibration_error

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64], ids=["float32", "float64"]
)


def around_levels(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Every level, its neighbors on both sides, and values in between."""
    levels = promised_levels(count).to(dtype)
    up, down = torch.full_like(levels, 2), torch.full_like(levels, -1)
    values = torch.cat(
        [
            levels,
            torch.nextafter(levels, up),
            torch.nextafter(levels, down),
            levels - 0.5 / count,
            torch.zeros(2, dtype=dtype),
            torch.rand(500, dtype=dtype),
        ]
    )
    return values.clamp(0, 1)


@DTYPES
@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 49, 100, 1000, 9999])
def test_even_levels_are_met_exactly(count: int, dtype: torch.dtype) -> None:
    values, promised = around_levels(count, dtype), promised_levels(count)
    plain = torch.searchsorted(promised.to(dtype), values)
    assert torch.equal(level_places(values, promised), plain)
    ordered = values.sort().values
    at_most = torch.searchsorted(ordered, promised.to(dtype), right=True)
    assert torch.equal(count_at_most(values, promised), at_most)


@DTYPES
def test_levels_of_a_line_through_zero(dtype: torch.dtype) -> None:
    # As the toolbox makes them: j / 99 up to rounding, and 0.
    promised = torch.from_numpy(np.linspace(0, 1, 100))
    values = torch.cat([around_levels(99, dtype), promised.to(dtype)])
    table = (values[:, None] <= promised.to(dtype)).sum(0)
    assert torch.equal(count_at_most(values, promised), table)


@given(st.lists(st.floats(0, 1), min_size=1), st.lists(st.floats(0, 1), min_size=1))
def test_any_levels_in_any_order(values: list[float], levels: list[float]) -> None:
    pit, promised = torch.tensor(values), torch.tensor(levels)
    table = (pit[:, None] <= promised).sum(0)
    assert torch.equal(count_at_most(pit, promised), table)


def test_values_outside_the_unit_interval_are_searched() -> None:
    # PIT values with both tails come unchecked.
    values = torch.tensor([-0.5, 0.3, 2.0, float("nan")])
    assert level_places(values, promised_levels(2)).tolist() == [0, 0, 2, 2]


def test_more_levels_than_a_product_can_tell_apart() -> None:
    values, promised = torch.rand(50), promised_levels(20_000)
    plain = torch.searchsorted(promised, values)
    assert torch.equal(level_places(values, promised), plain)


def test_checked_values_come_back_as_they_are() -> None:
    values = torch.rand(5, requires_grad=True)
    assert torch.equal(pit_rows(values), values.detach())
    assert not pit_rows(values).requires_grad
    with pytest.raises(InputError, match="pit must be a float tensor"):
        pit_rows(torch.tensor([0, 1]))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"]
)
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    values = torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=dtype)
    assert pit_rows(pit_from_cdf(values)).dtype == torch.float32
    assert calibration_error(pit_from_cdf(values), levels=4) == 0
    assert calibration_error(values, levels=4) == 0


def test_ascending_sorts() -> None:
    values = torch.rand(100)
    assert torch.equal(ascending(values), values.sort().values)
