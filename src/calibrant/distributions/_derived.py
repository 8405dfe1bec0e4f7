"""What all laws share that are made from another law."""

from abc import ABC
from collections.abc import Callable

import torch
from torch import Tensor

from calibrant.distributions._gradient_probe import carries_gradient
from calibrant.distributions.base import AbstractDistribution

__all__ = ["DerivedDistribution"]


class DerivedDistribution(AbstractDistribution, ABC):
    """A law that stands on another one, row by row; still abstract.

    A final class sets ``_base``. One step more than the two of our other classes: five
    laws would otherwise repeat these lines, and one that forgets ``_searched`` is
    integrated the slow way without a word.
    """

    _base: AbstractDistribution
    #: Moments that were computed already.
    _kept: tuple[Tensor, ...] | None = None

    @property
    def base(self) -> AbstractDistribution:
        """The law that this one is made from."""
        return self._base

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._base.batch_shape

    @property
    def _like(self) -> Tensor:
        return self._base._like

    @property
    def _trained(self) -> bool:
        return self._base._trained

    @property
    def _searched(self) -> bool:
        return self._base._searched

    def _once(self, compute: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Moments, computed once for the mean and the variance.

        With a graph they are made anew: a graph serves one backward pass only.
        """
        if self._kept is not None:
            return self._kept
        moments = compute()
        with torch.enable_grad():
            learned = carries_gradient(self)
        if not learned:
            self._kept = moments
        return moments
