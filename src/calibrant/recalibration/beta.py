"""A map with three parameters, for when there are few held-out rows."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._base import MapRecalibrator
from calibrant.recalibration._logit import (
    bounded_log_odds,
    from_log_odds,
    log_jacobian,
    log_odds,
    log_odds_of_tails,
    log_tail,
    with_ends,
)

__all__ = ["BetaMap", "BetaRecalibrator"]

_NAMES = ("lower", "upper", "shift")
# No fit gives more: the penalty grows as fast as what as many rows could gain.
_MOST = 1e9


class BetaMap:
    r"""The map :math:`\log\frac{R}{1-R} = c + a \log u - b \log(1-u)`.

    Near 0 it goes like :math:`u^a`, near 1 like :math:`1 - (1-u)^b`. All computations
    are on log odds, so that no tail is lost.
    """

    def __init__(self, lower: float, upper: float, shift: float) -> None:
        self.lower, self.upper, self.shift = float(lower), float(upper), float(shift)
        if not (np.isfinite([lower, upper, shift]).all() and lower > 0 and upper > 0):
            raise InputError(
                "lower and upper must be above 0, and all finite; got "
                f"lower={lower}, upper={upper}, shift={shift}"
            )

    @property
    def knots(self) -> Tensor:
        """0 and 1: the density is smooth all over."""
        return torch.tensor([0.0, 1.0], dtype=torch.float64)

    def state(self) -> dict[str, object]:
        """Return the three parameters."""
        return {name: getattr(self, name) for name in _NAMES}

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values."""
        return from_log_odds(self._mapped(log_odds(pit)), pit.cdf.dtype)

    def inverse(self, levels: PitValues) -> PitValues:
        """PIT values that are mapped to these."""
        odds = self._inverse(log_odds(levels), levels.cdf, levels.survival)
        return from_log_odds(odds, levels.cdf.dtype)

    def lower_tail(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Map float64 tails to the lower one alone, which is faster."""
        return torch.sigmoid(self._odds(cdf, survival))

    def tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Map float64 tails without their logarithms."""
        odds = self._odds(cdf, survival)
        return torch.sigmoid(odds), torch.sigmoid(-odds)

    def inverse_tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Tails of :meth:`inverse` without their logarithms."""
        odds = self._inverse(log_odds_of_tails(cdf, survival), cdf, survival)
        return torch.sigmoid(odds), torch.sigmoid(-odds)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the derivative at PIT values."""
        wide = pit.map(lambda part: part.double())
        slope = (self.lower * wide.survival + self.upper * wide.cdf).log()
        jacobian = log_jacobian(self._mapped(log_odds(pit)), pit)
        return (slope + jacobian).to(pit.cdf.dtype)

    def _mapped(self, odds: Tensor) -> Tensor:
        lower: Tensor = self.lower * logsigmoid(odds)
        return self.shift + lower - self.upper * logsigmoid(-odds)

    def _odds(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Mapped log odds from tails, which need no logarithm of a sigmoid."""
        rise = self.shift + self.lower * log_tail(cdf)
        return rise - self.upper * log_tail(survival)

    def _inverse(self, target: Tensor, cdf: Tensor, survival: Tensor) -> Tensor:
        """Log odds that are mapped to the target, infinite for levels of 0 and 1."""
        target = torch.where((cdf <= 0) | (survival <= 0), 0.0, target)
        # Start from the better of both tails' formulas. The map is convex or concave
        # in log odds, so Newton's steps approach the root from one side.
        rise = target - self.shift
        odds = torch.where(rise < 0, rise / self.lower, rise / self.upper)
        for _ in range(100):
            share = torch.sigmoid(odds)
            slope = self.lower * (1 - share) + self.upper * share
            step = (self._mapped(odds) - target) / slope
            odds = odds - step
            if (step.abs() <= 1e-14 * (1 + odds.abs())).all():
                break
        return with_ends(odds, cdf, survival)


class BetaRecalibrator(MapRecalibrator):
    r"""Beta calibration of PIT values, by maximum likelihood.

    .. math:: \log\frac{R(u)}{1 - R(u)} = c + a \log u - b \log(1 - u), \quad a, b > 0

    :math:`a` and :math:`b` correct the lower and the upper tail (below 1: the model is
    over-confident there), :math:`c` the location. The three maximize the likelihood of
    the held-out PIT values, :math:`\sum_i \log R'(u_i)`, less

    .. math:: (a - \log a - 1) + (b - \log b - 1) + c^2 / 2 ,

    which is 0 for the identity, weighs less than a few rows and keeps the map finite
    for a single row. The sum is concave: there is one maximum.

    Data: held-out rows, from about 10 on. No finite-sample guarantee. It can only
    correct what three parameters can; with 1000 rows or more take ``smooth``.

    References
    ----------
    Kull, Silva Filho and Flach (2017), *Beta Calibration: a Well-Founded and Easily
    Implemented Improvement on Logistic Calibration for Binary Classifiers*.

    Examples
    --------
    >>> import torch
    >>> overconfident = torch.tensor([0.001, 0.01, 0.1, 0.4, 0.7, 0.97, 0.995, 0.999])
    >>> beta = BetaRecalibrator().fit_pit(overconfident)
    >>> [round(level, 2) for level in beta.apply([0.01, 0.5, 0.99]).tolist()]
    [0.12, 0.48, 0.85]
    """

    name: ClassVar[str] = "beta"

    def _learn(self, pit: PitValues) -> BetaMap:
        # Only who fits pays for the import.
        from scipy.optimize import minimize

        odds = bounded_log_odds(pit)
        share = torch.sigmoid(odds).numpy()
        log_u, log_s = logsigmoid(odds).numpy(), logsigmoid(-odds).numpy()

        def loss(parameters: np.ndarray[Any, Any]) -> tuple[float, list[float]]:
            a, b, c = parameters
            mapped = c + a * log_u - b * log_s
            slope = a * (1 - share) + b * share
            likelihood = np.log(slope) + mapped - 2 * np.logaddexp(0, mapped)
            pull = 1 - 2 / (1 + np.exp(-mapped))  # derivative of the last two terms
            value = a + b - np.log(a * b) - 2 + c**2 / 2 - likelihood.sum()
            gradient = [
                1 - 1 / a - (pull * log_u + (1 - share) / slope).sum(),
                1 - 1 / b - (-pull * log_s + share / slope).sum(),
                c - pull.sum(),
            ]
            return float(value), gradient

        found = minimize(
            loss,
            [1.0, 1.0, 0.0],
            jac=True,
            method="L-BFGS-B",
            bounds=[(1e-6, None), (1e-6, None), (None, None)],
            options={"ftol": 1e-14, "gtol": 1e-9 * len(share), "maxiter": 1000},
        )
        return BetaMap(*found.x)

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> BetaMap:
        values = [state[name] for name in _NAMES]
        if not all(abs(value) < _MOST for value in values):
            raise InputError(f"lower, upper and shift must be below {_MOST:g}.")
        return BetaMap(*values)
