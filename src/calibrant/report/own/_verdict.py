"""The top of the page: the verdict in words, and its numbers as tiles."""

from typing import Any

import numpy as np

from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.metrics.verdict import coverage_sentence, diagnose, verdict_words
from calibrant.report.own._texts import amount, percent, span
from calibrant.report.own.contents import OwnReport

__all__ = ["headline", "status_view", "tiles"]

View = dict[str, Any]
_LEVELS = (50, 80, 90, 95)
_WHOSE = {"fit": "Your", "evaluate": "Your"}
_WHICH_ROWS = {"fit": "unseen ", "evaluate": "labeled ", "recalibrate": "unseen "}
#: Name of the status, and the look of its badge.
_BADGES = {
    "trusted": ("Can be trusted", "holds"),
    "uneven": ("Right overall, but not in one group", "noise"),
    "narrow": ("Too narrow", "fails"),
    "wide": ("Too wide", "fails"),
    "shifted": ("Shifted", "fails"),
    "misshapen": ("Wrong shape", "fails"),
    "few": ("Too few rows to tell", "idle"),
}
#: Half the width of a tile's scale, in half widths of a perfect model's range.
_ZOOM = 2.5
_TIMES = "\N{MULTIPLICATION SIGN}"


def headline(contents: OwnReport) -> str:
    """Say how many targets the 90 % intervals covered, and how many they should."""
    whose = _WHOSE.get(contents.kind, "The")
    if contents.before is not None:
        whose = "The recalibrated"
    which = f"{_WHICH_ROWS.get(contents.kind, '')}row"
    return coverage_sentence(contents.card, whose=whose, which=which)


def status_view(contents: OwnReport) -> View:
    """Name the status, and say in a sentence or two what it means."""
    found, words = diagnose(contents.card), verdict_words(contents.card)
    title, look = _BADGES[found.status]
    if found.everywhere and not found.sure:
        title, look = f"Perhaps {title.lower()}", "noise"
    if contents.before is not None:
        covered = percent(contents.before["coverage_90"])
        words += f" Before the recalibration they covered {covered}."
    return {"key": found.status, "title": title, "look": look, "words": words}


def tiles(contents: OwnReport) -> list[View]:
    """Coverages beside their ranges, the typical width, and the errors."""
    card, before = contents.card, contents.before
    error = card.measure("calibration_error")
    ratio = error.value / (error.floor or 1.0)
    off = error.p_value is not None and error.p_value < 0.05
    return [
        *(_coverage_tile(card, before, level) for level in _LEVELS),
        _tile(
            amount(_typical_width(contents)),
            "typical width of a 90 % interval, in units of the target",
        ),
        _tile(amount(card["rmse"]), "root mean squared error (RMSE)"),
        _tile(amount(card["mae"]), "mean absolute error (MAE)"),
        _tile(
            f"{ratio:.1f} {_TIMES}",
            "the calibration error of a perfect model" + _was(_ratio_text(before)),
            off=off,
        ),
    ]


def _tile(value: str, text: str, *, off: bool = False) -> View:
    return {"value": value, "text": text, "off": off, "gauge": None}


def _coverage_tile(card: Scorecard, before: Scorecard | None, level: int) -> View:
    measure = card.measure(f"coverage_{level}")
    low, high = _range(measure)
    earlier = "" if before is None else percent(before[measure.name])
    text = f"covered by {level} % intervals; perfect: {span(low, high)}{_was(earlier)}"
    view = _tile(percent(measure.value), text, off=not low <= measure.value <= high)
    view["gauge"] = _gauge(measure.value, level / 100, low, high)
    return view


def _range(measure: Measure) -> tuple[float, float]:
    """What 95 % of perfect models show; everything where that is not known."""
    low, high = measure.low, measure.high
    return 0.0 if low is None else low, 1.0 if high is None else high


def _gauge(value: float, right: float, low: float, high: float) -> dict[str, float]:
    """Places on a line from 0 to 100 whose middle is the promised share."""
    half = max(_ZOOM * max(right - low, high - right), 1.15 * abs(value - right), 1e-6)
    places = (value, low, high)
    spot, start, end = (round(50 + 50 * (each - right) / half, 2) for each in places)
    return {"spot": spot, "start": start, "width": round(end - start, 2)}


def _was(earlier: str) -> str:
    return f"; before: {earlier}" if earlier else ""


def _ratio_text(before: Scorecard | None) -> str:
    if before is None:
        return ""
    error = before.measure("calibration_error")
    return f"{error.value / (error.floor or 1.0):.1f} {_TIMES}"


def _typical_width(contents: OwnReport) -> float:
    predictions = contents.predictions
    width = np.asarray(predictions.high_90, float) - np.asarray(
        predictions.low_90, float
    )
    known = width[~np.isnan(width)]
    return float(np.median(known)) if len(known) else float("nan")
