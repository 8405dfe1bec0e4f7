"""Tables of every arm that was run, and an overview of those on shuffled folds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from calibrant.benchmark.comparison import SetComparison
from calibrant.benchmark.published import MC_DROPOUT, PublishedArm
from calibrant.benchmark.records import NO_REGULARIZER, Record
from calibrant.benchmark.summary import Arm, ArmSummary, summarize
from calibrant.benchmark.verdict import tally
from calibrant.benchmark.view import TEXT_EPOCHS, View, paper_arm
from calibrant.report._entries import DEVIATION, number, spread
from calibrant.report._names import (
    data_title,
    epochs_text,
    folds_text,
    network_title,
)
from calibrant.report.grid import Column, Entry, Grid

__all__ = ["arm_grid", "shuffled_grid"]

_ERROR = "randomized_calibration_error"
_COLUMNS = {
    "calibration_error": "error",
    "floor": "floor",
    "randomized_calibration_error": "randomized",
    "spread_calibration_error": "by spread",
    "mean_calibration_error": "by mean",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "coverage",
    "sharpness": "sharpness",
}
_ERRORS = 5
_MEANING = (
    "Errors: of plain and of randomized PIT values, and the mean over quartiles of "
    "predicted spread and of predicted mean (their floor is four times as high). "
    "Coverage: share of targets in the central 90 % interval. Sharpness: mean "
    "predicted standard deviation."
)


def arm_grid(records: Iterable[Record], *, shuffled: bool | None = None) -> Grid:
    """List every arm with all its numbers.

    Parameters
    ----------
    records
        In any order; any may be missing.
    shuffled
        Whether only arms on shuffled folds, or only others; None for all.
    """
    wanted = [
        summary
        for summary in summarize(records)
        if shuffled is None or (summary.arm.split == "shuffled") == shuffled
    ]
    names_shown = {summary.arm.data for summary in wanted}
    names = {None: "all", True: "shuffled", False: "paper"}
    places = {None: "", True: " on shuffled folds", False: " on the paper's folds"}
    measures = [
        Column(title, "Calibration error" if i < _ERRORS else "", numeric=True)
        for i, title in enumerate(_COLUMNS.values())
    ]
    return Grid(
        name=f"arms-{names[shuffled]}",
        title=f"Every model that was run{places[shuffled]}",
        caption="Mean ± standard deviation over repeats; no ± with one repeat.",
        columns=(
            Column("Data set"),
            Column("Model"),
            Column("Epochs", numeric=True),
            Column("Folds", numeric=True),
            Column("Run"),
            *measures,
        ),
        rows=tuple(_row(summary, names_shown) for summary in wanted),
        notes=(DEVIATION, _MEANING),
    )


def _row(summary: ArmSummary, names: Iterable[str]) -> tuple[Entry, ...]:
    arm = summary.arm
    place = "" if arm.split == "unshuffled" else f", {arm.split}"
    values = [
        spread(summary.values[name], summary.repeats)
        if summary.repeats
        else Entry("partial", detail=summary.state)
        for name in _COLUMNS
    ]
    return (
        Entry(data_title(arm.data, names)),
        Entry(f"{_label(arm)}{place}"),
        Entry(str(arm.epochs), arm.epochs),
        Entry(str(arm.folds), arm.folds),
        Entry(summary.state, detail=f"{summary.seconds:.2g} s for a cell"),
        *values,
    )


def _label(arm: Arm) -> str:
    name = network_title(arm.network)
    if arm.regularizer != NO_REGULARIZER:
        name += f" + {arm.regularizer.replace('_', ' ')} {arm.strength:g}"
    if arm.recalibration != "none":
        name += f" + {arm.recalibration.replace('_', ' ')}"
    return name


def _unusual(arm: Arm) -> str:
    """Folds and epochs, where they are not the paper's."""
    epochs = "" if arm.epochs == TEXT_EPOCHS else f", {epochs_text(arm.epochs)}"
    return folds_text(arm.split, arm.folds) + epochs


def shuffled_grid(records: Iterable[Record]) -> Grid:
    """Compare each model on shuffled folds with MC dropout alone, over the sets.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """
    known = tuple(records)
    view = View(known)
    summaries = {summary.arm: summary for summary in summarize(known)}
    groups: dict[Arm, list[Arm]] = {}
    for arm in view.arms:
        if arm.split == "shuffled":
            groups.setdefault(replace(arm, data=""), []).append(arm)
    rows = [_overview(view, arms, summaries) for arms in groups.values()]
    found = [row for row in rows if row is not None]
    found.sort(key=lambda row: (row[2].value is None, row[2].value))
    return Grid(
        name="shuffled",
        title="Shuffled folds: each model against MC dropout alone",
        caption=(
            "Medians over sets. The error is that of randomized PIT values. Clearly: "
            "by a paired test over folds and repeats at 5 %."
        ),
        columns=(
            Column("Model"),
            Column("Sets", numeric=True),
            Column("ratio", "Error", numeric=True),
            Column("clearly lower", "Error", numeric=True),
            Column("clearly higher", "Error", numeric=True),
            Column("over floor", "Error", numeric=True),
            Column("difference", "NLL", numeric=True),
            Column("clearly higher", "NLL", numeric=True),
            Column("ratio", "CRPS", numeric=True),
            Column("ratio", "RMSE", numeric=True),
            Column("mean coverage", "90 % interval", numeric=True),
        ),
        rows=tuple(found),
    )


def _overview(
    view: View, arms: Sequence[Arm], summaries: dict[Arm, ArmSummary]
) -> tuple[Entry, ...] | None:
    found = {
        metric: _against_base(view, arms, metric)
        for metric in (_ERROR, "nll", "crps", "rmse")
    }
    if not found[_ERROR]:
        return None
    done = [summaries[arm] for arm in arms if summaries[arm].repeats]
    errors, nll = tally(found[_ERROR]), tally(found["nll"])
    floors = [s.values[_ERROR].mean / s.values["floor"].mean for s in done]
    coverage = statistics.fmean(s.values["coverage"].mean for s in done)
    return (
        Entry(f"{_label(arms[0])}{_unusual(arms[0])}"),
        Entry(str(errors.sets), errors.sets, ", ".join(arm.data for arm in arms)),
        _median([_ratio(each) for each in found[_ERROR]]),
        _named(errors.clearly_lower),
        _named(errors.clearly_higher),
        _median(floors),
        _median([_difference(each) for each in found["nll"]]),
        _named(nll.clearly_higher),
        _median([_ratio(each) for each in found["crps"]]),
        _median([_ratio(each) for each in found["rmse"]]),
        number(coverage),
    )


def _against_base(
    view: View, arms: Sequence[Arm], metric: str
) -> tuple[SetComparison, ...]:
    each = (view.compare(arm, _dropout(arm), metric) for arm in arms)
    return tuple(one for one in each if one is not None)


def _dropout(arm: Arm) -> Arm:
    """MC dropout alone on the same folds."""
    base = paper_arm(arm.data, PublishedArm(MC_DROPOUT), shuffled=True)
    return replace(base, folds=arm.folds)


def _ratio(comparison: SetComparison) -> float:
    return comparison.b / comparison.a if comparison.a else float("inf")


def _difference(comparison: SetComparison) -> float:
    # Two infinite numbers are equal here: their difference has no value.
    return 0.0 if comparison.b == comparison.a else comparison.b - comparison.a


def _median(values: Sequence[float]) -> Entry:
    return number(statistics.median(values))


def _named(names: Sequence[str]) -> Entry:
    return Entry(str(len(names)), len(names), ", ".join(names))
