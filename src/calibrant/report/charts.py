"""The numbers behind the charts of the report, as plain lists."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.metrics.floors import calibration_band, histogram_band
from calibrant.metrics.groups import GroupCalibration
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.contents import OwnReport, Predictions
from calibrant.text import name, percent, short

__all__ = ["MOST_COLUMNS", "Column", "chart_data", "drawn_rows", "ranked_columns"]

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
_PARTS = ("y", "center", "low_50", "high_50", "low_90", "high_90")


class Column(NamedTuple):
    """A column that makes two groups or more."""

    name: str
    groups: tuple[GroupCalibration, ...]


def ranked_columns(card: Scorecard) -> list[Column]:
    """Columns by their worst group, worst first; those of one group say nothing."""
    several = [Column(*item) for item in card.groups.items() if len(item[1]) > 1]
    return sorted(
        several,
        key=lambda column: -max(g.calibration_error / g.floor for g in column.groups),
    )


def drawn_rows(predictions: Predictions) -> tuple[list[int], dict[str, Floats]]:
    """Rows by predicted median, at most 400 of them at even distances.

    Their numbers, and targets, medians and ends of intervals, each ``(k,)``.
    """
    rows = np.asarray(predictions.row)
    chosen = np.lexsort((rows, np.asarray(predictions.center)))
    if len(chosen) > MOST_ROWS:
        even = np.linspace(0, len(chosen) - 1, MOST_ROWS).round().astype(np.intp)
        chosen = chosen[even]
    return [int(row) for row in rows[chosen]], {
        part: np.asarray(getattr(predictions, part), dtype=np.float64)[chosen]
        for part in _PARTS
    }


def chart_data(contents: OwnReport, columns: Sequence[Column]) -> Json:
    """Return all that the charts draw; of groups these columns, in this order."""
    card, before = contents.card, contents.before
    return {
        "target": {"short": short(contents.target), "name": name(contents.target)},
        "curve": _curve(card, before),
        "histogram": _histogram(card, before),
        "rows": _rows(contents.predictions),
        "columns": [_column(column) for column in columns],
        "training": _training(contents.training or {}),
    }


def _curve(card: Scorecard, before: Scorecard | None) -> Json:
    nominal, observed = card.curve
    _, low, high = calibration_band(card.n, len(nominal), simultaneous=True)
    return {
        "nominal": _shares(nominal),
        "observed": _shares(observed),
        "before": None if before is None else _shares(before.curve[1]),
        "low": _shares(low),
        "high": _shares(high),
    }


def _histogram(card: Scorecard, before: Scorecard | None) -> Json:
    bins = 20 if card.n >= 2000 else 10 if card.n >= 60 else 5
    low, high = histogram_band(card.n, bins, simultaneous=True)

    def counts(some: Scorecard) -> list[int]:
        found, _ = np.histogram(some.rows["pit"], bins=bins, range=(0, 1))
        return [int(count) for count in found]

    return {
        "counts": counts(card),
        "before": None if before is None else counts(before),
        "low": low,
        "high": high,
        "rows": card.n,
    }


def _rows(predictions: Predictions) -> Json:
    rows, parts = drawn_rows(predictions)
    bottom, top = _window(parts)
    # Digits after the point that a chart of such an extent can tell apart.
    digits = _DIGITS - math.floor(math.log10(top - bottom))
    inside = (parts["low_90"] <= parts["y"]) & (parts["y"] <= parts["high_90"])
    return {
        "row": rows,
        "outside": (~inside).astype(int).tolist(),
        "window": [bottom, top],
        **{part: _finite(values, digits) for part, values in parts.items()},
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
        "covered90": _share(group.coverage_90),
        "range90": _shares(group.range_90),
        "covered50": _share(group.coverage_50),
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
        if not len(values):
            continue
        count = min(len(values), _MOST_EPOCHS)
        epochs = np.linspace(1, len(values), count).round().astype(int)
        points = [float(f"{values[epoch - 1]:.6g}") for epoch in epochs]
        views.append(
            {
                "name": name(title),
                "short": short(title),
                "epoch": epochs.tolist(),
                "value": [p if math.isfinite(p) else None for p in points],
            }
        )
    return views


def _shares(values: Iterable[float]) -> list[float]:
    return [_share(value) for value in values]


def _share(value: float) -> float:
    return round(float(value), _DIGITS)


def _finite(values: Floats, digits: int) -> list[float | None]:
    """Round; JSON knows neither infinity nor NaN."""
    return [
        round(value, digits) if math.isfinite(value) else None
        for value in values.tolist()
    ]
