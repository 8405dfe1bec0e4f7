"""Targets as they are."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from calibrant.transforms._base import AbstractTransform

__all__ = ["IdentityTransform"]


class IdentityTransform(AbstractTransform):
    """The map :math:`g(y) = y`, which changes nothing.

    Examples
    --------
    >>> IdentityTransform().fit([1.0, 2.0]).forward([3.0]).tolist()
    [3.0]
    """

    name: ClassVar[str] = "identity"

    @property
    def support(self) -> tuple[float, float]:
        """All numbers."""
        return -math.inf, math.inf

    def _forward(self, y: Tensor) -> Tensor:
        return y

    def _inverse(self, z: Tensor) -> Tensor:
        return z

    def _log_derivative(self, y: Tensor) -> Tensor:
        return torch.zeros_like(y)
