"""The main numbers of a scorecard on one screen."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from calibrant.metrics.scorecard import Measure, Scorecard

__all__ = ["short_card"]

_SHOWN = {
    "coverage_50": "rows within the 50 % interval",
    "coverage_90": "rows within the 90 % interval",
    "calibration_error": "calibration error",
    "width_90": "mean width of the 90 % interval",
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
    for title in (*titles, "a perfect model"):
        table.add_column(title, justify="right")
    for name, words in _SHOWN.items():
        measures = [card.measure(name) for card in cards]
        table.add_row(words, *map(_value, measures), _range(measures[0]))
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
