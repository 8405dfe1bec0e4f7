"""Verdicts on our own questions, on shuffled folds."""

from collections.abc import Sequence
from typing import Literal

from calibrant.benchmark.claims import CLAIMS
from calibrant.benchmark.comparison import SetComparison
from calibrant.benchmark.published import ISOTONIC, MC_DROPOUT, PublishedArm
from calibrant.benchmark.records import NO_REGULARIZER
from calibrant.benchmark.summary import Arm
from calibrant.benchmark.verdict import Ruling, Verdict, count_rule
from calibrant.benchmark.view import View, paper_arm

__all__ = ["own_verdicts"]

_ERROR = "randomized_calibration_error"
# At most one set in five may be clearly the other way.
_OF_TEN = 8
_BASE = PublishedArm(MC_DROPOUT)
_OTHERS = {
    "default-base": _BASE,
    "default-qr": PublishedArm(MC_DROPOUT, "qr"),
    "default-isotonic": PublishedArm(MC_DROPOUT, "base", ISOTONIC),
}


def own_verdicts(view: View) -> tuple[Verdict, ...]:
    """Judge our default against the paper's models, and each regularizer.

    Parameters
    ----------
    view
        The records. Nothing is returned if none is on shuffled folds.
    """
    shuffled = [arm for arm in view.arms if arm.split == "shuffled"]
    if not shuffled:
        return ()
    defaults = _defaults(shuffled)
    first = tuple(_default(view, name, defaults) for name in _OTHERS)
    return first + _regularizers(view, shuffled)


def _defaults(shuffled: Sequence[Arm]) -> dict[str, Arm]:
    """Our default of each set, run as what it is compared with: plainest if several."""
    found = [
        arm
        for arm in shuffled
        if arm.network == "default"
        and arm.recalibration == "out_of_fold"
        and _protocol(arm) == _protocol(paper_arm(arm.data, _BASE, shuffled=True))
    ]
    found.sort(key=lambda arm: (arm.data, arm.regularizer != NO_REGULARIZER, arm))
    return {arm.data: arm for arm in reversed(found)}


def _protocol(arm: Arm) -> tuple[str, int, int]:
    return arm.split, arm.folds, arm.epochs


def _default(view: View, name: str, defaults: dict[str, Arm]) -> Verdict:
    found: dict[str, tuple[SetComparison, ...]] = {}
    for metric in (_ERROR, "nll", "crps"):
        each = (
            view.compare(arm, paper_arm(data, _OTHERS[name], shuffled=True), metric)
            for data, arm in sorted(defaults.items())
        )
        found[metric] = tuple(one for one in each if one is not None)
    ruling = count_rule(found[_ERROR], of_ten=_OF_TEN)
    if ruling.verdict == "holds":
        ruling = _no_worse(ruling, found["nll"], found["crps"])
    claim = CLAIMS[name].claim
    return _verdict(name, "default", None, claim, (found[_ERROR], ruling))


def _no_worse(
    ruling: Ruling, nll: Sequence[SetComparison], crps: Sequence[SetComparison]
) -> Ruling:
    """Keep a ruling on the error only if neither NLL nor CRPS is worse."""
    verdict, ours, why = ruling.verdict, ruling.ours, ruling.why
    for title, sets, ratio in (("NLL", nll, False), ("CRPS", crps, True)):
        other = count_rule(sets, of_ten=_OF_TEN, ratio=ratio)
        ours += f"; {title} {other.ours}"
        if other.verdict == "does not hold":
            verdict = "does not hold"
            why += f" But its {title} is worse. {other.why}"
    return Ruling(verdict, ours, why, ruling.over)


def _regularizers(view: View, shuffled: Sequence[Arm]) -> tuple[Verdict, ...]:
    usual = paper_arm("", _BASE, shuffled=True).folds
    groups: dict[tuple[str, str, float, int], list[Arm]] = {}
    for arm in shuffled:
        judged = arm.regularizer != NO_REGULARIZER and arm.recalibration == "none"
        # Otherwise a set could count twice in a test over sets.
        if judged and arm.folds == usual:
            key = (arm.network, arm.regularizer, arm.strength, arm.epochs)
            groups.setdefault(key, []).append(arm)
    return tuple(_regularizer(view, arms) for arms in groups.values())


def _regularizer(view: View, arms: Sequence[Arm]) -> Verdict:
    first = arms[0]
    each = (view.compare(arm, _base(arm), _ERROR) for arm in arms)
    sets = tuple(one for one in each if one is not None)
    claim = CLAIMS["regularizer"].claim.format(
        regularizer=first.regularizer, strength=first.strength
    )
    name = f"regularizer-{first.regularizer}"
    judged = sets, count_rule(sets, of_ten=_OF_TEN)
    return _verdict(name, first.network, first.epochs, claim, judged)


def _base(arm: Arm) -> Arm:
    return Arm(
        data=arm.data,
        split=arm.split,
        folds=arm.folds,
        network=arm.network,
        epochs=arm.epochs,
    )


def _verdict(
    name: str,
    network: str,
    epochs: int | None,
    claim: str,
    judged: tuple[tuple[SetComparison, ...], Ruling],
) -> Verdict:
    sets, ruling = judged
    text = CLAIMS.get(name, CLAIMS["regularizer"])
    source: Literal["own"] = "own"
    return Verdict(
        name=name,
        source=source,
        network=network,
        epochs=epochs,
        claim=claim,
        quote="",
        rule=text.rule,
        paper="",
        ours=ruling.ours,
        columns=text.columns,
        sets=sets,
        over=ruling.over,
        verdict=ruling.verdict,
        explanation=ruling.why,
    )
