"""Features and targets as they come, checked, as the rows of a fit."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _check_sample_weight, validate_data

from calibrant._checks import ArrayLike, InputError
from calibrant.estimators._fitting import Table
from calibrant.estimators._folds import Blocks, linked_rows
from calibrant.estimators._standardize import usual_range
from calibrant.metrics.target_grid import detect_grid

__all__ = ["check_arrays", "read_features", "read_table", "warn_of_constant"]

Array = npt.NDArray[np.float64]

# Beyond this the square of a target is not finite.
_LARGEST_TARGET = 1e150
# Quantiles are off by some 20 roundings of the targets' size: at this share of it by
# 0.05 % of their spread.
_LEAST_SPREAD = 1e-11


def read_table(
    model: Any,  # noqa: ANN401  (a scikit-learn estimator with ``bounds``)
    X: Any,  # noqa: ANN401
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    groups: Any | None,  # noqa: ANN401
    time: Any | None,  # noqa: ANN401
) -> Table:
    """Check all that ``fit`` is given, and make a table of it.

    Parameters
    ----------
    model
        The estimator; number and names of its features are set.
    X, y
        Features ``(n, d)`` and targets ``(n,)``.
    sample_weight, groups, time
        As for ``CalibratedRegressor.fit``, each of shape ``(n,)`` or None.
    """
    with np.errstate(invalid="ignore"):  # the sum of numbers of 1e308 may be none
        x, y = validate_data(
            model, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
    bounds = _full_bounds(model.bounds)
    target = _checked_target(y, bounds)
    times = None if time is None else np.asarray(time)
    return Table(
        x=x,
        y=target,
        blocks=Blocks(linked_rows(x, groups, time=times), times),
        weights=None if sample_weight is None else _weights(sample_weight, x),
        grid=detect_grid(target),
        bounds=bounds,
    )


def read_features(model: Any, X: Any) -> Array:  # noqa: ANN401
    """Check features of rows to predict, ``(n, d)``, by those that were fitted on."""
    with np.errstate(invalid="ignore"):
        x: Array = validate_data(model, X, dtype=np.float64, reset=False)
    return x


def check_arrays(x: Array, y: Array) -> tuple[Array, Array]:
    """Check a table that is fitted as it stands, features and targets, as numbers.

    Parameters
    ----------
    x, y
        Features ``(n, d)`` and targets ``(n,)``, finite, the targets not vast.
    """
    pair = []
    for name, values, axes in (("x", x, 2), ("y", y, 1)):
        array = np.asarray(values)
        if array.ndim != axes or array.dtype.kind not in "fiub":
            raise InputError(
                f"{name} must be an array of numbers with {axes} axes, got shape "
                f"{array.shape} and dtype {array.dtype}."
            )
        finite = np.isfinite(array)
        if not finite.all():
            place = ", ".join(map(str, np.argwhere(~finite)[0]))
            raise InputError(
                f"{name} must be finite: {int((~finite).sum())} of {array.size} values "
                f"are not, the first is {name}[{place}]. Drop such rows or mend them."
            )
        pair.append(array.astype(np.float64, copy=False))
    features, targets = pair
    if len(features) != len(targets):
        raise InputError(
            f"x and y must have equally many rows, got {len(features)} and "
            f"{len(targets)}."
        )
    _check_size(targets)
    return features, targets


def _full_bounds(bounds: Any) -> Any:  # noqa: ANN401
    """Let None stand for a bound that is not there."""
    if bounds is None or np.shape(bounds) != (2,):
        return bounds
    low, high = bounds
    return (-np.inf if low is None else low, np.inf if high is None else high)


def warn_of_constant(target: Array, *, stacklevel: int) -> None:
    """Warn that all targets are equal."""
    warnings.warn(
        f"the target is constant ({target[0]:g}): there is nothing to learn.",
        UserWarning,
        stacklevel=stacklevel,
    )


def _checked_target(y: Any, bounds: object) -> Array:  # noqa: ANN401
    target = np.array(y, dtype=np.float64)
    _check_size(target)
    if bounds is not None:
        _check_bounds(bounds, target)
    if np.ptp(target) == 0:
        warn_of_constant(target, stacklevel=5)
    elif (spread := np.std(target)) < _LEAST_SPREAD * np.abs(target).max():
        warnings.warn(
            f"the targets are around {np.median(target):.3g} and vary by {spread:.3g} "
            "only, fewer digits than float64 keeps: quantiles and intervals would be "
            f"rounded. Subtract {np.median(target):.3g} from all targets, and add it "
            "to what is predicted.",
            UserWarning,
            stacklevel=4,
        )
    low, high = usual_range(target)
    wild = target[(target < low) | (target > high)]
    if len(wild):
        warnings.warn(
            f"{len(wild)} of {len(target)} targets are beyond any reason and are "
            f"learned as they are: the first is {wild[0]:g}, the others are {low:g} to "
            f"{high:g}. Leave such rows out unless they are true.",
            UserWarning,
            stacklevel=4,
        )
    return target


def _check_size(target: Array) -> None:
    largest = np.abs(target).max(initial=0.0)
    if largest > _LARGEST_TARGET:
        raise InputError(
            f"targets must lie within ±{_LARGEST_TARGET:g}, got {largest:.3g}. Change "
            "their unit."
        )


def _check_bounds(bounds: Any, target: Array) -> None:  # noqa: ANN401
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
            "bounds, or mend these targets."
        )


def _weights(sample_weight: ArrayLike, x: Array) -> Array:
    """Weights of mean 1, shape ``(n,)``."""
    weights: Array = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (weights < 0).any() or not weights.max() > 0:
        raise InputError(
            "sample_weight must be at least 0, and above it for some rows, got "
            f"{weights.min():g} to {weights.max():g}."
        )
    shares = weights / weights.max()  # the sum of large weights may not be finite
    ready: Array = shares / shares.mean()
    return ready
