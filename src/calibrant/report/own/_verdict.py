"""The top of the page: the verdict in words, and its numbers as tiles."""

from typing import Any

import numpy as np

from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.report.own._groups import fault_words, place_words
from calibrant.report.own._texts import amount, counted, percent, span
from calibrant.report.own.contents import OwnReport
from calibrant.report.own.diagnosis import Diagnosis, diagnose

__all__ = ["SHARED", "headline", "status_view", "tiles", "verdict_words"]

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
#: How rounded and capped targets count, which are not simply in or out.
SHARED = "Counting each target by the share of its step"
#: Half the width of a tile's scale, in half widths of a perfect model's range.
_ZOOM = 2.5
_TIMES = "\N{MULTIPLICATION SIGN}"


def headline(contents: OwnReport) -> str:
    """Say how many targets the 90 % intervals held, and how many they should."""
    held = contents.card.measure("coverage_90")
    whose = _WHOSE.get(contents.kind, "The")
    if contents.before is not None:
        whose = "The recalibrated"
    rows = f"{_WHICH_ROWS.get(contents.kind, '')}row"
    if contents.card.grid is not None:
        whose = f"{SHARED}, {whose.lower()}"
    return (
        f"{whose} 90 % intervals held {percent(held.value)} of "
        f"{counted(contents.card.n, rows)}; a perfect model would show "
        f"{span(*_range(held))}."
    )


def status_view(contents: OwnReport) -> View:
    """Name the status, and say in a sentence or two what it means."""
    title, look, words = _judged(contents.card)
    if contents.before is not None:
        held = contents.before["coverage_90"]
        words.append(f"Before the recalibration they held {percent(held)}.")
    key = diagnose(contents.card).status
    return {"key": key, "title": title, "look": look, "words": " ".join(words)}


def verdict_words(card: Scorecard) -> str:
    """Say in a sentence or two whether the intervals can be trusted, as the page."""
    return " ".join(_judged(card)[2])


def _judged(card: Scorecard) -> tuple[str, str, list[str]]:
    """Name of the status, look of its badge, and sentences on what it means."""
    found = diagnose(card)
    title, look = _BADGES[found.status]
    if found.everywhere and not found.sure:
        title, look = f"Perhaps {title.lower()}", "noise"
        words = [_hint(found)]
    else:
        words = [_meaning(card, found)]
    if card.grid is not None:
        words.append(
            f"The target is {card.grid.describe()}, so each one counts by the share of "
            "its step that an interval holds."
        )
    return title, look, words


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
    text = f"held by {level} % intervals; perfect: {span(low, high)}{_was(earlier)}"
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


def _hint(found: Diagnosis) -> str:
    """Say what may be wrong, and that it may be chance."""
    what = {
        "narrow": "the intervals are too narrow",
        "wide": "the intervals are too wide",
        "shifted": f"the predictions are too {'low' if found.lean > 0 else 'high'}",
        "misshapen": "the predicted distributions have the wrong shape",
    }
    return (
        f"There are signs that {what[found.status]}, but {percent(found.chance)} of "
        "perfect models look as bad as this by chance."
    )


def _typical_width(contents: OwnReport) -> float:
    predictions = contents.predictions
    width = np.asarray(predictions.high_90, float) - np.asarray(
        predictions.low_90, float
    )
    known = width[~np.isnan(width)]
    return float(np.median(known)) if len(known) else float("nan")


def _meaning(card: Scorecard, found: Diagnosis) -> str:
    if found.status == "uneven" and found.group is not None:  # it has one
        place = place_words(found.group)
        return (
            f"Over all rows no fault can be seen, but where {place}, "
            f"{fault_words(found.group.group)}."
        )
    if found.status == "shifted":
        below = float((np.asarray(card.rows["pit"]) <= 0.5).mean())
        side, share = ("below", below) if found.lean < 0 else ("above", 1 - below)
        return (
            f"The predictions are shifted: {percent(share)} of the targets lie {side} "
            "the predicted median, where half of them should."
        )
    if found.status == "trusted" and found.seen:
        return (
            "The intervals can be trusted: a fault can be seen, but only because there "
            "are so many rows, and it is too small to matter."
        )
    if found.status == "misshapen" and _has_long_tails(card):
        return (
            "The predicted distributions have the wrong shape: too wide in the middle "
            "and too short in the tails, since the targets have outliers."
        )
    return _MEANINGS[found.status]


def _has_long_tails(card: Scorecard) -> bool:
    middle, tails = card.measure("coverage_50"), card.measure("coverage_95")
    return middle.value > 0.5 and tails.value < _range(tails)[0]


_MEANINGS = {
    "trusted": "No fault can be seen: the intervals can be trusted as they are.",
    "narrow": (
        "The intervals are too narrow: targets fall outside more often than promised. "
        "Do not rely on them as they are."
    ),
    "wide": (
        "The intervals are too wide: they are safe, but they hold more than they "
        "promise and say less than they could."
    ),
    "misshapen": (
        "The predicted distributions have the wrong shape: too much is promised in one "
        "place and too little in another."
    ),
    "few": (
        "Nothing speaks against the intervals, but so few rows cannot tell good ones "
        "from bad ones."
    ),
}
