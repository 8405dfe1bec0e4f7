"""The report in words: verdict, tiles, what charts and metrics show, what to do."""

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.metrics.floors import coverage_range, rows_for_coverage
from calibrant.metrics.groups import WorstGroup
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
_EVALUATE = "calibrant evaluate model/ labeled.csv"
_COMPARE = "calibrant compare predictions.csv --target y --mean mu --std sigma"


@cache
def _texts() -> dict[str, dict[str, dict[str, str]]]:
    text = Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


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
    badge = _texts()["status"][found.status]
    title, look = badge["title"], badge["look"]
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
    words = _texts()["status"][found.status]
    if "shape" in words:
        up = found.lean > 0
        return words["shape"].format(
            rise="rise" if up else "fall", higher="higher" if up else "lower"
        )
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


def _in_words(measure: str) -> tuple[str, str]:
    """Title and meaning of a measure; of coverages and widths with their level."""
    kind, _, level = measure.rpartition("_")
    words = _texts()["measure"].get(kind if level.isdigit() else measure)
    if words is None:
        return name(measure), ""
    title, meaning = (words[part] for part in ("title", "meaning"))
    return title.replace("{level}", level), meaning.replace("{level}", level)


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

    The rules, on the status of :func:`~calibrant.metrics.verdict.diagnose`; the texts
    stand in ``words.toml``:

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
    facts = _facts(card, found, kind, before)

    def say(key: str, kinds: str = "advice", **more: str) -> Advice:
        texts = _texts()[kinds][key]
        return Advice(
            **{part: text.format(**facts, **more) for part, text in texts.items()}
        )

    parts = []
    if before is not None:
        better = card["calibration_error"] < before["calibration_error"]
        seen = diagnose(before).seen
        parts.append(say("needless" if not seen else "helped" if better else "harmed"))
    if found.everywhere:
        if not found.sure:
            parts.append(say("unsure"))
        if found.status == "shifted":
            parts.append(say("changed"))
        how = kind if kind in ("recalibrate", "compare") else "model"
        parts.append(say(how, "recalibrate", **_texts()["remedy"][found.status]))
        if found.status == "narrow" and kind == "fit":
            parts.append(say("overfit"))
    elif found.status == "few":
        parts.append(say("few"))
    elif found.status == "trusted":
        parts.append(say("small" if found.seen else "trusted"))
    if found.group is not None and not found.everywhere:
        relied = found.group.group.coverage_90 >= 0.9 - MATERIAL[90]
        place = "group_covered" if relied else "group"
        parts.append(say("spread" if found.group.key == _SPREAD else place))
    if card.grid is not None:
        capped = card.grid.lower_cap is not None or card.grid.upper_cap is not None
        parts.append(say("capped" if capped else "grid"))
    if found.status in ("trusted", "uneven"):
        parts.append(say("watch_compare" if kind == "compare" else "watch"))
    return tuple(parts)


def _facts(
    card: Scorecard, found: Diagnosis, kind: str, before: Scorecard | None
) -> dict[str, str]:
    """What the texts of the advice name in braces."""
    low, high = coverage_range(0.9, card.n)
    bias = card["bias"]
    facts = {
        "rows": counted(card.n),
        "range": span(low, high),
        "points": f"{100 * max(0.9 - low, high - 0.9):.1f}",
        "chance": percent(found.chance),
        "gap": f"{100 * found.gap:.1f}",
        "low": "low" if found.lean > 0 else "high",
        "size": "" if math.isnan(bias) else f", by {number(abs(bias))} on average",
        "grid": "" if card.grid is None else card.grid.describe(),
        "covered": percent(card["coverage_90"]),
        "times": f"{_times_floor(card):.1f}",
        "compare": _COMPARE,
        "evaluate": _EVALUATE,
        "again": _COMPARE if kind == "compare" else _EVALUATE,
    }
    for points in (2, 3, 5):
        facts[f"rows_{points}"] = f"{rows_for_coverage(0.9, points / 100):,}"
    if before is not None:
        facts["covered_before"] = percent(before["coverage_90"])
        facts["times_before"] = f"{_times_floor(before):.1f}"
    if found.group is not None:
        facts["place"] = place_words(found.group)
        facts["fault"] = fault_words(found.group.group)
        facts["group_covered"] = percent(found.group.group.coverage_90)
    return facts
