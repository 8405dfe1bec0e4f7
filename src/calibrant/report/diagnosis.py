"""The report in words: verdict, tiles, shape of the histogram, groups and measures."""

import math
from typing import Any

import numpy as np

from calibrant.metrics.groups import DistributionCalibration, WorstGroup
from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.metrics.verdict import (
    SURE,
    coverage_sentence,
    diagnose,
    fault_words,
    group_chance,
    place_words,
    verdict_words,
)
from calibrant.report.contents import OwnReport
from calibrant.text import name, number, p_text, percent, span

__all__ = [
    "headline",
    "measure_sections",
    "shape_words",
    "status_view",
    "tiles",
    "worst_words",
]

View = dict[str, Any]
_WHOSE = {"fit": "Your", "evaluate": "Your"}
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
#: Half the width of a tile's scale, in half widths of the range.
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
        words += f" Before recalibration they covered {covered}."
    return {"key": found.status, "title": title, "look": look, "words": words}


def tiles(contents: OwnReport) -> list[View]:
    """Coverages next to their ranges, the typical width, and the errors."""
    card, before = contents.card, contents.before
    error = card.measure("calibration_error")
    rows = contents.predictions
    width = np.asarray(rows.high_90, float) - np.asarray(rows.low_90, float)
    known = width[~np.isnan(width)]
    typical = float(np.median(known)) if len(known) else math.nan
    return [
        *(_coverage_tile(card, before, level) for level in (50, 80, 90, 95)),
        _tile(
            number(typical), "typical width of a 90 % interval, in units of the target"
        ),
        _tile(number(card["rmse"]), "root mean squared error (RMSE)"),
        _tile(number(card["mae"]), "mean absolute error (MAE)"),
        _tile(
            _times_expected(card),
            "the calibration error expected under perfect calibration"
            + ("" if before is None else f"; before: {_times_expected(before)}"),
            off=_is_off(error.p_value),
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


def _times_expected(card: Scorecard) -> str:
    error = card.measure("calibration_error")
    return f"{error.value / (error.floor or 1.0):.1f} {_TIMES}"


def _is_off(p_value: float | None) -> bool:
    return p_value is not None and p_value < 0.05


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


_SECTIONS = {
    "accuracy": "Accuracy of the point predictions",
    "score": "Proper scores",
    "calibration": "Calibration",
    "coverage": "Coverage of the intervals",
    "sharpness": "Sharpness",
}
_LESS = "Lower is better."
#: Title and meaning of each measure.
_WORDS = {
    "rmse": (
        "Root mean squared error",
        "The typical distance of the predicted mean from the target, in its units; "
        f"large errors count most. {_LESS}",
    ),
    "mae": (
        "Mean absolute error",
        f"The mean distance of the predicted median from the target. {_LESS}",
    ),
    "r2": (
        "R² (variance explained)",
        "1 is perfect, 0 is what always predicting the mean reaches.",
    ),
    "bias": (
        "Bias",
        "Mean of prediction minus target: above 0 the predictions are too high.",
    ),
    "nll": (
        "Negative log-likelihood",
        "How surprising the targets are under the predicted density. Lower is better; "
        "0 has no special meaning.",
    ),
    "crps": (
        "Continuous ranked probability score (CRPS)",
        "The distance between predicted distribution and target, in units of the "
        f"target. {_LESS}",
    ),
    "interval_score": (
        "Interval score of the 90 % interval",
        f"Its width, plus a penalty for each target outside of it. {_LESS}",
    ),
    "crps_reliability": (
        "CRPS lost by miscalibration",
        "What a perfect recalibration could win back; 0 is best.",
    ),
    "crps_resolution": (
        "CRPS gained by telling rows apart",
        "The gain over one prediction for all rows. Higher is better.",
    ),
    "crps_uncertainty": (
        "CRPS of one prediction for all rows",
        "How hard the targets are to predict without features.",
    ),
    "calibration_error": (
        "Calibration error",
        "Squared gaps between nominal and observed frequencies, summed over 20 "
        "levels. On finitely many rows it is above 0 even under perfect calibration.",
    ),
    "paper_calibration_error": (
        "Calibration error, times 100",
        "The same number as papers on quantile regularization print it.",
    ),
    "integrated_calibration_error": (
        "Integrated calibration error",
        "The same gaps, squared and integrated over all levels.",
    ),
    "mean_absolute_calibration_error": (
        "Mean absolute calibration error (MACE)",
        "Mean distance of the calibration curve from the diagonal: 0.02 is 2 points.",
    ),
    "root_mean_squared_calibration_error": (
        "Root mean squared calibration error (RMSCE)",
        "The same, but large gaps count more.",
    ),
    "miscalibration_area": (
        "Miscalibration area",
        "Area between the calibration curve and the diagonal.",
    ),
    "debiased_calibration_error": (
        "Debiased calibration error",
        "The error minus its expected value under perfect calibration: about 0 for a "
        "calibrated model, so it can be negative.",
    ),
    "ence": (
        "Expected normalized calibration error (ENCE)",
        "Rows are grouped by predicted spread, which is compared with the actual "
        "errors. 0.1 is 10 %.",
    ),
    "uce": (
        "Uncertainty calibration error (UCE)",
        "The same for the variance, in squared units of the target.",
    ),
    "sharpness": (
        "Root mean predicted variance",
        "For a calibrated model this is its root mean squared error.",
    ),
    "mean_stddev": (
        "Mean predicted standard deviation",
        "Lower is better only if the calibration is good.",
    ),
    "dispersion": (
        "Variation of the predicted spread",
        "Near 0 the model is equally sure of every row.",
    ),
}


def measure_sections(card: Scorecard, before: Scorecard | None = None) -> list[View]:
    """Arrange all measures by kind.

    Parameters
    ----------
    card
        The measures.
    before
        Those of the same rows before they were recalibrated.
    """
    lines: dict[str, list[View]] = {}
    for measure in card.measures:
        known = before is not None and measure.name in set(before)
        earlier = before.measure(measure.name) if before and known else None
        lines.setdefault(measure.kind, []).append(_line(measure, earlier))
    given = card.distribution_calibration
    if given is not None:
        lines.setdefault("calibration", []).append(_given_prediction(given))
    return [
        {"title": _SECTIONS.get(kind, name(kind)), "lines": some}
        for kind, some in lines.items()
    ]


def _line(measure: Measure, earlier: Measure | None) -> View:
    title, meaning = _in_words(measure.name)
    missing = math.isnan(measure.value)
    perfect = ""
    if measure.low is not None and measure.high is not None and not missing:
        perfect = (
            span(measure.low, measure.high)
            if measure.kind == "coverage"
            else f"{number(measure.low)} to {number(measure.high)}"
        )
    return {
        "title": title,
        "meaning": meaning,
        "value": _value(measure),
        "before": "" if earlier is None else _value(earlier),
        "perfect": perfect,
        "p": p_text(measure.p_value),
        "note": name(measure.note, longest=300) if missing else "",
        "off": _is_off(measure.p_value),
    }


def _value(measure: Measure) -> str:
    share = measure.kind == "coverage"
    return percent(measure.value) if share else number(measure.value)


def _given_prediction(found: DistributionCalibration) -> View:
    return {
        "title": "Calibration error among alike predictions",
        "meaning": "The mean calibration error within groups of rows with alike "
        f"predictions, {found.groups} here. A model can be calibrated over all rows "
        "and miscalibrated in each group.",
        "value": number(found.value),
        "before": "",
        "perfect": f"{number(found.floor)} on average",
        "p": p_text(found.p_value),
        "note": "",
        "off": _is_off(found.p_value),
    }


def _in_words(measure: str) -> tuple[str, str]:
    kind, _, level = measure.rpartition("_")
    if kind == "coverage":
        return (
            f"Coverage of the {level} % intervals",
            f"The share of targets inside; {level} % is right, more is not better.",
        )
    if kind == "width":
        return (
            f"Mean width of the {level} % intervals",
            "In the units of the target. Narrow is good only if the coverage is right.",
        )
    return _WORDS.get(measure, (name(measure), ""))
