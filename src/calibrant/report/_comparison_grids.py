"""Tables of where our numbers and the paper's agree, and where not."""

from collections.abc import Iterable

from calibrant.benchmark.agreement import (
    SideBySide,
    agreement,
    side_by_side,
    tolerance,
)
from calibrant.benchmark.errata import ERRATA
from calibrant.benchmark.published import ISOTONIC
from calibrant.benchmark.records import Record
from calibrant.benchmark.summary import summarize
from calibrant.benchmark.view import Model, View, paper_models
from calibrant.report._entries import DEVIATION, NOT_RUN, number, printed, spread
from calibrant.report._names import data_title, epochs_text, network_title
from calibrant.report.grid import Column, Entry, Grid

__all__ = ["agreement_grid", "disagreement_grid", "errata_grid"]

_TOLERANCES = (
    "Agreement: RMSE within 5 % (or 0.01, where that is more), NLL within 0.1, "
    "calibration error within two combined standard deviations over repeats."
)
_METRICS = {"calibration_error": "calibration error", "rmse": "RMSE", "nll": "NLL"}


def agreement_grid(records: Iterable[Record]) -> Grid:
    """Count the sets on which RMSE and NLL agree with the paper's, for each model.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """
    rows = []
    for model, pairs in _pairs(records):
        rows.append((Entry(_model(model)), *_agreeing(pairs, model)))
    heads = ("Sets run", "base agrees", "QR agrees", "both agree")
    return Grid(
        name="agreement",
        title="Agreement with the paper",
        caption="Sets on which RMSE and NLL both agree with the printed numbers.",
        columns=(
            Column("Model"),
            *(Column(head, "RMSE and NLL", numeric=True) for head in heads),
            Column("numbers that agree", "Calibration error", numeric=True),
        ),
        rows=tuple(rows),
        notes=(_TOLERANCES,),
    )


def _agreeing(pairs: tuple[SideBySide, ...], model: Model) -> tuple[Entry, ...]:
    """Return the counts of a model; what was not run has none."""
    if not pairs:
        return (Entry(NOT_RUN),) * 5
    found = agreement(pairs, model)
    trained = {pair.paper.training for pair in pairs}
    both = {"base", "qr"}
    columns = ((found.base, {"base"}), (found.qr, {"qr"}), (found.both, both))
    errors = [p for p in pairs if p.paper.metric == "calibration_error"]
    agreeing = sum(pair.agrees for pair in errors)
    return (
        Entry(str(len(found.sets)), len(found.sets), ", ".join(found.sets)),
        *(
            _count(names, len(found.sets)) if needed <= trained else Entry(NOT_RUN)
            for names, needed in columns
        ),
        Entry(f"{agreeing} of {len(errors)}", agreeing),
    )


def disagreement_grid(records: Iterable[Record]) -> Grid:
    """List each number that disagrees with the paper's, with its likely cause.

    Parameters
    ----------
    records
        In any order; any may be missing.
    """
    every = [pair for _, pairs in _pairs(records) for pair in pairs]
    rows = tuple(_row(pair) for pair in every if not pair.agrees)
    return Grid(
        name="disagreements",
        title="Where ours and the paper's differ",
        caption=(
            f"{len(rows)} of {len(every)} numbers, each with its likely cause, where "
            "one is known."
        ),
        columns=(
            Column("Data set"),
            Column("Model"),
            Column("Training"),
            Column("Number"),
            Column("Paper", numeric=True),
            Column("Ours", numeric=True),
            Column("Difference", numeric=True),
            Column("Allowed", numeric=True),
            Column("Likely cause"),
        ),
        rows=rows,
        notes=(_TOLERANCES, DEVIATION),
    )


def errata_grid() -> Grid:
    """List the errata of the paper.

    Examples
    --------
    >>> len(errata_grid().columns)
    3
    """
    return Grid(
        name="errata",
        title="Errata of the paper",
        caption="What its text gets wrong or leaves out, and what it should say.",
        columns=(Column("Place"), Column("Printed"), Column("Correct")),
        rows=tuple(
            (Entry(each.place), Entry(each.printed), Entry(each.correct))
            for each in ERRATA
        ),
    )


def _pairs(records: Iterable[Record]) -> list[tuple[Model, tuple[SideBySide, ...]]]:
    known = tuple(records)
    summaries = summarize(known)
    models = paper_models(View(known))
    return [(model, side_by_side(summaries, model)) for model in models]


def _model(model: Model) -> str:
    return f"{network_title(model.network)}, {epochs_text(model.epochs)}"


def _count(names: tuple[str, ...], of: int) -> Entry:
    return Entry(f"{len(names)} of {of}", len(names), ", ".join(names))


def _row(pair: SideBySide) -> tuple[Entry, ...]:
    paper = pair.paper
    training = "base" if paper.training == "base" else "QR"
    if paper.recalibration == ISOTONIC:
        training += " + isotonic"
    return (
        Entry(data_title(paper.data)),
        Entry(_model(Model(paper.network, pair.epochs))),
        Entry(training),
        Entry(_METRICS[paper.metric]),
        printed(paper),
        spread(pair.ours, pair.repeats),
        number(pair.ours.mean - paper.mean),
        number(tolerance(paper, pair.ours, repeats=pair.repeats)),
        Entry(pair.cause),
    )
