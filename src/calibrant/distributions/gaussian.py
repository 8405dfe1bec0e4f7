"""The normal law, with tails that survive float32."""

import math

import torch
from torch import Tensor

from calibrant._checks import ArrayLike
from calibrant.contracts import PitValues
from calibrant.distributions._location_scale import location_and_scale, standardized
from calibrant.distributions._normal import (
    log_normal_cdf,
    log_normal_density,
    log_scaled_density,
    normal_cdf,
    normal_quantile,
)
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Gaussian"]


class Gaussian(AbstractDistribution):
    r"""Normal law :math:`\mathcal{N}(\mu, \sigma^2)` for each row.

    Parameters
    ----------
    mean
        :math:`\mu`, shape ``batch_shape``.
    stddev
        :math:`\sigma > 0`, a number or of the same shape.

    Examples
    --------
    >>> law = Gaussian([0.0, 10.0], [1.0, 2.0])
    >>> law.cdf([0.0, 10.0]).tolist()
    [0.5, 0.5]
    >>> lower, upper = law.interval(0.9)
    >>> [round(bound, 3) for bound in upper.tolist()]
    [1.645, 13.29]
    """

    _parameters = ("_mean", "_stddev")

    def __init__(self, mean: ArrayLike, stddev: ArrayLike) -> None:
        self._mean, self._stddev = location_and_scale(mean, stddev, "mean", "stddev")

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._mean.shape

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._mean

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return self._stddev.square()

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each row, shape ``batch_shape``."""
        return self._stddev

    def __getitem__(self, rows: slice | Tensor) -> "Gaussian":
        """Select rows of the first batch axis."""
        return Gaussian(self._mean[rows], self._stddev[rows])

    def _z(self, value: Tensor) -> Tensor:
        return standardized(value - self._mean, self._stddev)

    def _cdf(self, value: Tensor) -> Tensor:
        return normal_cdf(self._z(value))

    def _survival(self, value: Tensor) -> Tensor:
        return normal_cdf(-self._z(value))

    def _pit(self, value: Tensor) -> PitValues:
        z = self._z(value)
        return PitValues(
            normal_cdf(z), normal_cdf(-z), log_normal_cdf(z), log_normal_cdf(-z)
        )

    def _log_prob(self, value: Tensor) -> Tensor:
        return log_scaled_density(value - self._mean, self._stddev)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._mean + self._stddev * normal_quantile(level)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._mean - self._stddev * normal_quantile(survival)

    def _crps(self, value: Tensor) -> Tensor:
        # Gneiting and Raftery (2007), equation 21.
        z = self._z(value)
        density = log_normal_density(z).exp()
        # The distance itself, not stddev * z, which ends where z does.
        distance = (value - self._mean) * (2 * normal_cdf(z) - 1)
        return distance + self._stddev * (2 * density - 1 / math.sqrt(math.pi))

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        noise = torch.randn(
            shape, generator=generator, dtype=self.dtype, device=self._mean.device
        )
        return self._mean + self._stddev * noise
