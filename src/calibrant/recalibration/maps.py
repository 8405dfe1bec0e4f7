"""Recalibrators that learn an increasing map of [0, 1], precise in both tails."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from calibrant.protocols import PitValues
from calibrant.recalibration.base import MapRecalibrator
from calibrant.validation import InputError

_TINY = torch.finfo(torch.float64).tiny
#: Log odds of a PIT value that float64 can just tell from 1, where a fit ends: a plain
#: 0 or 1 only says "beyond", and at its word it would outweigh all other rows.
_LIMIT = -math.log(torch.finfo(torch.float64).eps)
#: Slopes, and log odds, that no rows give.
_LARGEST = 1e15


_ENDS = torch.tensor([0.0, 1.0], dtype=torch.float64)


class PiecewiseLinearMap:
    r"""The map through points :math:`(u_k, r_k)` from (0, 0) to (1, 1).

    Knots :math:`u_k` ascend strictly, heights :math:`r_k` do not fall; both are float64
    of shape ``(m,)``. ``floor`` is the least density that the heights are meant to
    have: next to 1, where heights round to 1, they cannot say it themselves.
    """

    def __init__(self, knots: Tensor, heights: Tensor, *, floor: float = 0.0) -> None:
        widths, rises = knots.diff(), heights.diff()
        if (
            knots.ndim != 1
            or knots.shape != heights.shape
            or len(knots) < 2
            or not 0 <= floor < 1
            or not bool((widths > 0).all() and (rises >= 0).all())
            or not bool((rises >= floor * widths - 1e-15).all())
            or [knots[0], knots[-1], heights[0], heights[-1]] != [0, 1, 0, 1]
        ):
            raise InputError(
                "knots must increase strictly and heights not decrease, from 0 to 1, "
                f"of one shape (m,), no slower than a floor in [0, 1), got {floor}"
            )
        self.knots, self.heights, self.floor = knots, heights, floor
        slopes = (rises / widths).clamp_min(floor)
        self._ahead = _Lines(knots, heights, slopes, right=True)
        # Ends before the first height that reaches the level: no flat piece is met.
        rates = torch.where(slopes > 0, 1 / slopes, 0.0)
        self._back = _Lines(heights, knots, rates, right=False)

    @classmethod
    def through(cls, levels: Tensor, heights: Tensor, *, floor: float = 0.0) -> Self:
        """Connect inner points with the corners; the last of equal levels counts."""
        last = torch.ones_like(levels, dtype=torch.bool)
        last[:-1] = levels[1:] > levels[:-1]
        inner = last & (levels > 0) & (levels < 1)
        parts = (levels[inner], heights[inner])
        return cls(*(torch.cat([_ENDS[:1], p, _ENDS[1:]]) for p in parts), floor=floor)

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values; the tails keep the precision that they come with."""
        return self._ahead.follow(pit)

    def inverse(self, levels: PitValues) -> PitValues:
        """Smallest PIT values that are mapped to these at least."""
        return self._back.follow(levels)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the slope at PIT values, -inf on a flat piece."""
        level = _resolved(pit.cdf.double(), pit.survival.double())
        slopes = _pick(self._ahead.rates, self._ahead.segment(level))
        return slopes.log().to(pit.cdf.dtype)


class _Lines:
    """Lines through points; one starts a line (``right``) or ends the one before."""

    def __init__(self, x: Tensor, y: Tensor, rates: Tensor, *, right: bool) -> None:
        self.rates, self._x, self._right = rates, x, right
        self._last = len(rates) - 1
        self._rise = x[:-1], y[:-1], y[1:]
        self._fall = 1 - x[1:], 1 - y[1:], 1 - y[:-1]

    def segment(self, level: Tensor) -> Tensor:
        """Number of the line at each level, same shape."""
        points, places = self._x.to(level.device), level.detach().contiguous()
        found = torch.searchsorted(points, places, right=self._right, out_int32=True)
        index = (found - 1).clamp_(0, self._last)
        # A height may round to 1 before the end that a density reaches.
        if not self._right and self.rates[-1] > 0:
            index.masked_fill_(level >= 1, self._last)
        return index

    def follow(self, pit: PitValues) -> PitValues:
        """Both tails at the other end of the lines, in the dtype that came."""
        wide = pit.map(lambda part: part.double())
        level = _resolved(wide.cdf, wide.survival)
        segment = self.segment(level)
        first, last = segment == 0, segment == self._last
        rise = self._along(level, segment, self._rise)
        fall = self._along(_resolved(wide.survival, wide.cdf), segment, self._fall)
        cdf = torch.where(last & ~first, 1 - fall, rise)
        survival = torch.where(first, 1 - rise, fall)
        # In the outer segments one tail is a multiple: true where its value underflows.
        log_rate = _pick(_log_tail(self.rates), segment)
        log_cdf = torch.where(first, log_rate + wide.log_cdf, _log_tail(cdf))
        above = log_rate + wide.log_survival
        log_survival = torch.where(last, above, _log_tail(survival))
        result = PitValues(cdf, survival, log_cdf, log_survival)
        return result.map(lambda part: part.to(pit.cdf.dtype))

    def _along(
        self, value: Tensor, segment: Tensor, points: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        """Go along the lines; rounding must not leave them, nor miss 0 and 1."""
        start, bottom, top = (_pick(table, segment) for table in points)
        reached = torch.addcmul(bottom, _pick(self.rates, segment), value - start)
        return torch.minimum(torch.maximum(reached, bottom), top)


class _LogOddsMap(ABC):
    r"""A map :math:`\operatorname{logit} R(u) = T(\operatorname{logit} u)`.

    On log odds no tail is lost. Final classes supply :math:`T`, its slope, its inverse.
    """

    @abstractmethod
    def _value_and_slope(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``T`` and its derivative at float64 log odds of any shape."""

    @abstractmethod
    def _solve(self, target: Tensor) -> Tensor:
        """Return the log odds at which ``T`` is the target."""

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values."""
        return _pit(self._value_and_slope(_log_odds(pit))[0], pit.cdf.dtype)

    def inverse(self, levels: PitValues) -> PitValues:
        """PIT values that are mapped to these; those of 0 and 1 stay."""
        zero, one = levels.cdf <= 0, levels.survival <= 0
        odds = self._solve(torch.where(zero | one, 0.0, _log_odds(levels)))
        odds = torch.where(one, torch.inf, torch.where(zero, -torch.inf, odds))
        return _pit(odds, levels.cdf.dtype)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the derivative at PIT values; it is continuous."""
        mapped, slope = self._value_and_slope(_log_odds(pit))
        outer = logsigmoid(mapped) + logsigmoid(-mapped)
        inner = pit.log_cdf.double() + pit.log_survival.double()
        return (slope.log() + outer - inner).to(pit.cdf.dtype)


class BetaMap(_LogOddsMap):
    r"""The map :math:`\log\frac{R}{1-R} = c + a \log u - b \log(1-u)`.

    Near 0 it goes like :math:`u^a`, near 1 like :math:`1 - (1-u)^b`; ``lower`` is
    :math:`a`, ``upper`` :math:`b` and ``shift`` :math:`c`.
    """

    def __init__(self, lower: float, upper: float, shift: float) -> None:
        self.lower, self.upper, self.shift = float(lower), float(upper), float(shift)
        slopes = 0 < lower < _LARGEST and 0 < upper < _LARGEST
        if not (slopes and abs(shift) < _LARGEST):
            raise InputError(
                f"lower and upper must be above 0, and all below {_LARGEST:g}; got "
                f"lower={lower}, upper={upper}, shift={shift}"
            )

    @property
    def knots(self) -> Tensor:
        """0 and 1: the density is smooth all over."""
        return _ENDS

    def _value_and_slope(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        rise: Tensor = self.shift + self.lower * logsigmoid(odds)
        share = torch.sigmoid(odds)
        slope = self.lower * (1 - share) + self.upper * share
        return rise - self.upper * logsigmoid(-odds), slope

    def _solve(self, target: Tensor) -> Tensor:
        # Start from the better of both tails' formulas. The map is convex or concave
        # in log odds, so Newton's steps approach the root from one side.
        rise = target - self.shift
        odds = torch.where(rise < 0, rise / self.lower, rise / self.upper)
        for _ in range(100):
            value, slope = self._value_and_slope(odds)
            step = (value - target) / slope
            odds = odds - step
            if (step.abs() <= 1e-14 * (1 + odds.abs())).all():
                break
        return odds


class LogOddsSpline(_LogOddsMap):
    """A spline of log odds through ``heights`` at ``places`` with ``slopes``, ``(m,)``.

    Between knots it is the rational quadratic of Gregory and Delbourgo, which has an
    inverse in closed form; beyond the outer knots it is linear. All are float64.
    """

    def __init__(self, places: Tensor, heights: Tensor, slopes: Tensor) -> None:
        self.places, self.heights, self.slopes = places, heights, slopes
        self._tables = tables = places, heights, slopes
        if not (
            0 < places.numel() == len(places) == len(heights) == len(slopes)
            and (places.diff() > 0).all()
            and (heights.diff() > 0).all()
            and (slopes > 0).all()
            and torch.stack(tables).abs().max() < _LARGEST
        ):
            raise InputError(
                "places and heights must increase, slopes must be above 0, all below "
                f"{_LARGEST:g} and of one shape (m,)"
            )

    @property
    def knots(self) -> Tensor:
        """0, the knots as levels, and 1."""
        knots: Tensor = torch.cat([_ENDS, torch.sigmoid(self.places)]).unique()
        return knots

    def _value_and_slope(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        x, t, d = (table.to(odds.device) for table in self._tables)
        low, high = odds < x[0], odds >= x[-1]
        value = torch.where(
            low, t[0] + d[0] * (odds - x[0]), t[-1] + d[-1] * (odds - x[-1])
        )
        slope = torch.where(low, d[0], d[-1])
        if len(x) > 1:
            inside = odds.clamp(x[0], x[-1])
            place, height, width, rise, start, end = self._piece(x, inside)
            secant, share = rise / width, (inside - place) / width
            both = share * (1 - share)
            scale = secant + (start + end - 2 * secant) * both
            climb = secant * share**2 + start * both
            bent = end * share**2 + 2 * secant * both + start * (1 - share) ** 2
            outer = low | high
            value = torch.where(outer, value, height + rise * climb / scale)
            slope = torch.where(outer, slope, bent * (secant / scale) ** 2)
        return value, slope

    def _solve(self, target: Tensor) -> Tensor:
        x, t, d = (table.to(target.device) for table in self._tables)
        low, high = target <= t[0], target >= t[-1]
        odds = torch.where(
            low, x[0] + (target - t[0]) / d[0], x[-1] + (target - t[-1]) / d[-1]
        )
        if len(x) == 1:
            return odds
        inside = target.clamp(t[0], t[-1])
        place, height, width, rise, start, end = self._piece(t, inside)
        secant, risen = rise / width, inside - height
        bend = start + end - 2 * secant
        # The root of a quadratic, in the form that does not cancel.
        a = rise * (secant - start) + risen * bend
        b = rise * start - risen * bend
        c = -secant * risen
        share = -2 * c / (b + (b * b - 4 * a * c).clamp_min(0).sqrt())
        return torch.where(low | high, odds, place + share.clamp(0, 1) * width)

    def _piece(self, table: Tensor, values: Tensor) -> list[Tensor]:
        """Place, height, width, rise and both slopes of each value's piece."""
        x, t, d = (part.to(values.device) for part in self._tables)
        found = torch.searchsorted(table, values.detach().contiguous(), right=True)
        piece = (found - 1).clamp(0, len(x) - 2)
        return [_pick(part, piece) for part in (x, t, x.diff(), t.diff(), d, d[1:])]


class IsotonicRecalibrator(MapRecalibrator):
    r"""Isotonic regression of the observed on the nominal frequency.

    With :math:`\hat P(p)` the share of the :math:`n` held-out PIT values up to
    :math:`p`, the map goes through (0, 0) and all :math:`(u_i, \hat P(u_i))`, linear in
    between and 1 beyond the largest. One outlier beyond would cost an infinite NLL, so
    a weight of :math:`\varepsilon` is given to the identity,

    .. math:: R(u) = (1 - \varepsilon)\, R_\mathrm{iso}(u) + \varepsilon\, u ,

    and the density is at least :math:`\varepsilon`.

    Data: held-out rows, best 100 or more. No finite-sample guarantee; for one take
    ``empirical``. The density jumps from segment to segment, which costs about 0.4 in
    the mean NLL of fresh rows; for the NLL take ``smooth`` or ``beta``.

    Parameters
    ----------
    floor
        :math:`\varepsilon`, at least 0 and below 1; ``1 / (n + 1)`` if left out. With
        0 the map is the paper's own, and ``log_prob`` is ``-inf`` on flat pieces.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), *Accurate Uncertainties for Deep Learning Using
    Calibrated Regression*, arXiv:1807.00263.
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.

    Examples
    --------
    >>> held_out = [0.02, 0.1, 0.5, 0.9]
    >>> isotonic = IsotonicRecalibrator(floor=0).fit_pit(held_out)
    >>> isotonic.apply(held_out).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """

    name: ClassVar[str] = "isotonic"
    _map_type = PiecewiseLinearMap
    _map_state = ("knots", "heights", "floor")

    def __init__(self, *, floor: float | None = None) -> None:
        if floor is not None and not 0 <= floor < 1:
            raise InputError(
                f"floor must be at least 0 and below 1, got {floor}. Leave it out for "
                "1 / (n + 1)."
            )
        self.floor = floor

    def _options(self) -> dict[str, object]:
        return {"floor": self.floor}

    def _learn(self, pit: PitValues) -> PiecewiseLinearMap:
        # scikit-learn takes a second to import, so only who fits pays for it.
        from sklearn.isotonic import IsotonicRegression

        levels = _resolved(pit.cdf, pit.survival)
        n = len(levels)
        # An integer tensor divided by a number takes the default float type.
        observed = torch.searchsorted(levels, levels, right=True).double() / n
        corner = torch.zeros(1, dtype=torch.float64)
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        regression.fit(
            torch.cat([corner, levels]).numpy(), torch.cat([corner, observed]).numpy()
        )
        places = torch.from_numpy(regression.X_thresholds_).double()
        heights = torch.from_numpy(regression.y_thresholds_).double()
        floor = 1 / (n + 1) if self.floor is None else self.floor
        mixed = (1 - floor) * heights + floor * places
        return PiecewiseLinearMap.through(places, mixed, floor=floor)


class EmpiricalRecalibrator(MapRecalibrator):
    r"""Ranks of the held-out PIT values, over their number plus one.

    The map goes through the sorted PIT values with

    .. math:: R(u_{(i)}) = \frac{i}{n + 1}

    and through (0, 0) and (1, 1), linear in between. Of equal PIT values the highest
    rank counts.

    **Guarantee.** Let the :math:`n` held-out rows and a new one be exchangeable, and
    their PIT values distinct. Then the new target lies below the recalibrated quantile
    at level :math:`i / (n+1)` with probability exactly :math:`i / (n+1)`, for every
    :math:`n` and every model, and at any level :math:`p` within :math:`1 / (n+1)` of
    :math:`p`. The probability is over held-out rows and the new row together. For
    intervals that never cover less take ``conformal_interval``.

    Data: held-out rows, any number. The density jumps from segment to segment, which
    costs about 0.42 in the mean NLL of fresh rows; for the NLL take ``smooth`` or
    ``beta``.

    References
    ----------
    Vovk, Gammerman and Shafer (2005), *Algorithmic Learning in a Random World*.
    Dheur and Ben Taieb (2023), *A Large-Scale Study of Probabilistic Calibration in
    Neural Network Regression*, arXiv:2306.02738.

    Examples
    --------
    >>> empirical = EmpiricalRecalibrator().fit_pit([0.02, 0.1, 0.9, 0.95])
    >>> empirical.apply([0.02, 0.5, 0.95]).tolist()
    [0.2, 0.5, 0.8]
    """

    name: ClassVar[str] = "empirical"
    _map_type = PiecewiseLinearMap
    _map_state = ("knots", "heights", "floor")

    def _learn(self, pit: PitValues) -> PiecewiseLinearMap:
        levels = _resolved(pit.cdf, pit.survival)
        ranks = torch.arange(1, len(levels) + 1, dtype=torch.float64)
        return PiecewiseLinearMap.through(levels, ranks / (len(levels) + 1))


class SmoothRecalibrator(MapRecalibrator):
    r"""A spline through a few quantiles of the held-out PIT values.

    The map is :math:`\operatorname{logit} R(u) = T(\operatorname{logit} u)` with an
    increasing spline :math:`T`, so the density is continuous and above 0. Its knots are
    about :math:`n^{1/3}` quantiles of the PIT values, and more towards the ends when
    the rows suffice. Beyond them :math:`T` is linear, with Hill's estimate

    .. math:: \beta = \frac{m + 1}{1 + \sum_i |\operatorname{logit} u_i - s|}

    for the :math:`m` values beyond the knot :math:`s`, at most 4 times the slope of the
    segment before.

    Data: held-out rows, best 50 or more; a single one gives a shift. No finite-sample
    guarantee, but the best NLL of the maps here if there are enough rows.

    Parameters
    ----------
    knots
        Number of inner quantiles; by default the cube root of ``n``.

    References
    ----------
    Durkan, Bekasov, Murray and Papamakarios (2019), *Neural Spline Flows*,
    arXiv:1906.04032, for the spline of Gregory and Delbourgo (1982).
    Hill (1975), *A Simple General Approach to Inference About the Tail of a
    Distribution*.

    Examples
    --------
    >>> overconfident = torch.linspace(-4, 4, 200).sigmoid()
    >>> smooth = SmoothRecalibrator().fit_pit(overconfident)
    >>> [round(level, 2) for level in smooth.apply([0.05, 0.5, 0.95]).tolist()]
    [0.13, 0.5, 0.87]
    """

    name: ClassVar[str] = "smooth"
    _map_type = LogOddsSpline
    _map_state = ("places", "heights", "slopes")

    def __init__(self, *, knots: int | None = None) -> None:
        if knots is not None and (int(knots) != knots or knots < 1):
            raise InputError(f"knots must be a whole number from 1 on, got {knots}.")
        self.knots = knots

    def _options(self) -> dict[str, object]:
        return {"knots": self.knots}

    def _learn(self, pit: PitValues) -> LogOddsSpline:
        odds = _log_odds(pit).clamp(-_LIMIT, _LIMIT)
        levels = _knot_levels(len(odds), self.knots)
        places = torch.from_numpy(
            np.quantile(odds.numpy(), levels.numpy(), method="weibull")
        )
        # Knots at one place (ties) become one, at the middle of their levels.
        new = torch.cat([torch.ones(1, dtype=torch.bool), places.diff() > 1e-9])
        group = new.cumsum(0) - 1
        zeros = torch.zeros(int(group[-1]) + 1, dtype=torch.float64)
        middle = zeros.index_add(0, group, levels) / group.bincount()
        places, heights = places[new], middle.logit()
        return LogOddsSpline(places, heights, _slopes(odds, places, heights))


def _knot_levels(n: int, knots: int | None) -> Tensor:
    """Probabilities of the knots: even ones, and finer ones in well-filled tails."""
    inner = min(n, round(n ** (1 / 3)) if knots is None else knots)
    even = torch.arange(1, inner + 1, dtype=torch.float64) / (inner + 1)
    tails = []
    tail = even[:1] / 4
    # Sixteen rows pin the probability beyond a knot down to a quarter of itself.
    while knots is None and n * tail >= 16:
        tails.append(tail)
        tail = tail / 4
    lower = torch.cat([*tails[::-1], even[:0]])
    return torch.cat([lower, even, 1 - lower.flip(0)])


def _slopes(odds: Tensor, places: Tensor, heights: Tensor) -> Tensor:
    """Hill's estimate at the ends, geometric means of neighbors in between."""
    excess = torch.stack([places[0] - odds, odds - places[-1]]).clamp_min(0)
    counts, sums = (excess > 0).sum(1), excess.sum(1)
    if len(places) == 1:  # one slope for both sides, or the density would jump
        return ((counts.sum() + 1) / (1 + sums.sum())).reshape(1)
    secants = heights.diff() / places.diff()
    inner = (secants[:-1] * secants[1:]).sqrt()
    # A steeper end would take its rise from the rest of the outer segment.
    ends = torch.minimum((counts + 1) / (1 + sums), 4 * secants[[0, -1]])
    return torch.cat([ends[:1], inner, ends[1:]])


class BetaRecalibrator(MapRecalibrator):
    r"""Beta calibration of PIT values, by maximum likelihood.

    .. math:: \log\frac{R(u)}{1 - R(u)} = c + a \log u - b \log(1 - u), \quad a, b > 0

    :math:`a` and :math:`b` correct the lower and the upper tail (below 1: the model is
    over-confident there), :math:`c` the location. The three maximize the likelihood of
    the held-out PIT values, :math:`\sum_i \log R'(u_i)`, less

    .. math:: (a - \log a - 1) + (b - \log b - 1) + c^2 / 2 ,

    which keeps the map finite for a single row. The sum is concave.

    Data: held-out rows, from about 10 on; with 1000 or more take ``smooth``. No
    finite-sample guarantee.

    References
    ----------
    Kull, Silva Filho and Flach (2017), *Beta Calibration: a Well-Founded and Easily
    Implemented Improvement on Logistic Calibration for Binary Classifiers*.

    Examples
    --------
    >>> overconfident = [0.001, 0.01, 0.1, 0.4, 0.7, 0.97, 0.995, 0.999]
    >>> beta = BetaRecalibrator().fit_pit(overconfident)
    >>> [round(level, 2) for level in beta.apply([0.01, 0.5, 0.99]).tolist()]
    [0.12, 0.48, 0.85]
    """

    name: ClassVar[str] = "beta"
    _map_type = BetaMap
    _map_state = ("lower", "upper", "shift")

    def _learn(self, pit: PitValues) -> BetaMap:
        from scipy.optimize import minimize  # only who fits pays for the import

        odds = _log_odds(pit).clamp(-_LIMIT, _LIMIT)
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


def _pick(table: Tensor, index: Tensor) -> Tensor:
    """Entries of ``(m,)`` at places of any shape: the fast form of ``table[index]``."""
    picked = table.to(index.device).index_select(0, index.flatten())
    return picked.view(index.shape)


def _resolved(tail: Tensor, other: Tensor) -> Tensor:
    """Return a float64 tail, from the other one where that is not rounded."""
    return torch.where(tail < 0.5, tail, 1 - other)


def _log_tail(tail: Tensor) -> Tensor:
    """Return the logarithm of a float64 tail; 0 counts as the smallest other one."""
    return tail.clamp_min(_TINY).log()


def _log_odds(pit: PitValues) -> Tensor:
    """Return ``log(u / (1 - u))`` in float64, finite for PIT values of 0 and 1."""
    return pit.log_cdf.double() - pit.log_survival.double()


def _pit(odds: Tensor, dtype: torch.dtype) -> PitValues:
    """Return both tails of log odds."""
    tails = torch.sigmoid(odds), torch.sigmoid(-odds)
    logs = logsigmoid(odds), logsigmoid(-odds)
    return PitValues(*tails, *logs).map(lambda part: part.to(dtype))
