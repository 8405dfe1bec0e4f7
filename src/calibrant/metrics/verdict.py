"""Whether intervals can be trusted: one rule that judges a scorecard, and its words."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import binom, norm

from calibrant.metrics.floors import coverage_range, rows_for_coverage
from calibrant.metrics.groups import GroupCalibration, WorstGroup
from calibrant.text import counted, name, percent, span

if TYPE_CHECKING:
    from calibrant.metrics.scorecard import Scorecard

__all__ = ["Diagnosis", "diagnose"]

Status = Literal["trusted", "uneven", "narrow", "wide", "shifted", "misshapen", "few"]
#: Overall shares of perfectly calibrated models with signs of a fault, and with one.
CHANCE, SURE = 0.1, 0.02
#: With fewer rows the observed coverage may be off by ten points by chance alone.
FEWEST_ROWS = rows_for_coverage(0.9, 0.1)
#: Coverages of these levels (in percent) that are off by less change no decision.
MATERIAL = {50: 0.03, 90: 0.02}
#: The same for the mean PIT value, and for the gaps between nominal and observed
#: frequency (root mean square): a shift by 0.07 predicted standard deviations.
_MATERIAL_GAP = 0.02
#: Beside a fault of one interval, the other is off by less than this part of it: what
#: is wrong is more than a factor of all widths.
_OTHER = 1 / 3


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Parameters
    ----------
    status
        The verdict in a word.
    off
        Levels in percent (50, 90) whose coverage has a fault over all rows; a sure one
        if any fault is sure.
    lean
        Mean PIT value minus 1/2, in its standard deviations under perfect calibration:
        above 0 where targets lie higher than predicted.
    reach
        The same of ``|2 PIT - 1|``: above 0 where targets lie further out.
    seen
        Whether chance alone does not explain what is seen over all rows.
    gap
        Root mean squared gap between nominal and observed frequency, less its expected
        value under perfect calibration.
    group
        The worst group, if it has a fault.
    chance
        Upper bound of the p-value over all rows.
    """

    status: Status
    off: tuple[int, ...]
    lean: float
    reach: float
    seen: bool
    gap: float
    group: WorstGroup | None
    chance: float

    @property
    def everywhere(self) -> bool:
        """Whether all rows together have a fault."""
        return self.status in ("narrow", "wide", "shifted", "misshapen")

    @property
    def sure(self) -> bool:
        """Whether chance is an unlikely explanation (p < 0.02)."""
        return self.status == "uneven" or self.chance < SURE


def diagnose(card: "Scorecard") -> Diagnosis:
    r"""Decide on a status, by significance and by size.

    Four numbers are tested over all rows against perfect calibration:

    1. the coverage of the 90 % intervals (exact binomial; a fault is *seen* outside its
       95 % range under perfect calibration),
    2. the coverage of the 50 % intervals (exact binomial),
    3. the mean PIT value (normal, variance :math:`1 / 12 n`),
    4. the calibration error (simulated),

    the last three at :math:`0.05 / 3` each. By Bonferroni at most 10 % of perfectly
    calibrated models show *signs* of a fault; at a fifth of these levels the fault is
    *sure*, which happens to at most 2 % of them.

    A fault also has to matter: the 90 % coverage is off by more than 2 points, the 50 %
    coverage by more than 3, the mean PIT value or the gap between nominal and observed
    frequency (root mean square, less its expected value) by more than 0.02. That is a
    width that is off by 6 to 7 %, or a bias of 0.07 predicted standard deviations.
    Smaller faults leave the status as it is. A fault is

    - ``misshapen`` if the mean PIT value and the tails beyond the 90 % intervals lean
      to different sides,
    - ``shifted`` if the mean PIT value is off, and by more than the distance of the PIT
      values from 1/2, or no coverage is off,
    - ``narrow`` or ``wide`` if coverages are off to that side, the other one no less
      than by a third of it (of its upper 95 % limit),
    - ``misshapen`` otherwise.

    Without one the status is ``few`` below 30 rows, ``uneven`` if the worst group has
    a fault that matters by the same sizes and that at most 2 % of perfectly calibrated
    models show in any group (see :func:`group_chance`), and else ``trusted``.

    Examples
    --------
    >>> from calibrant.metrics.scorecard import evaluate
    >>> y = np.linspace(-2, 2, 200)
    >>> diagnose(evaluate((np.zeros(200), np.full(200, 0.2)), y)).status
    'narrow'
    """
    pit = np.asarray(card.rows["pit"], dtype=np.float64)
    unit = 1 / math.sqrt(12 * len(pit))
    lean = float(pit.mean() - 0.5) / unit
    reach = float(np.abs(2 * pit - 1).mean() - 0.5) / unit
    error = card.measure("calibration_error")
    gap = _gap(error.value, error.floor or 0.0, len(card.curve[0]))
    inner, outer = card["coverage_50"], card["coverage_90"]
    # Of each: its p-value in units of that of the first, and whether its size matters.
    tests: dict[str | int, tuple[float, bool]] = {
        90: (_tail(90, outer, card.n), _matters(90, outer)),
        50: (3 * _tail(50, inner, card.n), _matters(50, inner)),
        "lean": (6 * float(norm.sf(abs(lean))), abs(lean) * unit > _MATERIAL_GAP),
        "gap": (3 * (error.p_value or 0.0), gap > _MATERIAL_GAP),
    }
    seen = {name: 2 * chance for name, (chance, _) in tests.items()}
    seen = {name: chance for name, chance in seen.items() if chance < CHANCE}
    faults = {name: chance for name, chance in seen.items() if tests[name][1]}
    if any(chance < SURE for chance in faults.values()):  # what may be chance can wait
        faults = {name: chance for name, chance in faults.items() if chance < SURE}
    off = tuple(level for level in MATERIAL if level in faults)
    group = _group_fault(card)
    status: Status = "trusted"
    if faults:
        leans = "lean" in faults and (abs(lean) >= abs(reach) or not off)
        skewed = "lean" in faults and _is_skewed(card, lean)
        status = "misshapen" if skewed else "shifted" if leans else _of_width(card, off)
    elif card.n < FEWEST_ROWS:
        status = "few"
    elif group is not None:
        status = "uneven"
    chance = min((faults or seen or {"": 1.0}).values())
    return Diagnosis(status, off, lean, reach, bool(seen), gap, group, chance)


def _tail(level: int, coverage: float, n: int) -> float:
    """Two-sided p-value of a coverage: below 0.05 just outside of its range."""
    count, of = round(n * coverage), level / 100
    return 2 * float(min(binom.cdf(count, n, of), binom.sf(count - 1, n, of)))


def _matters(level: int, coverage: float) -> bool:
    # A share exactly at the limit is within it, whatever its rounding.
    return abs(coverage - level / 100) > MATERIAL[level] + 1e-9


def _gap(error: float, floor: float, levels: int) -> float:
    return math.sqrt(max(0.0, error - floor) / levels)


def _is_skewed(card: "Scorecard", lean: float) -> bool:
    """Whether the rows beyond the 90 % intervals lean to the other side than all do.

    Not if both sides have twice what they should: then the width is what matters.
    """
    below, above = _beyond(card)
    if min(below, above) > 0.1:
        return False
    error = math.sqrt(max(above + below, 0.1) / card.n)
    return (above - below) * math.copysign(1, lean) < -1.96 * error


def _beyond(card: "Scorecard") -> tuple[float, float]:
    pit = np.asarray(card.rows["pit"])
    return float((pit < 0.05).mean()), float((pit > 0.95).mean())


def _of_width(card: "Scorecard", off: tuple[int, ...]) -> Status:
    """Whether intervals are wrong by a factor; ``misshapen`` where they are not."""
    if not off:
        return "misshapen"
    level = max(off)
    other = 140 - level
    gap = card[f"coverage_{level}"] - level / 100
    low, high = coverage_range(other / 100, card.n)
    beside = (card[f"coverage_{other}"] - other / 100) * math.copysign(1, gap)
    if beside + (high - low) / 2 < _OTHER * abs(gap):
        return "misshapen"
    return "wide" if gap > 0 else "narrow"


def _group_fault(card: "Scorecard") -> WorstGroup | None:
    worst = card.worst
    if worst is None or group_chance(worst) >= SURE:
        return None
    group = worst.group
    gap = _gap(group.calibration_error, group.floor, len(card.curve[0]))
    return worst if _group_facts(group) or gap > _MATERIAL_GAP else None


def group_chance(worst: WorstGroup) -> float:
    """Upper bound of the p-value of so bad a group among all that were tested.

    Twice the smaller of two p-values that know of the search: of the calibration error,
    and of the 90 % coverage (exact binomial, Bonferroni), which is more sensitive to
    narrow intervals in a small group.
    """
    group = worst.group
    coverage = worst.tested * _tail(90, group.coverage_90, group.rows)
    return min(1.0, 2 * min(worst.p_value, coverage))


def _group_facts(group: GroupCalibration) -> list[str]:
    """What is off in a group, by what chance explains and by its size."""
    rows, facts = counted(group.rows), []
    coverages = {90: group.coverage_90, 50: group.coverage_50}
    for level, value in coverages.items():
        low, high = coverage_range(level / 100, group.rows)
        if not low <= value <= high and _matters(level, value):
            facts.append(
                f"the {level} % intervals covered {percent(value)} of {rows} there "
                f"(perfectly calibrated: {span(low, high)})"
            )
    low, high = coverage_range(0.5, group.rows)
    if not low <= group.below_median <= high and _matters(50, group.below_median):
        side = "below" if group.below_median > high else "above"
        share = max(group.below_median, 1 - group.below_median)
        facts.append(
            f"{percent(share)} of the targets of {rows} there lie {side} the "
            "predicted median, where half of them should"
        )
    return facts


def fault_words(group: GroupCalibration) -> str:
    """Say what is wrong in a group: a coverage, the place, or only the error."""
    ratio = group.calibration_error / group.floor
    error = (
        f"the calibration error of {counted(group.rows)} there is {ratio:.1f} times "
        "its expected value under perfect calibration"
    )
    return next(iter([*_group_facts(group), error]))


def place_words(worst: WorstGroup) -> str:
    """Say which rows the worst group is made of."""
    key, label = (name(text, longest=48) for text in (worst.key, worst.group.label))
    return f"“{key}” is {label}"


def coverage_sentence(
    card: "Scorecard", *, whose: str = "The", which: str = "row"
) -> str:
    """Say how many targets the 90 % intervals covered, and how many they should.

    ``whose`` begins the sentence, and one of the rows is called ``which``.
    """
    value, expected = card["coverage_90"], span(*coverage_range(0.9, card.n))
    if card.grid is not None:
        whose = f"Counting each target by the share of its step, {whose.lower()}"
    return (
        f"{whose} 90 % intervals covered {percent(value)} of {counted(card.n, which)}; "
        f"a perfectly calibrated model would cover {expected}."
    )


def verdict_words(card: "Scorecard") -> str:
    """Say in a sentence or two whether the intervals can be trusted."""
    found = diagnose(card)
    if found.everywhere:
        words = _fault_sentence(card, found)
    elif found.status == "uneven" and found.group is not None:  # it has one
        words = (
            f"Over all rows there is no {'material ' if found.seen else ''}fault, but "
            f"where {place_words(found.group)}, {fault_words(found.group.group)}."
        )
    elif found.status == "few":
        words = (
            "There is no sign of a fault, but so few rows cannot tell good intervals "
            "from bad ones."
        )
    elif found.seen:
        outer, inner = (
            f"{100 * abs(card[f'coverage_{level}'] - level / 100):.1f}"
            for level in (90, 50)
        )
        words = (
            "The intervals can be trusted: there is a significant fault, but it is "
            "too small to change a decision (the 90 % coverage is off by "
            f"{outer} points, the 50 % coverage by {inner})."
        )
    else:
        words = "No sign of a fault: the intervals can be trusted as they are."
    if card.grid is not None:
        words += (
            f" The target is {card.grid.describe()}, so each one counts by the share "
            "of its step that an interval covers."
        )
    return words


def _fault_sentence(card: "Scorecard", found: Diagnosis) -> str:
    what = _FAULTS[found.status](card, found)
    if not found.sure:
        return (
            f"Perhaps {what}. But up to {percent(found.chance)} of perfectly "
            "calibrated models look as bad as this by chance."
        )
    words = f"{what[0].upper()}{what[1:]}."
    if found.status == "narrow" and 90 in found.off:
        words += " Do not rely on them as they are."
    return words


def _of_widths(card: "Scorecard", found: Diagnosis) -> str:
    """Too narrow or too wide."""
    how = found.status
    if 90 in found.off:
        which = "50 % and 90 % intervals" if len(found.off) > 1 else "90 % intervals"
        return f"the {which} are too {how}: {_MEANING[how]}"
    words = f"the 50 % intervals are too {how}: they {_covered(card, 50)}"
    low, high = coverage_range(0.9, card.n)
    if low <= card["coverage_90"] <= high or not _matters(90, card["coverage_90"]):
        words += ". The 90 % intervals show no material fault"
    return words


def _covered(card: "Scorecard", level: int) -> str:
    expected = span(*coverage_range(level / 100, card.n))
    value = card[f"coverage_{level}"]
    return f"covered {percent(value)} (perfectly calibrated: {expected})"


def _shifted(card: "Scorecard", found: Diagnosis) -> str:
    below = float((np.asarray(card.rows["pit"]) <= 0.5).mean())
    low = found.lean > 0
    side, share = ("above", 1 - below) if low else ("below", below)
    return (
        f"the predictions are biased, too {'low' if low else 'high'}: "
        f"{percent(share)} of the targets lie {side} the predicted median, where half "
        "of them should"
    )


def _misshapen(card: "Scorecard", found: Diagnosis) -> str:
    start = "the predicted distributions have the wrong shape"
    if _of_width(card, found.off) == "misshapen" and found.off:
        both = ", the 90 % intervals ".join(_covered(card, at) for at in MATERIAL)
        return f"{start}: the 50 % intervals {both}"
    if _is_skewed(card, found.lean):
        below, above = _beyond(card)
        return (
            f"{start}: {percent(below)} of the targets lie below the 90 % intervals "
            f"and {percent(above)} above, where {percent(0.05)} should"
        )
    nominal, observed = (np.asarray(part) for part in card.curve)
    worst = int(np.abs(observed - nominal).argmax())
    return (
        f"{start}: {percent(float(observed[worst]))} of the targets lie below the "
        f"predicted {100 * nominal[worst]:g} % quantile"
    )


_MEANING = {
    "narrow": "targets fall outside more often than they should",
    "wide": "they are safe, but less informative than they could be",
}
_FAULTS = {
    "narrow": _of_widths,
    "wide": _of_widths,
    "shifted": _shifted,
    "misshapen": _misshapen,
}
