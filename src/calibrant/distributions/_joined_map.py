"""Two maps of [0, 1] as one: a law that is recalibrated twice."""

import torch
from torch import Tensor

from calibrant._checks import pit_from_cdf
from calibrant.contracts import PitValues, UnitMap

__all__ = ["JoinedMap"]


class JoinedMap:
    """The inner map, then the outer one.

    Parameters
    ----------
    inner, outer
        Increasing maps of [0, 1] onto itself.
    """

    def __init__(self, inner: UnitMap, outer: UnitMap) -> None:
        self._inner, self._outer = inner, outer

    @property
    def knots(self) -> Tensor:
        """Knots of the inner map and places that it sends to those of the outer."""
        outer = pit_from_cdf(self._outer.knots[1:-1])
        pulled_back = self._inner.inverse(outer).cdf
        knots: Tensor = torch.cat([self._inner.knots, pulled_back]).unique()
        return knots

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values."""
        return self._outer.forward(self._inner.forward(pit))

    def inverse(self, levels: PitValues) -> PitValues:
        """Smallest PIT values that are mapped to these at least."""
        return self._inner.inverse(self._outer.inverse(levels))

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the derivative at PIT values, by the chain rule."""
        inner = self._inner.log_density(pit)
        return inner + self._outer.log_density(self._inner.forward(pit))
