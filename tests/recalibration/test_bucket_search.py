"""Pieces by buckets against the binary search that they replace."""

import pytest
import torch
from calibrant.recalibration._bucket_search import BucketSearch
from torch import Tensor


def tables(generator: torch.Generator) -> dict[str, Tensor]:
    """Ascending tables from 0 to 1: even, crowded, with ties, and the shortest."""
    ends = torch.tensor([0.0, 1.0])
    uniform = torch.rand(500, generator=generator)
    return {
        "even": torch.linspace(0, 1, 65),
        "uniform": torch.cat([ends, uniform]).sort().values,
        "crowded": torch.cat([ends, uniform**40, 1 - 1e-16 - uniform**40 / 2])
        .unique()
        .clamp(0, 1),
        "ties": torch.cat([ends, ends, (uniform * 20).round() / 20]).sort().values,
        "shortest": ends,
    }


def awkward(table: Tensor, generator: torch.Generator) -> Tensor:
    """Values at, right below and right above the entries and bounds of buckets."""
    grid = torch.arange(4097) / 4096
    exact = torch.cat([table, grid])
    beside = [exact.nextafter(torch.tensor(end)) for end in (0.0, 1.0)]
    values = [exact, *beside, torch.rand(2000, generator=generator)]
    shuffled = torch.cat([*values, torch.tensor([1e-320, 5e-324])])
    return shuffled[torch.randperm(len(shuffled), generator=generator)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("name", ["even", "uniform", "crowded", "ties", "shortest"])
def test_pieces_are_those_of_the_binary_search(
    name: str, right: bool, whole: bool, generator: torch.Generator
) -> None:
    table = tables(generator)[name]
    values = awkward(table, generator)
    expected = torch.searchsorted(table, values, right=right) - 1
    expected = expected.clamp(0, len(table) - 2)
    if whole:
        expected = torch.where(values >= 1, len(table) - 2, expected)
    search = BucketSearch(table, right=right, whole=whole)
    assert torch.equal(search(values).long(), expected)
    search._until = 0  # from here on by buckets
    assert torch.equal(search(values).long(), expected)
    assert torch.equal(search(values[:12].view(3, 4)).long(), expected[:12].view(3, 4))


def test_buckets_are_made_when_enough_was_asked(generator: torch.Generator) -> None:
    search = BucketSearch(torch.linspace(0, 1, 9), right=True, whole=True)
    values = torch.rand(70, generator=generator)
    first = search(values)
    assert search._buckets is None
    assert torch.equal(search(values), first)
    assert search._buckets is not None


def test_what_is_no_level_finds_some_piece() -> None:
    search = BucketSearch(torch.linspace(0, 1, 9), right=True, whole=True)
    odd = torch.tensor([torch.nan, -torch.inf, -0.1, 1.1, torch.inf, 1e300])
    for until in (100, 0):
        search._until = until
        pieces = search(odd)
        assert ((pieces >= 0) & (pieces <= 7)).all()
        assert pieces[2:4].tolist() == [0, 7]
