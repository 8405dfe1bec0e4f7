"""The result in two small tables."""

from collections.abc import Iterable, Sequence

from calibrant.benchmark.published import PAPER_DATA, lookup
from calibrant.benchmark.records import Record
from calibrant.benchmark.summary import Arm, ArmSummary, summarize
from calibrant.benchmark.verdict import Verdict
from calibrant.benchmark.view import Model, View, paper_arm, paper_models
from calibrant.report._entries import short
from calibrant.report._names import data_title, epochs_text, network_title
from calibrant.report.grid import Column, Entry, Grid

__all__ = ["arm_overview", "error_overview", "verdict_overview"]

_NOTHING = "-"
_FLOOR = "Floor: what a perfectly calibrated model shows on as many rows."
_MEASURES = {
    "calibration_error": "error",
    "floor": "floor",
    "rmse": "RMSE",
    "nll": "NLL",
}


def error_overview(records: Iterable[Record]) -> Grid:
    """Show the calibration error without and with the regularizer, theirs and ours.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """
    known = tuple(records)
    arms = {each.arm: each for each in summarize(known) if each.repeats}
    models = paper_models(View(known))
    columns = [Column("Data set")]
    for model in models:
        title = f"{network_title(model.network)}, {epochs_text(model.epochs)}"
        columns += [Column("paper", title), Column("ours", title)]
    return Grid(
        name="overview",
        title="Calibration error, without and with the regularizer",
        caption="100 times the sum of squared gaps over 20 levels, base to QR.",
        columns=(*columns, Column("floor", numeric=True)),
        rows=tuple(
            _row(data, models, arms)
            for data in PAPER_DATA
            if any(_ours(data, model, arms) for model in models)
        ),
        notes=(_FLOOR,),
    )


def arm_overview(records: Iterable[Record]) -> Grid:
    """Show each model that was run on other data or in another way than the paper's.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """
    known = tuple(records)
    models = paper_models(View(known))
    paper = {
        _arm(data, model, training)
        for data in PAPER_DATA
        for model in models
        for training in ("base", "qr")
    }
    arms = [
        each
        for each in summarize(known)
        if each.repeats
        and each.arm not in paper
        and each.arm.recalibration != "isotonic"
    ]
    return Grid(
        name="arms",
        title="Other models",
        caption="Means over folds and repeats.",
        columns=(
            Column("Model"),
            *(Column(title, numeric=True) for title in _MEASURES.values()),
        ),
        rows=tuple(_arm_row(each, {other.arm.data for other in arms}) for each in arms),
        notes=(_FLOOR,),
    )


def _arm_row(summary: ArmSummary, among: set[str]) -> tuple[Entry, ...]:
    arm = summary.arm
    words = [data_title(arm.data, among), network_title(arm.network)]
    if arm.strength:
        words.append(f"{arm.regularizer} {arm.strength:g}")
    if arm.recalibration != "none":
        words.append(arm.recalibration)
    words.append(f"{arm.folds} {arm.split} folds, {epochs_text(arm.epochs)}")
    numbers = (summary.values[name].mean for name in _MEASURES)
    return (
        Entry(", ".join(words)),
        *(Entry(short(number), number) for number in numbers),
    )


def _ours(
    data: str, model: Model, arms: dict[Arm, ArmSummary]
) -> list[ArmSummary | None]:
    """Base and QR, if at least one of them was run."""
    found = [arms.get(_arm(data, model, training)) for training in ("base", "qr")]
    return found if any(found) else []


def _row(
    data: str, models: Sequence[Model], arms: dict[Arm, ArmSummary]
) -> tuple[Entry, ...]:
    entries = [Entry(data_title(data))]
    for model in models:
        columns = [model.column("base"), model.column("qr")]
        theirs = [lookup(data, column, "calibration_error") for column in columns]
        ours = _ours(data, model, arms)
        entries += [
            _change([None if each is None else each.mean for each in theirs]),
            _change(
                [
                    None if each is None else each.values["calibration_error"].mean
                    for each in ours
                ]
            ),
        ]
    found = [each for model in models for each in _ours(data, model, arms) if each]
    floor = found[0].values["floor"].mean
    return (*entries, Entry(short(floor), floor))


def _arm(data: str, model: Model, training: str) -> Arm:
    return paper_arm(data, model.column(training), epochs=model.epochs)


def _change(numbers: Sequence[float | None]) -> Entry:
    if all(number is None for number in numbers):
        return Entry(_NOTHING)
    texts = (_NOTHING if number is None else short(number) for number in numbers)
    return Entry(" → ".join(texts))


def verdict_overview(verdicts: Sequence[Verdict], source: str = "paper") -> Grid:
    """Show the verdict on each claim, one column for each model.

    Parameters
    ----------
    verdicts
        In their order.
    source
        ``"paper"`` for its claims, ``"own"`` for our questions.
    """
    paper = [each for each in verdicts if each.source == source]
    models = list(dict.fromkeys((each.network, each.epochs) for each in paper))
    claims = {each.name: each.claim for each in paper}
    found = {(each.name, each.network, each.epochs): each for each in paper}
    rows = []
    for name, claim in claims.items():
        entries = [Entry(claim)]
        for network, epochs in models:
            verdict = found.get((name, network, epochs))
            entries.append(
                Entry(_NOTHING)
                if verdict is None
                else Entry(verdict.verdict, detail=verdict.explanation)
            )
        rows.append(tuple(entries))
    return Grid(
        name="verdict-overview",
        title="Claims of the paper" if source == "paper" else "Our own questions",
        caption="By rules that were written down before the run.",
        columns=(
            Column("Claim" if source == "paper" else "Question"),
            *(Column(_model_title(*model)) for model in models),
        ),
        rows=tuple(rows),
    )


def _model_title(network: str, epochs: int | None) -> str:
    if not network:
        return "both"
    return network_title(network) + (
        "" if epochs is None else f", {epochs_text(epochs)}"
    )
