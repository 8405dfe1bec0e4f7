"""Tables 1 to 4 in the paper's layout, ours beside theirs."""

from collections.abc import Iterable, Mapping

from calibrant.benchmark.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    PublishedArm,
    lookup,
    starred,
)
from calibrant.benchmark.records import Record
from calibrant.benchmark.summary import Arm, ArmSummary, summarize
from calibrant.benchmark.view import Model, View, paper_arm, paper_models
from calibrant.report._entries import DEVIATION, NOT_RUN, number, ours, printed
from calibrant.report._names import data_title
from calibrant.report.grid import Column, Entry, Grid

__all__ = ["paper_tables"]

_METRICS = {"calibration_error": "Calibration error", "rmse": "RMSE", "nll": "NLL"}
_TITLES = {MC_DROPOUT: "MC dropout", ENSEMBLE: "deep ensembles"}
_BOLD = (
    "Bold: clearly lower than the other training of the same model, by a paired test "
    "over folds and repeats at 5 %."
)
_FLOOR = (
    "Noise floor: what a perfectly calibrated model would show on average with as many "
    "test rows."
)
_EPOCHS = (
    "The text names 100 epochs; the printed ensembles fit shorter trainings better on "
    "some sets, so both are shown."
)
_STAR = "* By the paper's numbers, isotonic recalibration raises the error of base."


class _Source:
    """Records, seen by the tables."""

    def __init__(self, records: Iterable[Record]) -> None:
        known = tuple(records)
        self.view = View(known)
        self.summaries: Mapping[Arm, ArmSummary] = {
            summary.arm: summary for summary in summarize(known)
        }

    def ours(
        self, data: str, model: Model, training: str, recalibration: str, metric: str
    ) -> Entry:
        """Return our number, compared with the other training."""
        other = "base" if training == "qr" else "qr"
        one, two = (
            paper_arm(data, model.column(each, recalibration), epochs=model.epochs)
            for each in (training, other)
        )
        found = self.view.compare(one, two, metric)
        return ours(self.summaries.get(one), metric, found)

    def floor(self, data: str, model: Model, recalibration: str) -> Entry:
        """Return the noise floor of a model's error."""
        for training in ("base", "qr"):
            column = model.column(training, recalibration)
            summary = self.summaries.get(paper_arm(data, column, epochs=model.epochs))
            if summary is not None and summary.repeats:
                return number(summary.values["floor"].mean)
        return Entry(NOT_RUN)

    def title(self, data: str) -> str:
        """Return the title of a set among those that were run."""
        return data_title(data, (arm.data for arm in self.view.arms))

    def data(self, network: str) -> list[str]:
        """List the paper's sets, and others that were run in the same way."""
        others = {
            arm.data
            for arm in self.view.arms
            if arm.network == network
            and arm.data not in PAPER_DATA
            and arm == paper_arm(arm.data, PublishedArm(network), epochs=arm.epochs)
        }
        return [*PAPER_DATA, *sorted(others)]


def paper_tables(records: Iterable[Record]) -> tuple[Grid, ...]:
    """Make Tables 1 to 4: what was not run says so.

    Parameters
    ----------
    records
        In any order; any may be missing.

    Examples
    --------
    >>> [grid.name for grid in paper_tables([])]
    ['table-1', 'table-2', 'table-3', 'table-4']
    """
    source = _Source(records)
    models = paper_models(source.view)
    groups = {
        network: [model for model in models if model.network == network]
        for network in (MC_DROPOUT, ENSEMBLE)
    }
    first = [_scores(source, groups[n], i) for i, n in enumerate(groups, start=1)]
    then = [_recalibrated(source, groups[n], i) for i, n in enumerate(groups, start=3)]
    return (*first, *then)


def _scores(source: _Source, models: list[Model], index: int) -> Grid:
    """Table 1 or 2: error, RMSE and NLL of base and QR."""
    network = models[0].network
    columns = [*_first_columns(models)]
    for metric, title in _METRICS.items():
        parts = ["base, paper", "base, ours", "QR, paper", "QR, ours"]
        if metric == "calibration_error":
            parts.append("floor")
        columns += [Column(part, title, numeric=True) for part in parts]
    rows = []
    for data in source.data(network):
        for model in models:
            row = _first_entries(source.title(data), model, models)
            for metric in _METRICS:
                for training in ("base", "qr"):
                    row.append(printed(lookup(data, model.column(training), metric)))
                    row.append(source.ours(data, model, training, "none", metric))
                if metric == "calibration_error":
                    row.append(source.floor(data, model, "none"))
            rows.append(tuple(row))
    return Grid(
        name=f"table-{index}",
        title=f"Table {index}: {_TITLES[network]}, base and QR",
        caption=(
            "Trained without (base) and with quantile regularization (QR, strength "
            "20). The calibration error is 100 times the sum of squared gaps over 20 "
            "levels. Lower is better everywhere."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=_notes(models),
    )


def _recalibrated(source: _Source, models: list[Model], index: int) -> Grid:
    """Table 3 or 4: the error before and after isotonic recalibration."""
    network = models[0].network
    columns = [*_first_columns(models)]
    parts = ("before, paper", "before, ours", "isotonic, paper", "isotonic, ours")
    columns += [
        Column(p, group, numeric=True) for group in ("base", "QR") for p in parts
    ]
    columns += [Column(p, "floor", numeric=True) for p in ("before", "isotonic")]
    rows = []
    for data in source.data(network):
        for model in models:
            title = source.title(data) + (" *" if data in starred(network) else "")
            row = _first_entries(title, model, models)
            for training in ("base", "qr"):
                for after in ("none", ISOTONIC):
                    column = model.column(training, after)
                    row.append(printed(lookup(data, column, "calibration_error")))
                    row.append(
                        source.ours(data, model, training, after, "calibration_error")
                    )
            row += [source.floor(data, model, after) for after in ("none", ISOTONIC)]
            rows.append(tuple(row))
    return Grid(
        name=f"table-{index}",
        title=f"Table {index}: {_TITLES[network]}, isotonic recalibration",
        caption=(
            "Calibration error before and after isotonic recalibration on the training "
            "fold, for models trained without (base) and with quantile regularization."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(_STAR, *_notes(models)),
    )


def _first_columns(models: list[Model]) -> list[Column]:
    first = [Column("Data set")]
    return [*first, Column("Epochs", numeric=True)] if len(models) > 1 else first


def _first_entries(title: str, model: Model, models: list[Model]) -> list[Entry]:
    epochs = Entry(str(model.epochs), model.epochs)
    return [Entry(title), epochs] if len(models) > 1 else [Entry(title)]


def _notes(models: list[Model]) -> tuple[str, ...]:
    notes = (_BOLD, DEVIATION, _FLOOR)
    return (*notes, _EPOCHS) if len(models) > 1 else notes
