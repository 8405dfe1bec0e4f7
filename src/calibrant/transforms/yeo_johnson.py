"""Powers of targets of either sign, with the power learned."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant._checks import InputError, check_positive
from calibrant.transforms._base import AbstractTransform, unfitted
from calibrant.transforms._power import (
    best_power,
    log_from_power,
    log_variance,
    power_of_log,
)

__all__ = ["YeoJohnsonTransform"]


class YeoJohnsonTransform(AbstractTransform):
    r"""The power of Yeo and Johnson, for skewed targets of either sign.

    With :math:`t = (y - m) / s`, the median :math:`m` and the quartiles' distance
    :math:`s` of the targets (so that neither their unit nor their zero matters),

    .. math::
        g(y) = \begin{cases}
            \bigl((1 + t)^\lambda - 1\bigr) / \lambda & t \ge 0 \\
            -\bigl((1 - t)^{2 - \lambda} - 1\bigr) / (2 - \lambda) & t < 0
        \end{cases}

    and the logarithm :math:`\pm\log(1 \pm t)` for a power of 0. Below 1 it draws a long
    upper tail in, above 1 a long lower one. :math:`\lambda` maximizes the likelihood of
    a normal law of g(y), in [0, 2]: only there is g a map onto the whole line, so that
    no mass of a law is left without a target.

    Parameters
    ----------
    power
        :math:`\lambda` in [0, 2]; learned if it is None.

    References
    ----------
    Yeo and Johnson (2000), *A New Family of Power Transformations to Improve Normality
    or Symmetry*.

    Examples
    --------
    >>> skewed = YeoJohnsonTransform().fit([-1.0, 0.0, 1.0, 2.0, 5.0, 40.0])
    >>> skewed.power < 1
    True
    >>> skewed.inverse(skewed.forward([-1.0, 40.0])).round(decimals=6).tolist()
    [-1.0, 40.0]
    """

    name: ClassVar[str] = "yeo_johnson"

    def __init__(self, *, power: float | None = None) -> None:
        self._given_power = None if power is None else _checked_power(power)
        #: Power, median and scale.
        self._learned: tuple[float, float, float] | None = None

    @property
    def power(self) -> float:
        r"""The power :math:`\lambda`."""
        return self._parameters[0]

    @property
    def _parameters(self) -> tuple[float, float, float]:
        if self._learned is None:
            raise unfitted(self.name)
        return self._learned

    @property
    def support(self) -> tuple[float, float]:
        """All numbers."""
        return -math.inf, math.inf

    def _learn(self, y: Tensor) -> None:
        center, scale = _center_and_scale(y)
        power = self._given_power
        if power is None:
            power = _most_likely((y - center) / scale)
        self._learned = (power, center, scale)

    def _options(self) -> dict[str, object]:
        return {"power": self._given_power}

    def _state(self) -> dict[str, object]:
        power, center, scale = self._parameters
        return {"power": power, "center": center, "scale": scale}

    def _restore(self, state: Mapping[str, Any]) -> None:
        power = _checked_power(state["power"])
        center, scale = float(state["center"]), float(state["scale"])
        if not math.isfinite(center):
            raise InputError(f"its center must be finite, got {center}")
        self._learned = (power, center, check_positive(scale, name="scale"))

    def _forward(self, y: Tensor) -> Tensor:
        power, center, scale = self._parameters
        return _curve((y - center) / scale, power)

    def _inverse(self, z: Tensor) -> Tensor:
        power, center, scale = self._parameters
        above = torch.expm1(log_from_power(z.clamp_min(0), power))
        below = torch.expm1(log_from_power((-z).clamp_min(0), 2 - power))
        return center + scale * torch.where(z >= 0, above, -below)

    def _log_derivative(self, y: Tensor) -> Tensor:
        power, center, scale = self._parameters
        t = (y - center) / scale
        return (power - 1) * t.sign() * torch.log1p(t.abs()) - math.log(scale)


def _checked_power(power: float) -> float:
    if not 0 <= power <= 2:
        raise InputError(
            f"power must lie in [0, 2] or be None, got {power}. Outside of it the "
            "images do not cover the line. For positive targets with a tail heavier "
            "than a logarithm draws in use 'box_cox'."
        )
    return float(power)


def _curve(t: Tensor, power: float) -> Tensor:
    above = power_of_log(torch.log1p(t.clamp_min(0)), power)
    below = power_of_log(torch.log1p((-t).clamp_min(0)), 2 - power)
    return torch.where(t >= 0, above, -below)


def _center_and_scale(y: Tensor) -> tuple[float, float]:
    """Median and quartiles' distance, which a few outliers do not move."""
    quartiles = y.numpy().copy()
    quartiles.sort()
    low, center, high = (
        float(quartiles[round(share * (len(quartiles) - 1))])
        for share in (0.25, 0.5, 0.75)
    )
    for scale in (high - low, float(y.std(correction=0))):
        if 0 < scale < math.inf:
            return center, scale
    return center, 1.0


def _most_likely(t: Tensor) -> float:
    """Power of the largest likelihood for standardized targets, shape ``(n,)``."""
    log_slope = float((t.sign() * torch.log1p(t.abs())).mean())
    if not (t != t[0]).any():  # equal targets: nothing to learn
        return 1.0
    return best_power(
        lambda p: log_variance(_curve(t, p)) / 2 - (p - 1) * log_slope, 0.0, 2.0
    )
