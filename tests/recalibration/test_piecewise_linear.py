"""The map along segments against its plain form, one binary search per value."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from calibrant._checks import pit_from_cdf
from calibrant.contracts import PitValues
from calibrant.recalibration import _segments
from calibrant.recalibration.maps import PiecewiseLinearMap

KINDS = ["uniform", "crowded", "flat", "short"]


def resolved_levels(pit: PitValues) -> Tensor:
    """Give the levels from the tail that is not rounded."""
    return torch.where(pit.cdf < 0.5, pit.cdf, 1 - pit.survival)


def reference_forward(unit_map: PiecewiseLinearMap, pit: PitValues) -> PitValues:
    """Give the forward map as its formula says it."""
    knots, heights, slopes = unit_map._knots, unit_map._heights, unit_map._slopes
    index = torch.searchsorted(knots, resolved_levels(pit), right=True) - 1
    return followed(pit, index.clamp(0, len(slopes) - 1), knots, heights, slopes)


def reference_inverse(unit_map: PiecewiseLinearMap, levels: PitValues) -> PitValues:
    """Give the inverse map as its formula says it."""
    knots, heights, slopes = unit_map._knots, unit_map._heights, unit_map._slopes
    wanted = resolved_levels(levels)
    index = (torch.searchsorted(heights, wanted) - 1).clamp(0, len(slopes) - 1)
    at_end = (wanted >= 1) & (slopes[-1] > 0)
    index = torch.where(at_end, len(slopes) - 1, index)
    rates = torch.where(slopes > 0, 1 / slopes, 0.0)
    return followed(levels, index, heights, knots, rates)


def followed(
    pit: PitValues, index: Tensor, x: Tensor, y: Tensor, rates: Tensor
) -> PitValues:
    """Go along the segments ``index`` from ``x`` to ``y``, each from 0 to 1."""
    last, rate = len(rates) - 1, rates[index]
    low, high = y[index], y[index + 1]
    rise = low + rate * (resolved_levels(pit) - x[index])
    beyond = resolved_levels(pit.mirrored())
    fall = (1 - high) + rate * (beyond - (1 - x[index + 1]))
    rise = torch.minimum(torch.maximum(rise, low), high)
    fall = torch.minimum(torch.maximum(fall, 1 - high), 1 - low)
    first, end = index == 0, (index == last) & (index > 0)
    cdf = torch.where(end, 1 - fall, rise)
    survival = torch.where(first, 1 - rise, fall)
    tiny = torch.finfo(torch.float64).tiny
    log_rate = rate.clamp_min(tiny).log()
    log_cdf = torch.where(first, log_rate + pit.log_cdf, cdf.clamp_min(tiny).log())
    log_survival = torch.where(
        index == last, log_rate + pit.log_survival, survival.clamp_min(tiny).log()
    )
    return PitValues(cdf, survival, log_cdf, log_survival)


def some_map(kind: str, generator: torch.Generator) -> PiecewiseLinearMap:
    """Make a map through many points, of some shape."""
    if kind == "short":
        return PiecewiseLinearMap(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))
    levels = torch.rand(300, generator=generator)
    if kind == "crowded":
        levels = torch.cat([levels**30, 1 - levels**30])
    levels = levels.sort().values
    heights = torch.arange(1, len(levels) + 1) / (len(levels) + 1)
    if kind == "flat":
        heights = (heights * 10).ceil() / 10
    return PiecewiseLinearMap.through(levels, heights, floor=1e-3 * (kind != "flat"))


def levels_everywhere(generator: torch.Generator) -> PitValues:
    """Levels in the middle and down both tails to 1e-300."""
    tail = torch.logspace(-300, -1, 600)
    middle = torch.rand(3000, generator=generator)
    lower = pit_from_cdf(torch.cat([tail, middle, torch.tensor([0.0, 1.0])]))
    upper = pit_from_cdf(tail).mirrored()
    pairs = zip(lower, upper, strict=True)
    pit = PitValues(*(torch.cat(pair) for pair in pairs))
    order = torch.randperm(len(pit.cdf), generator=generator)
    return pit.map(lambda part: part[order])


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_are_those_of_the_formula(
    kind: str, generator: torch.Generator
) -> None:
    unit_map, pit = some_map(kind, generator), levels_everywhere(generator)
    for _ in range(2):  # by a binary search, then by buckets
        for found, expected in (
            (unit_map.forward(pit), reference_forward(unit_map, pit)),
            (unit_map.inverse(pit), reference_inverse(unit_map, pit)),
        ):
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("kind", KINDS)
def test_tails_without_logarithms_are_the_same(
    kind: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_segments, "_BLOCK", 256)
    unit_map, pit = some_map(kind, generator), levels_everywhere(generator)
    forward, inverse = unit_map.forward(pit), unit_map.inverse(pit)
    lower = unit_map.lower_tail(pit.cdf, pit.survival)
    both = unit_map.tails(pit.cdf, pit.survival)
    assert torch.equal(lower, forward.cdf)
    assert torch.equal(both[0], forward.cdf)
    assert torch.equal(both[1], forward.survival)
    cdf, survival = unit_map.inverse_tails(pit.cdf, pit.survival)
    assert torch.equal(cdf, inverse.cdf)
    far = inverse.survival < 1e-3
    assert torch.equal(survival[far], inverse.survival[far])
    torch.testing.assert_close(survival, inverse.survival, rtol=0, atol=1e-12)
    shaped = pit.map(lambda part: part[:4200].view(3, 2, 700))
    assert torch.equal(
        unit_map.lower_tail(shaped.cdf, shaped.survival), shaped_like(forward.cdf)
    )


def shaped_like(values: Tensor) -> Tensor:
    return values[:4200].view(3, 2, 700)


@pytest.mark.parametrize("kind", ["uniform", "crowded"])
def test_gradients_are_the_slopes(kind: str, generator: torch.Generator) -> None:
    unit_map = some_map(kind, generator)
    cdf = torch.rand(50, generator=generator).requires_grad_()
    pit = pit_from_cdf(cdf)
    slopes = unit_map.log_density(pit).exp()
    for mapped in (
        unit_map.lower_tail(pit.cdf, pit.survival),
        unit_map.tails(pit.cdf, pit.survival)[0],
        unit_map.forward(pit).cdf,
    ):
        (gradient,) = torch.autograd.grad(mapped.sum(), cdf, retain_graph=True)
        torch.testing.assert_close(gradient, slopes)


def pickled(unit_map: PiecewiseLinearMap) -> PiecewiseLinearMap:
    """Send the map where another process would get it."""
    again: PiecewiseLinearMap = pickle.loads(pickle.dumps(unit_map))
    return again


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy, copy.copy])
def test_a_copy_of_a_used_map_is_the_same_map(
    copied: Callable[[PiecewiseLinearMap], PiecewiseLinearMap],
    generator: torch.Generator,
) -> None:
    unit_map, pit = some_map("uniform", generator), levels_everywhere(generator)
    for _ in range(2):  # by a binary search, then by buckets
        expected = [*unit_map.forward(pit), *unit_map.inverse(pit)]
    again = copied(unit_map)
    assert again.state() == unit_map.state()
    for _ in range(2):
        found = [*again.forward(pit), *again.inverse(pit)]
        assert all(map(torch.equal, found, expected))
    # Neither has it taken from the map what was made already.
    assert "_forward" in vars(unit_map)


def test_a_used_map_is_pickled_as_small_as_a_new_one(
    generator: torch.Generator,
) -> None:
    unit_map, pit = some_map("uniform", generator), levels_everywhere(generator)
    unused = len(pickle.dumps(unit_map))
    for _ in range(2):
        unit_map.forward(pit)
        unit_map.inverse(pit)
    assert len(pickle.dumps(unit_map)) == unused
