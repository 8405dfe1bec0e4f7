"""What a run found, in plain words."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calibrant.paper.claims import Verdict
from calibrant.paper.published import PAPER_REGULARIZER, TEXT_EPOCHS
from calibrant.paper.settings import (
    Setting,
    compared_settings,
    epochs_text,
    has_usual_folds,
    network_title,
)
from calibrant.paper.statistics import ArmResults

_JUDGED = {
    "holds": "by the paired tests the claim that it lowers it holds",
    "does not hold": "by the paired tests the claim that it lowers it does not hold",
    "within noise": "by the paired tests this is within noise",
}


class Effect(NamedTuple):
    """One network on one data set, without and with the regularizer."""

    setting: Setting
    base: ArmResults
    qr: ArmResults

    @property
    def network(self) -> str:
        """Name of the network."""
        return self.setting.key.network

    @property
    def where(self) -> str:
        """Data set and network in words."""
        return f"{self.setting.title} with {_inside(self.network)}"

    def means(self, metric: str) -> tuple[float, float]:
        """Return the means without and with the regularizer."""
        return self.base.number(metric).mean, self.qr.number(metric).mean

    def rise(self, metric: str = "calibration_error") -> float:
        """Return the rise in percent; below 0 if it became smaller."""
        before, after = self.means(metric)
        if before == after:
            return 0.0
        return 100 * (after / before - 1) if before else float("inf")


class Tile(NamedTuple):
    """One number to take away, and what it counts."""

    value: str
    text: str


def effects(every: Sequence[Setting]) -> list[Effect]:
    """Compare base and regularized arms, in the settings nearest to the paper's."""
    return [
        Effect(setting, *setting.pair)
        for setting in compared_settings(every)
        if setting.pair is not None
    ]


def plain_words(found: Sequence[Effect], verdicts: Sequence[Verdict] = ()) -> list[str]:
    """Say in a few paragraphs what regularization did, and where it did not work.

    Examples
    --------
    >>> plain_words([])[0][:24]
    'Nothing can be said yet:'
    """
    if not found:
        return [
            "Nothing can be said yet: no data set has been run both without and with "
            "quantile regularization."
        ]
    errors = [effect.means("calibration_error") for effect in found]
    failed = [
        f"{effect.where} ({before:.3g} to {after:.3g})"
        for effect, (before, after) in zip(found, errors, strict=True)
        if effect.rise() > 0
    ]
    rose = "On no set was the mean error higher with it."
    if failed:
        names = ", ".join(failed)
        rose = f"It does not work everywhere. The mean error rose on {names}."
    worst = max(found, key=lambda effect: effect.rise("rmse"))
    middle = _median(found, "rmse")
    better = sum(after < before for before, after in (e.means("nll") for e in found))
    floors = [effect.means("floor")[0] for effect in found]
    far = sum(e[1] > 2 * floor for e, floor in zip(errors, floors, strict=True))
    return [
        _what_happened(found, verdicts),
        rose,
        f"What it costs: the RMSE changed by {_percent(middle)} at the median and by "
        f"{_percent(worst.rise('rmse'))} at worst ({worst.where}). The NLL became "
        f"better in {better} of {len(found)} comparisons.",
        "Even a perfect model shows some error, because test folds are finite. With "
        f"regularization the error is still more than twice that floor in {far} of "
        f"{len(found)} comparisons. These counts go by the means; the verdicts below "
        "go by paired tests.",
    ]


def tiles(found: Sequence[Effect], verdicts: Sequence[str]) -> list[Tile]:
    """Pick the numbers to take away.

    Examples
    --------
    >>> tiles([], ["holds", "not run", "does not hold"])[0].value
    '1 of 2'
    """
    result = []
    groups = _by_network(found)
    for network, group in groups.items():
        place = " on shuffled folds" if _shuffled(group) else ""
        text = f"data sets with a lower calibration error{place}, {_inside(network)}"
        result.append(Tile(f"{_lowered(group)} of {len(group)}", text))
    if found:
        over = _sets(len(found))
        if len(groups) > 1:
            over = f"{len(found)} comparisons (data sets times networks)"
        for name, metric in (
            ("calibration error", "calibration_error"),
            ("RMSE", "rmse"),
        ):
            text = f"change of the {name}, median over {over}"
            result.append(Tile(_percent(_median(found, metric)), text))
    run = [verdict for verdict in verdicts if verdict != "not run"]
    if run:
        text = "verdicts on claims of the paper read “holds”, of those judged"
        result.append(Tile(f"{run.count('holds')} of {len(run)}", text))
    return result


def count_words(verdicts: Sequence[str]) -> str:
    """Count verdicts in a sentence.

    Examples
    --------
    >>> count_words(["holds", "not run", "holds"])
    'Of 3 verdicts on claims of the paper, 2 hold and 1 was not run.'
    >>> count_words(["not run"])
    'The claims of the paper are not judged: its sets were not run here on its splits.'
    """
    if set(verdicts) == {"not run"}:
        return (
            "The claims of the paper are not judged: its sets were not run here on its "
            "splits."
        )
    counts = Counter(verdicts)
    words = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "within noise": ("is within noise", "are within noise"),
        "not run": ("was not run", "were not run"),
    }
    parts = [
        f"{counts[name]} {forms[counts[name] > 1]}"
        for name, forms in words.items()
        if counts[name]
    ]
    if not parts:
        return ""
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"Of {len(verdicts)} verdicts on claims of the paper, {listed}."


def _by_network(found: Sequence[Effect]) -> dict[str, list[Effect]]:
    groups: dict[str, list[Effect]] = {}
    for effect in found:
        groups.setdefault(effect.network, []).append(effect)
    return groups


def _what_happened(found: Sequence[Effect], verdicts: Sequence[Verdict]) -> str:
    strengths = _listed(f"λ = {effect.qr.arm.strength:g}" for effect in found)
    texts = [f"{_place(found)}, quantile regularization ({strengths})"]
    for place, (network, group) in enumerate(_by_network(found).items()):
        who = f"With {_inside(network)} it" if place else f"with {_inside(network)}"
        change = _percent(_median(group))
        judged = _judged(group, verdicts)
        texts.append(f"{who} {_moved(group)} (median change {change}){judged}.")
    return " ".join(texts)


def _place(found: Sequence[Effect]) -> str:
    """Say on which splits, and what is not as in the paper."""
    keys = [effect.setting.key for effect in found]
    place = "On folds in file order, as in the paper"
    if _shuffled(found):
        place = "On shuffled folds, which the paper does not use"
    elif all(key.split == "fixed" for key in keys):
        place = "On the fixed split, as in the paper"
    odd = [f"{key.folds} folds" for key in keys if not has_usual_folds(key)]
    odd += [epochs_text(key.epochs) for key in keys if key.epochs != TEXT_EPOCHS]
    return f"{place} (but {_listed(odd)})" if odd else place


def _moved(group: Sequence[Effect]) -> str:
    lower, higher = _lowered(group), sum(effect.rise() > 0 for effect in group)
    error, sets = "the mean calibration error", _sets(len(group))
    if lower and higher:
        return f"lowered {error} on {lower} of {sets} and raised it on {higher}"
    if lower or higher:
        moved = "lowered" if lower else "raised"
        return f"{moved} {error} on {lower or higher} of {sets}"
    return f"left {error} as it was on {sets}"


def _judged(group: Sequence[Effect], verdicts: Sequence[Verdict]) -> str:
    """Add what the paired tests say about a network, if they say something."""
    own = f"regularizer-{PAPER_REGULARIZER}"
    name = own if _shuffled(group) else "qr-error"
    epochs = {effect.setting.key.epochs for effect in group}
    found = [
        verdict.verdict
        for verdict in verdicts
        if (verdict.name, verdict.network) == (name, group[0].network)
        and {verdict.epochs} == epochs
    ]
    # Of several strengths none is the one in question.
    text = _JUDGED.get(found[0]) if len(found) == 1 else None
    return "" if text is None else f": {text}"


def _lowered(group: Sequence[Effect]) -> int:
    return sum(effect.rise() < 0 for effect in group)


def _median(group: Sequence[Effect], metric: str = "calibration_error") -> float:
    return statistics.median(effect.rise(metric) for effect in group)


def _shuffled(found: Sequence[Effect]) -> bool:
    return any(effect.setting.key.split == "shuffled" for effect in found)


def _inside(network: str) -> str:
    """Name of a network within a sentence."""
    inside = {"deep_ensemble": "deep ensembles", "default": "our default"}
    return inside.get(network, network_title(network))


def _sets(count: int) -> str:
    return f"{count} data set" if count == 1 else f"{count} data sets"


def _percent(change: float) -> str:
    return f"{change:+.1f} %".replace("-", "\N{MINUS SIGN}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
