"""Records gathered by model: what figures and page draw."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from calibrant.benchmark.records import LEVELS, NO_REGULARIZER, Record
from calibrant.benchmark.summary import (
    PAPER_REGULARIZER,
    PAPER_STRENGTH,
    Arm,
    Measure,
    by_arm,
    whole_repeats,
)
from calibrant.report._names import (
    data_title,
    epochs_text,
    folds_text,
    network_place,
    network_title,
    split_text,
    spoken,
    usual_folds,
)

# Titles are asked for together with what they name.
__all__ = [
    "ArmRecords",
    "Number",
    "Setting",
    "compared_settings",
    "data_title",
    "network_title",
    "paper_settings",
    "settings",
]

_PAPER_EPOCHS = 100
_RECALIBRATIONS = {
    "isotonic": "isotonic on train",
    "out_of_fold": "out-of-fold",
}

Curve = tuple[float, ...]


@dataclass(frozen=True)
class Number:
    """A mean with its standard deviation and what that deviation is taken over."""

    mean: float
    deviation: float | None
    over: str


@dataclass(frozen=True, kw_only=True)
class ArmRecords:
    """An arm with the records of its whole repeats, of which there is at least one."""

    arm: Arm
    repeats: tuple[tuple[Record, ...], ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them."""
        return tuple(record for repeat in self.repeats for record in repeat)

    @property
    def label(self) -> str:
        """Name of the model within its setting."""
        arm = self.arm
        if arm.regularizer == NO_REGULARIZER:
            name = "Base"
        elif arm.regularizer == PAPER_REGULARIZER:
            name = f"QR, λ = {arm.strength:g}"
        else:
            name = f"{spoken(arm.regularizer)}, λ = {arm.strength:g}"
        if arm.recalibration == "none":
            return name
        after = _RECALIBRATIONS.get(arm.recalibration, arm.recalibration)
        return f"{name} + {after}"

    def number(self, measure: Measure) -> Number:
        """Mean over repeats of the mean over folds, ± over repeats if there are two.

        With one repeat the deviation is that of its folds; with one cell, or with an
        infinite value among them, there is none.
        """
        means = [
            statistics.fmean(measure(record) for record in group)
            for group in self.repeats
        ]
        values, over = means, f"{len(means)} repeats"
        if len(means) == 1:
            values = [measure(record) for record in self.repeats[0]]
            over = f"{len(values)} folds, 1 repeat"
        finite = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.pstdev(values) if finite else None
        return Number(statistics.fmean(means), deviation, over)

    def curve(self) -> Curve:
        """Share of all test rows with a PIT value at or below each level."""
        return _curve(self.records)

    def fold_curves(self) -> dict[int, Curve]:
        """The same for each fold, over the repeats."""
        groups: dict[int, list[Record]] = defaultdict(list)
        for record in self.records:
            groups[record.cell.fold].append(record)
        return {fold: _curve(groups[fold]) for fold in sorted(groups)}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Arms that can be compared: the same data, split, folds, network and epochs.

    Attributes
    ----------
    key
        What they share.
    title
        Of the data set, among those of the other settings.
    arms
        With at least one whole repeat each.
    """

    key: Arm
    title: str
    arms: tuple[ArmRecords, ...]

    @property
    def place(self) -> str:
        """Data set, and what of its folds is not as in the paper."""
        split = ", shuffled folds" if self.key.split == "shuffled" else ""
        return f"{self.title}{split}{folds_text(self.key.split, self.key.folds)}"

    @property
    def protocol(self) -> str:
        """Split, folds where they are not five, and epochs in words."""
        key = self.key
        folds = folds_text(key.split, key.folds)
        return f"{split_text(key.split)}{folds}, {epochs_text(key.epochs)}"

    @property
    def fold_rows(self) -> int:
        """Test rows of the smallest fold."""
        return min(r.test_rows for arm in self.arms for r in arm.records)

    @property
    def all_rows(self) -> int:
        """Test rows of all folds together."""
        first: dict[int, int] = {}
        for arm in self.arms:
            for record in arm.records:
                first.setdefault(record.cell.fold, record.test_rows)
        return sum(first.values())

    @property
    def pair(self) -> tuple[ArmRecords, ArmRecords] | None:
        """Base, and the paper's regularizer at its strength or at the nearest one."""
        strengths = [strength for strength in self.sweep if strength > 0]
        if not strengths or 0 not in self.sweep:
            return None
        nearest = min(strengths, key=lambda each: abs(each - PAPER_STRENGTH))
        return self.sweep[0], self.sweep[nearest]

    @cached_property
    def sweep(self) -> dict[float, ArmRecords]:
        """Arms along the strength of the paper's regularizer, ascending."""
        wanted = (NO_REGULARIZER, PAPER_REGULARIZER)
        found = {
            each.arm.strength: each
            for each in self.arms
            if each.arm.regularizer in wanted and each.arm.recalibration == "none"
        }
        return dict(sorted(found.items()))


def settings(records: Iterable[Record]) -> tuple[Setting, ...]:
    """Gather records into arms and arms into settings, in a fixed order.

    Repeats of which folds are missing do not count.

    Examples
    --------
    >>> settings([])
    ()
    """
    groups: dict[Arm, list[ArmRecords]] = defaultdict(list)
    for arm, repeats in by_arm(records).items():
        whole = tuple(map(tuple, whole_repeats(arm, repeats).values()))
        key = replace(
            arm, regularizer=NO_REGULARIZER, strength=0.0, recalibration="none"
        )
        if whole:
            groups[key].append(ArmRecords(arm=arm, repeats=whole))
    names = {key.data for key in groups}
    return tuple(
        Setting(
            key=key,
            title=data_title(key.data, names),
            arms=tuple(sorted(groups[key], key=_arm_order)),
        )
        for key in sorted(groups, key=_order)
    )


def paper_settings(every: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    """For each network and data set the setting that is nearest to the paper's.

    Folds in file order come before shuffled ones, five folds before other numbers, and
    100 epochs before others.

    Examples
    --------
    >>> paper_settings([])
    {}
    """
    best: dict[tuple[str, str], Setting] = {}
    for setting in every:
        key = (setting.key.network, setting.key.data)
        if key not in best or _distance(setting) < _distance(best[key]):
            best[key] = setting
    return best


def compared_settings(every: Iterable[Setting]) -> list[Setting]:
    """Settings with a base and a regularized arm, all of them on one kind of split.

    The paper's splits come first: shuffled folds are taken only if there are no others,
    so that a count over sets does not mix them.

    Examples
    --------
    >>> compared_settings([])
    []
    """
    pairs = (each for each in every if each.pair is not None)
    found = list(paper_settings(pairs).values())
    paper = [each for each in found if each.key.split != "shuffled"]
    return paper or found


def _curve(records: Iterable[Record]) -> Curve:
    """Pooled counts over pooled rows."""
    counts, rows = [0] * LEVELS, 0
    for record in records:
        rows += record.test_rows
        counts = [sum(pair) for pair in zip(counts, record.curve, strict=True)]
    return tuple(count / rows for count in counts)


def _arm_order(each: ArmRecords) -> tuple[bool, str, str, float]:
    arm = each.arm
    ours = arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
    family = "" if ours else arm.regularizer
    return (arm.recalibration != "none", arm.recalibration, family, arm.strength)


def _order(key: Arm) -> tuple[object, ...]:
    unusual = not usual_folds(key.split, key.folds)
    split = (key.split == "shuffled", key.split, unusual, key.folds)
    return (key.data, network_place(key.network), key.network, *split, -key.epochs)


def _distance(setting: Setting) -> tuple[bool, bool, int, int]:
    key = setting.key
    away = abs(key.epochs - _PAPER_EPOCHS)
    unusual = not usual_folds(key.split, key.folds)
    return (key.split == "shuffled", unusual, away, -len(setting.arms))
