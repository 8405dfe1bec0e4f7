"""What a benchmark measures: cells, and one record for each that is finished."""

from dataclasses import dataclass

__all__ = ["LEVELS", "NO_REGULARIZER", "Cell", "Record"]

#: Levels of the paper's calibration error, j / 20 for j = 1 ... 20.
LEVELS = 20
#: The regularizer of a cell whose strength is 0.
NO_REGULARIZER = "none"


@dataclass(frozen=True, kw_only=True, order=True)
class Cell:
    """One model on one fold: all that tells it from the other cells.

    Attributes
    ----------
    data
        Name of a data set, or the path of a CSV.
    split
        ``"unshuffled"``, ``"shuffled"`` or ``"fixed"``.
    folds
        Number of folds; 1 for the fixed split.
    network
        ``"mc_dropout"`` or ``"deep_ensemble"`` as in the paper, or ``"default"``.
    regularizer
        A name from ``REGULARIZERS``, ``"conditional"``, or ``"none"`` (strength 0).
    strength
        Of the regularizer.
    epochs
        Passes over the training fold.
    recalibration
        ``"none"``, ``"isotonic"`` (on the training fold, as in the paper),
        or ``"out_of_fold"``.
    repeat, fold
        Which repeat and which fold, from 0.
    """

    data: str
    split: str = "unshuffled"
    folds: int = 5
    network: str
    regularizer: str = NO_REGULARIZER
    strength: float = 0.0
    epochs: int = 100
    recalibration: str = "none"
    repeat: int = 0
    fold: int = 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """A finished cell: what was measured on its test fold, and how it was run.

    Attributes
    ----------
    cell
        What was run.
    train_rows, test_rows
        Sizes of the fold.
    calibration_error
        100 x the sum over 20 levels of squared gaps, from plain PIT values: the
        paper's number.
    floor
        What that number is on average for a perfectly calibrated model.
    randomized_calibration_error
        The same with randomized PIT values, which a rounded target needs.
    spread_calibration_error, mean_calibration_error
        Mean of that error over the quartiles of predicted spread, and of predicted
        mean (randomized PIT values; each quartile has a fourth of the rows, so its
        floor is four times as high).
    rmse, nll, crps, sharpness
        In target units; NLL is infinite where a recalibrated law has no density.
        Sharpness is the mean predicted standard deviation.
    coverage
        Share of targets inside of the central 90 % interval.
    curve
        For each of the 20 levels the number of PIT values at or below it.
    seed, stack
        Of the training, and what was trained side by side with it: numbers are the
        same bit for bit with the same seed, stack, threads, versions and machine.
    threads, versions, host, seconds, finished
        How it was run. Seconds are the cell's share of its stack's wall time;
        finished is the time in UTC, ISO 8601.
    """

    cell: Cell
    train_rows: int
    test_rows: int
    calibration_error: float
    floor: float
    randomized_calibration_error: float
    spread_calibration_error: float
    mean_calibration_error: float
    rmse: float
    nll: float
    crps: float
    sharpness: float
    coverage: float
    curve: tuple[int, ...]
    seed: int
    stack: str
    threads: int
    versions: str
    host: str
    seconds: float
    finished: str
