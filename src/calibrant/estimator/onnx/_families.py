"""Families of component laws: tails in the graph, quantiles and nodes outside."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtri

from calibrant.contracts import PitValues
from calibrant.estimator.onnx._graph import Value

__all__ = ["LAPLACE", "NORMAL", "Family"]

Array = npt.NDArray[np.float64]

# Of the polynomial for erfc: relative error below 2e-9.
_DEGREE = 12
# Beyond this many standard deviations a normal law has no mass for moments.
_REACH = 12.0


@dataclass(frozen=True)
class Family:
    """A family of laws with a location and a scale, symmetric.

    Attributes
    ----------
    tail
        Probability beyond ``distance >= 0``, in scales.
    quantile
        Of a probability of at most 1/2, for location 0 and scale 1.
    variance
        Over the square of the scale.
    crowding
        How many exponents denser values are looked at in the middle than far out.
    nodes, weights
        Rule for expectations of smooth functions, for location 0 and scale 1.
    """

    tail: Callable[[Value], Value]
    quantile: Callable[[float], float]
    variance: float
    crowding: float
    nodes: Array
    weights: Array

    def at(self, pit: PitValues) -> Array:
        """Quantiles of levels ``(k,)``, each from the tail that is not rounded."""
        pairs = zip(pit.cdf.tolist(), pit.survival.tolist(), strict=True)
        return np.array(
            [
                self.quantile(lower) if lower < upper else -self.quantile(upper)
                for lower, upper in pairs
            ]
        )


def _erfc_coefficients() -> Array:
    r"""Polynomial :math:`q` with erfc(x) = t q(t) exp(-x^2), t = 1 / (1 + x/2)."""

    def q(t: Array) -> Array:
        scaled: Array = erfcx(2 / t - 2) / t
        return scaled

    fitted = np.polynomial.Chebyshev.interpolate(q, _DEGREE, domain=[0, 1])
    plain = fitted.convert(kind=np.polynomial.Polynomial, domain=[-1, 1])
    return np.asarray(plain.coef, dtype=np.float64)


_ERFC = _erfc_coefficients()


def _normal_tail(distance: Value) -> Value:
    x = distance * math.sqrt(0.5)
    t = (x * 0.5 + 1.0).reciprocal()
    value = t * float(_ERFC[-1]) + float(_ERFC[-2])
    for coefficient in _ERFC[-3::-1]:
        value = value * t + float(coefficient)
    return value * t * (-(x * x)).exp() * 0.5


def _laplace_tail(distance: Value) -> Value:
    return (-distance).exp() * 0.5


def _normal_rule() -> tuple[Array, Array]:
    """Even nodes: for smooth functions times a normal density there is no better."""
    nodes = np.linspace(-_REACH, _REACH, 129)
    weights = np.exp(-nodes * nodes / 2)
    return nodes, weights / weights.sum()


def _laplace_rule() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.laguerre.laggauss(32)
    both = np.concatenate([-nodes, nodes])
    return both, np.concatenate([weights, weights]) / 2


NORMAL = Family(_normal_tail, lambda p: float(ndtri(p)), 1.0, 2.0, *_normal_rule())
LAPLACE = Family(_laplace_tail, lambda p: math.log(2 * p), 2.0, 3.0, *_laplace_rule())
