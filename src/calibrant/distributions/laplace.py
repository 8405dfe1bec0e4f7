"""The Laplace law, whose tails are exponential."""

import math

import torch
from torch import Tensor

from calibrant._checks import ArrayLike
from calibrant.contracts import PitValues
from calibrant.distributions._location_scale import (
    location_and_scale,
    scale_unless_far,
    standardized,
)
from calibrant.distributions._tails import pit_from_far_tail
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Laplace"]


class Laplace(AbstractDistribution):
    r"""Laplace law for each row, the law behind the absolute error.

    .. math:: p(y) = \frac{1}{2 b} \exp\left(-\frac{|y - m|}{b}\right)

    Parameters
    ----------
    location
        :math:`m`, the mean and median, shape ``batch_shape``.
    scale
        :math:`b > 0`, a number or of the same shape. The standard deviation is
        :math:`\sqrt 2\, b`.

    Examples
    --------
    >>> law = Laplace([0.0, 10.0], 1.0)
    >>> law.cdf([0.0, 10.0]).tolist()
    [0.5, 0.5]
    >>> law.crps([0.0, 10.0]).tolist()
    [0.25, 0.25]
    """

    _parameters = ("_location", "_scale")

    def __init__(self, location: ArrayLike, scale: ArrayLike) -> None:
        self._location, self._scale = location_and_scale(
            location, scale, "location", "scale"
        )

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._location.shape

    @property
    def location(self) -> Tensor:
        """Median of each row, shape ``batch_shape``."""
        return self._location

    @property
    def scale(self) -> Tensor:
        """Mean absolute deviation of each row, shape ``batch_shape``."""
        return self._scale

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._location

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return 2 * self._scale.square()

    def __getitem__(self, rows: slice | Tensor) -> "Laplace":
        """Select rows of the first batch axis."""
        return Laplace(self._location[rows], self._scale[rows])

    def _z(self, value: Tensor) -> Tensor:
        return standardized(value - self._location, self._scale)

    def _pit(self, value: Tensor) -> PitValues:
        z = self._z(value)
        below = z < 0
        # Not -|z|, whose derivative at 0 is 0: there the density is largest.
        return pit_from_far_tail(below, torch.where(below, z, -z) - math.log(2))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._pit(value).cdf

    def _survival(self, value: Tensor) -> Tensor:
        return self._pit(value).survival

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return -z.abs() - (2 * scale_unless_far(z, self._scale)).log()

    def _quantile(self, level: Tensor) -> Tensor:
        lower = (2 * level.clamp_max(0.5)).log()
        upper = -(2 * (1 - level).clamp_max(0.5)).log()
        return self._location + self._scale * torch.where(level < 0.5, lower, upper)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return 2 * self._location - self._quantile(survival)

    def _crps(self, value: Tensor) -> Tensor:
        # Jordan, Krueger and Lerch (2019), appendix A.
        decay = (-self._z(value).abs()).exp()
        return (value - self._location).abs() + self._scale * (decay - 0.75)
