"""Records gathered by arm: mean over folds, mean and deviation over repeats."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from calibrant.benchmark.records import LEVELS, NO_REGULARIZER, Cell, Record

__all__ = [
    "MEASURES",
    "PAPER_REGULARIZER",
    "PAPER_STRENGTH",
    "Arm",
    "ArmSummary",
    "Measure",
    "Spread",
    "arm_of",
    "by_arm",
    "curve_gap",
    "summarize",
    "whole_repeats",
]

#: The paper's quantile regularizer and its strength.
PAPER_REGULARIZER, PAPER_STRENGTH = "cumulative_kl", 20.0

Measure = Callable[[Record], float]
#: Finished cells of an arm by repeat, then fold.
Repeats = Mapping[int, Mapping[int, Record]]


@dataclass(frozen=True, kw_only=True, order=True)
class Arm:
    """All cells that differ only by repeat and fold; see ``Cell`` for each part."""

    data: str
    split: str = "unshuffled"
    folds: int = 5
    network: str
    regularizer: str = NO_REGULARIZER
    strength: float = 0.0
    epochs: int = 100
    recalibration: str = "none"


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (ddof 0) over repeats; infinite where a value is."""

    mean: float
    std: float


@dataclass(frozen=True)
class ArmSummary:
    """What is known of an arm.

    Attributes
    ----------
    arm
        Which.
    repeats
        Repeats of which all folds are finished: the ones that count.
    cells
        Finished cells, those of unfinished repeats included.
    values
        For each name of ``MEASURES`` its spread over the repeats; empty if none counts.
    test_rows
        Of a fold, on average.
    seconds
        Median time of a cell.
    """

    arm: Arm
    repeats: int
    cells: int
    values: Mapping[str, Spread]
    test_rows: float
    seconds: float

    @property
    def partial(self) -> bool:
        """Whether cells are left out because folds of their repeat are missing."""
        return self.cells > self.repeats * self.arm.folds

    @property
    def state(self) -> str:
        """What was run, in words."""
        if self.repeats == 0:
            return f"partial: {self.cells} of {self.arm.folds} folds"
        left = self.cells - self.repeats * self.arm.folds
        text = f"{self.repeats} repeat{'s' if self.repeats > 1 else ''}"
        return f"{text}, {left} more cells of unfinished ones" if left else text


def curve_gap(record: Record) -> float:
    r"""Mean distance of the calibration curve from the diagonal.

    :math:`\frac{1}{20} \sum_j |\hat F_u(p_j) - p_j|` with :math:`p_j = j / 20`.
    """
    gaps = (
        abs(below / record.test_rows - (index + 1) / LEVELS)
        for index, below in enumerate(record.curve)
    )
    return math.fsum(gaps) / LEVELS


#: What is summarized, by the name of the record's field (the last is derived).
MEASURES: dict[str, Measure] = {
    "calibration_error": lambda record: record.calibration_error,
    "floor": lambda record: record.floor,
    "randomized_calibration_error": lambda r: r.randomized_calibration_error,
    "spread_calibration_error": lambda record: record.spread_calibration_error,
    "mean_calibration_error": lambda record: record.mean_calibration_error,
    "rmse": lambda record: record.rmse,
    "nll": lambda record: record.nll,
    "crps": lambda record: record.crps,
    "sharpness": lambda record: record.sharpness,
    "coverage": lambda record: record.coverage,
    "curve_gap": curve_gap,
}


def arm_of(cell: Cell) -> Arm:
    """Return the arm of a cell.

    Examples
    --------
    >>> arm_of(Cell(data="yacht", network="mc_dropout", repeat=3)).epochs
    100
    """
    return Arm(
        data=cell.data,
        split=cell.split,
        folds=cell.folds,
        network=cell.network,
        regularizer=cell.regularizer,
        strength=cell.strength,
        epochs=cell.epochs,
        recalibration=cell.recalibration,
    )


def by_arm(records: Iterable[Record]) -> dict[Arm, Repeats]:
    """Gather records: arm to repeat to fold. Of two with the same cell the last counts.

    Parameters
    ----------
    records
        In any order; any may be missing.

    Examples
    --------
    >>> by_arm([])
    {}
    """
    found: dict[Arm, dict[int, dict[int, Record]]] = {}
    for record in records:
        repeats = found.setdefault(arm_of(record.cell), {})
        repeats.setdefault(record.cell.repeat, {})[record.cell.fold] = record
    return {arm: found[arm] for arm in sorted(found)}


def whole_repeats(arm: Arm, repeats: Repeats) -> dict[int, list[Record]]:
    """Return the repeats that count, those of which every fold is finished.

    Parameters
    ----------
    arm
        Which; it says how many folds there are.
    repeats
        Its records.
    """
    return {
        repeat: [folds[fold] for fold in sorted(folds)]
        for repeat, folds in sorted(repeats.items())
        if set(folds) == set(range(arm.folds))
    }


def summarize(records: Iterable[Record]) -> tuple[ArmSummary, ...]:
    """Summarize each arm: a repeat's number is the mean over its folds.

    Parameters
    ----------
    records
        In any order; any may be missing. A repeat counts only if all of its folds are
        there, since folds are not alike.

    Examples
    --------
    >>> summarize([])
    ()
    """
    return tuple(_summary(arm, repeats) for arm, repeats in by_arm(records).items())


def _summary(arm: Arm, repeats: Repeats) -> ArmSummary:
    whole = whole_repeats(arm, repeats)
    every = [record for folds in repeats.values() for record in folds.values()]
    values = {
        name: _spread([_mean(measure, records) for records in whole.values()])
        for name, measure in MEASURES.items()
        if whole
    }
    return ArmSummary(
        arm=arm,
        repeats=len(whole),
        cells=len(every),
        values=values,
        test_rows=statistics.fmean(record.test_rows for record in every),
        seconds=statistics.median(record.seconds for record in every),
    )


def _mean(measure: Measure, records: list[Record]) -> float:
    return statistics.fmean(measure(record) for record in records)


def _spread(means: list[float]) -> Spread:
    mean = statistics.fmean(means)
    if not math.isfinite(mean):
        return Spread(mean, math.inf)
    return Spread(mean, statistics.pstdev(means))
