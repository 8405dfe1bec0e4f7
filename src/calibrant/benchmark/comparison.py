"""Two arms of one set, compared fold by fold and repeat by repeat."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calibrant.benchmark._paired import (
    Direction,
    PairedTest,
    SetsTest,
    corrected_t_test,
    signed_rank_test,
)
from calibrant.benchmark.summary import Arm, Measure, Repeats, whole_repeats

__all__ = ["FoldTable", "SetComparison", "compare", "fold_table", "over_sets"]

#: Repeat and fold.
Place = tuple[int, int]


@dataclass(frozen=True)
class FoldTable:
    """One number for each repeat and fold of a set.

    Attributes
    ----------
    data, split, folds
        Set, how it was split, and into how many folds.
    overlap
        Test rows over training rows, 0 for the fixed split: see ``docs/verdicts.md``.
    values
        By repeat and fold; whole repeats only.
    """

    data: str
    split: str
    folds: int
    overlap: float
    values: Mapping[Place, float]

    @property
    def shape(self) -> tuple[str, str, int]:
        """What two tables must share to have the same test folds."""
        return self.data, self.split, self.folds

    def minus(self, other: "FoldTable") -> "FoldTable":
        """Return the difference where both have values; only for finite ones."""
        common = [place for place in self.values if place in other.values]
        values = {place: self.values[place] - other.values[place] for place in common}
        return replace(self, values=values)

    def times(self, factor: float) -> "FoldTable":
        """Return the table with each value multiplied."""
        return replace(
            self, values={place: factor * v for place, v in self.values.items()}
        )

    def plus(self, number: float) -> "FoldTable":
        """Return the table with a number added to each value."""
        return replace(
            self, values={place: number + v for place, v in self.values.items()}
        )

    def at(self, places: Mapping[Place, object]) -> "FoldTable":
        """Return the part of the table that stands at some places."""
        kept = {place: v for place, v in self.values.items() if place in places}
        return replace(self, values=kept)

    @property
    def mean(self) -> float:
        """Mean over all repeats and folds."""
        return statistics.fmean(self.values.values())

    @property
    def repeats(self) -> int:
        """Number of repeats."""
        return len({repeat for repeat, _ in self.values})

    def independent(self) -> list[float]:
        """Return one value for each test fold.

        Unshuffled repeats have the same folds, so they are averaged; shuffled ones have
        their own. Of the fixed split each repeat is a value.
        """
        if self.split != "unshuffled":
            return list(self.values.values())
        folds: dict[int, list[float]] = defaultdict(list)
        for (_, fold), value in sorted(self.values.items()):
            folds[fold].append(value)
        return [statistics.fmean(values) for values in folds.values()]

    def test(self) -> PairedTest:
        """Test whether the values are 0 on average."""
        return corrected_t_test(self.independent(), overlap=self.overlap)


@dataclass(frozen=True)
class SetComparison:
    """One set of a comparison of B with A.

    Attributes
    ----------
    data
        Set.
    b, a
        Means over the repeats that both have.
    repeats
        How many these are.
    test
        Of the differences B - A.
    note
        What else there is to say.
    """

    data: str
    b: float
    a: float
    repeats: int
    test: PairedTest
    note: str = ""

    @property
    def direction(self) -> Direction:
        """Whether B is clearly lower or clearly higher than A, or neither."""
        return self.test.direction

    @property
    def sign(self) -> int:
        """-1, 0 or 1: whether B's mean is lower than, equal to or above A's."""
        return int(self.b > self.a) - int(self.b < self.a)


def fold_table(arm: Arm, repeats: Repeats, measure: Measure) -> FoldTable | None:
    """Put a number of each whole repeat's folds into a table; None if there is none.

    Parameters
    ----------
    arm
        Which.
    repeats
        Its records.
    measure
        The number.
    """
    whole = whole_repeats(arm, repeats)
    records = [record for each in whole.values() for record in each]
    if not records:
        return None
    test = statistics.fmean(record.test_rows for record in records)
    train = statistics.fmean(record.train_rows for record in records)
    return FoldTable(
        data=arm.data,
        split=arm.split,
        folds=arm.folds,
        overlap=0.0 if arm.split == "fixed" else test / train,
        values={(r.cell.repeat, r.cell.fold): measure(r) for r in records},
    )


def compare(b: FoldTable | None, a: FoldTable | None) -> SetComparison | None:
    """Compare B with A on the repeats that both have; None if there is none.

    Parameters
    ----------
    b, a
        Tables of the same set, split and number of folds: others have other test folds
        and nothing in common. Where one of them alone has infinite values, the other
        is clearly lower.
    """
    if b is None or a is None or b.shape != a.shape:
        return None
    b, a = b.at(a.values), a.at(b.values)
    if not b.values:
        return None
    endless_b, endless_a = math.isinf(b.mean), math.isinf(a.mean)
    if endless_b or endless_a:
        test = _endless(endless_b, endless_a, len(b.independent()))
    else:
        test = b.minus(a).test()
    return SetComparison(b.data, b.mean, a.mean, b.repeats, test)


def _endless(b: bool, a: bool, values: int) -> PairedTest:
    if b and a:
        return PairedTest(0.0, 0.0, 1.0, values)
    difference = math.inf if b else -math.inf
    return PairedTest(difference, difference, 0.0, values)


def over_sets(comparisons: Sequence[SetComparison], *, ratio: bool) -> SetsTest:
    """Test over sets whether B is lower or higher than A.

    Parameters
    ----------
    comparisons
        One for each set.
    ratio
        Whether sets are ordered by the ratio of B to A, for numbers above 0; otherwise
        by the difference.
    """
    return signed_rank_test([_one_value(each, ratio) for each in comparisons])


def _one_value(comparison: SetComparison, ratio: bool) -> float:
    b, a = comparison.b, comparison.a
    if b == a:
        return 0.0
    if not ratio or math.isinf(b) or math.isinf(a):
        return b - a
    return (b - a) / (b + a)
