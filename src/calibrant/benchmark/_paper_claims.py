"""Verdicts on what the paper's tables claim, for one model at a time."""

from collections.abc import Callable
from dataclasses import replace

from calibrant.benchmark._paper_says import LARGE, NEGLIGIBLE, paper_says
from calibrant.benchmark.claims import CLAIMS
from calibrant.benchmark.comparison import FoldTable, SetComparison, compare
from calibrant.benchmark.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    starred,
)
from calibrant.benchmark.verdict import (
    Ruling,
    Verdict,
    count_rule,
    much_more_rule,
    named_rule,
    tally,
)
from calibrant.benchmark.view import Model, View, paper_arm

__all__ = ["paper_verdict", "table_verdicts"]

Sets = tuple[SetComparison, ...]
#: Sets and ruling of a claim.
Judged = tuple[Sets, Ruling]
_ERROR = "calibration_error"
_CURVE_DATA = ("concrete", "protein")


def paper_verdict(name: str, model: Model, judged: Judged) -> Verdict:
    """Put a claim and the ruling on it together.

    Parameters
    ----------
    name
        Of the claim.
    model
        Which model it was judged on.
    judged
        Sets and ruling.
    """
    claim, (sets, ruling) = CLAIMS[name], judged
    return Verdict(
        name=name,
        source="paper",
        network=model.network,
        epochs=model.epochs,
        claim=claim.claim,
        quote=claim.quote,
        rule=claim.rule,
        paper=paper_says(name, model.network),
        ours=ruling.ours,
        columns=claim.columns,
        sets=sets,
        over=ruling.over,
        verdict=ruling.verdict,
        explanation=ruling.why,
    )


def table_verdicts(view: View, model: Model) -> tuple[Verdict, ...]:
    """Judge the claims about Tables 1 to 4 and Figure 1 on one model.

    Parameters
    ----------
    view
        The records.
    model
        Network and epochs.
    """
    ways = dict(_EACH_MODEL)
    if model.network == ENSEMBLE:
        ways |= _ENSEMBLE_ONLY
    elif model.network == MC_DROPOUT:
        ways |= _DROPOUT_ONLY
    return tuple(
        paper_verdict(name, model, judge(view, model)) for name, judge in ways.items()
    )


def _same(view: View, model: Model, b: str, a: str, metric: str) -> Sets:
    """Compare two trainings of a model, as ``"base isotonic"``, on all sets."""
    return view.columns(
        model.column(*b.split()),
        model.column(*a.split()),
        metric,
        epochs=(model.epochs, model.epochs),
    )


def _qr_error(view: View, model: Model) -> Judged:
    sets = _same(view, model, "qr", "base", _ERROR)
    return sets, count_rule(sets, of_ten=9 if model.network == ENSEMBLE else 10)


def _qr_nll(view: View, model: Model) -> Judged:
    sets = _same(view, model, "qr", "base", "nll")
    return sets, count_rule(sets, of_ten=7, ratio=False)


def _qr_rmse(view: View, model: Model) -> Judged:
    found = []
    for data in PAPER_DATA:
        qr, base = (_table(view, model, data, t, "rmse") for t in ("qr", "base"))
        limit = base.times(1 + NEGLIGIBLE) if base else None
        found.append(compare(qr, limit))
    sets = tuple(each for each in found if each is not None)
    ruling = count_rule(sets, of_ten=10)
    if sets:
        limit_name = f"{1 + NEGLIGIBLE:g} x base"
        words = tally(sets).told(f"below {limit_name}", "above it")
        ruling = replace(ruling, ours=words)
    return sets, ruling


def _isotonic_worsens(view: View, model: Model) -> Judged:
    every = _same(view, model, "base isotonic", "base", _ERROR)
    named = _only(every, starred(model.network))
    return every, named_rule(named, claimed="higher")


def _isotonic_qr(view: View, model: Model) -> Judged:
    found = []
    for data in starred(model.network):
        rises = [_rise(view, model, data, training) for training in ("qr", "base")]
        found.append(compare(*rises))
    sets = tuple(each for each in found if each is not None)
    return sets, named_rule(sets, claimed="lower")


def _rise(view: View, model: Model, data: str, training: str) -> FoldTable | None:
    before = _table(view, model, data, training, _ERROR)
    after = _table(view, model, data, f"{training} {ISOTONIC}", _ERROR)
    return after.minus(before) if after and before else None


def _table(
    view: View, model: Model, data: str, training: str, metric: str
) -> FoldTable | None:
    column = model.column(*training.split())
    return view.table(paper_arm(data, column, epochs=model.epochs), metric)


def _qr_isotonic(view: View, model: Model) -> Judged:
    sets = _same(view, model, "qr", "base isotonic", _ERROR)
    return sets, count_rule(sets, of_ten=10)


def _isotonic_large(view: View, model: Model) -> Judged:
    sets = _only(_same(view, model, "base isotonic", "base", _ERROR), LARGE)
    return sets, named_rule(sets, claimed="lower")


def _curve(view: View, model: Model) -> Judged:
    sets = _only(_same(view, model, "qr", "base", "curve_gap"), _CURVE_DATA)
    return sets, named_rule(sets, claimed="lower")


def _ensemble(recalibration: str) -> Callable[[View, Model], Judged]:
    def judge(view: View, model: Model) -> Judged:
        dropout = Model(MC_DROPOUT)
        sets = view.columns(
            model.column("base", recalibration),
            dropout.column("base", recalibration),
            _ERROR,
            epochs=(model.epochs, dropout.epochs),
        )
        return sets, much_more_rule(sets)

    return judge


def _only(sets: Sets, names: tuple[str, ...]) -> Sets:
    return tuple(each for each in sets if each.data in names)


_EACH_MODEL: dict[str, Callable[[View, Model], Judged]] = {
    "qr-error": _qr_error,
    "qr-nll": _qr_nll,
    "qr-rmse": _qr_rmse,
    "isotonic-worsens": _isotonic_worsens,
    "isotonic-qr": _isotonic_qr,
    "qr-isotonic": _qr_isotonic,
    "isotonic-large": _isotonic_large,
}
_ENSEMBLE_ONLY = {
    "ensemble-error": _ensemble("none"),
    "ensemble-isotonic": _ensemble(ISOTONIC),
}
_DROPOUT_ONLY: dict[str, Callable[[View, Model], Judged]] = {"curve": _curve}
