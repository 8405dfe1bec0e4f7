"""The numbers behind the charts of own data, in plain lists."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.metrics.bands import calibration_band, histogram_band
from calibrant.metrics.conditional import GroupCalibration
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own._groups import Column
from calibrant.report.own._texts import name, percent, short
from calibrant.report.own.contents import OwnReport, Predictions

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "chart_data", "chosen_rows", "histogram_bins"]

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]
#: What a chart can show: more rows would only hide each other.
MOST_ROWS = 400
MOST_COLUMNS = 30
_MOST_CURVES = 6
_MOST_EPOCHS = 400
_DIGITS = 5
#: Characters of a name that pointing at it shows.
_HOVER = 240


def chart_data(contents: OwnReport, columns: Sequence[Column]) -> Json:
    """Return all that the charts draw.

    Parameters
    ----------
    contents
        Of the report.
    columns
        Those of the chart of groups, in its order.
    """
    card, before = contents.card, contents.before
    return {
        "target": {"short": short(contents.target), "name": name(contents.target)},
        "curve": _curve(card, before),
        "histogram": _histogram(card, before),
        "rows": _rows(contents.predictions),
        "columns": [_column(column) for column in columns],
        "training": _training(contents.training or {}),
    }


def histogram_bins(rows: int) -> int:
    """As many bins as so many rows can fill."""
    return 20 if rows >= 2000 else 10 if rows >= 60 else 5


def chosen_rows(predictions: Predictions) -> npt.NDArray[np.intp]:
    """Rows by predicted median, at most 400 of them at even distances, ``(k,)``."""
    order = np.lexsort((np.asarray(predictions.row), np.asarray(predictions.center)))
    if len(order) <= MOST_ROWS:
        return order
    even = np.linspace(0, len(order) - 1, MOST_ROWS).round().astype(np.intp)
    return order[even]


def _curve(card: Scorecard, before: Scorecard | None) -> Json:
    promised, observed = card.curve
    _, low, high = calibration_band(card.n, len(promised), simultaneous=True)
    return {
        "promised": _shares(promised),
        "observed": _shares(observed),
        "before": None if before is None else _shares(before.curve[1]),
        "low": _shares(low.tolist()),
        "high": _shares(high.tolist()),
    }


def _histogram(card: Scorecard, before: Scorecard | None) -> Json:
    bins = histogram_bins(card.n)
    low, high = histogram_band(card.n, bins, simultaneous=True)
    return {
        "counts": _counts(card, bins),
        "before": None if before is None else _counts(before, bins),
        "low": low,
        "high": high,
        "rows": card.n,
    }


def _counts(card: Scorecard, bins: int) -> list[int]:
    counts, _ = np.histogram(card.rows["pit"], bins=bins, range=(0, 1))
    return [int(count) for count in counts]


def _rows(predictions: Predictions) -> Json:
    chosen = chosen_rows(predictions)
    parts = {
        part: np.asarray(getattr(predictions, part), dtype=np.float64)[chosen]
        for part in ("y", "center", "low_50", "high_50", "low_90", "high_90")
    }
    outside = (parts["y"] < parts["low_90"]) | (parts["y"] > parts["high_90"])
    bottom, top = _window(parts)
    digits = _digits(top - bottom)
    rows = np.asarray(predictions.row)[chosen]
    return {
        "row": [int(each) for each in rows],
        "outside": [int(each) for each in outside],
        "window": [bottom, top],
        **{part: _rounded(values, digits) for part, values in parts.items()},
    }


def _window(parts: Mapping[str, Floats]) -> tuple[float, float]:
    """Ends of the axis: all targets and medians, and all but the widest intervals."""
    ends = [parts["y"], parts["center"]]
    for part, level in (("low_90", 0.02), ("high_90", 0.98)):
        known = parts[part][np.isfinite(parts[part])]
        if len(known):
            ends.append(np.quantile(known, [level], method="nearest"))
    every = np.concatenate(ends)
    every = every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    spare = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return low - spare, high + spare


def _column(column: Column) -> Json:
    return {
        "name": name(column.name, longest=_HOVER),
        "short": short(column.name),
        "groups": [_group(group) for group in column.groups],
    }


def _group(group: GroupCalibration) -> Json:
    return {
        "name": name(group.label, longest=_HOVER),
        "short": short(group.label),
        "rows": group.rows,
        "held90": _share(group.coverage_90),
        "range90": _shares(group.range_90),
        "held50": _share(group.coverage_50),
        "range50": _shares(group.range_50),
        "below": _share(group.below_median),
        "text90": percent(group.coverage_90),
        "text50": percent(group.coverage_50),
        "textBelow": percent(group.below_median),
    }


def _training(curves: Mapping[str, Sequence[float]]) -> list[Json]:
    """Curves by name, at most 400 points of each at even distances."""
    views = []
    for title, values in list(curves.items())[:_MOST_CURVES]:
        numbers = np.asarray(values, dtype=np.float64)
        count = min(len(numbers), _MOST_EPOCHS)
        epochs = np.linspace(1, max(len(numbers), 1), count).round().astype(int)
        views.append(
            {
                "name": name(title),
                "short": short(title),
                "epoch": epochs.tolist(),
                "value": [_significant(numbers[epoch - 1]) for epoch in epochs],
            }
        )
    return [view for view in views if view["epoch"]]


def _shares(values: Iterable[float]) -> list[float]:
    return [_share(value) for value in values]


def _share(value: float) -> float:
    return round(float(value), _DIGITS)


def _significant(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _digits(extent: float) -> int:
    """Digits behind the point that a chart of such an extent can tell apart."""
    return _DIGITS - math.floor(math.log10(extent))


def _rounded(values: Floats, digits: int) -> list[float | None]:
    """Round; JSON knows neither infinity nor NaN."""
    return [
        round(float(value), digits) if math.isfinite(value) else None
        for value in values
    ]
