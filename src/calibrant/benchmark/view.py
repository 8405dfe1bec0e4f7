"""Records seen as the paper's models: which arm is which column of its tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from calibrant.benchmark.comparison import (
    FoldTable,
    SetComparison,
    compare,
    fold_table,
)
from calibrant.benchmark.published import (
    ENSEMBLE,
    MC_DROPOUT,
    PAPER_DATA,
    PublishedArm,
)
from calibrant.benchmark.records import NO_REGULARIZER, Record
from calibrant.benchmark.summary import (
    MEASURES,
    PAPER_REGULARIZER,
    PAPER_STRENGTH,
    Arm,
    Repeats,
    by_arm,
)

__all__ = ["MODELS", "TEXT_EPOCHS", "Model", "View", "paper_arm", "paper_models"]

#: Epochs that the paper's text names.
TEXT_EPOCHS = 100
_FIXED = "year_msd"


@dataclass(frozen=True)
class Model:
    """A network trained for some epochs."""

    network: str
    epochs: int = TEXT_EPOCHS

    def column(
        self, training: str = "base", recalibration: str = "none"
    ) -> PublishedArm:
        """Return the column of the paper's tables with this training."""
        return PublishedArm(self.network, training, recalibration)


#: What the paper's claims are judged on; the last only if it was run.
MODELS = (Model(MC_DROPOUT), Model(ENSEMBLE), Model(ENSEMBLE, 64))


def paper_arm(
    data: str,
    column: PublishedArm,
    *,
    epochs: int = TEXT_EPOCHS,
    shuffled: bool = False,
) -> Arm:
    """Return the arm behind a column of the paper's tables.

    Parameters
    ----------
    data
        Set; Year Prediction MSD has its own split.
    column
        Network, training and recalibration.
    epochs
        Of the training.
    shuffled
        Whether on shuffled folds instead of the paper's.
    """
    base = column.training == "base"
    fixed = data == _FIXED and not shuffled
    return Arm(
        data=data,
        split="fixed" if fixed else "shuffled" if shuffled else "unshuffled",
        folds=1 if fixed else 5,
        network=column.network,
        regularizer=NO_REGULARIZER if base else PAPER_REGULARIZER,
        strength=0.0 if base else PAPER_STRENGTH,
        epochs=epochs,
        recalibration=column.recalibration,
    )


class View:
    """Records by arm, and tables of their numbers.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.arms: Mapping[Arm, Repeats] = by_arm(records)

    def table(self, arm: Arm, metric: str) -> FoldTable | None:
        """Return a number of each whole repeat and fold; None if there is none."""
        repeats = self.arms.get(arm)
        if repeats is None:
            return None
        return fold_table(arm, repeats, MEASURES[metric])

    def compare(self, b: Arm, a: Arm, metric: str) -> SetComparison | None:
        """Compare two arms of a set; None if they have no whole repeat in common."""
        return compare(self.table(b, metric), self.table(a, metric))

    def columns(
        self,
        b: PublishedArm,
        a: PublishedArm,
        metric: str,
        *,
        epochs: tuple[int, int],
        data: Iterable[str] = PAPER_DATA,
    ) -> tuple[SetComparison, ...]:
        """Compare two columns of the paper's tables, at their epochs, on each set."""
        each = (
            self.compare(
                paper_arm(name, b, epochs=epochs[0]),
                paper_arm(name, a, epochs=epochs[1]),
                metric,
            )
            for name in data
        )
        return tuple(found for found in each if found is not None)


def paper_models(view: View) -> tuple[Model, ...]:
    """List the models whose claims are judged: other epochs only if they were run."""
    ran = {(arm.network, arm.epochs) for arm in view.arms if arm.split != "shuffled"}
    return tuple(
        model
        for model in MODELS
        if model.epochs == TEXT_EPOCHS or (model.network, model.epochs) in ran
    )
