"""Every table of a reproduction."""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from calibrant.files import replace_file
from calibrant.paper.claims import Verdict, tally
from calibrant.paper.grid import Entry, Grid, columns, to_csv, to_latex, to_markdown
from calibrant.paper.ledger import NO_REGULARIZER
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    TEXT_EPOCHS,
    Model,
    PublishedNumber,
    SideBySide,
    agreement,
    errata,
    lookup,
    paper_arm,
    paper_models,
    paper_texts,
    side_by_side,
    starred,
    tolerance,
)
from calibrant.paper.settings import data_title, epochs_text, folds_text, network_title
from calibrant.paper.statistics import Arm, ArmResults, Results, Spread, compare_arms

_NOT_RUN, _NOTHING = Entry("not run"), Entry("-")
_ERROR, _OWN_ERROR = "calibration_error", "randomized_calibration_error"
_METRICS = {_ERROR: "Calibration error", "rmse": "RMSE", "nll": "NLL"}
_TRAININGS = {"base": "base", "qr": "QR"}
_RECALIBRATIONS = {"none": "before", ISOTONIC: "isotonic"}
# Columns of the table of all arms; the first five are calibration errors.
_MEASURES = {
    _ERROR: "error",
    "floor": "floor",
    _OWN_ERROR: "randomized",
    "spread_calibration_error": "by spread",
    "mean_calibration_error": "by mean",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "coverage",
    "sharpness": "sharpness",
}


def _grid(
    kind: str,
    rows: Iterable[tuple[Entry, ...]],
    *heads: str,
    name: str = "",
    notes: Sequence[str] = (),
    **words: object,
) -> Grid:
    """Make a table whose texts stand in ``paper.toml``, with more columns and notes."""
    every = paper_texts()
    text = every["tables"][kind]
    caption = every["captions"].get(text["caption"], text["caption"])
    known = [head.format(**words) for head in text.get("columns", ())]
    return Grid(
        name=name or kind,
        title=text["title"].format(**words),
        caption=caption.format(**words),
        columns=columns(*known, *heads),
        rows=tuple(rows),
        notes=tuple(every["notes"].get(n, n) for n in (*text.get("notes", ()), *notes)),
    )


def tables(results: Results) -> tuple[Grid, ...]:
    """Make all tables of numbers: Tables 1 to 4, agreement, and every model.

    Those on shuffled folds are there only if some were run.

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
    """Write tables as Markdown, LaTeX and CSV: three files of the table's name."""
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


def _whole(value: int, detail: str = "") -> Entry:
    return Entry(str(value), value, detail)


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


def _model(network: str, epochs: int | None) -> str:
    title = network_title(network)
    return title if epochs is None else f"{title}, {epochs_text(epochs)}"


def _ours(
    results: Results,
    model: Model,
    data: str,
    training: str,
    recalibration: str,
    metric: str,
) -> Entry:
    """Our number: bold if it is clearly lower than that of the other training."""
    arm = model.arm(data, training, recalibration)
    known = results.get(arm)
    if known is None or not known.repeats:
        return _NOT_RUN if known is None else Entry(known.state)
    other = model.arm(data, "base" if training == "qr" else "qr", recalibration)
    found, detail = compare_arms(results, arm, other, metric), known.state
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
    return _NOT_RUN


#: Heading of a column, and its entry for a model and a data set.
_Column = tuple[str, Callable[[Model, str], Entry]]


def _pair(results: Results, head: str, *what: str) -> list[_Column]:
    """The paper's number and ours, for a training, a recalibration and a metric."""
    training, recalibration, metric = what
    return [
        (
            f"{head}, paper",
            lambda model, data: _printed(
                lookup(data, model.network, training, recalibration, metric)
            ),
        ),
        (f"{head}, ours", lambda model, data: _ours(results, model, data, *what)),
    ]


def paper_tables(results: Results) -> tuple[Grid, ...]:
    """Make Tables 1 to 4 in the paper's layout, ours beside theirs.

    Examples
    --------
    >>> [grid.name for grid in paper_tables({})]
    ['table-1', 'table-2', 'table-3', 'table-4']
    """
    floors: dict[str, _Column] = {
        after: (f"#floor: {word}", partial(_floor, results, recalibration=after))
        for after, word in _RECALIBRATIONS.items()
    }
    scores: list[_Column] = []
    for metric, title in _METRICS.items():
        for training, word in _TRAININGS.items():
            scores += _pair(results, f"#{title}: {word}", training, "none", metric)
        if metric == _ERROR:
            scores.append((f"#{title}: floor", floors["none"][1]))
    isotonic: list[_Column] = []
    for training, word in _TRAININGS.items():
        for after, when in _RECALIBRATIONS.items():
            isotonic += _pair(results, f"#{word}: {when}", training, after, _ERROR)
    isotonic += floors.values()
    return (
        _paper_table(results, 1, MC_DROPOUT, scores),
        _paper_table(results, 2, ENSEMBLE, scores),
        _paper_table(results, 3, MC_DROPOUT, isotonic),
        _paper_table(results, 4, ENSEMBLE, isotonic),
    )


def _paper_table(
    results: Results, number: int, network: str, heads: Sequence[_Column]
) -> Grid:
    models = [model for model in paper_models(results) if model.network == network]
    several = len(models) > 1
    # The paper's sets, and others that were run in the same way.
    others = {
        arm.data
        for arm in results
        if arm.data not in PAPER_DATA
        and arm == Model(network, arm.epochs).arm(arm.data)
    }
    stars = starred(network) if number > 2 else []
    rows = []
    for data in (*PAPER_DATA, *sorted(others)):
        title = data_title(data, (arm.data for arm in results))
        for model in models:
            first = [Entry(title + " *" * (data in stars))]
            first += [_whole(model.epochs)] * several
            rows.append((*first, *(entry(model, data) for _, entry in heads)))
    titles = ["Data set"] + ["#Epochs"] * several + [head for head, _ in heads]
    notes = ["star"] * (number > 2) + ["bold", "deviation", "noise"]
    notes += ["epochs"] * several
    return _grid(f"table-{number}", rows, *titles, notes=notes)


def agreement_grid(results: Results) -> Grid:
    """Count the sets on which RMSE and NLL agree with the paper's, for each model."""
    rows = (
        (Entry(_model(*model)), *_agreeing(side_by_side(results, model)))
        for model in paper_models(results)
    )
    return _grid("agreement", rows)


def _agreeing(pairs: Sequence[SideBySide]) -> tuple[Entry, ...]:
    """Return the counts of a model; what was not run has none."""
    if not pairs:
        return (_NOT_RUN,) * 5
    found = agreement(pairs)
    trained = {pair.paper.training for pair in pairs}
    needed = {"base": {"base"}, "qr": {"qr"}, "both": {"base", "qr"}}
    counts = []
    for name, trainings in needed.items():
        sets = getattr(found, name)
        text = f"{len(sets)} of {len(found.sets)}"
        entry = Entry(text, len(sets), ", ".join(sets))
        counts.append(entry if trainings <= trained else _NOT_RUN)
    errors = [pair.agrees for pair in pairs if pair.paper.metric == _ERROR]
    agreed = Entry(f"{sum(errors)} of {len(errors)}", sum(errors))
    return (_whole(len(found.sets), ", ".join(found.sets)), *counts, agreed)


def disagreement_grid(results: Results) -> Grid:
    """List each number that disagrees with the paper's, with its likely cause."""
    models = paper_models(results)
    pairs = [pair for model in models for pair in side_by_side(results, model)]
    rows = [_disagreement(pair) for pair in pairs if not pair.agrees]
    return _grid("disagreements", rows, found=len(rows), pairs=len(pairs))


def _disagreement(pair: SideBySide) -> tuple[Entry, ...]:
    paper, metric = pair.paper, _METRICS[pair.paper.metric]
    after = " + isotonic" if paper.recalibration == ISOTONIC else ""
    return (
        Entry(data_title(paper.data)),
        Entry(_model(paper.network, pair.epochs)),
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
    slips = [(slip.place, slip.printed, slip.correct) for slip in errata()]
    return _grid("errata", [tuple(map(Entry, slip)) for slip in slips])


def arm_grid(results: Results, *, shuffled: bool) -> Grid:
    """List every arm on shuffled folds, or on the others, with all its numbers."""
    arms = [arm for arm in results if (arm.split == "shuffled") == shuffled]
    heads = [
        f"#Calibration error: {title}" if number < 5 else f"#{title}"
        for number, title in enumerate(_MEASURES.values())
    ]
    rows = (_arm_row(results[arm], {arm.data for arm in arms}) for arm in arms)
    return _grid("arms-shuffled" if shuffled else "arms-paper", rows, *heads)


def _arm_row(known: ArmResults, names: Collection[str]) -> tuple[Entry, ...]:
    arm = known.arm
    place = "" if arm.split == "unshuffled" else f", {arm.split}"
    values = [Entry("partial", detail=known.state)] * len(_MEASURES)
    if known.repeats:
        count = len(known.repeats)
        values = [_spread(known.spread(metric), count) for metric in _MEASURES]
    return (
        Entry(data_title(arm.data, names)),
        Entry(f"{_model_label(arm)}{place}"),
        _whole(arm.epochs),
        _whole(arm.folds),
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
    """Compare each model on shuffled folds with MC dropout alone, over the sets."""
    groups: dict[Arm, list[Arm]] = {}
    for arm in results:
        if arm.split == "shuffled":
            groups.setdefault(replace(arm, data=""), []).append(arm)
    rows = [_shuffled_row(results, arms) for arms in groups.values()]
    found = [row for row in rows if row]
    found.sort(key=lambda row: (row[2].value is None, row[2].value))
    return _grid("shuffled", found)


def _shuffled_row(results: Results, arms: Sequence[Arm]) -> tuple[Entry, ...]:
    sets = {}
    for metric in (_OWN_ERROR, "nll", "crps", "rmse"):
        found = []
        for arm in arms:
            base = paper_arm(arm.data, Model(MC_DROPOUT), shuffled=True)
            other = replace(base, folds=arm.folds)
            found.append(compare_arms(results, arm, other, metric))
        sets[metric] = [comparison for comparison in found if comparison is not None]
    if not sets[_OWN_ERROR]:
        return ()

    def ratio(metric: str) -> Entry:
        ratios = [s.b / s.a if s.a else math.inf for s in sets[metric]]
        return _number(statistics.median(ratios))

    done = [results[arm] for arm in arms if results[arm].repeats]
    errors, nll = tally(sets[_OWN_ERROR]), tally(sets["nll"])
    floors = [d.spread(_OWN_ERROR).mean / d.spread("floor").mean for d in done]
    # Two infinite numbers are equal here: their difference has no value.
    moves = [0.0 if s.b == s.a else s.b - s.a for s in sets["nll"]]
    lower, higher, worse = (
        _whole(len(names), ", ".join(names))
        for names in (errors.clearly_lower, errors.clearly_higher, nll.clearly_higher)
    )
    first, usual = arms[0], arms[0].epochs == TEXT_EPOCHS
    unusual = folds_text(first) + ("" if usual else f", {epochs_text(first.epochs)}")
    return (
        Entry(f"{_model_label(first)}{unusual}"),
        _whole(errors.sets, ", ".join(arm.data for arm in arms)),
        ratio(_OWN_ERROR),
        lower,
        higher,
        _number(statistics.median(floors)),
        _number(statistics.median(moves)),
        worse,
        ratio("crps"),
        ratio("rmse"),
        _number(statistics.fmean(known.spread("coverage").mean for known in done)),
    )


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """List claims and verdicts, one row for each claim and model."""
    rows = (
        (
            Entry(verdict.claim, detail=verdict.quote),
            Entry(_model(verdict.network, verdict.epochs)),
            Entry(verdict.verdict, detail=verdict.rule, emphasis=True),
            Entry(verdict.paper or "no claim of the paper"),
            Entry(verdict.ours),
            Entry(verdict.explanation),
        )
        for verdict in verdicts
    )
    return _grid("verdicts", rows)


def verdict_sets_grid(verdict: Verdict) -> Grid:
    """List the sets behind a verdict."""
    names = [found.data for found in verdict.sets]
    rows = []
    for found in verdict.sets:
        test, unclear = found.test, found.direction == "unclear"
        row = (
            Entry(data_title(found.data, names)),
            *map(_number, (found.b, found.a, test.difference)),
            Entry(f"{test.p:.2g}", test.p, f"t = {test.t:.3g}"),
            Entry("unclear" if unclear else f"clearly {found.direction}"),
            _whole(found.repeats),
            Entry(found.note),
        )
        rows.append(row)
    b, a = verdict.columns
    model = _model(verdict.network, verdict.epochs)
    return _grid(
        "verdict",
        rows,
        name=f"verdict-{verdict.name}-{verdict.network}-{verdict.epochs or 'any'}",
        notes=(verdict.rule, verdict.explanation),
        title=f"{verdict.name}, {model}: {verdict.verdict}",
        claim=verdict.claim,
        b=b,
        a=a,
    )


def error_overview(results: Results) -> Grid:
    """Show the calibration error without and with the regularizer, theirs and ours."""
    models = paper_models(results)
    titles = [_model(*model) for model in models]
    heads = [f"{title}: {who}" for title in titles for who in ("paper", "ours")]
    rows = (_error_row(results, data, models) for data in PAPER_DATA)
    return _grid("overview", filter(None, rows), *heads, "#floor")


def _error_row(
    results: Results, data: str, models: Sequence[Model]
) -> tuple[Entry, ...]:
    entries, floors = [Entry(data_title(data))], []
    for model in models:
        theirs: list[float | None] = []
        ours: list[float | None] = []
        for training in _TRAININGS:
            paper = lookup(data, model.network, training, "none", _ERROR)
            theirs.append(None if paper is None else paper.mean)
            known = results.get(model.arm(data, training))
            if known is not None and known.repeats:
                ours.append(known.spread(_ERROR).mean)
                floors.append(known.spread("floor").mean)
            else:
                ours.append(None)
        entries += [_change(theirs), _change(ours)]
    return (*entries, _number(floors[0])) if floors else ()


def _change(numbers: Sequence[float | None]) -> Entry:
    if all(number is None for number in numbers):
        return _NOTHING
    texts = (_NOTHING.text if number is None else short(number) for number in numbers)
    return Entry(" → ".join(texts))


def arm_overview(results: Results) -> Grid:
    """Show each model that was run on other data or in another way than the paper's."""
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
    names = {known.arm.data for known in wanted}
    metrics = (_ERROR, "floor", "rmse", "nll")
    rows = []
    for known in wanted:
        arm = known.arm
        words = [data_title(arm.data, names), network_title(arm.network)]
        words += [f"{arm.regularizer} {arm.strength:g}"] * bool(arm.strength)
        words += [arm.recalibration] * (arm.recalibration != "none")
        words.append(f"{arm.folds} {arm.split} folds, {epochs_text(arm.epochs)}")
        numbers = (known.spread(metric).mean for metric in metrics)
        rows.append((Entry(", ".join(words)), *map(_number, numbers)))
    return _grid("arms", rows, *(f"#{_MEASURES[metric]}" for metric in metrics))


def verdict_overview(verdicts: Sequence[Verdict], source: str = "paper") -> Grid:
    """Show the verdict on each claim of the paper, or on each question of our own."""
    wanted = [verdict for verdict in verdicts if verdict.source == source]
    models = list(dict.fromkeys((v.network, v.epochs) for v in wanted))
    claims = {verdict.name: verdict.claim for verdict in wanted}
    found = {
        (v.name, v.network, v.epochs): Entry(v.verdict, detail=v.explanation)
        for v in wanted
    }
    rows = (
        (Entry(claim), *(found.get((name, *model), _NOTHING) for model in models))
        for name, claim in claims.items()
    )
    paper = source == "paper"
    return _grid(
        "verdict-overview",
        rows,
        *(_model(*model) for model in models),
        source="Claims of the paper" if paper else "Our own questions",
        first="Claim" if paper else "Question",
    )
