"""The numbers behind the charts of the report, as plain lists and as tables of text."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.metrics.floors import calibration_band, histogram_band
from calibrant.metrics.groups import GroupCalibration
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.contents import OwnReport, Predictions
from calibrant.text import name, number, p_text, percent, short, span

__all__ = [
    "MOST_COLUMNS",
    "chart_data",
    "curve_table",
    "group_lines",
    "histogram_table",
    "ranked_columns",
    "row_table",
]

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
    """A column that makes two groups or more, and how far its worst one stands out."""

    name: str
    groups: tuple[GroupCalibration, ...]
    ratio: float


def ranked_columns(card: Scorecard) -> list[Column]:
    """Columns by their worst group, worst first; those of one group say nothing."""
    several = [
        Column(key, groups, max(map(_error_ratio, groups)))
        for key, groups in card.groups.items()
        if len(groups) > 1
    ]
    return sorted(several, key=lambda column: -column.ratio)


def _error_ratio(group: GroupCalibration) -> float:
    return group.calibration_error / group.floor


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


def _curve(card: Scorecard, before: Scorecard | None) -> Json:
    nominal, observed = card.curve
    _, low, high = calibration_band(card.n, len(nominal), simultaneous=True)
    return {
        "nominal": _shares(nominal),
        "observed": _shares(observed),
        "before": None if before is None else _shares(before.curve[1]),
        "low": _shares(low.tolist()),
        "high": _shares(high.tolist()),
    }


def _histogram(card: Scorecard, before: Scorecard | None) -> Json:
    bins = 20 if card.n >= 2000 else 10 if card.n >= 60 else 5
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


def _chosen_rows(predictions: Predictions) -> npt.NDArray[np.intp]:
    """Rows by predicted median, at most 400 of them at even distances, ``(k,)``."""
    order = np.lexsort((np.asarray(predictions.row), np.asarray(predictions.center)))
    if len(order) <= MOST_ROWS:
        return order
    even = np.linspace(0, len(order) - 1, MOST_ROWS).round().astype(np.intp)
    return order[even]


def _parts(
    predictions: Predictions, chosen: npt.NDArray[np.intp]
) -> tuple[list[int], dict[str, Floats]]:
    """Row numbers, and targets, medians and ends of intervals, each ``(k,)``."""
    parts = {
        part: np.asarray(getattr(predictions, part), dtype=np.float64)[chosen]
        for part in _PARTS
    }
    return [int(row) for row in np.asarray(predictions.row)[chosen]], parts


def _is_covered(parts: Mapping[str, Floats]) -> npt.NDArray[np.bool_]:
    """Whether each 90 % interval covers its target."""
    inside: npt.NDArray[np.bool_] = (parts["low_90"] <= parts["y"]) & (
        parts["y"] <= parts["high_90"]
    )
    return inside


def _rows(predictions: Predictions) -> Json:
    rows, parts = _parts(predictions, _chosen_rows(predictions))
    bottom, top = _window(parts)
    # Digits after the point that a chart of such an extent can tell apart.
    digits = _DIGITS - math.floor(math.log10(top - bottom))
    return {
        "row": rows,
        "outside": [int(not inside) for inside in _is_covered(parts)],
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
        numbers = np.asarray(values, dtype=np.float64)
        count = min(len(numbers), _MOST_EPOCHS)
        epochs = np.linspace(1, max(len(numbers), 1), count).round().astype(int)
        points = [float(f"{numbers[epoch - 1]:.6g}") for epoch in epochs]
        views.append(
            {
                "name": name(title),
                "short": short(title),
                "epoch": epochs.tolist(),
                "value": [p if math.isfinite(p) else None for p in points],
            }
        )
    return [view for view in views if view["epoch"]]


def _shares(values: Iterable[float]) -> list[float]:
    return [_share(value) for value in values]


def _share(value: float) -> float:
    return round(float(value), _DIGITS)


def _rounded(values: Floats, digits: int) -> list[float | None]:
    """Round; JSON knows neither infinity nor NaN."""
    return [
        round(float(value), digits) if math.isfinite(value) else None
        for value in values
    ]


def curve_table(curve: Json) -> Json:
    """Nominal and observed frequencies as text; made of the chart's data."""
    names = ("nominal", "observed", "low", "high")
    rows = [
        [f"{nominal:.2f}", f"{observed:.3f}", f"{low:.3f} to {high:.3f}"]
        for nominal, observed, low, high in zip(*map(curve.get, names), strict=True)
    ]
    heads = ["Nominal", "Observed", "Perfect calibration (95 %)"]
    return _with_before(heads, rows, curve["before"], digits=3)


def histogram_table(histogram: Json) -> Json:
    """Counts of PIT values as text; made of the chart's data."""
    bins = len(histogram["counts"])
    band = f"{histogram['low']:,} to {histogram['high']:,}"
    rows = [
        [f"{place / bins:.2f} to {(place + 1) / bins:.2f}", f"{count:,}", band]
        for place, count in enumerate(histogram["counts"])
    ]
    heads = ["PIT values", "Rows", "Perfect calibration (95 %)"]
    return _with_before(heads, rows, histogram["before"], digits=0)


def _with_before(
    heads: list[str], rows: list[list[str]], before: list[float] | None, *, digits: int
) -> Json:
    if before is None:
        return {"heads": heads, "rows": rows}
    more = [
        [*row, f"{value:,.{digits}f}"] for row, value in zip(rows, before, strict=True)
    ]
    return {"heads": [*heads, "Before"], "rows": more}


def row_table(predictions: Predictions) -> Json:
    """The rows that are drawn, by their number in the file."""
    chosen = _chosen_rows(predictions)
    chosen = chosen[np.argsort(np.asarray(predictions.row)[chosen], kind="stable")]
    numbers, parts = _parts(predictions, chosen)
    rows = [
        [
            f"{row:,}",
            *(number(float(values[place])) for values in parts.values()),
            "yes" if inside else "no",
        ]
        for place, (row, inside) in enumerate(
            zip(numbers, _is_covered(parts), strict=True)
        )
    ]
    ends = ["50 %: from", "to", "90 %: from", "to"]
    return {"heads": ["Row", "Target", "Median", *ends, "Covered"], "rows": rows}


def group_lines(columns: Sequence[Column]) -> list[Json]:
    """All groups of some columns, those that stand out most first."""
    every = [(column.name, group) for column in columns for group in column.groups]
    every.sort(key=lambda pair: -_error_ratio(pair[1]))
    return [
        {
            "column": name(key),
            "group": name(group.label),
            "whole_column": _if_cut(key),
            "whole_group": _if_cut(group.label),
            "rows": group.rows,
            "covered": group.coverage_90,
            "covered_text": percent(group.coverage_90),
            "off": not group.range_90[0] <= group.coverage_90 <= group.range_90[1],
            "low": group.range_90[0],
            "range": span(*group.range_90),
            "below": group.below_median,
            "below_text": percent(group.below_median),
            "ratio": _error_ratio(group),
            "p": group.p_value,
            "p_text": p_text(group.p_value),
        }
        for key, group in every
    ]


def _if_cut(text: str) -> str:
    """More of a name than its cell shows, if there is more."""
    more = name(text, longest=1000)
    return "" if more == name(text) else more
