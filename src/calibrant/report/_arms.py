"""Records gathered by model: what figures and page draw."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from calibrant.benchmark.records import LEVELS, NO_REGULARIZER, Record
from calibrant.benchmark.summary import (
    PAPER_REGULARIZER,
    PAPER_STRENGTH,
    Arm,
    Measure,
    by_arm,
    whole_repeats,
)

__all__ = [
    "ArmRecords",
    "Number",
    "Setting",
    "data_title",
    "network_title",
    "paper_settings",
    "settings",
]

_PAPER_EPOCHS = 100
_NETWORKS = {
    "mc_dropout": "MC dropout",
    "deep_ensemble": "Deep ensemble",
    "default": "Our default",
}
_DATA = {"year_msd": "Year Prediction MSD"}
_RECALIBRATIONS = {
    "isotonic": "isotonic on train",
    "cross_fit": "cross-fit",
    "out_of_bag": "out-of-bag",
}
_SPLITS = {
    "unshuffled": "folds in file order",
    "shuffled": "shuffled folds",
    "fixed": "fixed split",
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
            name = f"{_spoken(arm.regularizer)}, λ = {arm.strength:g}"
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
    """Arms that can be compared: the same data, split, network and epochs."""

    key: Arm
    arms: tuple[ArmRecords, ...]

    @property
    def protocol(self) -> str:
        """Split and epochs in words."""
        split = _SPLITS.get(self.key.split, self.key.split)
        return f"{split}, {self.key.epochs} epochs"

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
    return tuple(
        Setting(key=key, arms=tuple(sorted(groups[key], key=_arm_order)))
        for key in sorted(groups, key=_order)
    )


def paper_settings(every: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    """For each network and data set the setting that is nearest to the paper's.

    Folds in file order come before shuffled ones, and 100 epochs before others.

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


def data_title(name: str) -> str:
    """Name of a data set, or of a CSV, as a reader expects it.

    Examples
    --------
    >>> data_title("red_wine"), data_title("folder/rides.csv")
    ('Red wine', 'rides.csv')
    """
    if name.endswith(".csv"):
        return PurePath(name).name
    return _DATA.get(name, _spoken(name))


def network_title(name: str) -> str:
    """Name of a network as a reader expects it.

    Examples
    --------
    >>> network_title("mc_dropout")
    'MC dropout'
    """
    return _NETWORKS.get(name, _spoken(name))


def _spoken(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


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


def _order(key: Arm) -> tuple[str, int, str, bool, int]:
    known = list(_NETWORKS)
    place = known.index(key.network) if key.network in known else len(known)
    return (key.data, place, key.network, key.split == "shuffled", -key.epochs)


def _distance(setting: Setting) -> tuple[bool, int, int]:
    key = setting.key
    away = abs(key.epochs - _PAPER_EPOCHS)
    return (key.split == "shuffled", away, -len(setting.arms))
