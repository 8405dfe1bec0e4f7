"""What is wrong with predictions, if anything: one word, decided from a scorecard."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.metrics.bands import rows_for_coverage
from calibrant.metrics.conditional import WorstGroup
from calibrant.metrics.scorecard import Measure, Scorecard

__all__ = ["CHANCE", "FEWEST_ROWS", "Diagnosis", "Status", "diagnose"]

Status = Literal["trusted", "uneven", "narrow", "wide", "shifted", "misshapen", "few"]
#: What a perfect model shows less often than this is called a fault.
CHANCE = 0.05
#: Below this it is called sure.
SURE = 0.01
#: With fewer rows the observed coverage may be off by ten points by chance alone.
FEWEST_ROWS = rows_for_coverage(0.9, 0.1)
#: Smaller gaps between promised and observed frequency matter to nobody.
_GAP = 0.01
_COVERAGE_GAP = 0.02
_LEAN_GAP = 0.02
#: Standard deviations beyond which 5 % of perfect models lie.
_UNUSUAL = 1.96


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Parameters
    ----------
    status
        The verdict in a word.
    lean
        Mean PIT value minus 1/2, in standard deviations of a perfect model: above 0
        where targets lie higher than predicted.
    reach
        Mean of ``|2 PIT - 1|`` minus 1/2, in the same units: above 0 where targets lie
        further out than predicted.
    seen
        Whether chance alone does not explain what is seen over all rows.
    gap
        Root mean squared gap between promised and observed frequency, without what
        chance does.
    group
        The worst group, if it has a fault that chance does not explain.
    chance
        Share of perfect models that show as much over all rows.
    """

    status: Status
    lean: float
    reach: float
    seen: bool
    gap: float
    group: WorstGroup | None
    chance: float

    @property
    def everywhere(self) -> bool:
        """Whether all rows together have a fault that matters."""
        return self.status in ("narrow", "wide", "shifted", "misshapen")

    @property
    def sure(self) -> bool:
        """Whether hardly any perfect model shows what was found."""
        if self.status == "uneven" and self.group is not None:
            return self.group.p_value < SURE
        return self.chance < SURE


def diagnose(card: Scorecard) -> Diagnosis:
    """Decide on a status, by these rules in this order.

    A fault is *seen* if fewer than 5 % of perfect models show such a calibration error,
    or if the 90 % coverage is outside the range of 95 % of perfect models. It *matters*
    if the gap between promised and observed frequency is above 0.01 (root mean square,
    less what chance does) or the 90 % coverage is off by more than 0.02. One that is
    seen and matters is

    - ``misshapen`` if the 50 % and the 90 % intervals err on different sides,
    - ``shifted`` if the PIT values lean to one side more than they reach out or in, and
      their mean is off by more than 0.02,
    - ``narrow`` if they reach out too far, and the 90 % coverage is not too high,
    - ``wide`` if they do not reach out enough, and the 90 % coverage is not too low,
    - ``misshapen`` otherwise: too narrow here and too wide there.

    Such a fault is *sure* if fewer than 1 % of perfect models show as much. Of 300
    simulated perfect models with 412 rows, 25 looked faulty and 5 surely so, since two
    tests are joined.

    Without one the status is ``few`` below 30 rows, ``uneven`` if the worst group has
    a fault that is seen (its p-value knows of the search) and matters, and else
    ``trusted``.

    Parameters
    ----------
    card
        Of ``evaluate``.

    Examples
    --------
    >>> from calibrant.metrics.evaluate import evaluate
    >>> y = np.linspace(-2, 2, 200)
    >>> diagnose(evaluate((np.zeros(200), np.full(200, 0.2)), y)).status
    'narrow'
    """
    pit = np.asarray(card.rows["pit"], dtype=np.float64)
    unit = 1 / math.sqrt(12 * len(pit))
    lean = float(pit.mean() - 0.5) / unit
    reach = float(np.abs(2 * pit - 1).mean() - 0.5) / unit
    error, held = card.measure("calibration_error"), card.measure("coverage_90")
    gap = _gap(error.value, error.floor or 0.0, len(card.curve[0]))
    seen = _side(held) != 0 or (error.p_value or 0.0) < CHANCE
    group = _group_fault(card)
    status: Status = "trusted"
    if seen and (gap > _GAP or abs(held.value - 0.9) > _COVERAGE_GAP):
        middle = _side(card.measure("coverage_50"))
        leans = abs(lean) * unit > _LEAN_GAP and abs(lean) >= abs(reach)
        status = _fault(lean if leans else 0.0, reach, _side(held), middle)
    elif card.n < FEWEST_ROWS:
        status = "few"
    elif group is not None:
        status = "uneven"
    chances = [each.p_value for each in (error, held) if each.p_value is not None]
    return Diagnosis(status, lean, reach, seen, gap, group, min(chances, default=1.0))


def _fault(lean: float, reach: float, side: int, middle: int) -> Status:
    if side * middle < 0:
        return "misshapen"
    if abs(lean) > _UNUSUAL:
        return "shifted"
    out = math.copysign(1, reach) if abs(reach) > _UNUSUAL else -side
    if out > 0 and side <= 0:
        return "narrow"
    if out < 0 and side >= 0:
        return "wide"
    return "misshapen"


def _side(held: Measure) -> int:
    """-1 where fewer targets are held than by perfect models, 1 where more are."""
    low = -math.inf if held.low is None else held.low
    high = math.inf if held.high is None else held.high
    return int(held.value > high) - int(held.value < low)


def _gap(error: float, floor: float, levels: int) -> float:
    return math.sqrt(max(0.0, error - floor) / levels)


def _group_fault(card: Scorecard) -> WorstGroup | None:
    worst = card.worst
    if worst is None or worst.p_value >= CHANCE:
        return None
    group = worst.group
    gap = _gap(group.calibration_error, group.floor, len(card.curve[0]))
    matters = gap > _GAP or abs(group.coverage_90 - 0.9) > _COVERAGE_GAP
    return worst if matters else None
