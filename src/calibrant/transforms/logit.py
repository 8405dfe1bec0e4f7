"""Log odds of targets between two bounds."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.transforms._base import AbstractTransform

__all__ = ["LogitTransform"]


class LogitTransform(AbstractTransform):
    r"""The map :math:`g(y) = \log\frac{y - a}{b - y}` of targets between two bounds.

    For shares, rates and scores that stay strictly inside :math:`(a, b)`. A target on
    a bound has no image: for such use the law ``Truncated``.

    Parameters
    ----------
    low, high
        The bounds :math:`a < b`, both finite.

    Examples
    --------
    >>> logit = LogitTransform(low=0.0, high=100.0)
    >>> logit.forward([50.0]).tolist()
    [0.0]
    >>> logit.inverse([float("-inf"), 0.0]).tolist()
    [0.0, 50.0]
    """

    name: ClassVar[str] = "logit"
    _remedy: ClassVar[str] = (
        "If the bounds are right, use bounds=(low, high) in place of this transform: "
        "the law Truncated takes targets that lie on a bound."
    )

    def __init__(self, *, low: float = 0.0, high: float = 1.0) -> None:
        self._low, self._high = float(low), float(high)
        if not (self._low < self._high and math.isfinite(self._high - self._low)):
            raise InputError(
                f"low and high must be finite with low < high, got low={low}, "
                f"high={high}. For one bound use 'log' of the distance from it."
            )

    @property
    def support(self) -> tuple[float, float]:
        """The numbers between the bounds."""
        return self._low, self._high

    def _options(self) -> dict[str, object]:
        return {"low": self._low, "high": self._high}

    def _forward(self, y: Tensor) -> Tensor:
        return (y - self._low).log() - (self._high - y).log()

    def _inverse(self, z: Tensor) -> Tensor:
        # From the nearer bound, so that neither end is rounded.
        share = (self._high - self._low) * torch.sigmoid(-z.abs())
        return torch.where(z < 0, self._low + share, self._high - share)

    def _log_derivative(self, y: Tensor) -> Tensor:
        log_width = math.log(self._high - self._low)
        return log_width - (y - self._low).log() - (self._high - y).log()
