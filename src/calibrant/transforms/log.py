"""Logarithms of positive targets."""

import math
from typing import ClassVar

from torch import Tensor

from calibrant.transforms._base import AbstractTransform

__all__ = ["LogTransform"]


class LogTransform(AbstractTransform):
    r"""The map :math:`g(y) = \log y` of positive targets.

    Errors that are relative to the target (prices, concentrations, durations) become
    alike everywhere, and no prediction is negative. A normal law of
    :math:`\log y` is the log-normal law of :math:`y`.

    Examples
    --------
    >>> log = LogTransform()
    >>> log.forward([1.0]).tolist()
    [0.0]
    >>> log.fit([3.0, 0.0, 5.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    calibrant.errors.InputError: y must lie strictly between 0 and inf for the ...
    """

    name: ClassVar[str] = "log"
    _remedy: ClassVar[str] = (
        "Use 'yeo_johnson', which takes targets of either sign, or 'log' of y plus a "
        "constant that makes all of them positive."
    )

    @property
    def support(self) -> tuple[float, float]:
        """Positive numbers."""
        return 0.0, math.inf

    def _forward(self, y: Tensor) -> Tensor:
        return y.log()

    def _inverse(self, z: Tensor) -> Tensor:
        return z.exp()

    def _log_derivative(self, y: Tensor) -> Tensor:
        return -y.log()
