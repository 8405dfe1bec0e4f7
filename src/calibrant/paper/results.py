"""Records gathered by arm and by setting, and the tests that compare two arms."""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import stats

from calibrant.errors import InputError
from calibrant.paper.ledger import LEVELS, NO_REGULARIZER, Arm, Cell, Record

#: The paper's quantile regularizer, its strength, and the epochs that its text names.
PAPER_REGULARIZER, PAPER_STRENGTH, TEXT_EPOCHS = "cumulative_kl", 20.0, 100
#: Two-sided level of both tests.
LEVEL = 0.05
Direction = Literal["lower", "higher", "unclear"]
#: Repeat and fold.
Place = tuple[int, int]
_NETWORKS = {
    "mc_dropout": "MC dropout",
    "deep_ensemble": "Deep ensemble",
    "default": "Our default",
}
_SPLITS = {
    "unshuffled": "file order",
    "shuffled": "shuffled",
    "fixed": "fixed split",
}
_RECALIBRATIONS = {"isotonic": "isotonic on train", "out_of_fold": "out-of-fold"}


@dataclass(frozen=True)
class PairedTest:
    """Result on one set: mean difference, statistic, two-sided p-value."""

    difference: float
    t: float
    p: float

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
        """Clearly lower, clearly higher, or unclear."""
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
    if d.size == 0 or not np.isfinite(d).all():
        raise InputError(
            "a paired test needs at least one difference, all finite, got "
            f"{differences}."
        )
    mean = float(d.mean())
    if d.size == 1:
        return PairedTest(mean, 0.0, 1.0)
    deviation = float(d.std(ddof=1))
    # Rounding alone must not make equal differences look spread.
    if deviation <= 1e-12 * float(np.abs(d).max()):
        sure = mean != 0.0
        t = math.copysign(math.inf, mean) if sure else 0.0
        return PairedTest(mean, t, 0.0 if sure else 1.0)
    t = mean / (deviation * math.sqrt(1 / d.size + overlap))
    return PairedTest(mean, t, float(2 * stats.t.sf(abs(t), d.size - 1)))


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


@dataclass(frozen=True)
class Number:
    """A mean over repeats and folds, with a population standard deviation.

    The deviation is taken over what ``over`` says: over repeats, or over folds if there
    is one repeat; None of one cell, or where a value is infinite.
    """

    mean: float
    std: float | None
    over: str


@dataclass(frozen=True)
class FoldTable:
    """One number for each repeat and fold of an arm; whole repeats only.

    The overlap is that of the paired test: test rows over training rows, 0 for the
    fixed split (``docs/verdicts.md``).
    """

    arm: Arm
    overlap: float
    values: Mapping[Place, float]

    def minus(self, other: "FoldTable") -> "FoldTable":
        """Return the difference where both have values; only for finite ones."""
        common = [place for place in self.values if place in other.values]
        values = {place: self.values[place] - other.values[place] for place in common}
        return replace(self, values=values)

    def scaled(self, factor: float = 1.0, plus: float = 0.0) -> "FoldTable":
        """Return the table with each value multiplied, then added to."""
        values = {place: plus + factor * v for place, v in self.values.items()}
        return replace(self, values=values)

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
        if self.arm.split != "unshuffled":
            return list(self.values.values())
        folds: dict[int, list[float]] = defaultdict(list)
        for (_, fold), value in sorted(self.values.items()):
            folds[fold].append(value)
        return [statistics.fmean(values) for values in folds.values()]

    def against(self, other: "FoldTable") -> PairedTest:
        """Test whether this table is lower or higher than one of the same places."""
        if math.isinf(self.mean) or math.isinf(other.mean):
            sign = int(self.mean > other.mean) - int(self.mean < other.mean)
            endless = sign * math.inf if sign else 0.0
            return PairedTest(endless, endless, 0.0 if sign else 1.0)
        differences = self.minus(other).independent()
        return corrected_t_test(differences, overlap=self.overlap)


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

    def number(self, metric: str) -> Number:
        """Mean over repeats of the mean over folds, with its deviation."""
        folds = [[getattr(r, metric) for r in repeat] for repeat in self.repeats]
        means = values = [statistics.fmean(repeat) for repeat in folds]
        over = f"{len(means)} repeats"
        if len(means) == 1:
            values, over = folds[0], f"{len(folds[0])} folds, 1 repeat"
        finite = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.pstdev(values) if finite else None
        return Number(statistics.fmean(means), deviation, over)

    def table(self, metric: str) -> FoldTable | None:
        """Return the number of each repeat and fold; None if no repeat is whole."""
        records = [record for repeat in self.repeats for record in repeat]
        if not records:
            return None
        test = statistics.fmean(record.test_rows for record in records)
        train = statistics.fmean(record.train_rows for record in records)
        overlap = 0.0 if self.arm.split == "fixed" else test / train
        values = {(r.cell.repeat, r.cell.fold): getattr(r, metric) for r in records}
        return FoldTable(self.arm, overlap, values)

    def curve(self, fold: int | None = None) -> list[float]:
        """Share of the test rows of a fold, or of all, with a PIT below each level."""
        counts, rows = [0] * LEVELS, 0
        for record in (record for repeat in self.repeats for record in repeat):
            if fold in (None, record.cell.fold):
                rows += record.test_rows
                counts = [sum(pair) for pair in zip(counts, record.curve, strict=True)]
        return [count / rows for count in counts]


#: Arms, sorted, with what is known of them.
Results = Mapping[Arm, ArmResults]


def by_arm(records: Iterable[Record]) -> dict[Arm, ArmResults]:
    """Gather records by arm. Of two with the same cell the last counts."""
    unique: dict[Cell, Record] = {record.cell: record for record in records}
    found: dict[Arm, list[Record]] = {}
    for cell in sorted(unique):
        found.setdefault(cell.arm, []).append(unique[cell])
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


def compare(b: FoldTable | None, a: FoldTable | None) -> SetComparison | None:
    """Compare B with A on the repeats that both have; None if there is none."""
    if b is None or a is None:
        return None
    if any(getattr(b.arm, n) != getattr(a.arm, n) for n in ("data", "split", "folds")):
        return None
    b, a = b.at(a.values), a.at(b.values)
    if not b.values:
        return None
    return SetComparison(b.arm.data, b.mean, a.mean, b.repeats, b.against(a))


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


def data_title(name: str, among: Iterable[str] = ()) -> str:
    """Name of a data set, or of a CSV, as a reader expects it.

    A CSV is named by its file as written, with the target if it was given, and with
    its folder where another one would have the same title.

    Examples
    --------
    >>> data_title("red_wine"), data_title("folder/my_rides.csv.gz#y")
    ('Red wine', 'my_rides (y)')
    >>> data_title("a/rides.csv", ["a/rides.csv", "b/rides.csv"])
    'a/rides'
    """
    titles = _titles(name)
    others = [_titles(other) for other in set(among) - {name}]
    for depth, title in enumerate(titles):
        # The shorter titles of the others count as well: they may be used.
        if not any(title in other[: depth + 1] for other in others):
            return title
    return titles[-1]


def _titles(name: str) -> tuple[str, ...]:
    """Titles of a set from the shortest to the one that is its own."""
    file = re.fullmatch(
        r"(.+)\.csv(?:\.gz)?(?:#(.*))?", name, flags=re.DOTALL | re.IGNORECASE
    )
    if file is None:
        return ("Year Prediction MSD" if name == "year_msd" else _spoken(name),)
    target = f" ({file[2]})" if file[2] else ""
    parts = re.split(r"[/\\]", file[1])
    return (parts[-1] + target, "/".join(parts[-2:]) + target, file[1] + target, name)


def _spoken(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def model_title(network: str, epochs: int | None = None) -> str:
    """Name of a network as a reader expects it, with its epochs if they are given.

    Examples
    --------
    >>> model_title("mc_dropout"), model_title("default", 1)
    ('MC dropout', 'Our default, 1 epoch')
    """
    title = _NETWORKS.get(network, _spoken(network))
    return title if epochs is None else f"{title}, {epochs_text(epochs)}"


def epochs_text(epochs: int) -> str:
    """Count epochs."""
    return f"{epochs} epoch" if epochs == 1 else f"{epochs} epochs"


def has_usual_folds(arm: Arm) -> bool:
    """Whether an arm has as many folds as in the paper: five, or the fixed one."""
    return arm.split == "fixed" or arm.folds == 5


def folds_text(arm: Arm) -> str:
    """Say how many folds, with a comma before it, where it is not the usual number."""
    return "" if has_usual_folds(arm) else f", {arm.folds} folds"


def arm_label(arm: Arm) -> str:
    """Name of a model within its setting."""
    known = {NO_REGULARIZER: "Base", PAPER_REGULARIZER: "QR"}
    name = known.get(arm.regularizer, _spoken(arm.regularizer))
    if arm.regularizer != NO_REGULARIZER:
        name += f", λ = {arm.strength:g}"
    if arm.recalibration == "none":
        return name
    return f"{name} + {_RECALIBRATIONS.get(arm.recalibration, arm.recalibration)}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Arms that can be compared: the same data, split, folds, network and epochs."""

    key: Arm
    title: str
    arms: tuple[ArmResults, ...]

    @property
    def place(self) -> str:
        """Data set, and what of its folds is not as in the paper."""
        split = ", shuffled folds" if self.key.split == "shuffled" else ""
        return f"{self.title}{split}{folds_text(self.key)}"

    @property
    def protocol(self) -> str:
        """Split, folds where they are not five, and epochs in words."""
        split = _SPLITS[self.key.split]
        return f"{split}{folds_text(self.key)}, {epochs_text(self.key.epochs)}"

    @cached_property
    def fold_sizes(self) -> dict[int, int]:
        """Test rows of each fold."""
        records = self.arms[0].repeats[0]
        return {record.cell.fold: record.test_rows for record in records}

    @property
    def pair(self) -> tuple[ArmResults, ArmResults] | None:
        """Base, and the paper's regularizer at its strength or at the nearest one."""
        strengths = [strength for strength in self.sweep if strength > 0]
        if not strengths or 0 not in self.sweep:
            return None
        nearest = min(strengths, key=lambda strength: abs(strength - PAPER_STRENGTH))
        return self.sweep[0], self.sweep[nearest]

    @cached_property
    def sweep(self) -> dict[float, ArmResults]:
        """Arms along the strength of the paper's regularizer, ascending."""
        wanted = (NO_REGULARIZER, PAPER_REGULARIZER)
        found = {
            known.arm.strength: known
            for known in self.arms
            if known.arm.regularizer in wanted and known.arm.recalibration == "none"
        }
        return dict(sorted(found.items()))


def settings(results: Results) -> tuple[Setting, ...]:
    """Gather arms into settings, in a fixed order; unfinished repeats do not count."""
    groups: dict[Arm, list[ArmResults]] = {}
    for arm, known in results.items():
        key = replace(
            arm, regularizer=NO_REGULARIZER, strength=0.0, recalibration="none"
        )
        if known.repeats:
            groups.setdefault(key, []).append(known)
    names = {key.data for key in groups}
    return tuple(
        Setting(
            key=key,
            title=data_title(key.data, names),
            arms=tuple(sorted(groups[key], key=_arm_order)),
        )
        for key in sorted(groups, key=_setting_order)
    )


def _arm_order(known: ArmResults) -> tuple[object, ...]:
    arm = known.arm
    ours = arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
    family = "" if ours else arm.regularizer
    return (arm.recalibration != "none", arm.recalibration, family, arm.strength)


def _setting_order(key: Arm) -> tuple[object, ...]:
    place = list(_NETWORKS).index(key.network)
    split = (key.split == "shuffled", key.split, not has_usual_folds(key), key.folds)
    return (key.data, place, *split, -key.epochs)


def paper_settings(every: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    """For each network and data set the setting that is nearest to the paper's.

    Folds in file order come before shuffled ones, five folds before other numbers, and
    100 epochs before others.
    """

    def distance(setting: Setting) -> tuple[object, ...]:
        key = setting.key
        away = abs(key.epochs - TEXT_EPOCHS)
        unusual = key.split == "shuffled", not has_usual_folds(key)
        return (*unusual, away, -len(setting.arms))

    best: dict[tuple[str, str], Setting] = {}
    for setting in every:
        key = (setting.key.network, setting.key.data)
        best[key] = min(best.get(key, setting), setting, key=distance)
    return best


def compared_settings(every: Iterable[Setting]) -> list[Setting]:
    """Settings with a base and a regularized arm, all of them on one kind of split.

    The paper's splits come first: shuffled folds are taken only if there are no others,
    so that a count over sets does not mix them.
    """
    pairs = (setting for setting in every if setting.pair is not None)
    found = list(paper_settings(pairs).values())
    paper = [setting for setting in found if setting.key.split != "shuffled"]
    return paper or found
