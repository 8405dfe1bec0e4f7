"""Strict defaults for every test: float64, a fixed seed."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "calibrant",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # it looks at the clock
)
settings.load_profile("calibrant")

# The tests' tensors are small: a second thread costs more than it gives.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _float64_and_seed() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
