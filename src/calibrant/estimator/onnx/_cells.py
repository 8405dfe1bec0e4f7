"""Integrals of a law over cells, inside the graph."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._unit import UnitLaw

__all__ = ["ascending", "edges_of", "in_blocks", "whole_moments"]

Array = npt.NDArray[np.float64]

# Values of each component from which edges are taken.
_LEAST_VALUES = 16
# Components times values that are held at once for each row.
_BLOCK = 2048
# Probability beyond the outermost edges.
_TAIL = 1e-18


def edges_of(units: Sequence[UnitLaw], cells: int) -> Value:
    """Ascending edges ``(cells + 1, n)``, as dense as values of the components are.

    The components take turns, so that alike ones share an even grid.
    """
    total = _count(units)
    rows, start = max(_LEAST_VALUES, -(-(cells + 1) // total)), 0

    def shares(components: int) -> Array:
        nonlocal start
        turns = np.arange(start, start + components) / max(1, total - 1)
        start += components
        places: Array = (np.arange(rows)[:, None] + turns) / rows
        return places

    parts = [each for unit in units for each in unit.nodes(_TAIL, shares)]
    size = rows * total
    places = np.linspace(0, size - 1, cells + 1).round().astype(np.int64)
    return ascending(units[0].graph.join(parts), size).take(places)


def ascending(values: Value, size: int) -> Value:
    """Sort ``(size, n)`` along the first axis."""
    options = {"axis": 0, "largest": 0, "sorted": 1}
    return values.graph.add_many("TopK", [values, np.array([size])], 2, **options)[0]


def _count(units: Sequence[UnitLaw]) -> int:
    return sum(part.components.count for unit in units for part in unit.parts)


def in_blocks(
    values: Value,
    function: Callable[[Value], Sequence[Value]],
    size: int,
    units: Sequence[UnitLaw],
) -> list[Value]:
    """Ask for some of the values ``(size, n)`` at a time, to save memory."""
    most = max(1, _BLOCK // _count(units))
    block = next(each for each in range(min(most, size), 0, -1) if size % each == 0)
    made = values.graph.scan(
        [],
        [values.reshape(size // block, block, -1)],
        lambda _, parts: ([], function(parts[0])),
        axes=2,
    )
    return [each.reshape(size, -1) for each in made]


def whole_moments(
    graph: Graph, edges: Value, tails: Sequence[Value], center: Value
) -> tuple[Value, Value]:
    """First and second moment around ``center`` of a law that nothing is known of.

    Parameters
    ----------
    graph
        Where.
    edges
        Of the cells, ascending, ``(m, n)``.
    tails
        Cdf and survival there.
    center
        Shape ``(n,)``.
    """
    cdf, survival = tails
    # From the tail that is not rounded.
    rise = cdf.rows(1, None) - cdf.rows(0, -1)
    fall = survival.rows(0, -1) - survival.rows(1, None)
    share = graph.where(cdf.rows(1, None) < 0.5, rise, fall)
    width = edges.rows(1, None) - edges.rows(0, -1)
    middle = edges.rows(0, -1) + width * 0.5 - center
    # Sheppard: to take all of a cell for its middle adds a twelfth of its square.
    square = middle * middle - width * width * (1 / 12)
    return (middle * share).sum(0), (square * share).sum(0)
