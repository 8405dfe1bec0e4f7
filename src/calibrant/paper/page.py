"""The report on a reproduction: one HTML page that needs no network."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from calibrant._version import __version__
from calibrant.metrics.floors import calibration_band
from calibrant.paper.claims import Verdict
from calibrant.paper.ledger import LEVELS, NO_REGULARIZER, Record
from calibrant.paper.published import ERROR, PAPER_DATA, paper_texts
from calibrant.paper.results import (
    PAPER_REGULARIZER,
    TEXT_EPOCHS,
    ArmResults,
    Setting,
    arm_label,
    by_arm,
    compared_settings,
    data_title,
    epochs_text,
    has_usual_folds,
    model_title,
    settings,
)
from calibrant.paper.tables import Grid
from calibrant.report.html import (
    TEMPLATES,
    environment,
    json_text,
    plotly_script,
    read_parts,
    write_text,
)

_OWN = Path(__file__).parent / "templates"
_CHART_SCRIPTS = ("charts.js", "curves.js", "sweep.js", "start.js")
_COMMAND = "calibrant reproduce --profile paper"
_SECTIONS = {
    "summary": "Summary",
    "verdicts": "Verdicts",
    "tables": "Tables",
    "curves": "Curves",
    "sweep": "Strength",
    "errata": "Errata",
    "run": "The run",
}
#: Titles of the numbers that the page shows, in its order.
_MEASURES = {
    ERROR: "Calibration error (%)",
    "floor": "A perfect model's mean error (%)",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "Covered by 90 % intervals",
    "sharpness": "Mean predicted spread",
}
_KINDS = {
    "holds": "holds",
    "does not hold": "fails",
    "within noise": "noise",
    "not run": "idle",
}
_DIGITS = 5
_MINUS = "\N{MINUS SIGN}"

Json = dict[str, Any]


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

    def means(self, metric: str = ERROR) -> tuple[float, float]:
        """Return the means without and with the regularizer."""
        return self.base.number(metric).mean, self.qr.number(metric).mean

    def rise(self, metric: str = ERROR) -> float:
        """Return the rise in percent; below 0 if it became smaller."""
        before, after = self.means(metric)
        if before == after:
            return 0.0
        return 100 * (after / before - 1) if before else float("inf")


def effects(every: Sequence[Setting]) -> dict[str, list[Effect]]:
    """Compare base and regularized arms of each network, as near to the paper's."""
    groups: dict[str, list[Effect]] = {}
    for setting in compared_settings(every):
        if setting.pair is not None:
            effect = Effect(setting, *setting.pair)
            groups.setdefault(effect.network, []).append(effect)
    return groups


def write_page(
    path: Path,
    *,
    records: Iterable[Record],
    grids: Sequence[Grid],
    verdicts: Sequence[Verdict],
    about: Mapping[str, str],
) -> Path:
    """Write the report as one HTML file that holds all that it needs.

    The same input gives the same bytes. What was not run is said where it would stand.
    """
    known = sorted(records, key=lambda record: record.cell)
    every = settings(by_arm(known))
    charts, found = chart_data(every), effects(every)
    paper = [verdict for verdict in verdicts if verdict.source == "paper"]
    own = [verdict for verdict in verdicts if verdict.source == "own"]
    outcomes = [verdict.verdict for verdict in paper]
    # What fills a gap; for other data than the paper's nothing is known to.
    others = known and not any(record.cell.data in PAPER_DATA for record in known)
    texts = {name: text.strip("\n") for name, text in about.items()}
    folded = {name: text for name, text in texts.items() if "\n" in text.strip()}
    page = environment(_OWN, TEMPLATES)
    page.filters |= {
        "number": number_text,
        "data_title": data_title,
        # Python's "inf" is not a number for a script.
        "raw": lambda value: str(value).replace("inf", "Infinity"),
    }
    text = page.get_template("page.html").render(
        title="Does quantile regularization work?",
        version=__version__,
        sections=_SECTIONS,
        command="" if others else _COMMAND,
        place=", on shuffled folds" if any(map(_shuffled, found.values())) else "",
        words=plain_words(found, verdicts),
        tiles=tiles(found, outcomes),
        counts=count_words(outcomes),
        kinds=_KINDS,
        model_title=model_title,
        claims=_by_claim(paper),
        judged=any(outcome != "not run" for outcome in outcomes),
        questions=_by_claim(own),
        effects=charts["effects"],
        grids=[grid_view(grid) for grid in grids],
        has_curves=bool(every),
        charting=bool(every),
        has_sweep=any(len(setting.sweep) > 2 for setting in every),
        errata=paper_texts()["errata"],
        facts=how_it_ran(known) | {n: t for n, t in texts.items() if n not in folded},
        blocks=folded,
        **_code(json_text(charts), charting=bool(every)),
    )
    return write_text(path, text)


def _code(data: str, *, charting: bool) -> Json:
    """Style, data and scripts: the only texts that are not escaped."""
    from markupsafe import Markup

    shared = read_parts(TEMPLATES, ("look.js", "tables.js"))
    if charting:
        drawing = read_parts(TEMPLATES, ["drawing.js"])
        shared = "\n".join((shared, drawing, read_parts(_OWN, _CHART_SCRIPTS)))
    return {
        "style": Markup(read_parts(TEMPLATES, ["page.css"])),
        "data": Markup(data),
        "plotly": Markup(plotly_script() if charting else ""),
        "script": Markup(shared),
    }


def chart_data(every: Sequence[Setting]) -> Json:
    """Return all that the charts draw, in plain lists and numbers."""
    sizes = {n for setting in every for n in _sizes(setting)}
    return {
        "levels": [level / LEVELS for level in range(1, LEVELS + 1)],
        "measures": _MEASURES,
        "bands": {str(rows): _band(rows) for rows in sorted(sizes)},
        "settings": [_setting(setting) for setting in every],
        "effects": [
            {"network": model_title(network), "rows": [_effect(e) for e in group]}
            for network, group in effects(every).items()
        ],
    }


def _sizes(setting: Setting) -> tuple[int, int]:
    """Test rows of the smallest fold, and of all folds."""
    sizes = setting.fold_sizes.values()
    return min(sizes), sum(sizes)


def _band(rows: int) -> Json:
    _, low, high = calibration_band(rows, LEVELS, simultaneous=True)
    return {"low": _rounded(low.tolist()), "high": _rounded(high.tolist())}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, _DIGITS) for value in values]


def _setting(setting: Setting) -> Json:
    key, (fold_rows, all_rows) = setting.key, _sizes(setting)
    return {
        "data": key.data,
        "dataTitle": setting.title,
        "network": key.network,
        "networkTitle": model_title(key.network),
        "protocol": setting.protocol,
        "foldRows": fold_rows,
        "allRows": all_rows,
        "arms": [_arm(known) for known in setting.arms],
    }


def _arm(known: ArmResults) -> Json:
    arm = known.arm
    kinds = {NO_REGULARIZER: "base", PAPER_REGULARIZER: "qr"}
    return {
        "label": arm_label(arm),
        "kind": kinds.get(arm.regularizer, "other"),
        "strength": arm.strength,
        "recalibrated": arm.recalibration != "none",
        "over": known.number("rmse").over,
        "curve": _rounded(known.curve()),
        "folds": [_rounded(known.curve(fold)) for fold in range(arm.folds)],
        "numbers": {metric: _number(known, metric) for metric in _MEASURES},
    }


def _number(known: ArmResults, metric: str) -> Json:
    """A number as text and rounded; JSON knows no infinity, which the text shows."""

    def plain(value: float | None) -> float | None:
        finite = value is not None and math.isfinite(value)
        return float(f"{value:.{_DIGITS}g}") if finite else None

    number = known.number(metric)
    text = number_text(number.mean, number.std)
    return {"mean": plain(number.mean), "deviation": plain(number.std), "text": text}


def number_text(mean: float, deviation: float | None = None) -> str:
    """Write a number, with its deviation if there is one, in the paper's digits.

    Examples
    --------
    >>> number_text(41.234, 3.3), number_text(-0.0871), number_text(float("inf"))
    ('41.23 ± 3.30', '−0.087', '∞')
    """
    if math.isinf(mean):
        return "∞" if mean > 0 else f"{_MINUS}∞"
    size = abs(mean)
    digits = 1 if size >= 100 else 2 if size >= 1 else 3
    text = f"{mean:.{digits}f}".replace("-", _MINUS)
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def _effect(effect: Effect) -> Json:
    overs = (known.number(ERROR).over for known in (effect.base, effect.qr))
    return {
        "data": effect.setting.title,
        "label": arm_label(effect.qr.arm),
        "base": _number(effect.base, ERROR),
        "regularized": _number(effect.qr, ERROR),
        "floor": _number(effect.base, "floor"),
        # What the deviations are taken over.
        "over": " and ".join(dict.fromkeys(overs)),
    }


def _by_claim(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Verdicts on one claim are one card, in the order of first mention."""
    cards: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        cards.setdefault(verdict.claim, []).append(verdict)
    return list(cards.values())


def grid_view(grid: Grid) -> Json:
    """Arrange a table: groups of columns, and classes for numbers and group edges."""
    # The first column stays in view, so that its head must be one column wide.
    heads = [(column.group, [column]) for column in grid.columns[:1]]
    heads += [
        (name, list(columns))
        for name, columns in groupby(grid.columns[1:], key=lambda column: column.group)
    ]
    grouped = any(name for name, _ in heads)
    classes = []
    for place, (_, columns) in enumerate(heads):
        for index, column in enumerate(columns):
            edge = grouped and index == 0 and place > 0
            words = ["number"] * column.numeric + ["edge"] * edge
            classes.append(" ".join(words))
    groups = [(name, len(columns)) for name, columns in heads if grouped]
    return {**vars(grid), "groups": groups, "classes": classes}


def how_it_ran(records: Sequence[Record]) -> dict[str, str]:
    """List size, seeds, versions, hardware and time of a run."""
    if not records:
        return {"Cells": "none yet"}

    def listed(names: Iterable[str], between: str = ", ") -> str:
        return between.join(dict.fromkeys(names))

    cells = [record.cell for record in records]
    names = dict.fromkeys(cell.data for cell in cells)
    seeds = {record.seed for record in records}
    times = sorted(record.finished for record in records)
    hours = sum(record.seconds for record in records) / 3600
    return {
        "Cells": f"{len(records):,} (one model on one fold each)",
        "Data sets": listed(data_title(name, names) for name in names),
        "Networks": listed(model_title(cell.network) for cell in cells),
        "Repeats": str(1 + max(cell.repeat for cell in cells)),
        "Seeds": f"{len(seeds):,} different, {min(seeds)} to {max(seeds)}",
        "Versions": listed((record.versions for record in records), "; "),
        "Hardware": listed((record.host for record in records), "; "),
        "Threads per process": listed(str(record.threads) for record in records),
        "Computing time": (
            f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
        ),
        "Finished": f"{times[0]} to {times[-1]}",
    }


def plain_words(
    found: Mapping[str, Sequence[Effect]], verdicts: Sequence[Verdict] = ()
) -> list[str]:
    """Say in a few paragraphs what regularization did, and where it did not work.

    Examples
    --------
    >>> plain_words({})[0][:24]
    'Nothing can be said yet:'
    """
    every = [effect for group in found.values() for effect in group]
    if not every:
        return [
            "Nothing can be said yet: no data set has been run both without and with "
            "quantile regularization."
        ]
    strengths = _listed(f"λ = {effect.qr.arm.strength:g}" for effect in every)
    lead = f"{_place(every)}, quantile regularization ({strengths})"
    for place, (network, group) in enumerate(found.items()):
        who = f" With {_inside(network)} it" if place else f" with {_inside(network)}"
        change = _percent(_median(group))
        judged = _judged(group, verdicts)
        lead += f"{who} {_moved(group)} (median change {change}){judged}."
    rose = "On no set was the mean error higher with it."
    failed = [
        f"{effect.where} ({effect.means()[0]:.3g} to {effect.means()[1]:.3g})"
        for effect in every
        if effect.rise() > 0
    ]
    if failed:
        names = ", ".join(failed)
        rose = f"It does not work everywhere. The mean error rose on {names}."
    worst = max(every, key=lambda effect: effect.rise("rmse"))
    better = sum(after < before for before, after in (e.means("nll") for e in every))
    far = sum(e.means()[1] > 2 * e.means("floor")[0] for e in every)
    return [
        lead,
        rose,
        f"What it costs: the RMSE changed by {_percent(_median(every, 'rmse'))} at the "
        f"median and by {_percent(worst.rise('rmse'))} at worst ({worst.where}). The "
        f"NLL became better in {better} of {len(every)} comparisons.",
        "Even a perfect model shows some error, because test folds are finite. With "
        f"regularization the error is still more than twice that floor in {far} of "
        f"{len(every)} comparisons. These counts go by the means; the verdicts below "
        "go by paired tests.",
    ]


def tiles(
    found: Mapping[str, Sequence[Effect]], verdicts: Sequence[str]
) -> list[tuple[str, str]]:
    """Pick the numbers to take away, each with what it counts.

    Examples
    --------
    >>> tiles({}, ["holds", "not run", "does not hold"])[0][0]
    '1 of 2'
    """
    result = []
    for network, group in found.items():
        place = " on shuffled folds" if _shuffled(group) else ""
        text = f"data sets with a lower calibration error{place}, {_inside(network)}"
        result.append((f"{_lowered(group)} of {len(group)}", text))
    every = [effect for group in found.values() for effect in group]
    if every:
        over = _sets(len(every))
        if len(found) > 1:
            over = f"{len(every)} comparisons (data sets times networks)"
        for name, metric in (("calibration error", ERROR), ("RMSE", "rmse")):
            text = f"change of the {name}, median over {over}"
            result.append((_percent(_median(every, metric)), text))
    run = [verdict for verdict in verdicts if verdict != "not run"]
    if run:
        text = "verdicts on claims of the paper read “holds”, of those judged"
        result.append((f"{run.count('holds')} of {len(run)}", text))
    return result


def count_words(verdicts: Sequence[str]) -> str:
    """Count verdicts in a sentence.

    Examples
    --------
    >>> count_words(["holds", "not run", "holds"])
    'Of 3 verdicts on claims of the paper, 2 read “holds”, 1 “not run”.'
    >>> count_words(["not run"])
    'The claims of the paper are not judged: its sets were not run here on its splits.'
    """
    if set(verdicts) == {"not run"}:
        return (
            "The claims of the paper are not judged: its sets were not run here on its "
            "splits."
        )
    counts = Counter(verdicts)
    parts = ", ".join(f"{counts[name]} “{name}”" for name in _KINDS if counts[name])
    parts = parts.replace(" ", " read ", 1)
    return f"Of {len(verdicts)} verdicts on claims of the paper, {parts}." * bool(parts)


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
    name = f"regularizer-{PAPER_REGULARIZER}" if _shuffled(group) else "qr-error"
    epochs = {effect.setting.key.epochs for effect in group}
    found = [
        verdict.verdict
        for verdict in verdicts
        if (verdict.name, verdict.network) == (name, group[0].network)
        and {verdict.epochs} == epochs
    ]
    # Of several strengths none is the one in question.
    if len(found) != 1 or found[0] == "not run":
        return ""
    claim = "this is" if found[0] == "within noise" else "the claim that it lowers it"
    return f": by the paired tests {claim} {found[0]}"


def _lowered(group: Sequence[Effect]) -> int:
    return sum(effect.rise() < 0 for effect in group)


def _median(group: Sequence[Effect], metric: str = ERROR) -> float:
    return statistics.median(effect.rise(metric) for effect in group)


def _shuffled(found: Sequence[Effect]) -> bool:
    return any(effect.setting.key.split == "shuffled" for effect in found)


def _inside(network: str) -> str:
    """Name of a network within a sentence."""
    inside = {"deep_ensemble": "deep ensembles", "default": "our default"}
    return inside.get(network, model_title(network))


def _sets(count: int) -> str:
    return f"{count} data set" if count == 1 else f"{count} data sets"


def _percent(change: float) -> str:
    return f"{change:+.1f} %".replace("-", _MINUS)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
