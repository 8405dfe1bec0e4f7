"""The report on own data: one page that needs no network."""

from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.metrics.verdict import diagnose
from calibrant.report._html import (
    TEMPLATES,
    environment,
    json_text,
    plotly_script,
    read_parts,
    write_text,
)
from calibrant.report.own._chart_data import MOST_COLUMNS, chart_data
from calibrant.report.own._groups import ranked_columns, worst_words
from calibrant.report.own._measures import measure_sections
from calibrant.report.own._shape import shape_words
from calibrant.report.own._tables import (
    column_lines,
    curve_table,
    group_lines,
    histogram_table,
    row_table,
)
from calibrant.report.own._texts import block, name, tight
from calibrant.report.own._verdict import headline, status_view, tiles
from calibrant.report.own.advice import advice
from calibrant.report.own.contents import OwnReport

__all__ = ["own_page", "write_own_page"]

_OWN = Path(__file__).parent / "templates"
_SHARED_SCRIPTS = ("look.js", "tables.js", "drawing.js")
_SCRIPTS = ("labels.js", "curve.js", "rows.js", "groups.js", "training.js", "start.js")
_SECTIONS = {
    "verdict": "Verdict",
    "curve": "Curve",
    "histogram": "Histogram",
    "intervals": "Intervals",
    "groups": "Groups",
    "advice": "What to do",
    "numbers": "Numbers",
    "made": "How it was made",
}
_KINDS = {
    "fit": "A trained model",
    "evaluate": "A model on labeled rows",
    "recalibrate": "A recalibrated model",
    "compare": "Predictions of any model",
}
_COMMAND = "command"
_MOST_GROUPS = 300
_FIRST_GROUPS = 8


def write_own_page(path: Path, contents: OwnReport) -> Path:
    """Write the report as one HTML file that holds all that it needs.

    The same contents give the same bytes. Texts of the user's file are shown, never
    interpreted; very long ones are cut.

    Parameters
    ----------
    path
        The file; folders above it are made. One that is there is replaced in one step.
    contents
        What it shows.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from calibrant.metrics.evaluate import evaluate
    >>> from calibrant.report.own.contents import Predictions
    >>> y, zero, one = np.linspace(-2, 2, 50), np.zeros(50), np.ones(50)
    >>> contents = OwnReport(
    ...     kind="evaluate", source="new.csv", target="y",
    ...     card=evaluate((zero, one), y),
    ...     predictions=Predictions(
    ...         row=np.arange(1, 51), y=y, center=zero, low_50=-0.67 * one,
    ...         high_50=0.67 * one, low_90=-1.64 * one, high_90=1.64 * one),
    ...     unseen="Labeled after the training.", settings={"seed": "0"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_own_page(Path(folder) / "report.html", contents).name
    'report.html'
    """
    return write_text(path, own_page(contents))


def own_page(contents: OwnReport) -> str:
    """Return the text of the page; see :func:`write_own_page`.

    Parameters
    ----------
    contents
        What it shows.
    """
    filler = environment(_OWN, TEMPLATES)
    filler.filters["tight"] = tight
    columns = ranked_columns(contents.card)
    charts = chart_data(contents, columns[:MOST_COLUMNS])
    return filler.get_template("own.html").render(
        title=f"{name(contents.target)} in {name(contents.source)}: report",
        version=__version__,
        sections=_SECTIONS,
        charting=True,
        kind=_KINDS[contents.kind],
        source=name(contents.source),
        target=name(contents.target),
        unseen=name(contents.unseen, longest=600),
        rows=contents.card.n,
        **_verdict(contents),
        **_charted(contents, charts),
        **_groups(contents, charts, len(columns)),
        numbers=measure_sections(contents.card, contents.before),
        compared=contents.before is not None,
        **_made(contents),
        **_code(json_text(charts)),
    )


def _verdict(contents: OwnReport) -> dict[str, Any]:
    return {
        "headline": headline(contents),
        "status": status_view(contents),
        "tiles": tiles(contents),
        "advice": advice(contents.card, kind=contents.kind, before=contents.before),
    }


def _charted(contents: OwnReport, charts: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the charts, as text."""
    return {
        "curve_table": curve_table(charts["curve"]),
        "histogram_table": histogram_table(charts["histogram"]),
        "shape": shape_words(contents.card, charts["histogram"]),
        "drawn": len(charts["rows"]["row"]),
        "outside": sum(charts["rows"]["outside"]),
        "row_table": row_table(contents.predictions),
        "has_training": bool(charts["training"]),
    }


def _groups(
    contents: OwnReport, charts: dict[str, Any], columns: int
) -> dict[str, Any]:
    worst = contents.card.worst
    everywhere = diagnose(contents.card).everywhere
    lines = group_lines(ranked_columns(contents.card))
    return {
        "worst": "" if worst is None else worst_words(worst, everywhere=everywhere),
        "group_columns": charts["columns"],
        "all_columns": columns,
        "all_groups": len(lines),
        "first_groups": lines[:_FIRST_GROUPS],
        "more_groups": lines[_FIRST_GROUPS:_MOST_GROUPS],
    }


def _made(contents: OwnReport) -> dict[str, Any]:
    """Columns, notes, and what reproduces the numbers."""
    texts = {
        name(key): block(text)
        for key, text in contents.settings.items()
        if text.strip()
    }
    command = [key for key in texts if key.lower() == _COMMAND]
    others = [(key, text) for key, text in texts.items() if key not in command]
    return {
        "columns": column_lines(contents),
        "notes": [name(note, longest=600) for note in contents.notes],
        "command": "\n".join(texts[key] for key in command),
        "facts": [(key, text) for key, text in others if "\n" not in text],
        "blocks": [(key, text) for key, text in others if "\n" in text],
    }


def _code(data: str) -> dict[str, Any]:
    """Style, data and scripts: the only texts that are not escaped."""
    from markupsafe import Markup

    style = [read_parts(TEMPLATES, ["page.css"]), read_parts(_OWN, ["own.css"])]
    script = [read_parts(TEMPLATES, _SHARED_SCRIPTS), read_parts(_OWN, _SCRIPTS)]
    texts = {
        "style": "\n".join(style),
        "data": data,
        "plotly": plotly_script(),
        "script": "\n".join(script),
    }
    return {key: Markup(text) for key, text in texts.items()}
