"""Intervals that cover at least their nominal coverage, from the first row on."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor

from calibrant.distributions import AbstractDistribution, QuantileTable, as_distribution
from calibrant.recalibration.base import BaseRecalibrator, Prediction, held_out_rows
from calibrant.validation import ArrayLike, InputError, check_between

Score = Literal["auto", "normalized", "absolute", "quantile"]
_SCORES = get_args(Score)


class ConformalInterval(BaseRecalibrator):
    r"""Split conformal intervals around a distribution, at every coverage.

    With scores :math:`s_i` of the :math:`n` held-out rows and :math:`s_{(k)}` the
    :math:`k`-th smallest of them, the interval at coverage :math:`c` contains all
    targets with a score of at most

    .. math:: s_{(k)}, \qquad k = \lceil (n + 1)\, c \rceil .

    **Guarantee.** If the held-out rows and a new one are exchangeable, the interval
    covers the new target with probability at least :math:`c`, for every :math:`n` and
    every model, and (distinct scores) at most :math:`c + 1 / (n + 1)`, apart from
    ``"quantile"`` between its coverages. For :math:`c > n / (n + 1)` no finite
    interval can do that, and the interval is infinite. The probability is over
    held-out rows and the new row together. A whole distribution with nearly this
    guarantee is what ``empirical`` gives.

    Parameters
    ----------
    score
        ``"normalized"``: :math:`|y - \mu| / \sigma` with the predicted mean and
        standard deviation, which the width follows. ``"absolute"``:
        :math:`|y - \mu|`, one width for all rows. ``"quantile"``: conformalized
        quantile regression, :math:`\max(l_c - y,\; y - u_c)` with the predicted
        interval :math:`[l_c, u_c]`, learned for coverages 0.01, 0.02, ..., 0.99,
        0.995, 0.999 and :math:`n / (n + 1)`; between two of them the larger one is
        used. ``"auto"``: quantile for a ``QuantileTable``, else normalized.

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
            known = ", ".join(_SCORES)
            raise InputError(f"score must be one of {known}, got {score!r}.")
        self.score = score

    def fit(self, distribution: Prediction, y: ArrayLike) -> Self:
        """Learn from predictions for held-out rows and their targets ``(n,)``."""
        predicted, target = held_out_rows(distribution, y)
        used: str = self.score
        if used == "auto":
            table = isinstance(predicted, QuantileTable)
            used = "quantile" if table else "normalized"
        n = len(target)
        with torch.no_grad():
            if used == "quantile":
                grid = {*(j / 100 for j in range(1, 100)), 0.995, 0.999, n / (n + 1)}
                coverages = sorted(level for level in grid if level <= n / (n + 1))
                bounds = [_bound(predicted, target, level) for level in coverages]
            else:
                coverages = [k / (n + 1) for k in range(1, n + 1)]
                bounds = _distances(predicted, target, used).sort().values.tolist()
        self._learned = used, coverages, bounds
        return self

    def transform(self, distribution: Prediction) -> "ConformalPrediction":
        """Give other rows their intervals."""
        return ConformalPrediction(as_distribution(distribution), *self._fitted)

    def _options(self) -> dict[str, object]:
        return {"score": self.score}

    def _state(self) -> dict[str, object]:
        return dict(zip(("used", "coverages", "bounds"), self._fitted, strict=True))

    def _restore(self, state: Mapping[str, Any]) -> None:
        used, coverages = state["used"], [float(part) for part in state["coverages"]]
        bounds = [float(part) for part in state["bounds"]]
        levels = [0.0, *coverages, 1.0]
        distances = used == "quantile" or bounds == sorted(map(abs, bounds))
        if (
            used not in _SCORES[1:]
            or not 0 < len(coverages) == len(bounds)
            or not all(low < high for low, high in pairwise(levels))
            or not (distances and all(map(math.isfinite, bounds)))
        ):
            raise InputError(
                "coverages must ascend between 0 and 1 and have one finite bound each"
            )
        self._learned = used, coverages, bounds


class ConformalPrediction:
    """Conformal intervals of each row, at any coverage; see ``ConformalInterval``.

    ``bounds`` are the largest scores inside the intervals at ``coverages``, ascending.
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
        """Shape of the batch of rows."""
        return self.base.batch_shape

    @property
    def mean(self) -> Tensor:
        """Mean of the given distribution, shape ``batch_shape``."""
        return self.base.mean

    def interval(self, coverage: float) -> tuple[Tensor, Tensor]:
        """Interval that covers the target with probability ``coverage`` or more.

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
            lower = torch.minimum(lower - bound, middle)
            return lower, torch.maximum(upper + bound, middle)
        width = bound * self.base.stddev if self.score == "normalized" else bound
        return self.base.mean - width, self.base.mean + width

    def __repr__(self) -> str:
        return f"ConformalPrediction(score={self.score!r}, base={self.base!r})"


def _distances(predicted: AbstractDistribution, y: Tensor, score: str) -> Tensor:
    distance = (y - predicted.mean).abs().double()
    if score == "normalized":
        distance = distance / predicted.stddev.double()
    if not distance.isfinite().all():
        raise InputError(
            f"the {score} score needs a finite mean and a stddev above 0 for each row, "
            f"and {int((~distance.isfinite()).sum())} of {len(y)} rows lack it. "
            "Use score='quantile', which needs neither."
        )
    return distance


def _bound(predicted: AbstractDistribution, y: Tensor, coverage: float) -> float:
    """Correct the predicted interval: the k-th smallest distance outside of it."""
    lower, upper = predicted.interval(coverage)
    outside = torch.maximum(lower - y, y - upper).double()
    k = math.ceil((len(y) + 1) * coverage - 1e-9)
    return float(outside.kthvalue(k).values)
