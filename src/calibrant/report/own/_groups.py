"""Groups of rows: which columns stand out, and in what words."""

from typing import NamedTuple

from calibrant.metrics.bands import coverage_range
from calibrant.metrics.conditional import GroupCalibration, WorstGroup
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own._texts import counted, name, p_text, percent, span
from calibrant.report.own.diagnosis import CHANCE

__all__ = [
    "Column",
    "error_ratio",
    "fault_words",
    "place_words",
    "ranked_columns",
    "worst_words",
]


class Column(NamedTuple):
    """A column that makes two groups or more, and how far its worst one stands out."""

    name: str
    groups: tuple[GroupCalibration, ...]
    ratio: float


def ranked_columns(card: Scorecard) -> list[Column]:
    """Columns by their worst group, worst first; those of one group say nothing."""
    several = [
        Column(key, groups, max(map(error_ratio, groups)))
        for key, groups in card.groups.items()
        if len(groups) > 1
    ]
    return sorted(several, key=lambda column: -column.ratio)


def error_ratio(group: GroupCalibration) -> float:
    """Calibration error over what a perfect model shows on as many rows."""
    return group.calibration_error / group.floor


def place_words(worst: WorstGroup) -> str:
    """Say which rows the worst group is made of."""
    key, label = (name(each, longest=48) for each in (worst.key, worst.group.label))
    return f"“{key}” is {label}"


def fault_words(group: GroupCalibration) -> str:
    """Say what is wrong in a group: the coverage, the place, or only the error."""
    rows = counted(group.rows)
    low, high = group.range_90
    if not low <= group.coverage_90 <= high:
        return (
            f"the 90 % intervals hold {percent(group.coverage_90)} of {rows} there "
            f"(a perfect model: {span(low, high)})"
        )
    low, high = coverage_range(0.5, group.rows)
    if not low <= group.below_median <= high:
        side = "below" if group.below_median > high else "above"
        share = max(group.below_median, 1 - group.below_median)
        return (
            f"{percent(share)} of the targets of {rows} there lie {side} the predicted "
            "median, where half of them should"
        )
    return (
        f"the calibration error of {rows} there is {error_ratio(group):.1f} times what "
        "a perfect model shows"
    )


def worst_words(worst: WorstGroup, *, everywhere: bool) -> str:
    """Say which group stands out most, and whether chance alone does that.

    Parameters
    ----------
    worst
        The group.
    everywhere
        Whether all rows together have a fault, which then shows in groups too.
    """
    text = (
        f"Of {worst.tested:,} groups, the one where {place_words(worst)} stands out "
        f"most: {fault_words(worst.group)}."
    )
    p_value = p_text(worst.p_value)
    if worst.p_value < CHANCE:
        more = " But all rows together have a fault: mend that first."
        return (
            f"{text} Chance does not explain it (p {_relation(p_value)}, counting that "
            f"all groups were searched).{more if everywhere else ''}"
        )
    return (
        f"{text} Chance alone can do that (p {_relation(p_value)}), "
        "so no group is known to be badly calibrated."
    )


def _relation(p_value: str) -> str:
    return p_value if p_value.startswith("<") else f"= {p_value}"
