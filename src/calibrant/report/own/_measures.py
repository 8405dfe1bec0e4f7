"""The measures of a scorecard in words."""

import math
from typing import Any

from calibrant.metrics.distribution_calibration import DistributionCalibration
from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.report.own._texts import amount, name, p_text, percent, span

__all__ = ["measure_sections"]

View = dict[str, Any]
_SECTIONS = {
    "accuracy": "How close the predictions are",
    "score": "Closeness and honesty in one number",
    "calibration": "How honest the predicted probabilities are",
    "coverage": "How many targets the intervals cover",
    "sharpness": "How wide the intervals are",
}
_LESS = "Less is better."
_WORDS = {
    "rmse": (
        "Root mean squared error",
        f"The typical distance of the predicted mean from the target, in its units; "
        f"large misses count most. {_LESS}",
    ),
    "mae": (
        "Mean absolute error",
        f"The mean distance of the predicted median from the target. {_LESS}",
    ),
    "r2": (
        "Explained share of the variance (R²)",
        "1 is perfect, 0 is what always predicting the mean reaches.",
    ),
    "bias": (
        "Bias",
        "Mean of prediction minus target: above 0 the predictions are too high.",
    ),
    "nll": (
        "Negative log-likelihood",
        "How surprising the targets are under the predicted density. Less is better; "
        "its zero means nothing.",
    ),
    "crps": (
        "Continuous ranked probability score",
        "The distance between predicted distribution and target, in units of the "
        f"target. {_LESS}",
    ),
    "interval_score": (
        "Score of the 90 % interval",
        f"Its width, plus a fine for each target outside of it. {_LESS}",
    ),
    "crps_reliability": (
        "CRPS lost by miscalibration",
        "What a perfect recalibration could win back; 0 is best.",
    ),
    "crps_resolution": (
        "CRPS won by telling rows apart",
        "What the model gains over one prediction for all rows. More is better.",
    ),
    "crps_uncertainty": (
        "CRPS of one prediction for all rows",
        "How hard the targets are to predict without features.",
    ),
    "calibration_error": (
        "Calibration error",
        "Squared gaps between promised and observed frequencies, summed over 20 "
        "levels. Finite rows keep even a perfect model above 0.",
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
        "Mean gap of the curve",
        "Mean distance of the calibration curve from the diagonal: 0.02 is 2 points.",
    ),
    "root_mean_squared_calibration_error": (
        "Root mean squared gap of the curve",
        "The same, but large gaps count more.",
    ),
    "miscalibration_area": (
        "Area between curve and diagonal",
        "Nearly the mean gap, computed without levels.",
    ),
    "debiased_calibration_error": (
        "Calibration error without chance",
        "The error minus what a perfect model shows: about 0 for a good model, so it "
        "can be negative.",
    ),
    "ence": (
        "Relative error of the predicted spread",
        "Rows are grouped by predicted spread, which is compared with the errors that "
        "came (ENCE). 0.1 is 10 %.",
    ),
    "uce": (
        "Error of the predicted variance",
        "The same for the variance, in squared units of the target (UCE).",
    ),
    "sharpness": (
        "Root mean predicted variance",
        "For an honest model this is its root mean squared error.",
    ),
    "mean_stddev": (
        "Mean predicted standard deviation",
        "Less is better only if the calibration is good.",
    ),
    "dispersion": (
        "Variation of the predicted spread",
        "Near 0 the model is equally sure of every row.",
    ),
}


def measure_sections(card: Scorecard, before: Scorecard | None = None) -> list[View]:
    """Arrange all measures by what they tell.

    Parameters
    ----------
    card
        The measures.
    before
        Those of the same rows before they were recalibrated.
    """
    lines: dict[str, list[View]] = {}
    for measure in card.measures:
        earlier = _earlier(before, measure.name)
        lines.setdefault(measure.kind, []).append(_line(measure, earlier))
    given = card.distribution_calibration
    if given is not None:
        lines.setdefault("calibration", []).append(_given_prediction(given))
    return [
        {"title": _SECTIONS.get(kind, name(kind)), "lines": each}
        for kind, each in lines.items()
    ]


def _line(measure: Measure, earlier: Measure | None) -> View:
    title, meaning = _in_words(measure.name)
    return {
        "title": title,
        "meaning": meaning,
        "value": _value(measure),
        "before": "" if earlier is None else _value(earlier),
        "perfect": _range(measure),
        "p": p_text(measure.p_value),
        "note": name(measure.note, longest=300) if math.isnan(measure.value) else "",
        "off": _is_off(measure),
    }


def _given_prediction(found: DistributionCalibration) -> View:
    return {
        "title": "Calibration error among like predictions",
        "meaning": "The mean calibration error within groups of rows that were "
        f"predicted alike, {found.groups} here. A model can be right over all rows and "
        "wrong in each group.",
        "value": amount(found.value),
        "before": "",
        "perfect": f"{amount(found.floor)} on average",
        "p": p_text(found.p_value),
        "note": "",
        "off": found.p_value < 0.05,
    }


def _in_words(measure: str) -> tuple[str, str]:
    kind, _, level = measure.rpartition("_")
    if kind == "coverage":
        return (
            f"Covered by the {level} % intervals",
            f"The share of targets inside; {level} % is right, more is not better.",
        )
    if kind == "width":
        return (
            f"Mean width of the {level} % intervals",
            "In the units of the target. Narrow is good only if the coverage is right.",
        )
    return _WORDS.get(measure, (name(measure), ""))


def _value(measure: Measure) -> str:
    share = measure.kind == "coverage"
    return percent(measure.value) if share else amount(measure.value)


def _range(measure: Measure) -> str:
    if measure.low is None or measure.high is None or math.isnan(measure.value):
        return ""
    if measure.kind == "coverage":
        return span(measure.low, measure.high)
    return f"{amount(measure.low)} to {amount(measure.high)}"


def _is_off(measure: Measure) -> bool:
    """Whether fewer than 5 % of perfect models show this."""
    return measure.p_value is not None and measure.p_value < 0.05


def _earlier(before: Scorecard | None, measure: str) -> Measure | None:
    if before is None or measure not in set(before):
        return None
    return before.measure(measure)
