"""Student's t distribution, for targets with outliers."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from calibrant.distributions._numerics import solve_increasing, with_implicit_gradient
from calibrant.distributions.base import (
    AbstractDistribution,
    Shape,
    Source,
    joint_shape,
)
from calibrant.distributions.laplace import pit_from_far_tail
from calibrant.distributions.normal import (
    location_and_scale,
    normal_quantile,
    standardized,
)
from calibrant.protocols import PitValues
from calibrant.validation import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_float_tensor,
)

_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: So many degrees of freedom are the normal distribution in every digit.
_NORMAL = 1e30
#: Panels of the integral over a tail, in units of its decay.
_EDGES = [0.0, *(0.02 * 2.0**k for k in range(12)), 85.0]


class StudentT(AbstractDistribution):
    r"""Student's t distribution :math:`m + s\,T_\nu` for each row.

    .. math::
        p(y) \propto \frac{1}{s}
        \left(1 + \frac{1}{\nu}\Bigl(\frac{y - m}{s}\Bigr)^2\right)^{-(\nu + 1)/2}

    Its tails fall like :math:`|y|^{-\nu}`, and :math:`\nu \to \infty` is the normal
    distribution. The mean is NaN for :math:`\nu \le 1`; the variance is infinite for
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
    Jordan, Krueger and Lerch (2019), *Evaluating Probabilistic Forecasts with
    scoringRules*, appendix A.

    Examples
    --------
    >>> predictive = StudentT(1.0, [0.0, 10.0], 2.0)
    >>> [round(value, 9) for value in predictive.cdf([2.0, 8.0]).tolist()]
    [0.75, 0.25]
    >>> predictive.mean.tolist()
    [nan, nan]
    """

    _parameters = ("degrees_of_freedom", "location", "scale")
    _least_tail = 1e-300

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
                f"{df.min().item():.4g}. Let the network predict 2 + softplus(raw)."
            )
        dtype = torch.promote_types(location.dtype, df.dtype)
        self.location, self.scale = location.to(dtype), scale.to(dtype)
        self.degrees_of_freedom = df.to(dtype).expand(location.shape)

    def _moments(self) -> tuple[Tensor, Tensor]:
        df = self.degrees_of_freedom
        mean = torch.where(df > 1, self.location, math.nan)
        # 2 / (df - 2), not df / (df - 2): the limit of many degrees of freedom is 1.
        inflation = 1 + 2 / (torch.where(df > 2, df, 3.0) - 2)
        undefined = torch.where(df > 1, math.inf, math.nan).to(self.dtype)
        return mean, torch.where(df > 2, self.scale.square() * inflation, undefined)

    def _pit(self, value: Tensor) -> PitValues:
        z = (value - self.location) / self.scale
        return pit_from_far_tail(z < 0, log_far_tail(z, self.degrees_of_freedom))

    def _log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.location) / self.scale
        return log_density(z, self.degrees_of_freedom) - self.scale.log()

    def _quantile(self, level: Tensor) -> Tensor:
        z = standard_quantile(level, self.degrees_of_freedom)
        return self.location + self.scale * z

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        z = standard_quantile(survival, self.degrees_of_freedom)
        return self.location - self.scale * z

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        # A normal variable over the root of chi-square / df. In float64, because a
        # chi-square variable of few degrees of freedom underflows in float32.
        half = self.degrees_of_freedom.double().clamp_max(_NORMAL).expand(shape) / 2
        share = torch._standard_gamma(half, generator=generator) / half
        normal = torch.empty_like(share).normal_(generator=generator)
        drawn = self.location + self.scale * normal * share.rsqrt()
        largest = torch.finfo(self.dtype).max
        return drawn.clamp(-largest, largest).to(self.dtype)

    def _crps(self, value: Tensor) -> Tensor:
        df = self.degrees_of_freedom.clamp_max(_NORMAL)
        if (df <= 1).any():
            raise UnsupportedError(
                "crps needs a finite mean, that is degrees_of_freedom > 1; the "
                f"smallest value is {df.min().item():.4g}. Score with log_prob."
            )
        distance = value - self.location
        z = standardized(distance, self.scale)
        pit = pit_from_far_tail(z < 0, log_far_tail(z, df))
        # Jordan, Krueger and Lerch (2019), with Beta functions as gamma ratios. The
        # density times (df + z^2) is the density of a wider one: no overflow.
        peak = 2 * (log_density(z, df) + _log_growth(z, df)).exp()
        log_spread = 2 * log_gamma_ratio(df / 2) - log_gamma_ratio(df - 0.5)
        spread = log_spread.exp() * (df / (math.pi * (df - 0.5))).sqrt()
        slope = distance * (pit.cdf - pit.survival)
        return slope + self.scale * df / (df - 1) * (peak - spread)


def log_gamma_ratio(a: Tensor) -> Tensor:
    r"""Evaluate :math:`\log \Gamma(a + 1/2) - \log \Gamma(a) - \tfrac12 \log a`.

    It goes to 0 for large ``a``, where ``lgamma`` would leave only rounding noise; from
    20 on the Stirling series of both is exact to 1e-15.
    """
    small, inverse = a.clamp_max(20.0), 1 / a.clamp_min(20.0)
    exact = torch.lgamma(small + 0.5) - torch.lgamma(small) - 0.5 * small.log()
    series = torch.zeros_like(a)
    for term in (691 / 180224, -31 / 18432, 17 / 14336, -1 / 640, 1 / 192, -1 / 8):
        series = series * inverse.square() + term
    return torch.where(a < 20.0, exact, series * inverse)


def _log_growth(z: Tensor, df: Tensor) -> Tensor:
    """Logarithm of ``1 + z^2 / df``, also where the square is not a number."""
    near = z.square() < df
    root = df.sqrt()
    far = 2 * (torch.where(near, 1.0, z.abs()) / root).log()
    rest = torch.log1p((root / torch.where(near, 1.0, z)).square())
    return torch.where(
        near, torch.log1p(torch.where(near, z, 0.0).square() / df), far + rest
    )


def log_density(z: Tensor, df: Tensor) -> Tensor:
    """Logarithm of the standard density, precise for any degrees of freedom."""
    df = df.clamp_max(_NORMAL)
    return (
        log_gamma_ratio(df / 2) - _LOG_SQRT_TWO_PI - (df + 1) / 2 * _log_growth(z, df)
    )


def log_far_tail(z: Tensor, df: Tensor) -> Tensor:
    r"""Logarithm of the probability beyond ``z``, on the side that is away from 0.

    With :math:`z = \sqrt\nu \sinh s` the density is a power of cosh, and

    .. math::
        P(T > z) = p(z) \sqrt{\nu + z^2} \int_0^\infty
        \left(\frac{\cosh(s + r)}{\cosh s}\right)^{-\nu} dr ,

    by Gauss-Legendre with 12 nodes on each of 13 panels, in float64. It is at most
    log(1/2) and finite for every finite ``z``.
    """
    dtype = torch.promote_types(z.dtype, df.dtype)
    far = torch.where(z < 0, -z, z).double()
    df = df.double().clamp_max(_NORMAL)
    reach = torch.hypot(df.sqrt(), far)
    slope = far / reach  # tanh s
    rate = df * slope + torch.minimum(df, df.sqrt())
    nodes, weights = (
        torch.from_numpy(part).to(rate).view(-1, *[1] * rate.ndim)
        for part in np.polynomial.legendre.leggauss(12)
    )
    total = torch.zeros_like(rate)
    for start, end in pairwise(_EDGES):
        half = (end - start) / 2
        r = (start + half * (1 + nodes)) / rate
        # Logarithm of the quotient: the first form is not rounded if it is near 0.
        short = r.clamp_max(1.0)
        near = torch.log1p(2 * (short / 2).sinh().square() + slope * short.sinh())
        beyond = r + torch.log1p((1 - slope) / 2 * torch.expm1(-2 * r))
        decay = (-df * torch.where(r < 1, near, beyond)).exp()
        total = total + half * (weights * decay).sum(0)
    found = log_density(far, df) + reach.log() + (total / rate).log()
    return found.clamp_min(torch.finfo(dtype).min).to(dtype)


def standard_quantile(level: Tensor, df: Tensor) -> Tensor:
    """Value below which the probability is ``level``, by the logarithm of ``z``."""
    shape = joint_shape(level.shape, df.shape)
    level, df = level.expand(shape), df.expand(shape)
    tail = torch.where(level < 0.5, level, 1 - level)
    regular = torch.where((tail > 0) & (tail < 0.5), tail, 0.25)

    def gap_and_slope(log_z: Tensor) -> tuple[Tensor, Tensor]:
        z = log_z.exp()
        log_tail = log_far_tail(z, df)
        ratio = (log_z + log_density(z, df) - log_tail).exp()
        return regular.log() - log_tail, ratio

    with torch.no_grad():
        high = torch.full_like(regular, math.log(torch.finfo(regular.dtype).max) - 1)
        # The leading term of an expansion of Hill (1970), or the power law below 2.
        n = torch.where(df > 2, df - 0.5, df).clamp_max(_NORMAL)
        start = (n * torch.expm1(normal_quantile(regular).square() / n)).sqrt().log()
    log_z = solve_increasing(gap_and_slope, -high, high, start=start)
    z = with_implicit_gradient(log_z, *gap_and_slope(log_z)).exp()
    # At the median the logarithm of z is of no use; the density is the slope there.
    median = (0.5 - tail) / log_density(torch.zeros_like(tail), df).exp()
    z = torch.where(tail < 0.5, torch.where(tail > 0, z, math.inf), median)
    return torch.where(level < 0.5, -z, z)
