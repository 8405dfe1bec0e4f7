"""What the regressors share: the rows of a fit, checked, and what can be predicted."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators.folds import Blocks, Column, Labels, linked_rows
from calibrant.metrics.pit import TargetGrid, detect_grid
from calibrant.metrics.scorecard import Scorecard, evaluate
from calibrant.validation import ArrayLike, InputError

__all__ = [
    "DistributionRegressor",
    "Features",
    "Table",
    "check_targets",
    "read_features",
    "read_table",
    "seed_from",
    "usual_range",
    "warn_of_constant",
]

Array = npt.NDArray[np.float64]
#: An array or a data frame, or whatever another regressor takes.
Features = Any

# Beyond this the square of a target is not finite.
_LARGEST_TARGET = 1e150
# Quantiles are off by some 20 roundings of the targets' size: at this share of it by
# 0.05 % of their spread.
_LEAST_SPREAD = 1e-11
# Fewer values cannot tell what is usual.
_FEWEST = 50
# Values beyond any reason are at most this share, or this one if all are one code.
_MOST, _MOST_CODES = 1 / 200, 1 / 10
# The gap before them, in distances of the farthest other value; for a code as -9999;
# and on a logarithmic scale, which spares heavy tails.
_GAP, _GAP_CODE, _LOG_GAP = 100, 10, 2.5


class DistributionRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Means, intervals, quantiles and samples of a predictive distribution."""

    @abstractmethod
    def predict_distribution(self, X: Features) -> AbstractDistribution:
        """Predict the distribution of each row, batch shape ``(n,)``."""

    def predict(
        self, X: Features, return_std: bool = False
    ) -> Array | tuple[Array, Array]:
        """Predict the mean of each row ``(n,)``, or ``(mean, std)`` if asked for."""
        predictive = self.predict_distribution(X)
        mean: Array = predictive.mean.numpy()
        return (mean, predictive.stddev.numpy()) if return_std else mean

    def predict_var(self, X: Features) -> Array:
        """Predict the variance of each row, shape ``(n,)``."""
        variance: Array = self.predict_distribution(X).variance.numpy()
        return variance

    def predict_interval(self, X: Features, coverage: float = 0.9) -> Array:
        """Predict central intervals that cover the target with this probability.

        Returns
        -------
        ndarray
            Lower and upper ends, shape ``(n, 2)``.
        """
        given: object = coverage
        if not isinstance(given, Real):
            raise InputError(
                f"coverage must be one number, got {coverage!r}. For several intervals "
                "ask predict_quantiles for their ends."
            )
        ends = self.predict_distribution(X).interval(float(coverage))
        interval: Array = torch.stack(ends, dim=-1).numpy()
        return interval

    def predict_quantiles(
        self, X: Features, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> Array:
        """Predict quantiles at ``k`` levels, shape ``(n, k)``."""
        quantiles: Array = self.predict_distribution(X).quantiles(levels).numpy()
        return quantiles

    def sample(
        self,
        X: Features,
        size: int = 100,
        *,
        random_state: int | np.random.RandomState | None = None,
    ) -> Array:
        """Draw targets for each row, shape ``(n, size)``."""
        given: object = size
        if not isinstance(given, Integral) or size < 1:
            raise InputError(f"size must be a whole number >= 1, got {size!r}.")
        generator = torch.Generator().manual_seed(seed_from(random_state))
        predictive = self.predict_distribution(X)
        draws: Array = predictive.sample((int(size),), generator=generator).T.numpy()
        return draws

    def evaluate(
        self,
        X: Features,
        y: ArrayLike,
        **options: Any,  # noqa: ANN401
    ) -> Scorecard:
        """Measure accuracy, sharpness and calibration on rows that are new to it.

        Options are ``features``, ``groups`` and ``seed`` of ``calibrant.evaluate``.
        """
        return evaluate(self.predict_distribution(X), np.asarray(y), **options)


def seed_from(random_state: int | np.random.RandomState | None) -> int:
    """Draw the one seed that a call works with, as scikit-learn does."""
    return int(check_random_state(random_state).randint(2**31 - 1))


@dataclass(frozen=True)
class Table:
    """The rows that a model is fitted on."""

    x: Features  # (n, d)
    y: Array  # targets (n,)
    blocks: Blocks  # which rows belong together
    weights: Array | None = None  # of the rows in the score, (n,)
    grid: TargetGrid | None = None  # what the targets are rounded or capped to
    bounds: tuple[float, float] | None = None  # least and largest possible target

    def part(self, rows: Labels) -> "Table":
        """Return some of the rows."""
        return replace(
            self,
            x=_safe_indexing(self.x, rows),
            y=self.y[rows],
            blocks=self.blocks.part(rows),
            weights=None if self.weights is None else self.weights[rows],
        )

    @property
    def on_bounds(self) -> bool:
        """Whether targets stand on a bound, which then has mass of its own."""
        return self.bounds is not None and bool(np.isin(self.y, self.bounds).any())


def read_table(
    model: Any,  # noqa: ANN401  (a scikit-learn estimator with ``bounds``)
    X: Features,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    groups: Column | None,
    time: Column | None,
) -> Table:
    """Check all that ``fit`` is given; number and names of features are set."""
    with np.errstate(invalid="ignore"):  # the sum of numbers of 1e308 may be none
        x, y = validate_data(
            model, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
    target = np.array(y, dtype=np.float64)
    check_targets(target)
    bounds = None if model.bounds is None else _checked_bounds(model.bounds, target)
    _warn_of_targets(target)
    times = None if time is None else np.asarray(time)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64)
        if (weights < 0).any() or not weights.max() > 0:
            raise InputError(
                "sample_weight must be at least 0, and above it for some rows, got "
                f"{weights.min():g} to {weights.max():g}."
            )
        weights = weights / weights.max()  # the sum of large weights may not be finite
        weights = weights / weights.mean()
    blocks = Blocks(linked_rows(x, groups, time=times), times)
    return Table(x, target, blocks, weights, detect_grid(target), bounds)


def read_features(model: DistributionRegressor, X: Features) -> Array:
    """Check features of rows to predict, ``(n, d)``, by those that were fitted on."""
    with np.errstate(invalid="ignore"):
        x: Array = validate_data(model, X, dtype=np.float64, reset=False)
    return x


def check_targets(target: Array) -> None:
    """Refuse targets whose squares are not finite."""
    largest = np.abs(target).max(initial=0.0)
    if largest > _LARGEST_TARGET:
        raise InputError(
            f"targets must lie within ±{_LARGEST_TARGET:g}, got {largest:.3g}. Change "
            "their unit."
        )


def warn_of_constant(target: Array, *, stacklevel: int) -> None:
    """Warn that all targets are equal."""
    warnings.warn(
        f"the target is constant ({target[0]:g}): there is nothing to learn.",
        UserWarning,
        stacklevel=stacklevel,
    )


def _warn_of_targets(target: Array) -> None:
    low, high = usual_range(target)
    wild = target[(target < low) | (target > high)]
    if np.ptp(target) == 0:
        return warn_of_constant(target, stacklevel=5)
    if len(wild):
        text = (
            f"{len(wild)} of {len(target)} targets are beyond any reason and are "
            f"learned as they are: the first is {wild[0]:g}, the others are {low:g} to "
            f"{high:g}. Leave such rows out unless they are true."
        )
    elif (spread := np.std(target)) < _LEAST_SPREAD * np.abs(target).max():
        text = (
            f"the targets vary by {spread:.3g} only, fewer digits than float64 keeps. "
            f"Subtract {np.median(target):.3g} from all targets, and add it to what is "
            "predicted."
        )
    else:
        return None
    return warnings.warn(text, UserWarning, stacklevel=4)


def _checked_bounds(bounds: Any, target: Array) -> tuple[float, float]:  # noqa: ANN401
    """Let None stand for a bound that is not there, and refuse targets outside."""
    if np.shape(bounds) == (2,):
        low, high = bounds
        bounds = (-np.inf if low is None else low, np.inf if high is None else high)
    if np.shape(bounds) != (2,) or not bounds[0] < bounds[1]:
        raise InputError(
            f"bounds must be (low, high) with low < high, got {bounds}. For one bound "
            "alone use None for the other."
        )
    outside = (target < bounds[0]) | (target > bounds[1])
    if outside.any():
        raise InputError(
            f"targets must lie within bounds={bounds}: {int(outside.sum())} of "
            f"{len(target)} do not, the first is {target[outside][0]:g}. Widen the "
            "bounds, or fix these targets."
        )
    return float(bounds[0]), float(bounds[1])


def usual_range(values: Array) -> tuple[float, float]:
    r"""Return the least and largest of the values ``(n,)`` that are within reason.

    Beyond any reason are a few values that a huge gap parts from all others:
    :math:`10^{12}` among numbers of order 1, or a code for missing as -9999. With d the
    distance to the median, and largest d of the others D, the gap is 100 D or more, and
    2.5 Z or more in :math:`z = \operatorname{arsinh}(d / \text{median } d)`, whose
    largest value Z of the others heavy tails make large. For a number of nines alone a
    gap of 10 D is enough.

    Examples
    --------
    >>> usual_range(np.append(np.linspace(20, 80, 100), [-9999.0, 1e12]))
    (20.0, 80.0)
    """
    # Halves, because the difference of two numbers of 1e308 is none.
    middle = np.partition(values, len(values) // 2)[len(values) // 2] / 2
    distances = np.abs(values / 2 - middle)
    order = np.argsort(distances)
    usual, distances = values[order], distances[order]
    with np.errstate(over="ignore"):
        while cut := _wild(usual, distances):
            usual, distances = usual[:-cut], distances[:-cut]
    return float(usual.min()), float(usual.max())


def _wild(values: Array, distances: Array) -> int:
    """Count the last values that are beyond any reason; both ``(n,)`` by distance."""
    count = len(values)
    if count < _FEWEST:
        return 0
    most = int(_MOST_CODES * count)
    far = distances[-most - 1 :]
    gaps = np.diff(far)
    digits = f"{abs(values[-1]):.15g}".replace(".", "")
    is_code = len(digits) > 1 and set(digits) == {"9"}  # as -999 or 99.9
    for place in np.flatnonzero(gaps > _GAP_CODE * far[:-1]):
        wild = most - int(place)
        if is_code and far[place] > 0 and (values[-wild:] == values[-1]).all():
            return wild
        few = wild <= max(1, _MOST * count)
        if few and gaps[place] > _GAP * far[place] and _alone(distances, wild):
            return wild
    return 0


def _alone(distances: Array, wild: int) -> bool:
    rest = distances[:-wild][distances[:-wild] > 0]
    if len(rest) < _FEWEST:
        return False
    last, first = np.arcsinh(distances[[-wild - 1, -wild]] / np.median(rest))
    return bool(first - last > _LOG_GAP * last)
