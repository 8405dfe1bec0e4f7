"""What to do about what was found."""

import math
from dataclasses import dataclass

from calibrant.metrics.floors import coverage_range, rows_for_coverage
from calibrant.metrics.groups import WorstGroup
from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import (
    MATERIAL,
    Diagnosis,
    diagnose,
    fault_words,
    place_words,
)
from calibrant.text import counted, number, percent, span

__all__ = ["Advice", "advice"]

_SPREAD = "predicted spread"
_RECALIBRATE = "calibrant recalibrate model/ recent.csv --out model2/"
_EVALUATE = "calibrant evaluate model/ labeled.csv"
_COMPARE = "calibrant compare predictions.csv --target y --mean mu --std sigma"
_FIX = f"{_COMPARE} --fix fixed.csv"


@dataclass(frozen=True)
class Advice:
    """One thing to do.

    Parameters
    ----------
    title
        The thing in a few words.
    text
        Why, and what to mind.
    command
        A line that does it, with names to be replaced; empty where there is none.
    """

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
    >>> import numpy as np
    >>> from calibrant.metrics.scorecard import evaluate
    >>> card = evaluate((np.zeros(5), np.ones(5)), np.linspace(-1, 1, 5))
    >>> [part.title for part in advice(card, kind="fit")]
    ['Evaluate on more rows']
    """
    found = diagnose(card)
    parts = []
    if before is not None:
        parts.append(_changed(card, before))
    if found.everywhere and not found.sure:
        parts.append(_first_more_rows(card, found, kind))
    parts += _BY_STATUS[found.status](card, found, kind)
    if found.group is not None and not found.everywhere:
        parts.append(_group(found.group))
    if card.grid is not None:
        parts.append(_grid(card.grid))
    if found.status in ("trusted", "uneven"):
        parts.append(_watch(card, kind))
    return tuple(parts)


def _changed(card: Scorecard, before: Scorecard) -> Advice:
    """Whether the recalibration helped."""
    old, new = _times_floor(before), _times_floor(card)
    numbers = (
        f"The calibration error went from {old:.1f} to {new:.1f} times its expected "
        "value under perfect calibration, the coverage of the 90 % intervals from "
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


def _few(card: Scorecard, _: Diagnosis, kind: str) -> list[Advice]:
    low, high = coverage_range(0.9, card.n)
    text = (
        f"On {counted(card.n)} the 90 % intervals of a perfectly calibrated model "
        f"cover anything from {span(low, high)}. {rows_for_coverage(0.9, 0.05):,} rows "
        f"determine that within 5 points, {rows_for_coverage(0.9, 0.03):,} within 3, "
        f"and {rows_for_coverage(0.9, 0.02):,} within 2."
    )
    return [Advice("Evaluate on more rows", text, _again(kind))]


def _first_more_rows(card: Scorecard, found: Diagnosis, kind: str) -> Advice:
    text = (
        f"Up to {percent(found.chance)} of perfectly calibrated models look as bad as "
        f"this by chance on {counted(card.n)}. If other rows show the same, act on it."
    )
    return Advice("Evaluate on more rows first", text, _again(kind))


def _narrow(_: Scorecard, __: Diagnosis, kind: str) -> list[Advice]:
    parts = [
        _recalibrate(
            kind,
            "to widen the intervals",
            "It widens the intervals to their nominal level.",
        )
    ]
    if kind == "fit":
        parts.append(
            Advice(
                "Or train for calibration",
                "Intervals that are too narrow on new rows often mean that the network "
                "overfits. Let the strength of the regularizer be chosen, train for "
                "fewer epochs, or use more rows.",
                "calibrant fit data.csv --target y --strength auto",
            )
        )
    return parts


def _wide(_: Scorecard, __: Diagnosis, kind: str) -> list[Advice]:
    what = (
        "The intervals are wider than they need to be: narrower ones would reach their "
        "nominal coverage and be more informative."
    )
    return [_recalibrate(kind, "to tighten the intervals", what)]


def _misshapen(_: Scorecard, __: Diagnosis, kind: str) -> list[Advice]:
    what = (
        "It can give the predicted distribution any shape. Targets with a long tail, "
        "such as prices, are often better predicted as logarithms."
    )
    return [_recalibrate(kind, "to change the shape", what)]


def _shifted(card: Scorecard, found: Diagnosis, kind: str) -> list[Advice]:
    side = "low" if found.lean > 0 else "high"
    bias = card["bias"]
    size = "" if math.isnan(bias) else f", by {number(abs(bias))} on average"
    text = (
        f"The predictions are too {side}{size}. Most often the rows differ from the "
        "training rows: they are newer, from another place, or measured differently. "
        "Find out what changed, and retrain with rows like these."
    )
    return [
        Advice("Find out what changed", text),
        _recalibrate(
            kind,
            "until then",
            "It corrects the bias, the same for all rows.",
        ),
    ]


def _nothing(_: Scorecard, found: Diagnosis, __: str) -> list[Advice]:
    if found.status == "uneven":
        return []
    text = (
        "These rows show no sign of a fault."
        if not found.seen
        else "The fault is significant, but too small to change a decision: nominal "
        f"and observed frequencies differ by {100 * found.gap:.1f} points."
    )
    return [Advice("Use the intervals as they are", text)]


_BY_STATUS = {
    "few": _few,
    "narrow": _narrow,
    "wide": _wide,
    "misshapen": _misshapen,
    "shifted": _shifted,
    "trusted": _nothing,
    "uneven": _nothing,
}


def _recalibrate(kind: str, purpose: str, what: str) -> Advice:
    rows = rows_for_coverage(0.9, 0.05)
    if kind == "recalibrate":
        return Advice(
            f"Recalibrate on other rows {purpose}",
            f"{what} The rows that recalibration was fitted on are too few, or unlike "
            f"these. Take more of the newest ones, at least {rows:,}.",
            _RECALIBRATE,
        )
    if kind == "compare":
        return Advice(
            f"Recalibrate {purpose}",
            f"{what} It is fitted on rows with a known target, at least {rows:,}; "
            "evaluate it on others.",
            _FIX,
        )
    return Advice(
        f"Recalibrate {purpose}",
        f"{what} It takes seconds and no training, and at least {rows:,} labeled, "
        "unseen rows. Evaluate the result on other rows.",
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
    capped = grid.lower_cap is not None or grid.upper_cap is not None
    more = (
        " What lies beyond such an end is not known, so predictions beyond it cannot "
        "be judged."
        if capped
        else ""
    )
    return Advice(
        "Note that the target is not continuous",
        f"It is {grid.describe()}. The calibration takes that into account: each "
        f"target stands for the interval that was rounded to it.{more} Record finer "
        "values if you can.",
    )


def _watch(card: Scorecard, kind: str) -> Advice:
    low, high = coverage_range(0.9, card.n)
    spare = max(0.9 - low, high - 0.9)
    sure = (
        f"These {counted(card.n)} determine the 90 % coverage within "
        f"{100 * spare:.1f} points. Data drifts: "
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


def _again(kind: str) -> str:
    return _COMPARE if kind == "compare" else _EVALUATE


def _times_floor(card: Scorecard) -> float:
    error = card.measure("calibration_error")
    return error.value / (error.floor or 1.0)
