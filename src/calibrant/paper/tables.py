"""Every table of a reproduction."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calibrant.files import replace_file
from calibrant.paper.claims import Verdict, tally
from calibrant.paper.grid import Column, Entry, Grid, to_csv, to_latex, to_markdown
from calibrant.paper.ledger import NO_REGULARIZER
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    TEXT_EPOCHS,
    Model,
    PublishedArm,
    PublishedNumber,
    SideBySide,
    agreement,
    errata,
    lookup,
    paper_arm,
    paper_models,
    side_by_side,
    starred,
    tolerance,
)
from calibrant.paper.settings import (
    data_title,
    epochs_text,
    folds_text,
    model_title,
    network_title,
)
from calibrant.paper.statistics import (
    Arm,
    ArmResults,
    Results,
    SetComparison,
    Spread,
    compare_arms,
)

__all__ = [
    "agreement_grid",
    "arm_grid",
    "arm_overview",
    "disagreement_grid",
    "errata_grid",
    "error_overview",
    "paper_tables",
    "short",
    "shuffled_grid",
    "tables",
    "verdict_grid",
    "verdict_overview",
    "verdict_sets_grid",
    "write_grids",
]

_NOT_RUN, _NOTHING = "not run", "-"
_DEVIATION = (
    "± is the population standard deviation (ddof 0) of the repeats' means; a number "
    "without it is of one repeat."
)
_METRICS = {"calibration_error": "Calibration error", "rmse": "RMSE", "nll": "NLL"}
_TRAININGS = {"base": "base", "qr": "QR"}
_ERROR, _OWN_ERROR = "calibration_error", "randomized_calibration_error"
_TOLERANCES = (
    "Agreement: RMSE within 5 % (or 0.01, where that is more), NLL within 0.1, "
    "calibration error within two combined standard deviations over repeats."
)
# Columns of the table of all arms; the first five are calibration errors.
_MEASURES = {
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
_SHORT_FLOOR = "Floor: what a perfectly calibrated model shows on as many rows."


def tables(results: Results) -> tuple[Grid, ...]:
    """Make all tables of numbers: Tables 1 to 4, agreement, and every model.

    Those on shuffled folds are there only if some were run.

    Parameters
    ----------
    results
        What was measured; any may be missing.

    Returns
    -------
    tuple[Grid, ...]
        In the order in which a reader wants them.

    Examples
    --------
    >>> [grid.name for grid in tables({})][:5]
    ['table-1', 'table-2', 'table-3', 'table-4', 'agreement']
    """
    splits = {arm.split for arm in results}
    grids = [*paper_tables(results), agreement_grid(results)]
    grids.append(disagreement_grid(results))
    if "shuffled" in splits:
        grids += [shuffled_grid(results), arm_grid(results, shuffled=True)]
    if splits - {"shuffled"}:
        grids.append(arm_grid(results, shuffled=False))
    return tuple(grids)


def write_grids(folder: Path, grids: Sequence[Grid]) -> tuple[Path, ...]:
    """Write tables as Markdown, LaTeX and CSV, three files for each.

    Parameters
    ----------
    folder
        Made if it is not there; files with the same names are replaced.
    grids
        The tables; a file's name is the table's.
    """
    kinds = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}
    paths = []
    for grid in grids:
        for ending, render in kinds.items():
            paths.append(folder / f"{grid.name}{ending}")
            replace_file(paths[-1], render(grid).encode())
    return tuple(paths)


def short(value: float) -> str:
    """Write a number with two digits after the point, three if it is below 1.

    Examples
    --------
    >>> short(12.345), short(0.0678), short(float("inf"))
    ('12.35', '0.068', 'inf')
    """
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _number(value: float) -> Entry:
    return Entry(short(value), value)


def _spread(found: Spread, repeats: int, *, detail: str = "") -> Entry:
    """Mean ± deviation; one repeat has no deviation."""
    text = short(found.mean)
    if repeats > 1 and math.isfinite(found.std):
        places = len(text.partition(".")[2])
        text = f"{text} ± {found.std:.{places}f}"
    return Entry(text, found.mean, detail)


def _printed(found: PublishedNumber | None) -> Entry:
    """A number of the paper, as it is printed."""
    if found is None:
        return Entry("n/a")
    return Entry(f"{found.mean:.2f} ± {found.std:.2f}", found.mean)


def _count(names: Sequence[str], of: int | None = None) -> Entry:
    text = str(len(names)) if of is None else f"{len(names)} of {of}"
    return Entry(text, len(names), ", ".join(names))


def _ours(
    results: Results, model: Model, data: str, column: tuple[str, str], metric: str
) -> Entry:
    """Our number: bold if it is clearly lower than that of the other training."""
    training, recalibration = column
    other = "base" if training == "qr" else "qr"
    arm = model.arm(data, *column)
    known = results.get(arm)
    if known is None:
        return Entry(_NOT_RUN)
    if not known.repeats:
        return Entry(known.state)
    found = compare_arms(results, arm, model.arm(data, other, recalibration), metric)
    detail = known.state
    if found is not None:
        clear = f"clearly {found.direction}"
        says = "no clear difference" if found.direction == "unclear" else clear
        test = found.test
        detail += f"; difference {test.difference:+.3g}, p = {test.p:.2g}: {says}"
    entry = _spread(known.spread(metric), len(known.repeats), detail=detail)
    lower = found is not None and found.direction == "lower"
    return replace(entry, emphasis=lower)


def _floor(results: Results, model: Model, data: str, recalibration: str) -> Entry:
    for training in _TRAININGS:
        known = results.get(model.arm(data, training, recalibration))
        if known is not None and known.repeats:
            return _number(known.spread("floor").mean)
    return Entry(_NOT_RUN)


def paper_tables(results: Results) -> tuple[Grid, ...]:
    """Make Tables 1 to 4 in the paper's layout, ours beside theirs.

    Parameters
    ----------
    results
        What was measured; what was not run says so.

    Examples
    --------
    >>> [grid.name for grid in paper_tables({})]
    ['table-1', 'table-2', 'table-3', 'table-4']
    """
    models = paper_models(results)
    grids = [
        _paper_table(results, [model for model in models if model.network == n], after)
        for after in (False, True)
        for n in (MC_DROPOUT, ENSEMBLE)
    ]
    return tuple(
        replace(grid, name=f"table-{number}", title=f"Table {number}: {grid.title}")
        for number, grid in enumerate(grids, 1)
    )


def _paper_table(results: Results, models: list[Model], recalibrated: bool) -> Grid:
    """Scores of base and QR, or errors before and after isotonic recalibration."""
    network, several = models[0].network, len(models) > 1
    rows = []
    for data in _paper_sets(results, network):
        for model in models:
            title = data_title(data, (arm.data for arm in results))
            star = " *" if recalibrated and data in starred(network) else ""
            first = [Entry(title + star)]
            first += [Entry(str(model.epochs), model.epochs)] * several
            rest = _isotonic_row if recalibrated else _scores_row
            rows.append((*first, *rest(results, model, data)))
    columns = [Column("Data set")] + [Column("Epochs", numeric=True)] * several
    name = {MC_DROPOUT: "MC dropout", ENSEMBLE: "deep ensembles"}[network]
    notes = (
        "Bold: clearly lower than the other training of the same model, by a paired "
        "test over folds and repeats at 5 %.",
        _DEVIATION,
        "Noise floor: what a perfectly calibrated model would show on average with as "
        "many test rows.",
        "The text names 100 epochs; the printed ensembles fit shorter trainings better "
        "on some sets, so both are shown.",
    )[: 3 + several]
    if not recalibrated:
        parts = ("base, paper", "base, ours", "QR, paper", "QR, ours")
        for metric, title in _METRICS.items():
            columns += [Column(part, title, numeric=True) for part in parts]
            columns += [Column("floor", title, numeric=True)] * (metric == _ERROR)
        return Grid(
            name="",
            title=f"{name}, base and QR",
            caption=(
                "Trained without (base) and with quantile regularization (QR, strength "
                "20). The calibration error is 100 times the sum of squared gaps over "
                "20 levels. Lower is better everywhere."
            ),
            columns=tuple(columns),
            rows=tuple(rows),
            notes=notes,
        )
    parts = ("before, paper", "before, ours", "isotonic, paper", "isotonic, ours")
    columns += [
        Column(p, group, numeric=True) for group in ("base", "QR") for p in parts
    ]
    columns += [Column(p, "floor", numeric=True) for p in ("before", "isotonic")]
    star = "* By the paper's numbers, isotonic recalibration raises the error of base."
    return Grid(
        name="",
        title=f"{name}, isotonic recalibration",
        caption=(
            "Calibration error before and after isotonic recalibration on the training "
            "fold, for models trained without (base) and with quantile regularization."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(star, *notes),
    )


def _paper_sets(results: Results, network: str) -> list[str]:
    """The paper's sets, and others that were run in the same way."""
    column = PublishedArm(network)
    others = {
        arm.data
        for arm in results
        if arm.data not in PAPER_DATA
        and arm == paper_arm(arm.data, column, epochs=arm.epochs)
    }
    return [*PAPER_DATA, *sorted(others)]


def _scores_row(results: Results, model: Model, data: str) -> list[Entry]:
    row = []
    for metric in _METRICS:
        for training in _TRAININGS:
            row.append(_printed(lookup(data, model.column(training), metric)))
            row.append(_ours(results, model, data, (training, "none"), metric))
        if metric == _ERROR:
            row.append(_floor(results, model, data, "none"))
    return row


def _isotonic_row(results: Results, model: Model, data: str) -> list[Entry]:
    row = []
    for training in _TRAININGS:
        for after in ("none", ISOTONIC):
            row.append(_printed(lookup(data, model.column(training, after), _ERROR)))
            row.append(_ours(results, model, data, (training, after), _ERROR))
    return row + [_floor(results, model, data, after) for after in ("none", ISOTONIC)]


def agreement_grid(results: Results) -> Grid:
    """Count the sets on which RMSE and NLL agree with the paper's, for each model.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    """
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
        rows=tuple(
            (Entry(model_title(model)), *_agreeing(side_by_side(results, model)))
            for model in paper_models(results)
        ),
        notes=(_TOLERANCES,),
    )


def _agreeing(pairs: Sequence[SideBySide]) -> tuple[Entry, ...]:
    """Return the counts of a model; what was not run has none."""
    if not pairs:
        return (Entry(_NOT_RUN),) * 5
    found = agreement(pairs)
    trained = {pair.paper.training for pair in pairs}
    columns = (
        (found.base, {"base"}),
        (found.qr, {"qr"}),
        (found.both, {"base", "qr"}),
    )
    errors = [pair.agrees for pair in pairs if pair.paper.metric == _ERROR]
    return (
        _count(found.sets),
        *(
            _count(names, len(found.sets)) if needed <= trained else Entry(_NOT_RUN)
            for names, needed in columns
        ),
        Entry(f"{sum(errors)} of {len(errors)}", sum(errors)),
    )


def disagreement_grid(results: Results) -> Grid:
    """List each number that disagrees with the paper's, with its likely cause.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    """
    models = paper_models(results)
    pairs = [pair for model in models for pair in side_by_side(results, model)]
    rows = tuple(_disagreement(pair) for pair in pairs if not pair.agrees)
    texts, numbers = ("Data set", "Model", "Training", "Number"), ("Paper", "Ours")
    return Grid(
        name="disagreements",
        title="Where ours and the paper's differ",
        caption=(
            f"{len(rows)} of {len(pairs)} numbers, each with its likely cause, where "
            "one is known."
        ),
        columns=(
            *map(Column, texts),
            *(Column(n, numeric=True) for n in (*numbers, "Difference", "Allowed")),
            Column("Likely cause"),
        ),
        rows=rows,
        notes=(_TOLERANCES, _DEVIATION),
    )


def _disagreement(pair: SideBySide) -> tuple[Entry, ...]:
    paper = pair.paper
    after = " + isotonic" if paper.recalibration == ISOTONIC else ""
    metric = _METRICS[paper.metric]
    return (
        Entry(data_title(paper.data)),
        Entry(model_title(Model(paper.network, pair.epochs))),
        Entry(_TRAININGS[paper.training] + after),
        Entry(metric.lower() if paper.metric == _ERROR else metric),
        _printed(paper),
        _spread(pair.ours, pair.repeats),
        _number(pair.ours.mean - paper.mean),
        _number(tolerance(paper, pair.ours, repeats=pair.repeats)),
        Entry(pair.cause),
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
            (Entry(found.place), Entry(found.printed), Entry(found.correct))
            for found in errata()
        ),
    )


def arm_grid(results: Results, *, shuffled: bool | None = None) -> Grid:
    """List every arm with all its numbers.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    shuffled
        Whether only arms on shuffled folds, or only others; None for all.
    """
    wanted = [
        known
        for arm, known in results.items()
        if shuffled is None or (arm.split == "shuffled") == shuffled
    ]
    names = {known.arm.data for known in wanted}
    name, place = {
        None: ("all", ""),
        True: ("shuffled", " on shuffled folds"),
        False: ("paper", " on the paper's folds"),
    }[shuffled]
    return Grid(
        name=f"arms-{name}",
        title=f"Every model that was run{place}",
        caption="Mean ± standard deviation over repeats; no ± with one repeat.",
        columns=(
            Column("Data set"),
            Column("Model"),
            Column("Epochs", numeric=True),
            Column("Folds", numeric=True),
            Column("Run"),
            *(
                Column(title, "Calibration error" if i < 5 else "", numeric=True)
                for i, title in enumerate(_MEASURES.values())
            ),
        ),
        rows=tuple(_arm_row(known, names) for known in wanted),
        notes=(
            _DEVIATION,
            "Errors: of plain and of randomized PIT values, and the mean over "
            "quartiles of predicted spread and of predicted mean (their floor is four "
            "times as high). Coverage: share of targets in the central 90 % interval. "
            "Sharpness: mean predicted standard deviation.",
        ),
    )


def _arm_row(known: ArmResults, names: Iterable[str]) -> tuple[Entry, ...]:
    arm = known.arm
    place = "" if arm.split == "unshuffled" else f", {arm.split}"
    values = [
        _spread(known.spread(metric), len(known.repeats))
        if known.repeats
        else Entry("partial", detail=known.state)
        for metric in _MEASURES
    ]
    return (
        Entry(data_title(arm.data, names)),
        Entry(f"{_model_label(arm)}{place}"),
        Entry(str(arm.epochs), arm.epochs),
        Entry(str(arm.folds), arm.folds),
        Entry(known.state, detail=f"{known.seconds:.2g} s for a cell"),
        *values,
    )


def _model_label(arm: Arm) -> str:
    name = network_title(arm.network)
    if arm.regularizer != NO_REGULARIZER:
        name += f" + {arm.regularizer.replace('_', ' ')} {arm.strength:g}"
    if arm.recalibration != "none":
        name += f" + {arm.recalibration.replace('_', ' ')}"
    return name


def shuffled_grid(results: Results) -> Grid:
    """Compare each model on shuffled folds with MC dropout alone, over the sets.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    """
    groups: dict[Arm, list[Arm]] = {}
    for arm in results:
        if arm.split == "shuffled":
            groups.setdefault(replace(arm, data=""), []).append(arm)
    rows = [_shuffled_row(results, arms) for arms in groups.values()]
    found = [row for row in rows if row is not None]
    found.sort(key=lambda row: (row[2].value is None, row[2].value))
    heads = (
        ("ratio", "Error"),
        ("clearly lower", "Error"),
        ("clearly higher", "Error"),
        ("over floor", "Error"),
        ("difference", "NLL"),
        ("clearly higher", "NLL"),
        ("ratio", "CRPS"),
        ("ratio", "RMSE"),
        ("mean coverage", "90 % interval"),
    )
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
            *(Column(title, group, numeric=True) for title, group in heads),
        ),
        rows=tuple(found),
    )


def _shuffled_row(results: Results, arms: Sequence[Arm]) -> tuple[Entry, ...] | None:
    def sets(metric: str) -> list[SetComparison]:
        """Compare with MC dropout alone on the same folds."""
        found = (
            compare_arms(
                results,
                arm,
                replace(
                    paper_arm(arm.data, PublishedArm(MC_DROPOUT), shuffled=True),
                    folds=arm.folds,
                ),
                metric,
            )
            for arm in arms
        )
        return [comparison for comparison in found if comparison is not None]

    def ratio(metric: str) -> Entry:
        pairs = ((c.b, c.a) for c in sets(metric))
        return _number(statistics.median(b / a if a else math.inf for b, a in pairs))

    if not sets(_OWN_ERROR):
        return None
    done = [results[arm] for arm in arms if results[arm].repeats]
    errors, nll = tally(sets(_OWN_ERROR)), tally(sets("nll"))
    floors = [d.spread(_OWN_ERROR).mean / d.spread("floor").mean for d in done]
    # Two infinite numbers are equal here: their difference has no value.
    moves = [0.0 if c.b == c.a else c.b - c.a for c in sets("nll")]
    coverage = statistics.fmean(known.spread("coverage").mean for known in done)
    first = arms[0]
    usual = first.epochs == TEXT_EPOCHS
    unusual = folds_text(first) + ("" if usual else f", {epochs_text(first.epochs)}")
    return (
        Entry(f"{_model_label(first)}{unusual}"),
        Entry(str(errors.sets), errors.sets, ", ".join(arm.data for arm in arms)),
        ratio(_OWN_ERROR),
        _count(errors.clearly_lower),
        _count(errors.clearly_higher),
        _number(statistics.median(floors)),
        _number(statistics.median(moves)),
        _count(nll.clearly_higher),
        ratio("crps"),
        ratio("rmse"),
        _number(coverage),
    )


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """List claims and verdicts, one row for each claim and model.

    Parameters
    ----------
    verdicts
        In their order.
    """
    heads = ("Claim", "Model", "Verdict", "Paper's numbers", "Ours", "Why")
    return Grid(
        name="verdicts",
        title="Verdicts",
        caption=(
            "Each claim, what the paper's own numbers say, what ours say, and the "
            "verdict by a rule that was fixed before the run."
        ),
        columns=tuple(map(Column, heads)),
        rows=tuple(
            (
                Entry(verdict.claim, detail=verdict.quote),
                Entry(_verdict_model(verdict.network, verdict.epochs)),
                Entry(verdict.verdict, detail=verdict.rule, emphasis=True),
                Entry(verdict.paper or "no claim of the paper"),
                Entry(verdict.ours),
                Entry(verdict.explanation),
            )
            for verdict in verdicts
        ),
    )


def verdict_sets_grid(verdict: Verdict) -> Grid:
    """List the sets behind a verdict.

    Parameters
    ----------
    verdict
        Which.
    """
    names = [found.data for found in verdict.sets]
    model = _verdict_model(verdict.network, verdict.epochs)
    heads = (*verdict.columns, "Difference", "p")
    return Grid(
        name=f"verdict-{verdict.name}-{verdict.network}-{verdict.epochs or 'any'}",
        title=f"{verdict.name}, {model}: {verdict.verdict}",
        caption=verdict.claim,
        columns=(
            Column("Data set"),
            *(Column(head, numeric=True) for head in heads),
            Column("Result"),
            Column("Repeats", numeric=True),
            Column("Note"),
        ),
        rows=tuple(_set_row(found, names) for found in verdict.sets),
        notes=(verdict.rule, verdict.explanation),
    )


def _set_row(found: SetComparison, names: Sequence[str]) -> tuple[Entry, ...]:
    unclear = found.direction == "unclear"
    return (
        Entry(data_title(found.data, names)),
        _number(found.b),
        _number(found.a),
        _number(found.test.difference),
        Entry(f"{found.test.p:.2g}", found.test.p, f"t = {found.test.t:.3g}"),
        Entry("unclear" if unclear else f"clearly {found.direction}"),
        Entry(str(found.repeats), found.repeats),
        Entry(found.note),
    )


def _verdict_model(network: str, epochs: int | None) -> str:
    return network_title(network) + (
        "" if epochs is None else f", {epochs_text(epochs)}"
    )


def error_overview(results: Results) -> Grid:
    """Show the calibration error without and with the regularizer, theirs and ours.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    """
    models = paper_models(results)
    columns = [Column("Data set")]
    for model in models:
        columns += [Column(who, model_title(model)) for who in ("paper", "ours")]
    rows = (_error_row(results, data, models) for data in PAPER_DATA)
    return Grid(
        name="overview",
        title="Calibration error, without and with the regularizer",
        caption="100 times the sum of squared gaps over 20 levels, base to QR.",
        columns=(*columns, Column("floor", numeric=True)),
        rows=tuple(row for row in rows if row is not None),
        notes=(_SHORT_FLOOR,),
    )


def _error_row(
    results: Results, data: str, models: Sequence[Model]
) -> tuple[Entry, ...] | None:
    entries, floors = [Entry(data_title(data))], []
    for model in models:
        theirs, ours = [], []
        for training in _TRAININGS:
            paper = lookup(data, model.column(training), _ERROR)
            theirs.append(None if paper is None else paper.mean)
            known = results.get(model.arm(data, training))
            run = known is not None and known.repeats
            ours.append(known.spread(_ERROR).mean if known and run else None)
            floors += [known.spread("floor").mean] if known and run else []
        entries += [_change(theirs), _change(ours)]
    return (*entries, _number(floors[0])) if floors else None


def _change(numbers: Sequence[float | None]) -> Entry:
    if all(number is None for number in numbers):
        return Entry(_NOTHING)
    texts = (_NOTHING if number is None else short(number) for number in numbers)
    return Entry(" → ".join(texts))


def arm_overview(results: Results) -> Grid:
    """Show each model that was run on other data or in another way than the paper's.

    Parameters
    ----------
    results
        What was measured; any may be missing.
    """
    paper = {
        model.arm(data, training)
        for data in PAPER_DATA
        for model in paper_models(results)
        for training in _TRAININGS
    }
    wanted = [
        known
        for arm, known in results.items()
        if known.repeats and arm not in paper and arm.recalibration != ISOTONIC
    ]
    metrics = ("calibration_error", "floor", "rmse", "nll")
    return Grid(
        name="arms",
        title="Other models",
        caption="Means over folds and repeats.",
        columns=(
            Column("Model"),
            *(Column(_MEASURES[metric], numeric=True) for metric in metrics),
        ),
        rows=tuple(
            (
                Entry(_arm_words(known.arm, {other.arm.data for other in wanted})),
                *(_number(known.spread(metric).mean) for metric in metrics),
            )
            for known in wanted
        ),
        notes=(_SHORT_FLOOR,),
    )


def _arm_words(arm: Arm, among: set[str]) -> str:
    words = [data_title(arm.data, among), network_title(arm.network)]
    if arm.strength:
        words.append(f"{arm.regularizer} {arm.strength:g}")
    if arm.recalibration != "none":
        words.append(arm.recalibration)
    words.append(f"{arm.folds} {arm.split} folds, {epochs_text(arm.epochs)}")
    return ", ".join(words)


def verdict_overview(verdicts: Sequence[Verdict], source: str = "paper") -> Grid:
    """Show the verdict on each claim, one column for each model.

    Parameters
    ----------
    verdicts
        In their order.
    source
        ``"paper"`` for its claims, ``"own"`` for our questions.
    """
    wanted = [verdict for verdict in verdicts if verdict.source == source]
    models = list(dict.fromkeys((v.network, v.epochs) for v in wanted))
    claims: dict[str, dict[tuple[str, int | None], Entry]] = {}
    titles: Mapping[str, str] = {verdict.name: verdict.claim for verdict in wanted}
    for verdict in wanted:
        entry = Entry(verdict.verdict, detail=verdict.explanation)
        claims.setdefault(verdict.name, {})[verdict.network, verdict.epochs] = entry
    return Grid(
        name="verdict-overview",
        title="Claims of the paper" if source == "paper" else "Our own questions",
        caption="By rules that were written down before the run.",
        columns=(
            Column("Claim" if source == "paper" else "Question"),
            *(Column(_verdict_model(*model)) for model in models),
        ),
        rows=tuple(
            (
                Entry(titles[name]),
                *(found.get(model, Entry(_NOTHING)) for model in models),
            )
            for name, found in claims.items()
        ),
    )
