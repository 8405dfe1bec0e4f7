"""Student's t law, for targets with outliers."""

import math

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, UnsupportedError, as_float_tensor
from calibrant.contracts import PitValues
from calibrant.distributions._gamma import log_gamma_ratio
from calibrant.distributions._location_scale import location_and_scale, standardized
from calibrant.distributions._student import (
    log_student_density,
    log_student_far_tail,
    student_quantile,
)
from calibrant.distributions._tails import pit_from_far_tail
from calibrant.distributions.base import AbstractDistribution

__all__ = ["StudentT"]


class StudentT(AbstractDistribution):
    r"""Student's t law :math:`m + s\,T_\nu` for each row.

    .. math::
        p(y) \propto \frac{1}{s}
        \left(1 + \frac{1}{\nu}\Bigl(\frac{y - m}{s}\Bigr)^2\right)^{-(\nu + 1)/2}

    Its tails fall like :math:`|y|^{-\nu}`, and :math:`\nu \to \infty` is the normal
    law. The mean is NaN for :math:`\nu \le 1`; the variance is infinite for
    :math:`1 < \nu \le 2` and NaN below.

    Parameters
    ----------
    degrees_of_freedom
        :math:`\nu > 0`, a number or of shape ``batch_shape``.
    location
        :math:`m`, the median, shape ``batch_shape``.
    scale
        :math:`s > 0`, a number or of the same shape. It is not the standard
        deviation, which is :math:`s \sqrt{\nu / (\nu - 2)}`.

    References
    ----------
    Hill (1970), *Algorithm 395: Student's t-distribution*.
    Jordan, Krueger and Lerch (2019), *Evaluating Probabilistic Forecasts with
    scoringRules*, appendix A.

    Examples
    --------
    >>> law = StudentT(1.0, [0.0, 10.0], 2.0)
    >>> law.cdf([2.0, 8.0]).tolist()
    [0.75, 0.25]
    >>> law.mean.tolist()
    [nan, nan]
    """

    _parameters = ("_location", "_scale", "_df")

    def __init__(
        self, degrees_of_freedom: ArrayLike, location: ArrayLike, scale: ArrayLike
    ) -> None:
        location, scale = location_and_scale(location, scale, "location", "scale")
        df = as_float_tensor(
            degrees_of_freedom, name="degrees_of_freedom", like=location
        )
        if df.ndim != 0 and location.ndim == 0:
            location, scale = location.expand(df.shape), scale.expand(df.shape)
        if df.ndim != 0 and df.shape != location.shape:
            raise InputError(
                "degrees_of_freedom must be a number or have the location's shape "
                f"{tuple(location.shape)}, got {tuple(df.shape)}."
            )
        if (df <= 0).any():
            raise InputError(
                "degrees_of_freedom must be above 0, the smallest value is "
                f"{df.min().item():.4g}. Let the network predict 2 + softplus(raw), "
                "which also keeps the variance finite."
            )
        dtype = torch.promote_types(location.dtype, df.dtype)
        self._location, self._scale = location.to(dtype), scale.to(dtype)
        self._df = df.to(dtype).expand(location.shape)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._location.shape

    @property
    def degrees_of_freedom(self) -> Tensor:
        """Degrees of freedom of each row, shape ``batch_shape``."""
        return self._df

    @property
    def location(self) -> Tensor:
        """Median of each row, shape ``batch_shape``."""
        return self._location

    @property
    def scale(self) -> Tensor:
        """Scale of each row, shape ``batch_shape``."""
        return self._scale

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``; NaN if there is none."""
        return torch.where(self._df > 1, self._location, math.nan)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``; infinite or NaN as above."""
        finite = self._df > 2
        # 2 / (df - 2), not df / (df - 2): the limit of many degrees of freedom is 1.
        inflation = 1 + 2 / (torch.where(finite, self._df, 3.0) - 2)
        undefined = torch.where(self._df > 1, math.inf, math.nan).to(self.dtype)
        return torch.where(finite, self._scale.square() * inflation, undefined)

    def __getitem__(self, rows: slice | Tensor) -> "StudentT":
        """Select rows of the first batch axis."""
        return StudentT(self._df[rows], self._location[rows], self._scale[rows])

    def _z(self, value: Tensor) -> Tensor:
        return (value - self._location) / self._scale

    def _pit(self, value: Tensor) -> PitValues:
        z = self._z(value)
        return pit_from_far_tail(z < 0, log_student_far_tail(z, self._df))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._pit(value).cdf

    def _survival(self, value: Tensor) -> Tensor:
        return self._pit(value).survival

    def _log_prob(self, value: Tensor) -> Tensor:
        return log_student_density(self._z(value), self._df) - self._scale.log()

    def _quantile(self, level: Tensor) -> Tensor:
        return self._location + self._scale * student_quantile(level, self._df)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._location - self._scale * student_quantile(survival, self._df)

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        # A normal variable over the root of chi-square / df. In float64, because a
        # chi-square variable of few degrees of freedom underflows in float32.
        half = self._df.double().clamp_max(1e30).expand(shape) / 2
        share = torch._standard_gamma(half, generator=generator) / half
        normal = torch.empty_like(share).normal_(generator=generator)
        drawn = self._location + self._scale * normal * share.rsqrt()
        largest = torch.finfo(self.dtype).max
        return drawn.clamp(-largest, largest).to(self.dtype)

    def _crps(self, value: Tensor) -> Tensor:
        if (self._df <= 1).any():
            raise UnsupportedError(
                "crps needs a law with a finite mean, that is degrees_of_freedom > 1; "
                f"the smallest value is {self._df.min().item():.4g}. Score with "
                "log_prob, or let the network predict 1 + softplus(raw)."
            )
        distance = value - self._location
        z = standardized(distance, self._scale)
        pit = pit_from_far_tail(z < 0, log_student_far_tail(z, self._df))
        df = self._df.clamp_max(1e30)
        # Jordan, Krueger and Lerch (2019), with Beta functions as gamma ratios. The
        # density times (df + z^2) is the density of a wider law: no overflow.
        limit = torch.finfo(z.dtype).max ** 0.45
        growth = torch.log1p(z.clamp(-limit, limit).square() / df)
        peak = 2 * (log_student_density(z, df) + growth).exp()
        log_spread = 2 * log_gamma_ratio(df / 2) - log_gamma_ratio(df - 0.5)
        spread = log_spread.exp() * (df / (math.pi * (df - 0.5))).sqrt()
        slope = distance * (pit.cdf - pit.survival)
        return slope + self._scale * df / (df - 1) * (peak - spread)
