"""Powers of positive targets, with the power learned."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.transforms._base import AbstractTransform, unfitted
from calibrant.transforms._power import (
    best_power,
    log_from_power,
    log_variance,
    power_of_log,
)

__all__ = ["BoxCoxTransform"]

# Powers beyond are fits to noise: the targets hardly vary, relative to their size.
_LARGEST = 5.0
# Logarithms of images in a fit, whose squares must be floats.
_LARGEST_LOG = 300.0


class BoxCoxTransform(AbstractTransform):
    r"""The power of Box and Cox of positive targets, made a map onto the line.

    With :math:`w = \log(y / y_0)` and :math:`y_0` the geometric mean of the targets
    (so that their unit does not matter),

    .. math:: g(y) = \frac{e^{\lambda w} - 1}{\lambda},
        \qquad g(y) = w \text{ if } \lambda = 0.

    :math:`\lambda` maximizes the likelihood of a normal law of g(y), in [-5, 5].

    The formula alone reaches only half of the line: its images end at
    :math:`-1/\lambda`. A normal law has mass beyond, which would belong to no target,
    and every likelihood would be that of a law whose total is not 1. So g goes on
    where the training targets end, with the same slope there:

    - for :math:`\lambda > 0` below the smallest of them, :math:`y_-`, linearly in
      :math:`\log y`, so that predictions stay positive;
    - for :math:`\lambda < 0` above the largest, :math:`y_+`, linearly in :math:`y`, so
      that the mean stays finite.

    g is then onto the line, the law a law, and the likelihood of every training target
    that of Box and Cox. (To condition each row's law on the image instead would change
    all of its likelihoods by a factor of its own.)

    Parameters
    ----------
    power
        :math:`\lambda`; learned if it is None.

    References
    ----------
    Box and Cox (1964), *An Analysis of Transformations*.

    Examples
    --------
    >>> box_cox = BoxCoxTransform(power=0.5).fit([1.0, 4.0, 16.0])
    >>> box_cox.forward([4.0, 16.0]).tolist()
    [0.0, 2.0]
    >>> bool(box_cox.inverse([-100.0]) > 0)
    True
    """

    name: ClassVar[str] = "box_cox"
    _remedy: ClassVar[str] = "Use 'yeo_johnson', which takes targets of either sign."

    def __init__(self, *, power: float | None = None) -> None:
        if power is not None and not math.isfinite(power):
            raise InputError(f"power must be a finite number or None, got {power}.")
        self._given_power = None if power is None else float(power)
        #: Power, logarithm of the geometric mean, and w where g goes on otherwise.
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
        """Positive numbers."""
        return 0.0, math.inf

    def _learn(self, y: Tensor) -> None:
        log_scale = float(y.log().mean())
        w = y.log() - log_scale
        power = self._given_power
        if power is None:
            power = _most_likely(w)
        edge = float(w.min() if power > 0 else w.max())
        if power * edge < -_LARGEST_LOG:
            raise InputError(
                f"power must be at most {abs(_LARGEST_LOG / edge):.3g} in size for "
                f"targets that spread this far, got {power}. Leave it None to learn it."
            )
        self._learned = (power, log_scale, edge)

    def _options(self) -> dict[str, object]:
        return {"power": self._given_power}

    def _state(self) -> dict[str, object]:
        power, log_scale, edge = self._parameters
        return {"power": power, "log_scale": log_scale, "edge": edge}

    def _restore(self, state: Mapping[str, Any]) -> None:
        values = [float(state[key]) for key in ("power", "log_scale", "edge")]
        if not all(math.isfinite(value) for value in values):
            raise InputError(f"its parameters must be finite, got {values}")
        self._learned = (values[0], values[1], values[2])

    def _forward(self, y: Tensor) -> Tensor:
        power, log_scale, edge = self._parameters
        w = y.log() - log_scale
        if power == 0:
            return w
        inner, beyond = self._split(w)
        slope = math.exp(power * edge)
        further = beyond if power > 0 else torch.expm1(beyond)
        return power_of_log(inner, power) + slope * further

    def _inverse(self, z: Tensor) -> Tensor:
        power, log_scale, edge = self._parameters
        if power == 0:
            return (z + log_scale).exp()
        ends = torch.tensor(edge, dtype=z.dtype, device=z.device)
        limit = power_of_log(ends, power)
        inner = z.clamp_min(limit) if power > 0 else z.clamp_max(limit)
        # Exactly 0 on the regular side; where z - z is NaN, at inf, it is that side.
        further = torch.where(z == inner, 0.0, z - limit) / math.exp(power * edge)
        beyond = further if power > 0 else torch.log1p(further)
        return (log_from_power(inner, power) + beyond + log_scale).exp()

    def _log_derivative(self, y: Tensor) -> Tensor:
        power, log_scale, _ = self._parameters
        w = y.log() - log_scale
        inner, beyond = self._split(w)
        # Below the edge g is linear in log y, above it in y.
        slope = power * inner + (beyond if power < 0 else 0.0)
        return slope - y.log()

    def _split(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return w up to the edge, where the formula holds, and what lies beyond."""
        power, _, edge = self._parameters
        if power == 0:
            return w, torch.zeros_like(w)
        inner = w.clamp_min(edge) if power > 0 else w.clamp_max(edge)
        return inner, w - inner


def _most_likely(w: Tensor) -> float:
    """Power of the largest likelihood for logarithms with mean 0, shape ``(n,)``."""
    reach = float(w.abs().max())
    if reach <= 1e-12:  # equal targets: nothing to learn, and 1 changes nothing
        return 1.0
    bound = min(_LARGEST, _LARGEST_LOG / reach)
    # The derivatives of g multiply to 1, since the mean of w is 0.
    return best_power(lambda p: log_variance(power_of_log(w, p)), -bound, bound)
