"""The report in words: verdict, tiles, what charts and metrics show, what to do."""

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.metrics.floors import coverage_range, rows_for_coverage
from calibrant.metrics.groups import WorstGroup
from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.metrics.verdict import (
    MATERIAL,
    SURE,
    Diagnosis,
    coverage_sentence,
    diagnose,
    fault_words,
    group_chance,
    place_words,
    verdict_words,
)
from calibrant.report.contents import OwnReport
from calibrant.text import counted, name, number, p_text, percent, span

__all__ = [
    "Advice",
    "advice",
    "headline",
    "measure_sections",
    "shape_words",
    "status_view",
    "tiles",
    "worst_words",
]

View = dict[str, Any]
_WHICH_ROWS = {"fit": "unseen ", "evaluate": "labeled ", "recalibrate": "unseen "}
#: Name of the status, and the look of its badge.
_BADGES = {
    "trusted": ("Can be trusted", "holds"),
    "uneven": ("Calibrated overall, but not in one group", "noise"),
    "narrow": ("Too narrow", "fails"),
    "wide": ("Too wide", "fails"),
    "shifted": ("Biased", "fails"),
    "misshapen": ("Wrong shape", "fails"),
    "few": ("Too few rows to tell", "idle"),
}
_SHAPES = {
    "narrow": (
        "Here the outer bars are high (a U): targets fall far from the predicted "
        "median too often, so the intervals are too narrow."
    ),
    "wide": (
        "Here the middle bars are high (a hump): targets fall close to the predicted "
        "median too often, so the intervals are too wide."
    ),
    "misshapen": (
        "Here the bars show neither a slope nor a plain U or hump: the predicted "
        "distributions have another shape than the targets."
    ),
}
_SECTIONS = {
    "accuracy": "Accuracy of the point predictions",
    "score": "Proper scores",
    "calibration": "Calibration",
    "coverage": "Coverage of the intervals",
    "sharpness": "Sharpness",
}
#: Half the width of a tile's scale, in half widths of the range.
_ZOOM = 2.5
_TIMES = "\N{MULTIPLICATION SIGN}"

_SPREAD = "predicted spread"
_RECALIBRATE = "calibrant recalibrate model/ recent.csv --out model2/"
_EVALUATE = "calibrant evaluate model/ labeled.csv"
_COMPARE = "calibrant compare predictions.csv --target y --mean mu --std sigma"


# The verdict ------------------------------------------------------------------------


def headline(contents: OwnReport) -> str:
    """Say how many targets the 90 % intervals covered, and how many they should."""
    whose = "Your" if contents.kind in ("fit", "evaluate") else "The"
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
        words += f" Before recalibration they covered {covered}."
    return {"key": found.status, "title": title, "look": look, "words": words}


def tiles(contents: OwnReport) -> list[View]:
    """Coverages next to their ranges, the typical width, and the errors."""
    card, before = contents.card, contents.before
    rows = contents.predictions
    width = np.asarray(rows.high_90, float) - np.asarray(rows.low_90, float)
    known = width[~np.isnan(width)]
    typical = float(np.median(known)) if len(known) else math.nan
    expected = "the calibration error expected under perfect calibration"
    if before is not None:
        expected += f"; before: {_times_floor(before):.1f} {_TIMES}"
    return [
        *(_coverage_tile(card, before, level) for level in (50, 80, 90, 95)),
        _tile(
            number(typical), "typical width of a 90 % interval, in units of the target"
        ),
        _tile(number(card["rmse"]), "root mean squared error (RMSE)"),
        _tile(number(card["mae"]), "mean absolute error (MAE)"),
        _tile(
            f"{_times_floor(card):.1f} {_TIMES}",
            expected,
            off=_is_off(card.measure("calibration_error").p_value),
        ),
    ]


def _tile(value: str, text: str, *, off: bool = False) -> View:
    return {"value": value, "text": text, "off": off, "gauge": None}


def _coverage_tile(card: Scorecard, before: Scorecard | None, level: int) -> View:
    measure = card.measure(f"coverage_{level}")
    low, high = measure.low or 0.0, 1.0 if measure.high is None else measure.high
    text = f"covered by {level} % intervals; perfectly calibrated: {span(low, high)}"
    if before is not None:
        text += f"; before: {percent(before[measure.name])}"
    view = _tile(percent(measure.value), text, off=not low <= measure.value <= high)
    view["gauge"] = _gauge(measure.value, level / 100, low, high)
    return view


def _gauge(value: float, nominal: float, low: float, high: float) -> dict[str, float]:
    """Places on a line from 0 to 100 whose middle is the nominal share."""
    reach = max(nominal - low, high - nominal)
    half = max(_ZOOM * reach, 1.15 * abs(value - nominal), 1e-6)
    spot, start, end = (
        round(50 + 50 * (share - nominal) / half, 2) for share in (value, low, high)
    )
    return {"spot": spot, "start": start, "width": round(end - start, 2)}


def _times_floor(card: Scorecard) -> float:
    error = card.measure("calibration_error")
    return error.value / (error.floor or 1.0)


def _is_off(p_value: float | None) -> bool:
    return p_value is not None and p_value < 0.05


# Charts and metrics -----------------------------------------------------------------


def shape_words(card: Scorecard, histogram: View) -> str:
    """Say what the bars show; ``histogram`` is the chart's data."""
    found = diagnose(card)
    if found.status == "shifted":
        up = found.lean > 0
        return (
            f"Here the bars {'rise' if up else 'fall'} from left to right (a slope): "
            f"targets lie {'higher' if up else 'lower'} than predicted."
        )
    if found.status in _SHAPES:
        return _SHAPES[found.status]
    low, high, counts = histogram["low"], histogram["high"], histogram["counts"]
    outside = sum(not low <= count <= high for count in counts)
    if outside == 0:
        return "Here all bars lie within the band: there is no sign of a fault."
    return f"Here {outside} of {len(counts)} bars leave the band, but not by much."


def worst_words(worst: WorstGroup, *, everywhere: bool) -> str:
    """Say which group stands out most, and whether chance explains it.

    ``everywhere``: all rows together have a fault, which then shows in groups too.
    """
    text = (
        f"Of {worst.tested:,} groups, the one where {place_words(worst)} stands out "
        f"most: {fault_words(worst.group)}."
    )
    chance = group_chance(worst)
    p_value = p_text(chance)
    relation = p_value if p_value.startswith("<") else f"= {p_value}"
    if chance < SURE:
        more = " But all rows together have a fault: fix that first."
        return (
            f"{text} Chance does not explain it (p {relation}, corrected for searching "
            f"all groups).{more if everywhere else ''}"
        )
    return (
        f"{text} Chance explains it (p {relation}), so no group is known to be badly "
        "calibrated."
    )


def measure_sections(card: Scorecard, before: Scorecard | None = None) -> list[View]:
    """Arrange all measures by kind, next to those before a recalibration."""
    lines: dict[str, list[View]] = {}
    for measure in card.measures:
        known = before is not None and measure.name in set(before)
        earlier = before.measure(measure.name) if before and known else None
        lines.setdefault(measure.kind, []).append(_line(measure, earlier))
    given = card.distribution_calibration
    if given is not None:
        title, meaning = _in_words("distribution_calibration")
        line = {
            "title": title,
            "meaning": meaning.format(groups=given.groups),
            "value": number(given.value),
            "before": "",
            "perfect": f"{number(given.floor)} on average",
            "p": p_text(given.p_value),
            "note": "",
            "off": _is_off(given.p_value),
        }
        lines.setdefault("calibration", []).append(line)
    return [
        {"title": _SECTIONS.get(kind, name(kind)), "lines": some}
        for kind, some in lines.items()
    ]


def _line(measure: Measure, earlier: Measure | None) -> View:
    title, meaning = _in_words(measure.name)
    missing = math.isnan(measure.value)
    written, perfect = (percent if measure.kind == "coverage" else number), ""
    if measure.low is not None and measure.high is not None and not missing:
        perfect = (
            span(measure.low, measure.high)
            if measure.kind == "coverage"
            else f"{number(measure.low)} to {number(measure.high)}"
        )
    return {
        "title": title,
        "meaning": meaning,
        "value": written(measure.value),
        "before": "" if earlier is None else written(earlier.value),
        "perfect": perfect,
        "p": p_text(measure.p_value),
        "note": name(measure.note, longest=300) if missing else "",
        "off": _is_off(measure.p_value),
    }


@cache
def _known_words() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("measures.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _in_words(measure: str) -> tuple[str, str]:
    """Title and meaning of a measure; of coverages and widths with their level."""
    kind, _, level = measure.rpartition("_")
    words = _known_words().get(kind if level.isdigit() else measure)
    if words is None:
        return name(measure), ""
    return words["title"].format(level=level), words["meaning"].replace(
        "{level}", level
    )


# What to do -------------------------------------------------------------------------


class Advice(NamedTuple):
    """One thing to do: in a few words, why, and a command line that does it."""

    title: str
    text: str
    command: str = ""


def advice(
    card: Scorecard, *, kind: str, before: Scorecard | None = None
) -> tuple[Advice, ...]:
    """Say what to do, most urgent first; decided from the card alone.

    The rules, on the status of :func:`~calibrant.metrics.verdict.diagnose`:

    1. With ``before``: say what the recalibration changed, and whether to keep it.
    2. ``few``: measure on as many rows as 90 % +- 5 points takes.
    3. A fault that is not sure: measure on more rows first, then as follows.
    4. ``narrow``, ``wide`` and ``misshapen``: recalibrate on unseen rows; after a
       recalibration, on more and newer ones. Narrow intervals of a model that was just
       trained may also come from overfitting.
    5. ``shifted``: find out why, train on newer rows, recalibrate until then.
    6. A group that is badly calibrated although the rest is not: more rows or a feature
       that tells it apart; where it is a group of predicted spread, another network.
    7. Rounded or capped targets: what the numbers mean then.
    8. ``trusted``: nothing to fix, and how to keep watching; how sure this is.

    Parameters
    ----------
    card
        The measures.
    kind
        The command they come from: fit, evaluate, recalibrate or compare.
    before
        The measures of the same rows before they were recalibrated.

    Examples
    --------
    >>> from calibrant.metrics.scorecard import evaluate
    >>> card = evaluate((np.zeros(5), np.ones(5)), np.linspace(-1, 1, 5))
    >>> [part.title for part in advice(card, kind="fit")]
    ['Evaluate on more rows']
    """
    found = diagnose(card)
    parts = [] if before is None else [_changed(card, before)]
    if found.everywhere and not found.sure:
        text = (
            f"Up to {percent(found.chance)} of perfectly calibrated models look as bad "
            f"as this by chance on {counted(card.n)}. If other rows show the same, act "
            "on it."
        )
        parts.append(Advice("Evaluate on more rows first", text, _again(kind)))
    parts += _remedies(card, found, kind)
    if found.group is not None and not found.everywhere:
        parts.append(_group(found.group))
    if card.grid is not None:
        parts.append(_grid(card.grid))
    if found.status in ("trusted", "uneven"):
        parts.append(_watch(card, kind))
    return tuple(parts)


def _again(kind: str) -> str:
    return _COMPARE if kind == "compare" else _EVALUATE


def _changed(card: Scorecard, before: Scorecard) -> Advice:
    """Whether the recalibration helped."""
    numbers = (
        f"The calibration error went from {_times_floor(before):.1f} to "
        f"{_times_floor(card):.1f} times its expected value under perfect calibration, "
        "the coverage of the 90 % intervals from "
        f"{percent(before['coverage_90'])} to {percent(card['coverage_90'])}."
    )
    if not diagnose(before).seen:
        return Advice(
            "Keep what you had",
            f"{numbers} The predictions showed no fault before, so the change is "
            "within chance.",
        )
    if card["calibration_error"] < before["calibration_error"]:
        return Advice("Use the recalibrated model", f"Recalibration helped. {numbers}")
    return Advice(
        "Keep what you had",
        f"Recalibration did not help. {numbers} Check whether the rows that it was "
        "fitted on are like these.",
    )


def _remedies(card: Scorecard, found: Diagnosis, kind: str) -> list[Advice]:
    """What the status asks for."""
    match found.status:
        case "few":
            return [_more_rows(card, kind)]
        case "narrow":
            what = "It widens the intervals to their nominal level."
            parts = [_recalibrate(kind, "to widen the intervals", what)]
            overfit = Advice(
                "Or train for calibration",
                "Intervals that are too narrow on new rows often mean that the network "
                "overfits. Let the strength of the regularizer be chosen, train for "
                "fewer epochs, or use more rows.",
                "calibrant fit data.csv --target y --strength auto",
            )
            return [*parts, overfit] if kind == "fit" else parts
        case "wide":
            what = (
                "The intervals are wider than they need to be: narrower ones would "
                "reach their nominal coverage and be more informative."
            )
            return [_recalibrate(kind, "to tighten the intervals", what)]
        case "misshapen":
            what = (
                "It can give the predicted distribution any shape. Targets with a long "
                "tail, such as prices, are often better predicted as logarithms."
            )
            return [_recalibrate(kind, "to change the shape", what)]
        case "shifted":
            what = "It corrects the bias, the same for all rows."
            return [_shifted(card, found), _recalibrate(kind, "until then", what)]
        case "trusted":
            text = (
                "These rows show no sign of a fault."
                if not found.seen
                else "The fault is significant, but too small to change a decision: "
                f"nominal and observed frequencies differ by {100 * found.gap:.1f} "
                "points."
            )
            return [Advice("Use the intervals as they are", text)]
    return []


def _more_rows(card: Scorecard, kind: str) -> Advice:
    low, high = coverage_range(0.9, card.n)
    text = (
        f"On {counted(card.n)} the 90 % intervals of a perfectly calibrated model "
        f"cover anything from {span(low, high)}. {rows_for_coverage(0.9, 0.05):,} rows "
        f"determine that within 5 points, {rows_for_coverage(0.9, 0.03):,} within 3, "
        f"and {rows_for_coverage(0.9, 0.02):,} within 2."
    )
    return Advice("Evaluate on more rows", text, _again(kind))


def _shifted(card: Scorecard, found: Diagnosis) -> Advice:
    side, bias = "low" if found.lean > 0 else "high", card["bias"]
    size = "" if math.isnan(bias) else f", by {number(abs(bias))} on average"
    return Advice(
        "Find out what changed",
        f"The predictions are too {side}{size}. Most often the rows differ from the "
        "training rows: they are newer, from another place, or measured differently. "
        "Find out what changed, and retrain with rows like these.",
    )


def _recalibrate(kind: str, purpose: str, what: str) -> Advice:
    rows = f"at least {rows_for_coverage(0.9, 0.05):,}"
    if kind == "recalibrate":
        return Advice(
            f"Recalibrate on other rows {purpose}",
            f"{what} The rows that recalibration was fitted on are too few, or unlike "
            f"these. Take more of the newest ones, {rows}.",
            _RECALIBRATE,
        )
    if kind == "compare":
        return Advice(
            f"Recalibrate {purpose}",
            f"{what} It is fitted on rows with a known target, {rows}; evaluate it on "
            "others.",
            f"{_COMPARE} --fix fixed.csv",
        )
    return Advice(
        f"Recalibrate {purpose}",
        f"{what} It takes seconds and no training, and {rows} labeled, unseen rows. "
        "Evaluate the result on other rows.",
        _RECALIBRATE,
    )


def _group(worst: WorstGroup) -> Advice:
    what = f"Where {place_words(worst)}, {fault_words(worst.group)}."
    if worst.key == _SPREAD:
        return Advice(
            "Do not trust the differences in width",
            f"{what} The predicted spread does not follow the actual one: "
            "recalibration treats all rows alike and cannot fix that. Try another "
            "network, more rows, or features that explain the spread.",
        )
    covered = worst.group.coverage_90
    until = (
        "until then do not rely on the intervals there"
        if covered < 0.9 - MATERIAL[90]
        else f"its 90 % intervals covered {percent(covered)}, enough to be used"
    )
    return Advice(
        "Be careful with one group",
        f"{what} Recalibration treats all rows alike and cannot fix that. More "
        "training rows of this group help, or a feature that explains what is special "
        f"about it; {until}.",
    )


def _grid(grid: TargetGrid) -> Advice:
    more = ""
    if grid.lower_cap is not None or grid.upper_cap is not None:
        more = (
            " What lies beyond such an end is not known, so predictions beyond it "
            "cannot be judged."
        )
    return Advice(
        "Note that the target is not continuous",
        f"It is {grid.describe()}. The calibration takes that into account: each "
        f"target stands for the interval that was rounded to it.{more} Record finer "
        "values if you can.",
    )


def _watch(card: Scorecard, kind: str) -> Advice:
    low, high = coverage_range(0.9, card.n)
    sure = (
        f"These {counted(card.n)} determine the 90 % coverage within "
        f"{100 * max(0.9 - low, high - 0.9):.1f} points. Data drifts: "
    )
    if kind == "compare":
        return Advice(
            "Keep monitoring", f"{sure}evaluate new rows in the same way.", _COMPARE
        )
    return Advice(
        "Keep monitoring",
        f"{sure}evaluate newly labeled rows regularly. The command ends with exit code "
        "1 when the coverage is off by more than the tolerance; take at least "
        f"{rows_for_coverage(0.9, 0.03):,} rows for a tolerance of 0.03.",
        f"{_EVALUATE} --require-coverage 0.9 --tolerance 0.03",
    )
