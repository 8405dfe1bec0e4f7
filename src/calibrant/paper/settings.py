"""Arms that can be compared, and the names that readers know things by."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from calibrant.paper.ledger import NO_REGULARIZER
from calibrant.paper.published import PAPER_REGULARIZER, PAPER_STRENGTH, TEXT_EPOCHS
from calibrant.paper.statistics import Arm, ArmResults, Results

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
_FOLDS = 5


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


def network_title(name: str) -> str:
    """Name of a network as a reader expects it.

    Examples
    --------
    >>> network_title("mc_dropout")
    'MC dropout'
    """
    return _NETWORKS.get(name, _spoken(name))


def epochs_text(epochs: int) -> str:
    """Count epochs.

    Examples
    --------
    >>> epochs_text(1), epochs_text(100)
    ('1 epoch', '100 epochs')
    """
    return f"{epochs} epoch" if epochs == 1 else f"{epochs} epochs"


def has_usual_folds(arm: Arm) -> bool:
    """Whether an arm has as many folds as in the paper: five, or the fixed one."""
    return arm.split == "fixed" or arm.folds == _FOLDS


def folds_text(arm: Arm) -> str:
    """Say how many folds, with a comma before it, where it is not the usual number."""
    return "" if has_usual_folds(arm) else f", {arm.folds} folds"


def arm_label(arm: Arm) -> str:
    """Name of a model within its setting."""
    if arm.regularizer == NO_REGULARIZER:
        name = "Base"
    elif arm.regularizer == PAPER_REGULARIZER:
        name = f"QR, λ = {arm.strength:g}"
    else:
        name = f"{_spoken(arm.regularizer)}, λ = {arm.strength:g}"
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
        split = _SPLITS.get(self.key.split, self.key.split)
        return f"{split}{folds_text(self.key)}, {epochs_text(self.key.epochs)}"

    @cached_property
    def fold_sizes(self) -> dict[int, int]:
        """Test rows of each fold."""
        found: dict[int, int] = {}
        for arm in self.arms:
            for record in arm.repeats[0]:
                found.setdefault(record.cell.fold, record.test_rows)
        return found

    @property
    def fold_rows(self) -> int:
        """Test rows of the smallest fold."""
        return min(self.fold_sizes.values())

    @property
    def all_rows(self) -> int:
        """Test rows of all folds together."""
        return sum(self.fold_sizes.values())

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
        for key in sorted(groups, key=_order)
    )


def paper_settings(every: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    """For each network and data set the setting that is nearest to the paper's.

    Folds in file order come before shuffled ones, five folds before other numbers, and
    100 epochs before others.
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
    """
    pairs = (setting for setting in every if setting.pair is not None)
    found = list(paper_settings(pairs).values())
    paper = [setting for setting in found if setting.key.split != "shuffled"]
    return paper or found


def _arm_order(known: ArmResults) -> tuple[bool, str, str, float]:
    arm = known.arm
    ours = arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
    family = "" if ours else arm.regularizer
    return (arm.recalibration != "none", arm.recalibration, family, arm.strength)


def _order(key: Arm) -> tuple[object, ...]:
    known = list(_NETWORKS)
    place = known.index(key.network) if key.network in known else len(known)
    split = (key.split == "shuffled", key.split, not has_usual_folds(key), key.folds)
    return (key.data, place, key.network, *split, -key.epochs)


def _distance(setting: Setting) -> tuple[bool, bool, int, int]:
    key = setting.key
    away = abs(key.epochs - TEXT_EPOCHS)
    shuffled = key.split == "shuffled"
    return (shuffled, not has_usual_folds(key), away, -len(setting.arms))
