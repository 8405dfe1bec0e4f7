"""The report on a reproduction: one HTML page that needs no network."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.metrics.floors import calibration_band
from calibrant.paper.claims import Verdict
from calibrant.paper.grid import Grid
from calibrant.paper.ledger import LEVELS, NO_REGULARIZER, Record
from calibrant.paper.published import PAPER_DATA, PAPER_REGULARIZER, Erratum
from calibrant.paper.settings import (
    Setting,
    arm_label,
    compared_settings,
    data_title,
    epochs_text,
    network_title,
    settings,
)
from calibrant.paper.statistics import ArmResults, by_arm
from calibrant.paper.summary import count_words, effects, plain_words, tiles
from calibrant.report.html import (
    TEMPLATES,
    environment,
    json_text,
    plotly_script,
    read_parts,
    write_text,
)

_OWN = Path(__file__).parent / "templates"
_TABLE_SCRIPTS = ("look.js", "tables.js")
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
    "calibration_error": "Calibration error (%)",
    "floor": "A perfect model's mean error (%)",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "Covered by 90 % intervals",
    "sharpness": "Mean predicted spread",
}
_KINDS = {"holds": "holds", "does not hold": "fails", "within noise": "noise"}
_DIGITS = 5
_MINUS = "\N{MINUS SIGN}"

Json = dict[str, Any]


def write_page(
    path: Path,
    *,
    records: Iterable[Record],
    grids: Sequence[Grid],
    verdicts: Sequence[Verdict],
    errata: Sequence[Erratum],
    about: Mapping[str, str],
) -> Path:
    """Write the report as one HTML file that holds all that it needs.

    The same input gives the same bytes. What was not run is said where it would stand.
    """
    known = sorted(records, key=lambda record: record.cell)
    every = settings(by_arm(known))
    charts, found = chart_data(every), effects(every)
    paper = [verdict for verdict in verdicts if verdict.source == "paper"]
    outcomes = [verdict.verdict for verdict in paper]
    shuffled = any(effect.setting.key.split == "shuffled" for effect in found)
    # What fills a gap; for other data than the paper's nothing is known to.
    own = known and not any(record.cell.data in PAPER_DATA for record in known)
    texts = {name: text.strip("\n") for name, text in about.items()}
    folded = {name: text for name, text in texts.items() if "\n" in text.strip()}
    text = (
        environment(_OWN, TEMPLATES)
        .get_template("page.html")
        .render(
            title="Does quantile regularization work?",
            version=__version__,
            sections=_SECTIONS,
            command="" if own else _COMMAND,
            place=", on shuffled folds" if shuffled else "",
            words=plain_words(found, verdicts),
            tiles=tiles(found, outcomes),
            counts=count_words(outcomes),
            claims=claim_cards(paper),
            judged=any(outcome != "not run" for outcome in outcomes),
            questions=claim_cards(v for v in verdicts if v.source == "own"),
            effects=charts["effects"],
            grids=[grid_view(grid) for grid in grids],
            has_curves=bool(every),
            charting=bool(every),
            has_sweep=any(len(setting.sweep) > 2 for setting in every),
            errata=errata,
            facts=[
                *how_it_ran(known),
                *((name, text) for name, text in texts.items() if name not in folded),
            ],
            blocks=list(folded.items()),
            **_code(json_text(charts), charting=bool(every)),
        )
    )
    return write_text(path, text)


def _code(data: str, *, charting: bool) -> Json:
    """Style, data and scripts: the only texts that are not escaped."""
    from markupsafe import Markup

    shared = read_parts(TEMPLATES, _TABLE_SCRIPTS)
    if charting:
        drawing = read_parts(TEMPLATES, ["drawing.js"])
        shared = "\n".join((shared, drawing, read_parts(_OWN, _CHART_SCRIPTS)))
    texts = {
        "style": read_parts(TEMPLATES, ["page.css"]),
        "data": data,
        "plotly": plotly_script() if charting else "",
        "script": shared,
    }
    return {name: Markup(text) for name, text in texts.items()}


def chart_data(every: Sequence[Setting]) -> Json:
    """Return all that the charts draw, in plain lists and numbers."""
    rows = {n for setting in every for n in (setting.fold_rows, setting.all_rows)}
    networks: dict[str, list[Json]] = {}
    for setting in compared_settings(every):
        networks.setdefault(setting.key.network, []).extend(_effect(setting))
    return {
        "levels": [level / LEVELS for level in range(1, LEVELS + 1)],
        "measures": _MEASURES,
        "bands": {str(n): _band(n) for n in sorted(rows)},
        "settings": [_setting(setting) for setting in every],
        "effects": [
            {"network": network_title(network), "rows": found}
            for network, found in networks.items()
        ],
    }


def _band(rows: int) -> Json:
    _, low, high = calibration_band(rows, LEVELS, simultaneous=True)
    return {"low": _rounded(low.tolist()), "high": _rounded(high.tolist())}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, _DIGITS) for value in values]


def _setting(setting: Setting) -> Json:
    key = setting.key
    return {
        "data": key.data,
        "dataTitle": setting.title,
        "network": key.network,
        "networkTitle": network_title(key.network),
        "protocol": setting.protocol,
        "foldRows": setting.fold_rows,
        "allRows": setting.all_rows,
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
    number = known.number(metric)
    return {
        "mean": _plain(number.mean),
        "deviation": _plain(number.deviation),
        "text": number_text(number.mean, number.deviation),
    }


def _plain(value: float | None) -> float | None:
    """Round; JSON knows no infinity, which the text beside it shows."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


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


def _effect(setting: Setting) -> list[Json]:
    """Base against regularized on a set, if both were run."""
    if setting.pair is None:
        return []
    base, regularized = setting.pair
    overs = [known.number("calibration_error").over for known in setting.pair]
    return [
        {
            "data": setting.title,
            "label": arm_label(regularized.arm),
            "base": _number(base, "calibration_error"),
            "regularized": _number(regularized, "calibration_error"),
            "floor": _number(base, "floor"),
            # What the deviations are taken over.
            "over": " and ".join(dict.fromkeys(overs)),
        }
    ]


def claim_cards(verdicts: Iterable[Verdict]) -> list[Json]:
    """Gather the verdicts on one claim into one card, in the order of first mention."""
    cards: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        cards.setdefault(verdict.claim, []).append(verdict)
    return [
        {
            "claim": claim,
            "quote": group[0].quote,
            "rules": list(dict.fromkeys(verdict.rule for verdict in group)),
            "verdicts": [_verdict(verdict) for verdict in group],
        }
        for claim, group in cards.items()
    ]


def _verdict(verdict: Verdict) -> Json:
    epochs = f", {epochs_text(verdict.epochs)}" if verdict.epochs else ""
    names = [found.data for found in verdict.sets]
    return {
        "kind": _KINDS.get(verdict.verdict, "idle"),
        "verdict": verdict.verdict,
        "who": f"{network_title(verdict.network)}{epochs}" if verdict.network else "",
        "paper": verdict.paper,
        "ours": verdict.ours,
        "explanation": verdict.explanation,
        "columns": verdict.columns,
        "sets": [
            {
                "data": data_title(found.data, names),
                "b": number_text(found.b),
                "a": number_text(found.a),
                "says": found.direction,
                "p": f"{found.test.p:.2g}",
                "note": found.note,
            }
            for found in verdict.sets
        ],
    }


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
    return {
        "title": grid.title,
        "caption": grid.caption,
        "notes": grid.notes,
        "groups": [
            {"name": name, "span": len(columns)} for name, columns in heads if grouped
        ],
        "columns": [
            {"title": column.title, "classes": found}
            for column, found in zip(grid.columns, classes, strict=True)
        ],
        "rows": [
            [
                {
                    "text": entry.text,
                    # Python's "inf" is not a number for a script.
                    "value": None
                    if entry.value is None
                    else repr(entry.value).replace("inf", "Infinity"),
                    "detail": entry.detail,
                    "emphasis": entry.emphasis,
                    "classes": found,
                }
                for entry, found in zip(row, classes, strict=True)
            ]
            for row in grid.rows
        ],
    }


def how_it_ran(records: Sequence[Record]) -> list[tuple[str, str]]:
    """List size, seeds, versions, hardware and time of a run."""
    if not records:
        return [("Cells", "none yet")]

    def listed(names: Iterable[str], between: str = ", ") -> str:
        return between.join(dict.fromkeys(names))

    cells = [record.cell for record in records]
    names = dict.fromkeys(cell.data for cell in cells)
    seeds = {record.seed for record in records}
    times = sorted(record.finished for record in records)
    return [
        ("Cells", f"{len(records):,} (one model on one fold each)"),
        ("Data sets", listed(data_title(name, names) for name in names)),
        ("Networks", listed(network_title(cell.network) for cell in cells)),
        ("Repeats", str(1 + max(cell.repeat for cell in cells))),
        ("Seeds", f"{len(seeds):,} different, {min(seeds)} to {max(seeds)}"),
        ("Versions", listed((record.versions for record in records), "; ")),
        ("Hardware", listed((record.host for record in records), "; ")),
        ("Threads per process", listed(str(record.threads) for record in records)),
        ("Computing time", _duration(sum(record.seconds for record in records))),
        ("Finished", f"{times[0]} to {times[-1]}"),
    ]


def _duration(seconds: float) -> str:
    """Write a time in the unit that suits it.

    >>> _duration(75), _duration(7200)
    ('1.2 minutes', '2.0 hours')
    """
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    if seconds < 3600:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds / 3600:.1f} hours"
