"""The tables of the page: what the charts show in numbers, groups and columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.report.own._chart_data import chosen_rows
from calibrant.report.own._groups import Column, error_ratio
from calibrant.report.own._texts import amount, name, p_text, percent, span
from calibrant.report.own.contents import ColumnLine, OwnReport, Predictions

__all__ = [
    "column_lines",
    "curve_table",
    "group_lines",
    "histogram_table",
    "row_table",
]

View = dict[str, Any]


def curve_table(curve: View) -> View:
    """Promised and observed frequencies as text; made of the chart's data."""
    heads = ["Promised", "Observed", "95 % of perfect models"]
    rows = [
        [f"{promised:.2f}", f"{observed:.3f}", f"{low:.3f} to {high:.3f}"]
        for promised, observed, low, high in zip(
            curve["promised"],
            curve["observed"],
            curve["low"],
            curve["high"],
            strict=True,
        )
    ]
    return _with_before(heads, rows, curve["before"], digits=3)


def histogram_table(histogram: View) -> View:
    """Counts of PIT values as text; made of the chart's data."""
    bins = len(histogram["counts"])
    span = f"{histogram['low']:,} to {histogram['high']:,}"
    rows = [
        [f"{place / bins:.2f} to {(place + 1) / bins:.2f}", f"{count:,}", span]
        for place, count in enumerate(histogram["counts"])
    ]
    heads = ["PIT values", "Rows", "95 % of perfect models"]
    return _with_before(heads, rows, histogram["before"], digits=0)


def row_table(predictions: Predictions) -> View:
    """The rows that are drawn, by their number in the file."""
    chosen = chosen_rows(predictions)
    chosen = chosen[np.argsort(np.asarray(predictions.row)[chosen], kind="stable")]
    parts = {
        part: np.asarray(getattr(predictions, part), dtype=np.float64)[chosen]
        for part in ("y", "center", "low_50", "high_50", "low_90", "high_90")
    }
    held = (parts["low_90"] <= parts["y"]) & (parts["y"] <= parts["high_90"])
    rows = [
        [
            f"{int(row):,}",
            *(amount(float(values[place])) for values in parts.values()),
            "yes" if held[place] else "no",
        ]
        for place, row in enumerate(np.asarray(predictions.row)[chosen])
    ]
    heads = ["Row", "Target", "Median", "50 %: from", "to", "90 %: from", "to", "Held"]
    return {"heads": heads, "rows": rows}


def group_lines(columns: Sequence[Column]) -> list[View]:
    """All groups of some columns, those that stand out most first."""
    every = [(column.name, group) for column in columns for group in column.groups]
    every.sort(key=lambda each: -error_ratio(each[1]))
    return [
        {
            "column": name(key),
            "group": name(group.label),
            "whole_column": _if_cut(key),
            "whole_group": _if_cut(group.label),
            "rows": group.rows,
            "held": group.coverage_90,
            "held_text": percent(group.coverage_90),
            "off": not group.range_90[0] <= group.coverage_90 <= group.range_90[1],
            "low": group.range_90[0],
            "range": span(*group.range_90),
            "below": group.below_median,
            "below_text": percent(group.below_median),
            "ratio": error_ratio(group),
            "p": group.p_value,
            "p_text": p_text(group.p_value),
        }
        for key, group in every
    ]


def _if_cut(text: str) -> str:
    """More of a name than its cell shows, if there is more."""
    more = name(text, longest=1000)
    return "" if more == name(text) else more


def column_lines(contents: OwnReport) -> list[View]:
    """What was done with each column."""
    return [_column_line(line) for line in contents.columns]


def _column_line(line: ColumnLine) -> View:
    return {
        "name": name(line.name),
        "kind": name(line.kind),
        "used": "yes" if line.used else "no",
        "done": name(line.done, longest=400),
    }


def _with_before(
    heads: list[str], rows: list[list[str]], before: list[float] | None, *, digits: int
) -> View:
    if before is not None:
        heads = [*heads, "Before"]
        rows = [
            [*row, f"{value:,.{digits}f}"]
            for row, value in zip(rows, before, strict=True)
        ]
    return {"heads": heads, "rows": rows}
