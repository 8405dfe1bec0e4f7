"""Whether a line in time is taken off the target before the training."""

import warnings

import numpy as np
import numpy.typing as npt
from scipy.stats import theilslopes
from sklearn.base import clone

from calibrant._checks import InputError
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.tables import TableEncoder
from calibrant.workflows.table_model import Trend

__all__ = ["find_trend"]

Array = npt.NDArray[np.float64]
#: So many rows give the median of a million slopes.
_MOST_ROWS = 1_500
_SHARE = 0.2
_FEWEST = 20
#: The error on later rows must shrink to this part of it, so that chance is no reason.
_BETTER = 0.95


def find_trend(
    regressor: CalibratedRegressor,
    encoder: TableEncoder,
    x: Array,
    y: Array,
    times: Array,
    groups: npt.NDArray[np.int64] | None,
) -> tuple[Trend | None, str]:
    """Look for a straight line in time that helps to predict later rows.

    Neither networks nor trees go on with a trend beyond the rows that they have seen.
    The slope is the median over pairs of rows (Theil and Sen). Two small models, with
    and without the line, learn from the earlier rows and are compared on the latest
    fifth.

    Parameters
    ----------
    regressor
        What is to be trained; it stays as it is.
    encoder
        Knows which feature is the position in time.
    x, y, times, groups
        The rows to learn from: ``(n, d)`` and ``(n,)``.

    Returns
    -------
    tuple
        The line, or None, and what to say about it.
    """
    feature = _position(encoder)
    # A bound, or a transform that takes positive targets alone, would move with time.
    free = regressor.bounds is None and regressor.target_transform is None
    if feature is None or not free:
        return None, ""
    moments = x[:, encoder.feature_names.index(feature)]
    blocks = Blocks(linked_rows(x, groups, time=times), times)
    try:
        early, late = blocks.hold_out(_SHARE, np.random.default_rng(0))
    except InputError:
        return None, ""
    trend = _line(feature, moments[early], y[early])
    if trend is None or len(early) < _FEWEST:
        return None, ""
    without, with_line = (
        _error(regressor, x, y - line, times, early, late)
        for line in (np.zeros(len(y)), trend.line(moments))
    )
    trend = _line(feature, moments, y)
    if trend is None or with_line > _BETTER * without:
        return None, ""
    return trend, (
        f"The target follows a line in {feature!r:.60}, slope {trend.slope:.3g}: it is "
        "taken off before the training and added to what is predicted, because that "
        f"lowers the RMSE on the latest training rows from {without:.3g} to "
        f"{with_line:.3g}."
    )


def _position(encoder: TableEncoder) -> str | None:
    """Name of the feature that says where a row lies in time, if there is one."""
    place = 0
    for column in encoder.columns:
        if column.kind == "time" and column.features:
            name = encoder.feature_names[place]
            return None if column.features[0].endswith((")", " is missing")) else name
        place += len(column.features)
    return None


def _line(feature: str, moments: Array, y: Array) -> Trend | None:
    """Return the line through some rows, or None if its slope may be 0."""
    order = np.argsort(moments, kind="stable")
    places = np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).round().astype(int)
    rows = order[places]
    if np.ptp(moments[rows]) == 0:
        return None
    found = theilslopes(y[rows], moments[rows])
    if found.low_slope <= 0 <= found.high_slope or not np.isfinite(found.slope):
        return None
    return Trend(feature, float(found.slope), float(np.median(moments)))


def _error(
    regressor: CalibratedRegressor,
    x: Array,
    y: Array,
    times: Array,
    early: npt.NDArray[np.int64],
    late: npt.NDArray[np.int64],
) -> float:
    """RMSE on the late rows of a small model of the early ones."""
    small = clone(regressor).set_params(
        learners=("network",),
        members=min(2, regressor.members),
        strength=0.0 if regressor.strength == "auto" else regressor.strength,
        recalibrator=None,
        recalibrate_on=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        small.fit(x[early], y[early], time=times[early])
    if any(history.interrupted for history in small.history_):
        raise KeyboardInterrupt
    means = small.model_.distribution(x[late]).mean.numpy()
    return float(np.sqrt(np.mean((means - y[late]) ** 2)))
