"""Mean and standard deviation of the predicted law inside the graph."""

from collections.abc import Sequence

import numpy as np

from calibrant.estimator.onnx._cells import (
    ascending,
    edges_of,
    in_blocks,
    whole_moments,
)
from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._law import Law

__all__ = ["mean_and_spread"]

Moments = tuple[Value, Value]

# Panels and nodes in each for smooth maps, and cells for maps with kinks.
_PANELS, _GAUSS, _CELLS = 192, 4, 512
# Even cells of a law that is cut, between levels with this probability beyond.
_EVEN_CELLS, _TAIL = 511, 1e-9
# Rise of the log cdf in a cell from which on a map's kinks are looked at.
_LEAST_STEP = 1e-5
# Number of values that a unit with such a map gives.
_FOUND = 8


def mean_and_spread(law: Law) -> Moments:
    r"""Mean and standard deviation, each ``(n,)``.

    Before maps of levels both are those of the components. The maps add

    .. math:: -\int h'(y) \bigl(R(F(y)) - F(y)\bigr) \, dy, \qquad h = y, y^2,

    an integral of a small difference. A law with bounds is integrated as a whole.
    """
    center = law.graph.total([unit.center * unit.weight for unit in law.units])
    if law.is_cut:
        first, second = _if_cut(law, center)
    else:
        parts = [
            *_of_components(law, center),
            *_added_by_smooth_maps(law, center),
            *_added_by_kinked_maps(law, center),
        ]
        first, second = (law.graph.total([p[power] for p in parts]) for power in (0, 1))
    return first + center, (second - first * first).clip(0.0).sqrt()


def _of_components(law: Law, center: Value) -> list[Moments]:
    each = [(unit.moments(center), unit.weight) for unit in law.units]
    return [(first * weight, second * weight) for (first, second), weight in each]


def _added_by_smooth_maps(law: Law, center: Value) -> list[Moments]:
    """Gauss's rule on panels."""
    units = [unit for unit in law.units if unit.has_map and not unit.has_kinks]
    if not units:
        return []
    edges = edges_of(units, _PANELS)
    places, shares = np.polynomial.legendre.leggauss(_GAUSS)
    half = (edges.rows(1, None) - edges.rows(0, -1)) * 0.5
    middle = edges.rows(0, -1) + half
    nodes = law.graph.join([half * float(place) + middle for place in places])
    weights = law.graph.join([half * float(share) for share in shares])

    def gain(y: Value) -> list[Value]:
        return [law.graph.total([unit.gain(y)[0] * unit.weight for unit in units])]

    (gains,) = in_blocks(nodes, gain, _PANELS * _GAUSS, units)
    area = -(gains * weights)
    return [(area.sum(0), (area * (nodes - center) * 2.0).sum(0))]


def _added_by_kinked_maps(law: Law, center: Value) -> list[Moments]:
    """Cells in which the log cdf counts as linear: any number of kinks is exact."""
    units = [unit for unit in law.units if unit.has_kinks]
    if not units:
        return []
    edges = edges_of(units, _CELLS)

    def gains(y: Value) -> list[Value]:
        return [value for unit in units for value in unit.gain(y)]

    found = in_blocks(edges, gains, _CELLS + 1, units)
    width = edges.rows(1, None) - edges.rows(0, -1)
    middle = edges.rows(0, -1) + width * 0.5 - center
    added = []
    for number, unit in enumerate(units):
        own = found[_FOUND * number : _FOUND * (number + 1)]
        mean, slope = _in_cells(law.graph, own)
        area, moment = mean * width, slope * width * width
        first = area.sum(0) * -unit.weight
        second = (area * middle + moment).sum(0) * (-2 * unit.weight)
        added.append((first, second))
    return added


def _in_cells(graph: Graph, found: Sequence[Value]) -> Moments:
    """Mean of what a map adds in each cell, and of that times the place in it.

    Parameters
    ----------
    graph
        Where.
    found
        At the edges ``(m, n)``: what :meth:`UnitLaw.gain` gives.

    Returns
    -------
    tuple of Value
        Shapes ``(m - 1, n)``; places run from -1/2 to 1/2.
    """
    low, high = ([e.rows(0, -1) for e in found], [e.rows(1, None) for e in found])
    # From the tail that is not rounded: log level and areas of the one or the other.
    lower = high[1] < 0.5
    step, area, moment = (
        graph.where(lower, high[each] - low[each], high[each + 3] - low[each + 3])
        for each in (2, 3, 4)
    )
    level = graph.where(lower, low[2] + high[2], low[5] + high[5]) * 0.5
    # Where nearly nothing lies in between there are no kinks, only rounding.
    some = step.abs() >= _LEAST_STEP
    safe = graph.where(some, step, 1.0)
    mean = graph.where(some, area / safe, (low[0] + high[0]) * 0.5)
    slope = (moment - level * area) / (safe * safe)
    return mean, graph.where(some, slope, (high[0] - low[0]) * (1 / 12))


def _if_cut(law: Law, center: Value) -> Moments:
    """Cells of the whole law: as dense as the components are, and even ones."""
    ends = law.quantiles(np.array([_TAIL, 1 - _TAIL]))
    low, high = ends.rows(0, 1), ends.rows(1, None)
    even = (high - low) * np.linspace(0, 1, _EVEN_CELLS + 1)[:, None] + low
    edges = edges_of(law.units, _CELLS)
    size = _CELLS + _EVEN_CELLS + 2
    edges = ascending(law.graph.join([edges, even]), size)
    tails = in_blocks(edges, law.tails, size, law.units)
    return whole_moments(law.graph, edges, tails, center)
