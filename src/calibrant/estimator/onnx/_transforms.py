"""Target transforms inside the graph."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant._checks import UnsupportedError
from calibrant.estimator.onnx._graph import Value

__all__ = ["Curve", "curve_of"]

# ONNX has no expm1 and no log1p: below this a power counts as 0, the logarithm.
_LEAST_POWER = 1e-8
_TINY = 1e-300
# Exponents whose exponential is still a float, and so is its square.
_LARGEST_LOG = 350.0


@dataclass(frozen=True)
class Curve:
    """An increasing map of targets onto the line, in the graph.

    Outside of the support ``forward`` takes a value for the end of it.
    """

    forward: Callable[[Value], Value]
    inverse: Callable[[Value], Value]


def curve_of(transform: Any) -> Curve | None:  # noqa: ANN401  (a TargetTransform)
    """Return the transform for the graph, None if it changes nothing."""
    name = getattr(transform, "name", None)
    if transform is None or name == "identity":
        return None
    if name not in _CURVES:
        raise UnsupportedError(
            "an ONNX file can hold the target transforms "
            f"{', '.join(['identity', *_CURVES])}, got {transform!r}. Use one of "
            "them, or save() and calibrant.load."
        )
    content = json.loads(transform.to_json())
    return _CURVES[name]({**content["options"], **content["state"]})


def _log_curve(_: dict[str, float]) -> Curve:
    return Curve(_log, _exp)


def _log(y: Value) -> Value:
    return y.clip(_TINY).log()


def _exp(log: Value) -> Value:
    return log.clip(-_LARGEST_LOG, _LARGEST_LOG).exp()


def _logit_curve(state: dict[str, float]) -> Curve:
    low, high = state["low"], state["high"]

    def forward(y: Value) -> Value:
        return _log(y - low) - _log(high - y)

    def inverse(z: Value) -> Value:
        share = (-z.abs()).exp()
        share = share / (share + 1.0) * (high - low)
        return z.graph.where(z < 0.0, share + low, high - share)

    return Curve(forward, inverse)


def _power_of_log(log: Value, power: float) -> Value:
    if abs(power) < _LEAST_POWER:
        return log
    return (_exp(log * power) - 1.0) / power


def _log_from_power(z: Value, power: float) -> Value:
    if abs(power) < _LEAST_POWER:
        return z
    return _log(z * power + 1.0) / power


def _box_cox_curve(state: dict[str, float]) -> Curve:
    power, log_scale, edge = (state[key] for key in ("power", "log_scale", "edge"))
    if abs(power) < _LEAST_POWER:
        return Curve(lambda y: _log(y) - log_scale, lambda z: _exp(z + log_scale))
    slope = math.exp(power * edge)
    limit = math.expm1(power * edge) / power

    def bounded(value: Value, end: float) -> Value:
        return value.clip(low=end) if power > 0 else value.clip(high=end)

    def forward(y: Value) -> Value:
        w = _log(y) - log_scale
        inner = bounded(w, edge)
        beyond = w - inner
        further = beyond if power > 0 else _exp(beyond) - 1.0
        return _power_of_log(inner, power) + further * slope

    def inverse(z: Value) -> Value:
        inner = bounded(z, limit)
        further = (z - inner) / slope
        beyond = further if power > 0 else _log(further + 1.0)
        return _exp(_log_from_power(inner, power) + beyond + log_scale)

    return Curve(forward, inverse)


def _yeo_johnson_curve(state: dict[str, float]) -> Curve:
    power, center, scale = (state[key] for key in ("power", "center", "scale"))

    def forward(y: Value) -> Value:
        t = (y - center) / scale
        above = _power_of_log((t.clip(0.0) + 1.0).log(), power)
        below = _power_of_log(((-t).clip(0.0) + 1.0).log(), 2 - power)
        return above - below

    def inverse(z: Value) -> Value:
        above = _exp(_log_from_power(z.clip(0.0), power))
        below = _exp(_log_from_power((-z).clip(0.0), 2 - power))
        return (above - below) * scale + center

    return Curve(forward, inverse)


_CURVES: dict[str, Callable[[dict[str, float]], Curve]] = {
    "log": _log_curve,
    "box_cox": _box_cox_curve,
    "yeo_johnson": _yeo_johnson_curve,
    "logit": _logit_curve,
}
