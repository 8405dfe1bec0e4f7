"""Mean and standard deviation of the predicted law inside the graph."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from calibrant.estimator.onnx._graph import Value
from calibrant.estimator.onnx._law import Law
from calibrant.estimator.onnx._unit import UnitLaw

__all__ = ["mean_and_spread"]

Array = npt.NDArray[np.float64]

# Values at which the law is looked at, at least one for each component.
_NODES, _NODES_WITH_BOUNDS = 512, 1024
# Components times values that are held at once for each row.
_BLOCK = 2048
# Probability beyond the outermost of these values.
_TAIL = 1e-18
# Probability between two nodes from which on a map's kinks are looked at.
_LEAST_SHARE = 1e-7


def mean_and_spread(law: Law) -> tuple[Value, Value]:
    r"""Mean and standard deviation, each ``(n,)``.

    Before maps of levels both are those of the components. The maps add

    .. math:: \int h(y) \, d(R(F(y)) - F(y)), \qquad h = y, y^2,

    an integral of a small difference. A law with bounds is integrated as a whole.
    """
    graph, center = law.graph, _center(law)
    if law.bounded:
        first, second = _bounded_moments(law, center)
    else:
        each = [(unit.moments(center), unit.weight) for unit in law.units]
        first, second = (
            graph.total([moments[power] * weight for moments, weight in each])
            for power in (0, 1)
        )
        mapped = [u for u in law.units if u.correction.level_map is not None]
        if mapped:
            more = _added_by_maps(law, mapped, center)
            first, second = first + more[0], second + more[1]
    mean = first + center
    spread = (second - first * first).clip(0.0).sqrt()
    if law.bounded:
        mean = law.or_bound(mean.expand(0)).reshape(-1)
        spread = law.or_bound(spread.expand(0), spread=True).reshape(-1)
    return mean, spread


def _center(law: Law) -> Value:
    """A value in the middle of the law, ``(n,)``."""
    middles = []
    for unit in law.units:
        for part in unit.parts:
            middle = part.components.mean
            if part.curve is not None:
                middle = part.curve.inverse(middle)
            middles.append(middle * (unit.weight * part.share))
    return law.graph.total(middles).clip(*law.bounds)


def _added_by_maps(
    law: Law, units: Sequence[UnitLaw], center: Value
) -> tuple[Value, Value]:
    """Integrate by parts: minus the integral of what maps add to the cdf."""
    nodes, size, block = _nodes(law, units, _NODES)
    counts: list[int] = []

    def gains(y: Value) -> list[Value]:
        each = [unit.gains(y) for unit in units]
        counts.extend(len(values) for values in each)
        return [value for values in each for value in values]

    found = iter(_in_blocks(nodes, gains, size, block))
    each = [[next(found) for _ in range(count)] for count in counts]
    weighted = list(zip(each, [unit.weight for unit in units], strict=True))
    between = law.graph.total([_mean_gain(*part) * weight for part, weight in weighted])
    gain = law.graph.total([part[0] * weight for part, weight in weighted])
    rise = gain.rows(1, None) - gain.rows(0, -1)
    width = nodes.rows(1, None) - nodes.rows(0, -1)
    middle = nodes.rows(0, -1) + width * 0.5 - center
    area = -(between * width)
    # The last term is 0 on an even grid, and mends an uneven one.
    second = area * middle * 2.0 - rise * width * width * (1 / 3)
    return area.sum(0), second.sum(0)


def _mean_gain(
    gain: Value, cdf: Value | None = None, area: Value | None = None
) -> Value:
    """Mean of what a map adds between nodes, ``(m - 1, n)``."""
    even = gain.rows(0, -1) * 0.5 + gain.rows(1, None) * 0.5
    if cdf is None or area is None:
        return even
    # Exact for a cdf that is linear between nodes, however many kinks the map has
    # there; where nearly nothing lies in between there are none, only rounding.
    share = cdf.rows(1, None) - cdf.rows(0, -1)
    some = share >= _LEAST_SHARE
    safe = cdf.graph.where(some, share, 1.0)
    exact = (area.rows(1, None) - area.rows(0, -1)) / safe
    return cdf.graph.where(some, exact, even)


def _bounded_moments(law: Law, center: Value) -> tuple[Value, Value]:
    nodes, size, block = _nodes(law, law.units, _NODES_WITH_BOUNDS)
    cdf, survival = _in_blocks(nodes, lambda y: list(law.tails(y)), size, block)
    # From the tail that is not rounded.
    rise = cdf.rows(1, None) - cdf.rows(0, -1)
    fall = survival.rows(0, -1) - survival.rows(1, None)
    share = law.graph.where(cdf.rows(1, None) < 0.5, rise, fall)
    return _integrals(nodes, share / law.inside()[1], center)


def _nodes(law: Law, units: Sequence[UnitLaw], count: int) -> tuple[Value, int, int]:
    """Ascending values ``(m, n)`` that lie as densely as the components do.

    The components take turns, so that alike ones share an even grid. With them come m
    and a number of values to look at together, a divisor of m.
    """
    total = sum(part.components.count for unit in units for part in unit.parts)
    rows, start = max(1, count // total), 0

    def shares(components: int) -> Array:
        nonlocal start
        turns = np.arange(start, start + components) + 0.5
        start += components
        places: Array = np.arange(rows)[:, None] / rows + turns / (rows * total)
        return places

    parts = [each for unit in units for each in unit.nodes(_TAIL, shares)]
    joined, size = law.graph.join(parts).clip(*law.bounds), rows * total
    options = {"axis": 0, "largest": 0, "sorted": 1}
    ascending, _ = law.graph.add_many("TopK", [joined, np.array([size])], 2, **options)
    most = max(1, _BLOCK // total)
    block = next(each for each in range(most, 0, -1) if size % each == 0)
    return ascending, size, block


def _in_blocks(
    nodes: Value, function: Callable[[Value], list[Value]], size: int, block: int
) -> list[Value]:
    """Ask for some nodes ``(m, n)`` at a time, so that memory stays small."""
    made = nodes.graph.scan(
        [],
        [nodes.reshape(size // block, block, -1)],
        lambda _, parts: ([], function(parts[0])),
    )
    return [each.reshape(size, -1) for each in made]


def _integrals(nodes: Value, share: Value, center: Value) -> tuple[Value, Value]:
    """Integrate first and second power around ``center`` against shares of cells.

    Parameters
    ----------
    nodes
        Edges of the cells, ``(m, n)``.
    share
        Probability in each cell, ``(m - 1, n)``.
    center
        Shape ``(n,)``.
    """
    width = nodes.rows(1, None) - nodes.rows(0, -1)
    middle = nodes.rows(0, -1) + width * 0.5 - center
    # Sheppard: to take all of a cell for its middle adds a twelfth of its square.
    square = middle * middle - width * width * (1 / 12)
    return (middle * share).sum(0), (square * share).sum(0)
