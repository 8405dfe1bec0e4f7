"""The Laplace distribution, whose tails are exponential."""

import math

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.normal import (
    location_and_scale,
    scale_unless_far,
    standardized,
)
from calibrant.protocols import PitValues
from calibrant.validation import ArrayLike


def pit_from_far_tail(below: Tensor, log_far: Tensor) -> PitValues:
    """Complete the tail on the far side of the median to both tails.

    ``below`` tells which values lie below the median, ``log_far`` is the logarithm of
    the probability beyond them, hence at most log(1/2).
    """
    lower = pit_from_log_cdf(log_far)
    return lower.where(below, lower.mirrored())


def pit_from_log_cdf(log_cdf: Tensor) -> PitValues:
    """Complete the logarithm of a cdf below 1 to both tails, shape ``(..., n)``."""
    cdf = log_cdf.exp()
    return PitValues(cdf, 1 - cdf, log_cdf, torch.log1p(-cdf))


class Laplace(AbstractDistribution):
    r"""Laplace distribution for each row, the one behind the absolute error.

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
    >>> predictive = Laplace([0.0, 10.0], 1.0)
    >>> predictive.crps([0.0, 10.0]).tolist()
    [0.25, 0.25]
    """

    _parameters = ("location", "scale")
    _least_tail = 1e-300

    def __init__(self, location: ArrayLike, scale: ArrayLike) -> None:
        parts = location_and_scale(location, scale, "location", "scale")
        self.location, self.scale = parts

    def _moments(self) -> tuple[Tensor, Tensor]:
        return self.location, 2 * self.scale.square()

    def _z(self, value: Tensor) -> Tensor:
        return standardized(value - self.location, self.scale)

    def _pit(self, value: Tensor) -> PitValues:
        z = self._z(value)
        below = z < 0
        # Not -|z|, whose derivative at 0 is 0: there the density is largest.
        return pit_from_far_tail(below, torch.where(below, z, -z) - math.log(2))

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return -z.abs() - (2 * scale_unless_far(z, self.scale)).log()

    def _kinks(self) -> Tensor:
        return self.location[None]

    def _quantile(self, level: Tensor) -> Tensor:
        lower = (2 * level.clamp_max(0.5)).log()
        upper = -(2 * (1 - level).clamp_max(0.5)).log()
        return self.location + self.scale * torch.where(level < 0.5, lower, upper)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return 2 * self.location - self._quantile(survival)

    def _crps(self, value: Tensor) -> Tensor:
        # Jordan, Krueger and Lerch (2019), appendix A.
        decay = (-self._z(value).abs()).exp()
        return (value - self.location).abs() + self.scale * (decay - 0.75)
