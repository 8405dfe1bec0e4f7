"""The sorting network against diffsort, the code of its paper's authors."""

import pytest
import torch

from calibrant.sorting import network_sort

diffsort = pytest.importorskip("diffsort")


@pytest.mark.parametrize("n", [2, 8, 16])
def test_equals_the_authors_bitonic_network(n: int, generator: torch.Generator) -> None:
    temperature = 0.1
    values = torch.rand(5, n, generator=generator).float()
    theirs = diffsort.DiffSortNet(
        "bitonic", n, steepness=1 / temperature, distribution="logistic"
    )
    expected, _ = theirs(values)
    torch.testing.assert_close(
        network_sort(values, temperature=temperature), expected, atol=1e-5, rtol=0
    )
