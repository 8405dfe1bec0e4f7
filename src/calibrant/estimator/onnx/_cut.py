"""A law on the condition of two bounds, inside the graph."""

from collections.abc import Callable

import numpy as np

from calibrant.estimator.onnx._graph import Value

__all__ = ["Cut"]

Tails = tuple[Value, Value]

# Probability within the bounds below which a law is put on the nearer one.
_LEAST_MASS = 1e-290


class Cut:
    """A law that is cut at two bounds and scaled up.

    Parameters
    ----------
    tails
        Cdf and survival of the law at values ``(a, n)``.
    bounds
        Least and largest target, infinite for none.
    zeros
        Shape ``(1, n)``.
    """

    def __init__(
        self,
        tails: Callable[[Value], Tails],
        bounds: tuple[float, float],
        zeros: Value,
    ) -> None:
        low, high = self.bounds = bounds
        graph, self._tails = zeros.graph, tails
        ends = [(zeros, zeros + 1.0), (zeros + 1.0, zeros)]
        self._low, self._high = (
            tails(zeros + bound) if np.isfinite(bound) else end
            for bound, end in zip(bounds, ends, strict=True)
        )
        mass = _between(self._low, self._high)
        self._empty = mass < _LEAST_MASS
        self._mass = graph.where(self._empty, 1.0, mass)
        nearer = low if not np.isfinite(high) else high
        other = high if not np.isfinite(low) else low
        self._point = graph.where(self._high[0] < 0.5, nearer, other)

    def tails(self, y: Value) -> Tails:
        """Cdf and survival at values ``(a, n)``; a step where there is no mass."""
        graph = y.graph
        inner = self._tails(y.clip(*self.bounds))
        cdf = (_between(self._low, inner) / self._mass).clip(0.0, 1.0)
        survival = (_between(inner, self._high) / self._mass).clip(0.0, 1.0)
        reached = y >= self._point
        return (
            graph.where(self._empty, graph.where(reached, 1.0, 0.0), cdf),
            graph.where(self._empty, graph.where(reached, 0.0, 1.0), survival),
        )


def _between(low: Tails, high: Tails) -> Value:
    """Probability between two values, from the tail that is not rounded."""
    graph = low[0].graph
    rise, fall = high[0] - low[0], low[1] - high[1]
    middle = 1.0 - (low[0] + high[1])
    upper = graph.where(low[1] < 0.5, fall, middle)
    return graph.where(high[0] < 0.5, rise, upper)
