"""Increasing maps of targets onto the real line; their table is in registry."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from calibrant.protocols import TargetTransform
from calibrant.registry import TRANSFORMS, StoredPart, part_from_json
from calibrant.validation import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_float_tensor,
    as_target,
    check_positive,
)

__all__ = [
    "TRANSFORMS",
    "BoxCoxTransform",
    "FunctionTransform",
    "IdentityTransform",
    "LogTransform",
    "LogitTransform",
    "YeoJohnsonTransform",
    "from_functions",
    "from_json",
]

Function = Callable[[Tensor], Tensor]
#: Box-Cox: powers beyond are fits to noise, the targets hardly vary for their size.
_LARGEST_POWER = 5.0
#: Logarithms of images in a fit, whose squares must be floats.
_LARGEST_LOG = 300.0


def from_json(text: str) -> TargetTransform:
    """Read a transform from what ``to_json`` wrote; it maps bit by bit alike.

    Examples
    --------
    >>> fitted = TRANSFORMS["box_cox"]().fit([1.0, 2.0, 4.0, 9.0])
    >>> from_json(fitted.to_json()).power == fitted.power
    True
    """
    transform: TargetTransform = part_from_json(TRANSFORMS, text)
    return transform


class AbstractTransform(StoredPart):
    """An increasing map of targets onto the line; final classes supply the formulas."""

    kind: ClassVar[str] = "transform"
    _fit_on: ClassVar[str] = "the training targets, shape (n,)"
    #: What to do about targets outside of the support.
    _remedy: ClassVar[str] = ""
    _names: ClassVar[tuple[str, ...]] = ()
    #: Open interval of the targets that have an image.
    support: tuple[float, float] = (-math.inf, math.inf)

    _forward: Function
    _inverse: Function
    _log_derivative: Function

    def _learn(self, y: Tensor) -> tuple[float, ...]:  # noqa: ARG002
        return ()

    def _check(self, *parameters: float) -> None: ...

    def fit(self, y: ArrayLike) -> Self:
        """Learn the parameters, if there are any, from targets ``(n,)``."""
        target = self._inside(y)
        if target.ndim != 1 or target.numel() == 0:
            raise InputError(
                f"y must have shape (n,) with n >= 1, got {tuple(target.shape)}. "
                "Use squeeze(-1) on (n, 1)."
            )
        self._learned = self._learn(target.detach().cpu())
        return self

    def forward(self, y: ArrayLike) -> Tensor:
        """Map targets of any shape: z = g(y), in float64."""
        return self._forward(self._inside(y))

    def inverse(self, z: ArrayLike) -> Tensor:
        """Map back, any shape, in float64; the ends of the support at +-inf."""
        return self._inverse(as_float_tensor(z, name="z").double())

    def log_derivative(self, y: ArrayLike) -> Tensor:
        """Logarithm of the derivative of g at targets of any shape, in float64."""
        return self._log_derivative(self._inside(y))

    def _inside(self, y: ArrayLike) -> Tensor:
        """Return finite float64 targets, refused if one is outside of the support."""
        target, (low, high) = as_target(y).double(), self.support
        outside = int(((target <= low) | (target >= high)).sum())
        if outside:
            raise InputError(
                f"y must lie strictly between {low:g} and {high:g} for the transform "
                f"{self.name!r}: {outside} of {target.numel()} targets do not. "
                f"{self._remedy}"
            )
        return target

    @property
    def _parameters(self) -> tuple[float, ...]:
        return tuple(self._fitted)

    def _state(self) -> dict[str, object]:
        return {name: self._parameters[i] for i, name in enumerate(self._names)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        values = tuple(float(state[name]) for name in self._names)
        if not all(map(math.isfinite, values)):
            raise InputError(f"its parameters must be finite, got {values}")
        self._check(*values)
        self._learned = values


class IdentityTransform(AbstractTransform):
    """The map :math:`g(y) = y`, which changes nothing."""

    name: ClassVar[str] = "identity"

    _forward = _inverse = staticmethod(torch.positive)
    _log_derivative = staticmethod(torch.zeros_like)


class LogTransform(AbstractTransform):
    r"""The map :math:`g(y) = \log y` of positive targets.

    Errors relative to the target become alike everywhere; no prediction is negative.
    """

    name: ClassVar[str] = "log"
    support = (0.0, math.inf)
    _remedy: ClassVar[str] = "Use 'yeo_johnson', which takes targets of either sign."

    _forward, _inverse = staticmethod(torch.log), staticmethod(torch.exp)
    _log_derivative = staticmethod(lambda y: -y.log())


class LogitTransform(AbstractTransform):
    r"""The map :math:`g(y) = \log\frac{y - a}{b - y}` of targets between two bounds.

    For shares, rates and scores that stay strictly inside :math:`(a, b)`. A target on
    a bound has no image: for such use the distribution ``Truncated``.

    Parameters
    ----------
    low, high
        The bounds :math:`a < b`, both finite.

    Examples
    --------
    >>> LogitTransform(low=0.0, high=100.0).inverse([float("-inf"), 0.0]).tolist()
    [0.0, 50.0]
    """

    name: ClassVar[str] = "logit"
    _remedy: ClassVar[str] = (
        "If the bounds are right, use bounds=(low, high) in place of this transform."
    )

    def __init__(self, *, low: float = 0.0, high: float = 1.0) -> None:
        self.support = float(low), float(high)
        if not (low < high and math.isfinite(high - low)):
            raise InputError(
                f"low and high must be finite with low < high, got low={low}, "
                f"high={high}. For one bound use 'log' of the distance from it."
            )

    def _options(self) -> dict[str, object]:
        return {"low": self.support[0], "high": self.support[1]}

    def _forward(self, y: Tensor) -> Tensor:
        low, high = self.support
        return (y - low).log() - (high - y).log()

    def _inverse(self, z: Tensor) -> Tensor:
        low, high = self.support
        # From the nearer bound, so that neither end is rounded.
        share = (high - low) * torch.sigmoid(-z.abs())
        return torch.where(z < 0, low + share, high - share)

    def _log_derivative(self, y: Tensor) -> Tensor:
        low, high = self.support
        return math.log(high - low) - (y - low).log() - (high - y).log()


class _PowerTransform(AbstractTransform):
    """A transform with a power, given or learned: the first of its parameters."""

    def __init__(self, *, power: float | None = None) -> None:
        if power is not None and not math.isfinite(power):
            raise InputError(f"power must be a finite number or None, got {power}.")
        self._given_power = None if power is None else float(power)

    @property
    def power(self) -> float:
        r"""The power :math:`\lambda`."""
        return float(self._parameters[0])

    def _options(self) -> dict[str, object]:
        return {"power": self._given_power}


class BoxCoxTransform(_PowerTransform):
    r"""The power of Box and Cox of positive targets, made a map onto the line.

    With :math:`w = \log(y / y_0)` and :math:`y_0` the geometric mean of the targets
    (so that their unit does not matter),

    .. math:: g(y) = \frac{e^{\lambda w} - 1}{\lambda},
        \qquad g(y) = w \text{ if } \lambda = 0.

    :math:`\lambda` maximizes the likelihood of a normal distribution of g(y), in
    [-5, 5]. The images of the formula end at :math:`-1/\lambda`, so g goes on where the
    training targets end, with the same slope there: for :math:`\lambda > 0` below the
    smallest of them linearly in :math:`\log y`, so that predictions stay positive; for
    :math:`\lambda < 0` above the largest linearly in :math:`y`, so that the mean stays
    finite.

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
    support = (0.0, math.inf)
    _remedy: ClassVar[str] = "Use 'yeo_johnson', which takes targets of either sign."
    #: The edge is the w where g goes on otherwise.
    _names: ClassVar[tuple[str, ...]] = ("power", "log_scale", "edge")

    def _learn(self, y: Tensor) -> tuple[float, ...]:
        log_scale = float(y.log().mean())
        w = y.log() - log_scale
        power, reach = self._given_power, float(w.abs().max())
        if power is None and reach <= 1e-12:  # equal targets: 1 changes nothing
            power = 1.0
        elif power is None:
            bound = min(_LARGEST_POWER, _LARGEST_LOG / reach)
            # The derivatives of g multiply to 1, since the mean of w is 0.
            power = _most_likely(lambda p: _log_spread(_power(w, p)), -bound, bound)
        edge = float(w.min() if power >= 0 else w.max())
        self._check(power, log_scale, edge)
        return power, log_scale, edge

    def _check(self, *parameters: float) -> None:
        power, _, edge = parameters
        if power * edge < -_LARGEST_LOG:
            raise InputError(
                f"power must be at most {abs(_LARGEST_LOG / edge):.3g} in size for "
                f"targets that spread this far, got {power}. Leave it None to learn it."
            )

    def _forward(self, y: Tensor) -> Tensor:
        power, log_scale, edge = self._parameters
        inner, beyond = self._split(y.log() - log_scale, edge)
        further = beyond if power >= 0 else torch.expm1(beyond)
        return _power(inner, power) + math.exp(power * edge) * further

    def _inverse(self, z: Tensor) -> Tensor:
        power, log_scale, edge = self._parameters
        limit = float(_power(torch.tensor(edge, dtype=torch.float64), power))
        inner, beyond = self._split(z, limit)
        beyond = beyond / math.exp(power * edge)
        further = beyond if power >= 0 else torch.log1p(beyond)
        return (_log_from_power(inner, power) + further + log_scale).exp()

    def _log_derivative(self, y: Tensor) -> Tensor:
        power, log_scale, edge = self._parameters
        inner, beyond = self._split(y.log() - log_scale, edge)
        # Below the edge g is linear in log y, above it in y.
        return power * inner + (beyond if power < 0 else 0.0) - y.log()

    def _split(self, values: Tensor, edge: float) -> tuple[Tensor, Tensor]:
        """Return values up to the edge, where the formula holds, and what is beyond."""
        inner = values.clamp_min(edge) if self.power >= 0 else values.clamp_max(edge)
        # At inf the difference is NaN, and inf is on the regular side or all beyond.
        return inner, torch.where(values == inner, 0.0, values - inner)


class YeoJohnsonTransform(_PowerTransform):
    r"""The power of Yeo and Johnson, for skewed targets of either sign.

    With :math:`t = (y - m) / s`, the median :math:`m` and the quartiles' distance
    :math:`s` of the targets (so that neither their unit nor their zero matters),

    .. math::
        g(y) = \begin{cases}
            \bigl((1 + t)^\lambda - 1\bigr) / \lambda & t \ge 0 \\
            -\bigl((1 - t)^{2 - \lambda} - 1\bigr) / (2 - \lambda) & t < 0
        \end{cases}

    and the logarithm :math:`\pm\log(1 \pm t)` for a power of 0. :math:`\lambda`
    maximizes the likelihood of a normal distribution of g(y), in [0, 2]: only there is
    g a map onto the whole line.

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
    _names: ClassVar[tuple[str, ...]] = ("power", "center", "scale")

    def __init__(self, *, power: float | None = None) -> None:
        super().__init__(power=power)
        if power is not None:
            self._check(power, 0.0, 1.0)

    def _learn(self, y: Tensor) -> tuple[float, ...]:
        low, center, high = np.quantile(y, [0.25, 0.5, 0.75], method="nearest").tolist()
        # The quartiles' distance is not moved by a few outliers.
        scales = (high - low, float(y.std(correction=0)), 1.0)
        scale = next(scale for scale in scales if 0 < scale < math.inf)
        t, power = (y - center) / scale, self._given_power
        log_slope = float((t.sign() * torch.log1p(t.abs())).mean())
        # Powers whose images overflow are left out, on either side.
        above, below = (
            min(2.0, _LARGEST_LOG / float(torch.log1p(side.max().clamp_min(1))))
            for side in (t, -t)
        )
        if power is None and (2 - below >= above or (t == t[0]).all()):
            power = 1.0  # equal targets: nothing to learn
        elif power is None:
            power = _most_likely(
                lambda p: _log_spread(_curve(t, p)) - (p - 1) * log_slope,
                2 - below,
                above,
            )
        return power, center, scale

    def _check(self, *parameters: float) -> None:
        power, _, scale = parameters
        check_positive(scale, name="scale")
        if not 0 <= power <= 2:
            raise InputError(
                f"power must lie in [0, 2] or be None, got {power}: outside of it the "
                "images do not cover the line. For heavier tails use 'box_cox'."
            )

    def _forward(self, y: Tensor) -> Tensor:
        power, center, scale = self._parameters
        return _curve((y - center) / scale, power)

    def _inverse(self, z: Tensor) -> Tensor:
        power, center, scale = self._parameters
        above = torch.expm1(_log_from_power(z.clamp_min(0), power))
        below = torch.expm1(_log_from_power((-z).clamp_min(0), 2 - power))
        return center + scale * torch.where(z >= 0, above, -below)

    def _log_derivative(self, y: Tensor) -> Tensor:
        power, center, scale = self._parameters
        t = (y - center) / scale
        return (power - 1) * t.sign() * torch.log1p(t.abs()) - math.log(scale)


class FunctionTransform(AbstractTransform):
    r"""A transform of your own functions of float64 tensors; it cannot be stored.

    ``fit`` checks on the targets that the functions belong together.

    Parameters
    ----------
    forward, inverse, log_derivative
        :math:`g`, increasing, from the support onto the whole line, differentiable by
        torch; :math:`g^{-1}`; and :math:`\log g'`. If :math:`g` reaches only
        :math:`(a, b)`, give ``Transformed`` a base that is ``Truncated`` to it.
    support
        Where :math:`g` is defined.

    Examples
    --------
    >>> cube = from_functions(
    ...     lambda y: y.log() / 3,
    ...     lambda z: (3 * z).exp(),
    ...     lambda y: -(3 * y).log(),
    ...     support=(0.0, float("inf")),
    ... )
    >>> cube.fit([1.0, 8.0]).inverse([0.0]).tolist()
    [1.0]
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
        self._forward, self._inverse = forward, inverse
        self._log_derivative = log_derivative
        self.support = float(support[0]), float(support[1])
        if not self.support[0] < self.support[1]:
            raise InputError(f"support must be (low, high) with low < high: {support}.")

    def _learn(self, y: Tensor) -> tuple[float, ...]:
        """Learn nothing, but look whether the functions fit each other."""
        y = y.unique()
        slope = torch.func.grad(lambda point: self._forward(point).sum())(y)
        z = self._forward(y)
        gap, room = self._log_derivative(y) - slope.log(), y.abs() + y[-1] - y[0]
        for kept, rule in (
            (z.isfinite(), "forward must be finite"),
            (z.diff() > 0, "forward must increase strictly"),
            ((self._inverse(z) - y).abs() <= 1e-6 * room, "inverse must undo forward"),
            (gap.abs() <= 1e-4, "log_derivative must be that of forward's slope"),
        ):
            if not kept.all():
                raise InputError(f"{rule} on the targets, and it does not. Correct it.")
        return ()

    def to_json(self) -> str:
        """Refuse: functions cannot be written as text."""
        raise UnsupportedError(
            "a transform of functions cannot be stored. Write a class like those here "
            "and put it into TRANSFORMS under its name."
        )


from_functions = FunctionTransform


def _power(log: Tensor, power: float) -> Tensor:
    r"""Return :math:`(e^{\lambda x} - 1) / \lambda`, which is x for a power of 0."""
    return log if power == 0 else torch.expm1(power * log) / power


def _log_from_power(z: Tensor, power: float) -> Tensor:
    """Undo :func:`_power`; a z that is no image counts as the end of the image."""
    return z if power == 0 else torch.log1p((power * z).clamp_min(-1)) / power


def _curve(t: Tensor, power: float) -> Tensor:
    """Yeo and Johnson's formula."""
    above = _power(torch.log1p(t.clamp_min(0)), power)
    below = _power(torch.log1p((-t).clamp_min(0)), 2 - power)
    return torch.where(t >= 0, above, -below)


def _log_spread(values: Tensor) -> float:
    return float(values.std(correction=0).log())


def _most_likely(loss: Callable[[float], float], low: float, high: float) -> float:
    """Power in ``[low, high]`` with the least loss, a convex negative likelihood."""
    from scipy.optimize import minimize_scalar  # only who fits pays for the import

    bounds, options = (low, high), {"xatol": 1e-9}
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options=options)
    return float(found.x)
