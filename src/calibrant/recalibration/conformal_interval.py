"""Intervals that cover at least what they promise, from the first row on."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, check_between
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.recalibration._held_out import held_out_rows, unfitted
from calibrant.recalibration._json import write_json

__all__ = ["ConformalInterval", "ConformalPrediction"]

Score = Literal["auto", "normalized", "absolute", "quantile"]
_SCORES = ("auto", "normalized", "absolute", "quantile")


class ConformalInterval:
    r"""Split conformal intervals around a law, at every coverage.

    With scores :math:`s_i` of the :math:`n` held-out rows and :math:`s_{(k)}` the
    :math:`k`-th smallest of them, the interval at coverage :math:`c` holds all targets
    with a score of at most

    .. math:: s_{(k)}, \qquad k = \lceil (n + 1)\, c \rceil .

    **Guarantee.** If the held-out rows and a new one are exchangeable, the interval
    holds the new target with probability at least :math:`c`, for every :math:`n` and
    every model, and (distinct scores) at most :math:`c + 1 / (n + 1)`, apart from
    ``"quantile"`` between its coverages. For :math:`c > n / (n + 1)` no finite
    interval can promise that, and the interval is infinite. The probability is over
    held-out rows and the new row together, not for each row by itself.

    The result has intervals only. A whole law with nearly this guarantee is what
    ``empirical`` gives.

    Parameters
    ----------
    score
        ``"normalized"``: :math:`|y - \mu| / \sigma` with the law's mean and standard
        deviation; the width follows the law's. ``"absolute"``: :math:`|y - \mu|`, one
        width for all rows. ``"quantile"``: conformalized quantile regression,
        :math:`\max(l_c - y,\; y - u_c)` with the law's own interval
        :math:`[l_c, u_c]`, learned for coverages 0.01, 0.02, ..., 0.99, 0.995, 0.999
        and :math:`n / (n + 1)`; between two of them the larger one is used.
        ``"auto"``: quantile for a ``QuantileTable``, else normalized.

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), *Distribution-Free Predictive
    Inference for Regression*, arXiv:1604.04173.
    Romano, Patterson and Candes (2019), *Conformalized Quantile Regression*,
    arXiv:1905.03222.

    Examples
    --------
    >>> y = [0.5, -1.0, 1.5, -2.0]
    >>> conformal = ConformalInterval().fit(([0.0] * 4, [1.0] * 4), y)
    >>> lower, upper = conformal.transform(([10.0], [2.0])).interval(0.8)
    >>> lower.tolist(), upper.tolist()
    ([6.0], [14.0])
    >>> conformal.transform(([10.0], [2.0])).interval(0.9)[1].tolist()
    [inf]
    """

    name: ClassVar[str] = "conformal_interval"

    def __init__(self, *, score: Score = "auto") -> None:
        if score not in _SCORES:
            raise InputError(
                f"score must be one of {', '.join(_SCORES)}, got {score!r}."
            )
        self.score = score
        self._used: str | None = None
        self._coverages: list[float] = []
        self._bounds: list[float] = []

    def fit(
        self,
        distribution: Any,  # noqa: ANN401
        y: ArrayLike,
    ) -> Self:
        """Learn from predictions for held-out rows and their targets ``(n,)``."""
        law, target = held_out_rows(distribution, y)
        used = self.score
        if used == "auto":
            used = "quantile" if isinstance(law, QuantileTable) else "normalized"
        n = len(target)
        with torch.no_grad():
            if used == "quantile":
                coverages = _coverages(n)
                bounds = [_quantile_bound(law, target, each) for each in coverages]
            else:
                coverages = [k / (n + 1) for k in range(1, n + 1)]
                bounds = _distances(law, target, used).sort().values.tolist()
        self._used, self._coverages, self._bounds = used, coverages, bounds
        return self

    def transform(self, distribution: Any) -> "ConformalPrediction":  # noqa: ANN401
        """Give other rows their intervals."""
        if self._used is None:
            raise unfitted(self.name)
        law = as_distribution(distribution)
        return ConformalPrediction(law, self._used, self._coverages, self._bounds)

    def to_json(self) -> str:
        """Write options and scores as text, to be read by ``from_json``."""
        if self._used is None:
            raise unfitted(self.name)
        state = {
            "used": self._used,
            "coverages": self._coverages,
            "bounds": self._bounds,
        }
        return write_json(self.name, options={"score": self.score}, state=state)

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted recalibrator from what ``to_json`` wrote."""
        restored = cls(**options)
        restored._used = str(state["used"])
        restored._coverages = [float(each) for each in state["coverages"]]
        restored._bounds = [float(each) for each in state["bounds"]]
        if (
            restored._used not in _SCORES[1:]
            or len(restored._coverages) != len(restored._bounds)
            or restored._coverages != sorted(restored._coverages)
        ):
            raise InputError("coverages must ascend and have one bound each")
        return restored


class ConformalPrediction:
    """Conformal intervals of each row, at any coverage; see ``ConformalInterval``.

    Parameters
    ----------
    base
        The law that was given, of any batch shape.
    score
        Which score ``bounds`` are of: normalized, absolute or quantile.
    coverages
        Coverages that are promised, ascending, shape ``(k,)``.
    bounds
        Largest score inside the interval at each of them.
    """

    def __init__(
        self,
        base: AbstractDistribution,
        score: str,
        coverages: list[float],
        bounds: list[float],
    ) -> None:
        self.base, self.score = base, score
        self._coverages, self._bounds = coverages, bounds

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self.base.batch_shape

    @property
    def mean(self) -> Tensor:
        """Expectation under the law that was given, shape ``batch_shape``."""
        return self.base.mean

    def interval(self, coverage: float) -> tuple[Tensor, Tensor]:
        """Interval that holds the target with probability ``coverage`` or more.

        Infinite where the held-out rows are too few: ``coverage > n / (n + 1)``.
        """
        check_between(coverage, 0, 1, name="coverage")
        # 1e-12: k / (n + 1) asked as a decimal number must find itself.
        place = bisect_left(self._coverages, coverage - 1e-12)
        if place == len(self._coverages):
            endless = torch.full_like(self.base.mean, math.inf)
            return -endless, endless
        bound = self._bounds[place]
        if self.score == "quantile":
            lower, upper = self.base.interval(self._coverages[place])
            # A negative bound can cross them; then the interval is its middle.
            middle = (lower + upper) / 2
            return (
                torch.minimum(lower - bound, middle),
                torch.maximum(upper + bound, middle),
            )
        width = bound * self.base.stddev if self.score == "normalized" else bound
        return self.base.mean - width, self.base.mean + width

    def __repr__(self) -> str:
        return f"ConformalPrediction(score={self.score!r}, base={self.base!r})"


def _distances(law: AbstractDistribution, y: Tensor, score: str) -> Tensor:
    distance = (y - law.mean).abs().double()
    if score == "normalized":
        distance = distance / law.stddev.double()
    if not distance.isfinite().all():
        raise InputError(
            f"the {score} score needs a finite mean"
            f"{' and a stddev above 0' if score == 'normalized' else ''} for each "
            f"row, and {int((~distance.isfinite()).sum())} of {len(y)} rows lack it. "
            "Use score='quantile', which needs neither."
        )
    return distance


def _coverages(n: int) -> list[float]:
    """Coverages for which ``n`` rows can promise anything, ascending."""
    grid = [j / 100 for j in range(1, 100)] + [0.995, 0.999, n / (n + 1)]
    return sorted(each for each in set(grid) if each <= n / (n + 1))


def _quantile_bound(law: AbstractDistribution, y: Tensor, coverage: float) -> float:
    """Correct the law's interval: the k-th smallest signed distance outside it."""
    lower, upper = law.interval(coverage)
    outside = torch.maximum(lower - y, y - upper).double()
    k = math.ceil((len(y) + 1) * coverage - 1e-9)
    return float(outside.kthvalue(k).values)
