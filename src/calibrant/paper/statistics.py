"""Records gathered by arm, and the tests that compare two arms."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import stats

from calibrant.errors import InputError
from calibrant.paper.ledger import LEVELS, NO_REGULARIZER, Cell, Record

#: Two-sided level of both tests.
LEVEL = 0.05
Direction = Literal["lower", "higher", "unclear"]
#: Repeat and fold.
Place = tuple[int, int]


@dataclass(frozen=True)
class PairedTest:
    """Result on one set: mean difference, statistic, two-sided p, number of values."""

    difference: float
    t: float
    p: float
    values: int

    @property
    def direction(self) -> Direction:
        """Clearly lower, clearly higher, or unclear."""
        return _direction(self.t, self.p)


@dataclass(frozen=True)
class SetsTest:
    """Result over sets: signed rank sums of both sides, and the p-value."""

    lower_ranks: float
    higher_ranks: float
    p: float
    sets: int

    @property
    def direction(self) -> Direction:
        """What the test says: lower, higher, or nothing (unclear)."""
        return _direction(self.higher_ranks - self.lower_ranks, self.p)


def _direction(sign: float, p: float) -> Direction:
    if p >= LEVEL or sign == 0:
        return "unclear"
    return "lower" if sign < 0 else "higher"


def corrected_t_test(differences: Sequence[float], *, overlap: float) -> PairedTest:
    r"""Test whether differences over folds are 0 on average.

    .. math::
        t = \frac{\bar d}{\sqrt{(1/J + o)\, s^2}}, \qquad
        s^2 = \frac{1}{J - 1} \sum_j (d_j - \bar d)^2,

    with :math:`J - 1` degrees of freedom. The training rows of folds overlap, so their
    differences are correlated; :math:`o = n_\text{test} / n_\text{train}` accounts for
    it, and with :math:`o = 0` this is the plain t-test.

    Parameters
    ----------
    differences
        One for each fold, shape ``(J,)``. One alone gives p = 1.
    overlap
        :math:`o`, at least 0.

    References
    ----------
    Nadeau and Bengio (2003), *Inference for the Generalization Error*, Machine Learning
    52, 239-281.

    Examples
    --------
    >>> test = corrected_t_test([-3.0, -4.0, -5.0, -6.0, -7.0], overlap=0.25)
    >>> round(test.t, 3), round(test.p, 4), test.direction
    (-4.714, 0.0092, 'lower')
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.size == 0 or not np.isfinite(d).all() or not overlap >= 0:
        raise InputError(
            "a paired test needs at least one difference, all finite, and an overlap "
            f"of at least 0, got {differences} and {overlap}."
        )
    mean = float(d.mean())
    if d.size == 1:
        return PairedTest(mean, 0.0, 1.0, 1)
    deviation = float(d.std(ddof=1))
    # Rounding alone must not make equal differences look spread.
    if deviation <= 1e-12 * float(np.abs(d).max()):
        sure = mean != 0.0
        t = math.copysign(math.inf, mean) if sure else 0.0
        return PairedTest(mean, t, 0.0 if sure else 1.0, d.size)
    t = mean / (deviation * math.sqrt(1 / d.size + overlap))
    p = float(2 * stats.t.sf(abs(t), d.size - 1))
    return PairedTest(mean, t, p, d.size)


def signed_rank_test(values: Sequence[float]) -> SetsTest:
    """Test whether one value for each data set is 0 in the middle.

    Wilcoxon's signed-rank test: exact (over all signs of the ranks), two-sided, zeros
    dropped, mean ranks for ties. With five values or fewer no result reaches 5 %.

    Parameters
    ----------
    values
        One for each set, shape ``(sets,)``; may be infinite.

    References
    ----------
    Demšar (2006), *Statistical Comparisons of Classifiers over Multiple Data Sets*,
    JMLR 7, 1-30.

    Examples
    --------
    >>> test = signed_rank_test([-0.3, -0.1, -0.2, -0.5, -0.4, -0.6])
    >>> test.p, test.direction
    (0.03125, 'lower')
    """
    kept = np.asarray([value for value in values if value != 0], dtype=np.float64)
    if np.isnan(kept).any():
        raise InputError(f"the test over sets needs numbers, got {values}.")
    if kept.size == 0:
        return SetsTest(0.0, 0.0, 1.0, 0)
    ranks = stats.rankdata(np.abs(kept))
    lower, higher = float(ranks[kept < 0].sum()), float(ranks[kept > 0].sum())
    # Ranks are multiples of one half, so twice a rank sum is a whole number.
    doubled = [round(2 * rank) for rank in ranks]
    chance = np.zeros(sum(doubled) + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[: chance.size - rank]) / 2
        chance[:rank] /= 2
    p = min(1.0, 2 * float(chance[: round(2 * min(lower, higher)) + 1].sum()))
    return SetsTest(lower, higher, p, kept.size)


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

    @classmethod
    def of(cls, cell: Cell) -> "Arm":
        """Return the arm of a cell.

        Examples
        --------
        >>> Arm.of(Cell(data="yacht", network="mc_dropout", repeat=3)).epochs
        100
        """
        return cls(**{field.name: getattr(cell, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (ddof 0) over repeats; infinite where a value is."""

    mean: float
    std: float


@dataclass(frozen=True)
class Number:
    """A mean with its standard deviation and what that deviation is taken over."""

    mean: float
    deviation: float | None
    over: str


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

    def minus(self, other: "FoldTable") -> "FoldTable":
        """Return the difference where both have values; only for finite ones."""
        common = [place for place in self.values if place in other.values]
        values = {place: self.values[place] - other.values[place] for place in common}
        return replace(self, values=values)

    def scaled(self, factor: float = 1.0, plus: float = 0.0) -> "FoldTable":
        """Return the table with each value multiplied, then added to."""
        values = {place: factor * value for place, value in self.values.items()}
        return replace(self, values={place: plus + v for place, v in values.items()})

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
class ArmResults:
    """What is known of an arm.

    Numbers are of whole repeats only, of which all folds are finished, since folds are
    not alike. A metric is the name of a number of ``Record``.
    """

    arm: Arm
    records: tuple[Record, ...]

    @cached_property
    def repeats(self) -> list[list[Record]]:
        """Records of the whole repeats, sorted by fold."""
        found: dict[int, list[Record]] = {}
        for record in self.records:
            found.setdefault(record.cell.repeat, []).append(record)
        wanted = list(range(self.arm.folds))
        return [f for f in found.values() if [r.cell.fold for r in f] == wanted]

    @property
    def state(self) -> str:
        """What was run, in words."""
        cells, folds = len(self.records), self.arm.folds
        if not self.repeats:
            return f"partial: {cells} of {folds} folds"
        left = cells - len(self.repeats) * folds
        text = f"{len(self.repeats)} repeat{'s' if len(self.repeats) > 1 else ''}"
        return f"{text}, {left} more cells of unfinished ones" if left else text

    @property
    def seconds(self) -> float:
        """Median time of a cell."""
        return statistics.median(record.seconds for record in self.records)

    def spread(self, metric: str) -> Spread:
        """Mean over repeats of the mean over folds, and its standard deviation."""
        means = self._means(metric)
        mean = statistics.fmean(means)
        finite = math.isfinite(mean)
        return Spread(mean, statistics.pstdev(means) if finite else math.inf)

    def number(self, metric: str) -> Number:
        """Mean over repeats of the mean over folds, ± over repeats if there are two.

        With one repeat the deviation is that of its folds; with one cell, or with an
        infinite value among them, there is none.
        """
        means = self._means(metric)
        values, over = means, f"{len(means)} repeats"
        if len(means) == 1:
            values = [getattr(record, metric) for record in self.repeats[0]]
            over = f"{len(values)} folds, 1 repeat"
        finite = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.pstdev(values) if finite else None
        return Number(statistics.fmean(means), deviation, over)

    def _means(self, metric: str) -> list[float]:
        return [
            statistics.fmean(getattr(record, metric) for record in repeat)
            for repeat in self.repeats
        ]

    def table(self, metric: str) -> FoldTable | None:
        """Return the number of each repeat and fold; None if no repeat is whole."""
        records = [record for repeat in self.repeats for record in repeat]
        if not records:
            return None
        test = statistics.fmean(record.test_rows for record in records)
        train = statistics.fmean(record.train_rows for record in records)
        return FoldTable(
            data=self.arm.data,
            split=self.arm.split,
            folds=self.arm.folds,
            overlap=0.0 if self.arm.split == "fixed" else test / train,
            values={(r.cell.repeat, r.cell.fold): getattr(r, metric) for r in records},
        )

    def curve(self, fold: int | None = None) -> tuple[float, ...]:
        """Share of the test rows of a fold, or of all, with a PIT below each level."""
        counts, rows = [0] * LEVELS, 0
        for record in (record for repeat in self.repeats for record in repeat):
            if fold in (None, record.cell.fold):
                rows += record.test_rows
                counts = [sum(pair) for pair in zip(counts, record.curve, strict=True)]
        return tuple(count / rows for count in counts)


#: Arms, sorted, with what is known of them.
Results = Mapping[Arm, ArmResults]


def by_arm(records: Iterable[Record]) -> dict[Arm, ArmResults]:
    """Gather records by arm. Of two with the same cell the last counts."""
    found: dict[Arm, list[Record]] = {}
    unique = {record.cell: record for record in records}
    for cell in sorted(unique):
        found.setdefault(Arm.of(cell), []).append(unique[cell])
    return {arm: ArmResults(arm, tuple(found[arm])) for arm in sorted(found)}


@dataclass(frozen=True)
class SetComparison:
    """One set of a comparison of B with A: means over the repeats that both have."""

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


def compare(b: FoldTable | None, a: FoldTable | None) -> SetComparison | None:
    """Compare B with A on the repeats that both have; None if there is none."""
    if b is None or a is None:
        return None
    if (b.data, b.split, b.folds) != (a.data, a.split, a.folds):
        return None
    b, a = b.at(a.values), a.at(b.values)
    if not b.values:
        return None
    endless_b, endless_a = math.isinf(b.mean), math.isinf(a.mean)
    if not endless_b and not endless_a:
        test = b.minus(a).test()
    elif endless_b and endless_a:
        test = PairedTest(0.0, 0.0, 1.0, len(b.independent()))
    else:
        difference = math.inf if endless_b else -math.inf
        test = PairedTest(difference, difference, 0.0, len(b.independent()))
    return SetComparison(b.data, b.mean, a.mean, b.repeats, test)


def compare_arms(results: Results, b: Arm, a: Arm, metric: str) -> SetComparison | None:
    """Compare two arms of a set; None if they have no whole repeat in common."""
    tables = (results[x].table(metric) if x in results else None for x in (b, a))
    return compare(*tables)


def over_sets(comparisons: Sequence[SetComparison], *, ratio: bool) -> SetsTest:
    """Test over sets whether B is lower or higher than A."""

    def value(found: SetComparison) -> float:
        b, a = found.b, found.a
        if b == a:
            return 0.0
        if not ratio or math.isinf(b) or math.isinf(a):
            return b - a
        return (b - a) / (b + a)

    return signed_rank_test([value(found) for found in comparisons])
