"""Every table of a reproduction, as Markdown, LaTeX, CSV and on a terminal."""

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.files import replace_file
from calibrant.paper.claims import OWN_ERROR, Verdict, clearly
from calibrant.paper.ledger import NO_REGULARIZER, Arm
from calibrant.paper.published import (
    ENSEMBLE,
    ERROR,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    Model,
    PublishedNumber,
    SideBySide,
    agreement,
    lookup,
    paper_models,
    paper_texts,
    side_by_side,
    starred,
)
from calibrant.paper.results import (
    TEXT_EPOCHS,
    ArmResults,
    Number,
    Results,
    compare_arms,
    data_title,
    epochs_text,
    folds_text,
    model_title,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

# What LaTeX would take for a command, and letters that its fonts lack.
_LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {letter: f"${letter}$" for letter in "<>"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "λ": r"$\lambda$",
        "Σ": r"$\Sigma$",
        "∞": r"$\infty$",
        "∫": r"$\int$",
        "²": r"$^2$",
        "·": r"$\cdot$",
    }
)
_TRAININGS = {"base": "base", "qr": "QR"}
_RECALIBRATIONS = {"none": "before", ISOTONIC: "isotonic"}
_METRICS = {ERROR: "Calibration error", "rmse": "RMSE", "nll": "NLL"}
# Columns of the table of all arms; the first five are calibration errors.
_MEASURES = {
    ERROR: "error",
    "floor": "floor",
    OWN_ERROR: "randomized",
    "spread_calibration_error": "by spread",
    "mean_calibration_error": "by mean",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "coverage",
    "sharpness": "sharpness",
}
_STYLES = {"holds": "green", "does not hold": "red", "within noise": "yellow"}
# The paper's own sets take a dozen lines on a terminal, and so may others.
_LINES = 12


@dataclass(frozen=True)
class Column:
    """A column: heading, the heading that it shares, whether it is of numbers."""

    title: str
    group: str = ""
    numeric: bool = False

    @classmethod
    def of(cls, head: str) -> "Column":
        """Make a column from ``"group: title"`` or ``"title"``, ``#`` for numbers.

        Examples
        --------
        >>> Column.of("#ours: error")
        Column(title='error', group='ours', numeric=True)
        """
        group, _, title = head.removeprefix("#").rpartition(": ")
        return cls(title, group, numeric=head.startswith("#"))


@dataclass(frozen=True)
class Entry:
    """One place of a table: text, exact number, details for a tooltip, bold or not."""

    text: str
    value: float | None = None
    detail: str = ""
    emphasis: bool = False


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table with its title, caption and notes.

    Examples
    --------
    >>> grid = Grid(
    ...     name="one",
    ...     title="One",
    ...     caption="A number.",
    ...     columns=(Column("set"), Column("error", "ours", numeric=True)),
    ...     rows=((Entry("yacht"), Entry("5.4", 5.4, emphasis=True)),),
    ... )
    >>> print(to_markdown(grid))
    ### One
    <BLANKLINE>
    A number.
    <BLANKLINE>
    | set | ours: error |
    |:--|--:|
    | yacht | **5.4** |
    <BLANKLINE>
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def heads(self) -> list[str]:
        """Headings with the heading that they share."""
        return [f"{c.group}: {c.title}" if c.group else c.title for c in self.columns]


def to_markdown(grid: Grid) -> str:
    """Write a table as Markdown, title, caption and notes included."""

    def line(texts: Iterable[str]) -> str:
        return f"| {' | '.join(texts)} |"

    def cell(text: str) -> str:
        return text.replace("|", r"\|").replace("\n", " ").replace("*", r"\*")

    def bold(entry: Entry) -> str:
        return f"**{cell(entry.text)}**" if entry.emphasis else cell(entry.text)

    marks = ["--:" if column.numeric else ":--" for column in grid.columns]
    lines = [f"### {grid.title}", "", grid.caption, ""]
    lines += [line(map(cell, grid.heads)), f"|{'|'.join(marks)}|"]
    lines += [line(map(bold, row)) for row in grid.rows]
    lines += [text for note in grid.notes for text in ("", note)]
    return "\n".join(lines) + "\n"


def to_latex(grid: Grid) -> str:
    """Write a table as LaTeX; it needs the packages booktabs and graphicx."""

    def line(texts: Iterable[str]) -> str:
        return f"{' & '.join(texts)} \\\\"

    def tex(text: str) -> str:
        return text.translate(_LATEX)

    def bold(entry: Entry) -> str:
        # A bracket first in a row would be read as an option of the line break.
        text = "{}" * entry.text.startswith("[") + tex(entry.text)
        return f"\\textbf{{{text}}}" if entry.emphasis else text

    cells, rules, start = [], [], 1
    for group, members in groupby(grid.columns, key=lambda column: column.group):
        width = len(list(members))
        if group:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{tex(group)}}}")
            rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
        else:
            cells += [""] * width
        start += width
    kinds = "".join("r" if column.numeric else "l" for column in grid.columns)
    lines = [
        "% \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{tex(grid.title)}. {tex(grid.caption)}}}",
        f"\\label{{tab:{grid.name}}}",
        "\\resizebox{\\textwidth}{!}{%",
        f"\\begin{{tabular}}{{{kinds}}}",
        "\\toprule",
        *([line(cells), "".join(rules)] if rules else []),
        line(tex(column.title) for column in grid.columns),
        "\\midrule",
        *(line(map(bold, row)) for row in grid.rows),
        "\\bottomrule",
        "\\end{tabular}}",
        *(f"\\par\\smallskip\\footnotesize {tex(note)}" for note in grid.notes),
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_csv(grid: Grid) -> str:
    """Write a table for machines: exact numbers where there are some, else texts."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(grid.heads)
    for row in grid.rows:
        writer.writerow([e.text if e.value is None else e.value for e in row])
    return file.getvalue()


def write_grids(folder: Path, grids: Sequence[Grid]) -> None:
    """Write tables as Markdown, LaTeX and CSV: three files of the table's name."""
    kinds = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}
    for grid in grids:
        for ending, write in kinds.items():
            replace_file(folder / f"{grid.name}{ending}", write(grid).encode())


def to_screen(grid: Grid) -> "RenderableType":
    """Lay a table out for a terminal, no longer than a screen."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    left = len(grid.rows) - _LINES
    notes = [f"The report has {left} more."] if left > 0 else []
    table = Table(
        title=grid.title,
        title_justify="left",
        caption=" ".join((grid.caption, *notes, *grid.notes)),
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    for place, (column, head) in enumerate(zip(grid.columns, grid.heads, strict=True)):
        title = Text(head.replace(": ", "\n").replace(", ", "\n"))
        side: Any = "right" if column.numeric else "left"
        # What is too long is cut in the first column alone.
        table.add_column(title, justify=side, no_wrap=place > 0)
    for row in grid.rows[:_LINES]:
        styled = (Text(e.text, style=_STYLES.get(e.text, "")) for e in row[1:])
        first = Text(row[0].text, no_wrap=True, overflow="ellipsis")
        table.add_row(first, *styled)
    return table


def short(value: float) -> str:
    """Write a number with two digits after the point, three if it is below 1.

    Examples
    --------
    >>> short(12.345), short(0.0678), short(float("inf"))
    ('12.35', '0.068', 'inf')
    """
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


_NOT_RUN, _NOTHING = Entry("not run"), Entry("-")


def _number(value: float) -> Entry:
    return Entry(short(value), value)


def _whole(value: int, detail: str = "") -> Entry:
    return Entry(str(value), value, detail)


def _spread(found: Number, repeats: int, *, detail: str = "") -> Entry:
    """Mean ± deviation; one repeat has no deviation."""
    text = short(found.mean)
    if repeats > 1 and found.std is not None:
        text += f" ± {found.std:.{len(text.partition('.')[2])}f}"
    return Entry(text, found.mean, detail)


def _printed(found: PublishedNumber | None) -> Entry:
    """A number of the paper, as it is printed."""
    if found is None:
        return Entry("n/a")
    return Entry(f"{found.mean:.2f} ± {found.std:.2f}", found.mean)


def _grid(
    kind: str,
    rows: Iterable[tuple[Entry, ...]],
    *heads: str,
    notes: Sequence[str] = (),
    **words: object,
) -> Grid:
    """Make a table whose texts stand in ``paper.toml``, with more columns and notes."""
    every = paper_texts()
    text = every["tables"][kind]
    caption = every["captions"].get(text["caption"], text["caption"])
    known = [head.format(**words) for head in text.get("columns", ())]
    return Grid(
        name=kind,
        title=text["title"].format(**words),
        caption=caption.format(**words),
        columns=tuple(map(Column.of, (*known, *heads))),
        rows=tuple(rows),
        notes=tuple(every["notes"][n] for n in (*text.get("notes", ()), *notes)),
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


#: Heading of a column, and its entry for a model and a data set.
_Column = tuple[str, Callable[[Model, str], Entry]]


def paper_tables(results: Results) -> tuple[Grid, ...]:
    """Make Tables 1 to 4 in the paper's layout, ours beside theirs.

    Examples
    --------
    >>> [grid.name for grid in paper_tables({})]
    ['table-1', 'table-2', 'table-3', 'table-4']
    """

    def pair(head: str, *what: str) -> list[_Column]:
        """The paper's number and ours: training, recalibration and metric."""
        return [
            (f"{head}, paper", lambda m, d: _printed(lookup(d, m.network, *what))),
            (
                f"{head}, ours",
                lambda m, d: _ours(results, m.arm(d, *what[:2]), what[2]),
            ),
        ]

    floors: dict[str, _Column] = {
        after: (f"#floor: {word}", partial(_floor, results, recalibration=after))
        for after, word in _RECALIBRATIONS.items()
    }
    scores: list[_Column] = []
    for metric, title in _METRICS.items():
        for training, word in _TRAININGS.items():
            scores += pair(f"#{title}: {word}", training, "none", metric)
        if metric == ERROR:
            scores.append((f"#{title}: floor", floors["none"][1]))
    isotonic: list[_Column] = []
    for training, word in _TRAININGS.items():
        for after, when in _RECALIBRATIONS.items():
            isotonic += pair(f"#{word}: {when}", training, after, ERROR)
    isotonic += floors.values()
    return (
        _paper_table(results, 1, MC_DROPOUT, scores),
        _paper_table(results, 2, ENSEMBLE, scores),
        _paper_table(results, 3, MC_DROPOUT, isotonic),
        _paper_table(results, 4, ENSEMBLE, isotonic),
    )


def _ours(results: Results, arm: Arm, metric: str) -> Entry:
    """Our number: bold if it is clearly lower than that of the other training."""
    known = results.get(arm)
    if known is None or not known.repeats:
        return _NOT_RUN if known is None else Entry(known.state)
    training = "base" if arm.strength else "qr"
    other = Model(arm.network, arm.epochs).arm(arm.data, training, arm.recalibration)
    found, detail = compare_arms(results, arm, other, metric), known.state
    if found is not None:
        clear = f"clearly {found.direction}"
        says = "no clear difference" if found.direction == "unclear" else clear
        test = found.test
        detail += f"; difference {test.difference:+.3g}, p = {test.p:.2g}: {says}"
    entry = _spread(known.number(metric), len(known.repeats), detail=detail)
    lower = found is not None and found.direction == "lower"
    return replace(entry, emphasis=lower)


def _floor(results: Results, model: Model, data: str, recalibration: str) -> Entry:
    for training in _TRAININGS:
        known = results.get(model.arm(data, training, recalibration))
        if known is not None and known.repeats:
            return _number(known.number("floor").mean)
    return _NOT_RUN


def _paper_table(
    results: Results, number: int, network: str, heads: Sequence[_Column]
) -> Grid:
    models = [model for model in paper_models(results) if model.network == network]
    several = len(models) > 1
    # The paper's sets, and others that were run in the same way.
    others = {arm.data for arm in results if arm == Model(network).arm(arm.data)}
    stars = starred(network) if number > 2 else ()
    rows = []
    for data in (*PAPER_DATA, *sorted(others - set(PAPER_DATA))):
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
        (Entry(model_title(*model)), *_agreeing(side_by_side(results, model)))
        for model in paper_models(results)
    )
    return _grid("agreement", rows)


def _agreeing(pairs: Sequence[SideBySide]) -> tuple[Entry, ...]:
    """Counts of a model; what was not run has none."""
    if not pairs:
        return (_NOT_RUN,) * 5
    found = agreement(pairs)
    trained = {pair.paper.training for pair in pairs}
    run = found.pop("run")
    entries = [_whole(len(run), ", ".join(run))]
    for name, sets in found.items():
        entry = Entry(f"{len(sets)} of {len(run)}", len(sets), ", ".join(sets))
        needed = {"base", "qr"} if name == "both" else {name}
        entries.append(entry if needed <= trained else _NOT_RUN)
    errors = [pair.agrees for pair in pairs if pair.paper.metric == ERROR]
    return (*entries, Entry(f"{sum(errors)} of {len(errors)}", sum(errors)))


def disagreement_grid(results: Results) -> Grid:
    """List each number that disagrees with the paper's, with its likely cause."""
    pairs = [p for model in paper_models(results) for p in side_by_side(results, model)]
    rows = []
    for pair in pairs:
        paper = pair.paper
        after = " + isotonic" if paper.recalibration == ISOTONIC else ""
        metric = _METRICS[paper.metric]
        row = (
            Entry(data_title(paper.data)),
            Entry(model_title(paper.network, pair.epochs)),
            Entry(_TRAININGS[paper.training] + after),
            Entry(metric.lower() if paper.metric == ERROR else metric),
            _printed(paper),
            _spread(pair.ours, pair.repeats),
            _number(pair.difference),
            _number(pair.tolerance),
            Entry(pair.cause),
        )
        if not pair.agrees:
            rows.append(row)
    return _grid("disagreements", rows, found=len(rows), pairs=len(pairs))


def errata_grid() -> Grid:
    """List the errata of the paper."""
    errata = paper_texts()["errata"]
    return _grid("errata", [tuple(map(Entry, slip.values())) for slip in errata])


def arm_grid(results: Results, *, shuffled: bool) -> Grid:
    """List every arm on shuffled folds, or on the others, with all its numbers."""
    found = {a: k for a, k in results.items() if (a.split == "shuffled") == shuffled}
    names, rows = {arm.data for arm in found}, []
    for arm, known in found.items():
        place = "" if arm.split == "unshuffled" else f", {arm.split}"
        seconds = statistics.median(record.seconds for record in known.records)
        values = [Entry("partial", detail=known.state)] * len(_MEASURES)
        if known.repeats:
            count = len(known.repeats)
            values = [_spread(known.number(metric), count) for metric in _MEASURES]
        row = (
            Entry(data_title(arm.data, names)),
            Entry(f"{_model_label(arm)}{place}"),
            _whole(arm.epochs),
            _whole(arm.folds),
            Entry(known.state, detail=f"{seconds:.2g} s for a cell"),
            *values,
        )
        rows.append(row)
    heads = [
        f"#Calibration error: {title}" if number < 5 else f"#{title}"
        for number, title in enumerate(_MEASURES.values())
    ]
    return _grid("arms-shuffled" if shuffled else "arms-paper", rows, *heads)


def _model_label(arm: Arm) -> str:
    name = model_title(arm.network)
    if arm.regularizer != NO_REGULARIZER:
        name += f" + {arm.regularizer.replace('_', ' ')} {arm.strength:g}"
    if arm.recalibration != "none":
        name += f" + {arm.recalibration.replace('_', ' ')}"
    return name


def shuffled_grid(results: Results) -> Grid:
    """Compare each model on shuffled folds with MC dropout alone, over the sets."""
    groups: dict[Arm, list[ArmResults]] = {}
    for arm, known in results.items():
        if arm.split == "shuffled":
            groups.setdefault(replace(arm, data=""), []).append(known)
    rows = [row for group in groups.values() if (row := _shuffled_row(results, group))]
    rows.sort(key=lambda row: (row[2].value is None, row[2].value))
    return _grid("shuffled", rows)


def _shuffled_row(results: Results, group: Sequence[ArmResults]) -> tuple[Entry, ...]:
    sets = {}
    for metric in (OWN_ERROR, "nll", "crps", "rmse"):
        found = []
        for arm in (known.arm for known in group):
            base = Model(MC_DROPOUT).arm(arm.data, shuffled=True)
            base = replace(base, folds=arm.folds)
            found.append(compare_arms(results, arm, base, metric))
        sets[metric] = [comparison for comparison in found if comparison is not None]
    if not sets[OWN_ERROR]:
        return ()

    def ratio(metric: str) -> Entry:
        ratios = [s.b / s.a if s.a else math.inf for s in sets[metric]]
        return _number(statistics.median(ratios))

    def clear(metric: str, direction: str) -> Entry:
        names = clearly(sets[metric], direction)
        return _whole(len(names), ", ".join(names))

    done = [known for known in group if known.repeats]
    floors = [k.number(OWN_ERROR).mean / k.number("floor").mean for k in done]
    # Two infinite numbers are equal here: their difference has no value.
    moves = [0.0 if s.b == s.a else s.b - s.a for s in sets["nll"]]
    first = group[0].arm
    unusual = "" if first.epochs == TEXT_EPOCHS else f", {epochs_text(first.epochs)}"
    return (
        Entry(f"{_model_label(first)}{folds_text(first)}{unusual}"),
        _whole(len(sets[OWN_ERROR]), ", ".join(known.arm.data for known in group)),
        ratio(OWN_ERROR),
        clear(OWN_ERROR, "lower"),
        clear(OWN_ERROR, "higher"),
        _number(statistics.median(floors)),
        _number(statistics.median(moves)),
        clear("nll", "higher"),
        ratio("crps"),
        ratio("rmse"),
        _number(statistics.fmean(known.number("coverage").mean for known in done)),
    )


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """List claims and verdicts, one row for each claim and model."""
    rows = (
        (
            Entry(verdict.claim, detail=verdict.quote),
            Entry(model_title(verdict.network, verdict.epochs)),
            Entry(verdict.verdict, detail=verdict.rule, emphasis=True),
            Entry(verdict.paper or "no claim of the paper"),
            Entry(verdict.ours),
            Entry(verdict.explanation),
        )
        for verdict in verdicts
    )
    return _grid("verdicts", rows)


def error_overview(results: Results, *, paper: bool = True) -> Grid:
    """Show the calibration error without and with the regularizer, theirs and ours."""
    models, rows = paper_models(results), []

    def change(numbers: Sequence[float | None]) -> Entry:
        if numbers == [None, None]:
            return _NOTHING
        return Entry(" → ".join("-" if n is None else short(n) for n in numbers))

    for data in PAPER_DATA:
        entries, floors = [Entry(data_title(data))], []
        for model in models:
            theirs: list[float | None] = []
            ours: list[float | None] = []
            for training in _TRAININGS:
                number = lookup(data, model.network, training, "none", ERROR)
                theirs.append(None if number is None else number.mean)
                known = results.get(model.arm(data, training))
                run = known is not None and bool(known.repeats)
                ours.append(known.number(ERROR).mean if known and run else None)
                floors += [known.number("floor").mean] if known and run else []
            entries += [change(theirs)] * paper + [change(ours)]
        if floors:
            rows.append((*entries, _number(floors[0])))
    titles = [model_title(*model) for model in models]
    heads = [f"{title}: {who}" for title in titles for who in ("paper", "ours")]
    return _grid("overview", rows, *(heads if paper else titles), "#floor")


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
    names, rows = {known.arm.data for known in wanted}, []
    metrics = (ERROR, "floor", "rmse", "nll")
    for known in wanted:
        arm = known.arm
        where = f"{arm.folds} {arm.split} folds, {epochs_text(arm.epochs)}"
        text = f"{data_title(arm.data, names)}, {_model_label(arm)}, {where}"
        numbers = (known.number(metric).mean for metric in metrics)
        rows.append((Entry(text), *map(_number, numbers)))
    return _grid("arms", rows, *(f"#{_MEASURES[metric]}" for metric in metrics))


def verdict_overview(verdicts: Sequence[Verdict], source: str = "paper") -> Grid:
    """Show the verdict on each claim of the paper, or on each question of our own."""
    wanted = [verdict for verdict in verdicts if verdict.source == source]
    models = list(dict.fromkeys((v.network, v.epochs) for v in wanted))
    found = {(v.claim, v.network, v.epochs): Entry(v.verdict) for v in wanted}
    rows = (
        (Entry(claim), *(found.get((claim, *model), _NOTHING) for model in models))
        for claim in dict.fromkeys(verdict.claim for verdict in wanted)
    )
    paper = source == "paper"
    return _grid(
        "verdict-overview",
        rows,
        *(model_title(*model) for model in models),
        source="Claims of the paper" if paper else "Our own questions",
        first="Claim" if paper else "Question",
    )
