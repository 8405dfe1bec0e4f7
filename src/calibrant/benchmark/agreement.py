"""Our numbers beside the paper's: which agree, which do not, and why."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from calibrant.benchmark._causes import UNEXPLAINED, likely_cause
from calibrant.benchmark.published import (
    PAPER_DATA,
    PublishedArm,
    PublishedNumber,
    published,
)
from calibrant.benchmark.summary import ArmSummary, Spread
from calibrant.benchmark.view import Model, paper_arm

__all__ = [
    "UNEXPLAINED",
    "Agreement",
    "SideBySide",
    "agreement",
    "side_by_side",
    "tolerance",
]

# Half of the last printed digit.
_ROUNDING = 0.005


@dataclass(frozen=True)
class SideBySide:
    """A published number and ours.

    Attributes
    ----------
    paper
        The paper's, with what it is.
    epochs, repeats
        Of our run.
    ours
        Mean and deviation over our repeats.
    """

    paper: PublishedNumber
    epochs: int
    repeats: int
    ours: Spread

    @property
    def agrees(self) -> bool:
        """Whether the two are within the tolerance."""
        distance = abs(self.ours.mean - self.paper.mean)
        return distance <= tolerance(self.paper, self.ours, repeats=self.repeats)

    @property
    def cause(self) -> str:
        """Likely cause of a disagreement; empty if there is none."""
        if self.agrees:
            return ""
        difference = self.ours.mean - self.paper.mean
        return likely_cause(self.paper, epochs=self.epochs, difference=difference)


@dataclass(frozen=True)
class Agreement:
    """Sets on which RMSE and NLL of a model agree with the paper's.

    Attributes
    ----------
    model
        Network and epochs.
    sets
        Sets that were run.
    base, qr
        Sets where RMSE and NLL of this training both agree.
    """

    model: Model
    sets: tuple[str, ...]
    base: tuple[str, ...]
    qr: tuple[str, ...]

    @property
    def both(self) -> tuple[str, ...]:
        """Sets where all four numbers agree."""
        return tuple(data for data in self.base if data in self.qr)

    def __str__(self) -> str:
        """Return the counts in words."""
        return (
            f"RMSE and NLL agree on {len(self.base)} (base), {len(self.qr)} (QR) and "
            f"{len(self.both)} (both) of {len(self.sets)} sets"
        )


def tolerance(paper: PublishedNumber, ours: Spread, *, repeats: int) -> float:
    r"""How far our number may be from the paper's to agree with it.

    RMSE: 5 %, or 0.01 where that is more (small numbers are printed with two digits).
    NLL: 0.1. Calibration error: twice :math:`\sqrt{s_1^2 + s_2^2}`, the deviations over
    repeats, and the rounding; with one repeat our deviation is taken to be the paper's.

    Parameters
    ----------
    paper
        The paper's number.
    ours
        Our mean and deviation.
    repeats
        Behind our deviation.

    Examples
    --------
    >>> tolerance(published()[2], Spread(3.3, 0.05), repeats=5)
    0.163
    """
    if paper.metric == "rmse":
        return max(0.05 * abs(paper.mean), 0.01)
    if paper.metric == "nll":
        return 0.1
    own = ours.std if repeats > 1 else paper.std
    return 2 * math.hypot(own, paper.std) + _ROUNDING


def side_by_side(
    summaries: Iterable[ArmSummary], model: Model
) -> tuple[SideBySide, ...]:
    """Put each distinct number of the paper for a network beside ours, where run.

    Parameters
    ----------
    summaries
        Of our arms.
    model
        Network and epochs.
    """
    known = {summary.arm: summary for summary in summaries}
    found: dict[tuple[str, PublishedArm, str], SideBySide] = {}
    for number in published():
        if number.network != model.network:
            continue
        column = PublishedArm(number.network, number.training, number.recalibration)
        summary = known.get(paper_arm(number.data, column, epochs=model.epochs))
        if summary is not None and summary.repeats:
            ours = summary.values[number.metric]
            pair = SideBySide(number, model.epochs, summary.repeats, ours)
            found.setdefault((number.data, column, number.metric), pair)
    return tuple(found.values())


def agreement(pairs: Sequence[SideBySide], model: Model) -> Agreement:
    """Count the sets on which RMSE and NLL agree with the paper's.

    Parameters
    ----------
    pairs
        From ``side_by_side``.
    model
        The same model.
    """
    found: dict[tuple[str, str], list[bool]] = {}
    for pair in pairs:
        if pair.paper.metric in ("rmse", "nll"):
            key = (pair.paper.data, pair.paper.training)
            found.setdefault(key, []).append(pair.agrees)
    sets = tuple(d for d in PAPER_DATA if any(data == d for data, _ in found))

    def agreeing(training: str) -> tuple[str, ...]:
        return tuple(data for data in sets if all(found.get((data, training), [False])))

    return Agreement(model, sets, agreeing("base"), agreeing("qr"))
