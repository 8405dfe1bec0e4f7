"""The report on own data: one page that needs no network."""

from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.metrics.verdict import diagnose
from calibrant.report.charts import (
    MOST_COLUMNS,
    chart_data,
    drawn_rows,
    ranked_columns,
)
from calibrant.report.contents import OwnReport
from calibrant.report.html import (
    TEMPLATES,
    environment,
    json_text,
    plotly_script,
    read_parts,
    write_text,
)
from calibrant.report.words import (
    advice,
    headline,
    measure_sections,
    shape_words,
    status_view,
    tiles,
    worst_words,
)
from calibrant.text import block, name, number, p_text, percent, span, tight

__all__ = ["own_page", "write_own_page"]

_STYLES = ("page.css", "own.css")
_SCRIPTS = (
    *("look.js", "tables.js", "drawing.js"),
    *("labels.js", "curve.js", "rows.js", "groups.js", "training.js", "own.js"),
)
_SECTIONS = {
    "verdict": "Verdict",
    "curve": "Calibration curve",
    "histogram": "PIT histogram",
    "intervals": "Intervals",
    "groups": "Groups",
    "advice": "What to do",
    "numbers": "All metrics",
    "made": "Details",
}
_KINDS = {
    "fit": "A trained model",
    "evaluate": "A model on labeled rows",
    "recalibrate": "A recalibrated model",
    "compare": "Predictions of any model",
}
_MOST_GROUPS = 300
_FIRST_GROUPS = 8


def write_own_page(path: Path, contents: OwnReport) -> Path:
    """Write the report as one HTML file that holds all that it needs.

    The same contents give the same bytes. Text of the user's file is shown, never
    interpreted; very long text is cut.

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
    >>> from calibrant.metrics.scorecard import evaluate
    >>> from calibrant.report.contents import Predictions
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
    """Return the text of the page; see :func:`write_own_page`."""
    filler = environment(TEMPLATES)
    for function in (block, name, number, p_text, percent, tight):
        filler.filters[function.__name__] = function
    filler.filters["span"] = lambda ends: span(*ends)
    card, before = contents.card, contents.before
    columns = ranked_columns(card)
    charts = chart_data(contents, columns[:MOST_COLUMNS])
    groups = [(column.name, group) for column in columns for group in column.groups]
    groups.sort(key=lambda pair: -pair[1].calibration_error / pair[1].floor)
    rows, parts = drawn_rows(contents.predictions)
    cells, is_outside = zip(*parts.values(), strict=True), charts["rows"]["outside"]
    return filler.get_template("own.html").render(
        title=f"{name(contents.target)} in {name(contents.source)}: report",
        version=__version__,
        sections=_SECTIONS,
        charting=True,
        contents=contents,
        kind=_KINDS[contents.kind],
        rows=card.n,
        compared=before is not None,
        headline=headline(contents),
        status=status_view(contents),
        tiles=tiles(contents),
        advice=advice(card, kind=contents.kind, before=before),
        charts=charts,
        shape=shape_words(card, charts["histogram"]),
        outside=sum(is_outside),
        drawn=sorted(zip(rows, cells, is_outside, strict=True)),
        worst=card.worst
        and worst_words(card.worst, everywhere=diagnose(card).everywhere),
        all_columns=len(columns),
        all_groups=len(groups),
        first_groups=groups[:_FIRST_GROUPS],
        more_groups=groups[_FIRST_GROUPS:_MOST_GROUPS],
        numbers=measure_sections(card, before),
        settings={
            key: block(text) for key, text in contents.settings.items() if text.strip()
        },
        **_code(json_text(charts)),
    )


def _code(data: str) -> dict[str, Any]:
    """Style, data and scripts: the only texts that are not escaped."""
    from markupsafe import Markup

    texts = {
        "style": read_parts(TEMPLATES, _STYLES),
        "data": data,
        "plotly": plotly_script(),
        "script": read_parts(TEMPLATES, _SCRIPTS),
    }
    return {key: Markup(text) for key, text in texts.items()}
