"""A transform of one's own, from three functions."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._checks import InputError, UnsupportedError
from calibrant.transforms._base import AbstractTransform

__all__ = ["FunctionTransform"]

Function = Callable[[Tensor], Tensor]


class FunctionTransform(AbstractTransform):
    """Three functions as a transform; made by ``from_functions``.

    Examples
    --------
    >>> import torch
    >>> FunctionTransform(
    ...     torch.asinh, torch.sinh, lambda y: -torch.hypot(y, y.new_ones(())).log()
    ... ).forward([0.0]).tolist()
    [0.0]
    """

    name: ClassVar[str] = "from_functions"

    def __init__(
        self,
        forward: Function,
        inverse: Function,
        log_derivative: Function,
        *,
        support: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        self._functions = forward, inverse, log_derivative
        self._support = float(support[0]), float(support[1])
        if not self._support[0] < self._support[1]:
            raise InputError(f"support must be (low, high) with low < high: {support}.")

    @property
    def support(self) -> tuple[float, float]:
        """Open interval of the targets that have an image."""
        return self._support

    def _learn(self, y: Tensor) -> None:
        """Learn nothing, but look whether the functions fit each other."""
        ordered: Tensor = y.unique()
        z = self._forward(ordered)
        if not (z.diff() > 0).all() or not z.isfinite().all():
            raise InputError(
                "forward must be finite and increase strictly on the targets, and it "
                "does not. Negate a function that falls; map what it joins apart."
            )
        width = float(ordered[-1] - ordered[0])
        gap = (self._inverse(z) - ordered).abs()
        if not (gap <= 1e-6 * (ordered.abs() + width)).all():
            raise InputError(
                "inverse must undo forward: inverse(forward(y)) is off by up to "
                f"{gap.max().item():.4g} on the targets. Check both functions."
            )
        self._check_slope(ordered)

    def _check_slope(self, y: Tensor) -> None:
        point = y.clone().requires_grad_()
        with torch.enable_grad():
            image = self._forward(point)
        if not image.requires_grad:
            return
        (slope,) = torch.autograd.grad(image.sum(), point)
        gap = (self._log_derivative(y) - slope.log()).abs()
        if not (gap <= 1e-4).all():
            raise InputError(
                "log_derivative must be the logarithm of forward's derivative: it is "
                f"off by up to {gap.max().item():.4g} on the targets. Check its sign."
            )

    def _forward(self, y: Tensor) -> Tensor:
        return self._functions[0](y)

    def _inverse(self, z: Tensor) -> Tensor:
        return self._functions[1](z)

    def _log_derivative(self, y: Tensor) -> Tensor:
        return self._functions[2](y)

    def to_json(self) -> str:
        """Refuse: functions cannot be written as text."""
        raise UnsupportedError(
            "a transform of functions cannot be stored, because code is not data. "
            "Write a class with fit, forward, inverse, log_derivative, support, "
            "to_json and from_state, and put it into TRANSFORMS under its name."
        )
