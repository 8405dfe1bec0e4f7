"""The main numbers of a scorecard on one screen."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from calibrant.metrics.groups import GroupCalibration
from calibrant.metrics.scorecard import Measure, Scorecard

__all__ = ["group_table", "short_card"]

_MOST_GROUPS = 20

_SHOWN = {
    "coverage_50": "rows within the 50 % interval",
    "coverage_90": "rows within the 90 % interval",
    "calibration_error": "calibration error",
    "width_90": "mean width of the 90 % interval",
    "r2": "R2 (variance explained)",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "crps": "CRPS (lower is better)",
    "nll": "negative log likelihood (lower is better)",
}


def short_card(*cards: Scorecard, titles: tuple[str, ...] = ("value",)) -> Table:
    """Return the main numbers of one or several scorecards as a table.

    Parameters
    ----------
    *cards
        Scorecards of the same rows.
    titles
        What their columns are called.
    """
    table = Table(box=SIMPLE_HEAD)
    table.add_column(f"on {cards[0].n:,} rows")
    for title in (*titles, "perfect calibration"):
        table.add_column(title, justify="right")
    for name, words in _SHOWN.items():
        measures = [card.measure(name) for card in cards]
        table.add_row(words, *map(_value, measures), _range(measures[0]))
    return table


def group_table(name: str, groups: Sequence[GroupCalibration]) -> Table:
    """Return how many rows of each group its 90 % intervals cover, as a table.

    Parameters
    ----------
    name
        Of the column.
    groups
        Its groups, as a scorecard has them.
    """
    table = Table(box=SIMPLE_HEAD)
    table.add_column(Text(f"{name!r:.40}"))
    for title in ("rows", "within the 90 % interval", "perfect calibration"):
        table.add_column(title, justify="right")
    for group in groups[:_MOST_GROUPS]:
        low, high = group.range_90
        style = "" if low <= group.coverage_90 <= high else "yellow"
        table.add_row(
            Text(f"{group.label:.40}"),
            f"{group.rows:,}",
            Text(f"{100 * group.coverage_90:.1f} %", style=style),
            f"{100 * low:.1f} % to {100 * high:.1f} %",
        )
    if len(groups) > _MOST_GROUPS:
        table.caption = f"The report has {len(groups) - _MOST_GROUPS} more."
    return table


def _value(measure: Measure) -> Text:
    if measure.value != measure.value:
        return Text("-")
    return Text(
        _number(measure, measure.value), style="yellow" if _stands_out(measure) else ""
    )


def _stands_out(measure: Measure) -> bool:
    """Whether hardly any perfect model shows this; a small error is no fault."""
    if measure.low is None or measure.high is None:
        return False
    two_sided = measure.kind == "coverage"
    return measure.value > measure.high or (two_sided and measure.value < measure.low)


def _range(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return ""
    return f"{_number(measure, measure.low)} to {_number(measure, measure.high)}"


def _number(measure: Measure, value: float) -> str:
    if measure.kind == "coverage":
        return f"{100 * value:.1f} %"
    return f"{value:.4g}"
