"""Groups of rows: which columns stand out, and in what words."""

from typing import NamedTuple

from calibrant.metrics.conditional import GroupCalibration, WorstGroup
from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import SURE, fault_words, group_chance, place_words
from calibrant.report.own._texts import p_text

__all__ = ["Column", "error_ratio", "ranked_columns", "worst_words"]


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
    chance = group_chance(worst)
    p_value = p_text(chance)
    if chance < SURE:
        more = " But all rows together have a fault: fix that first."
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
