"""The report: one page that needs no network."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.benchmark.errata import Erratum
from calibrant.benchmark.published import PAPER_DATA
from calibrant.benchmark.records import Record
from calibrant.benchmark.verdict import Verdict
from calibrant.report._arms import Setting, settings
from calibrant.report._files import write_text
from calibrant.report._html import TEMPLATES, environment, plotly_script, read_parts
from calibrant.report._page_data import chart_data, json_text
from calibrant.report._page_parts import claim_cards, count_words, grid_view
from calibrant.report._page_run import how_it_ran
from calibrant.report._page_summary import effects, plain_words, tiles
from calibrant.report.grid import Grid

__all__ = ["write_page"]

_SCRIPTS = (
    "look.js",
    "tables.js",
    "drawing.js",
    "charts.js",
    "curves.js",
    "sweep.js",
    "start.js",
)
_TEXTS = {
    "title": "Does quantile regularization work?",
    "version": __version__,
}
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

    Parameters
    ----------
    path
        The file; folders above it are made.
    records
        What was measured, in any order.
    grids
        The tables, in their order.
    verdicts
        On claims and questions; those of one claim make one card.
    errata
        Of the paper.
    about
        More about the run, by name: a short text, or one of several lines (such as
        the plan), which can be unfolded.

    Returns
    -------
    Path
        The file that was written.
    """
    filler = environment(TEMPLATES)
    known = sorted(records, key=lambda record: record.cell)
    every = settings(known)
    charts = chart_data(every)
    text = filler.get_template("page.html").render(
        **_TEXTS,
        **_summary(every, verdicts),
        **_verdicts(verdicts),
        command=_command(known),
        sections=_SECTIONS,
        effects=charts["effects"],
        grids=[grid_view(grid) for grid in grids],
        has_curves=bool(every),
        charting=bool(every),
        has_sweep=any(len(setting.sweep) > 2 for setting in every),
        errata=errata,
        facts=[*how_it_ran(known), *_about(about, folded=False)],
        blocks=_about(about, folded=True),
        **_code(json_text(charts), charting=bool(every)),
    )
    return write_text(path, text)


def _command(records: Sequence[Record]) -> str:
    """What fills a gap; for other data than the paper's nothing is known to."""
    own = records and not any(record.cell.data in PAPER_DATA for record in records)
    return "" if own else _COMMAND


def _verdicts(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    paper = [each for each in verdicts if each.source == "paper"]
    return {
        "claims": claim_cards(paper),
        "judged": any(each.verdict != "not run" for each in paper),
        "questions": claim_cards(each for each in verdicts if each.source == "own"),
    }


def _summary(every: Sequence[Setting], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    found = effects(every)
    claims = [each.verdict for each in verdicts if each.source == "paper"]
    shuffled = any(each.setting.key.split == "shuffled" for each in found)
    return {
        "place": ", on shuffled folds" if shuffled else "",
        "words": plain_words(found, verdicts),
        "tiles": tiles(found, claims),
        "counts": count_words(claims),
    }


def _about(about: Mapping[str, str], *, folded: bool) -> list[tuple[str, str]]:
    """Pick the texts of one line, or those of several."""
    return [
        (name, text.strip("\n"))
        for name, text in about.items()
        if ("\n" in text.strip()) == folded
    ]


def _code(data: str, *, charting: bool) -> dict[str, Any]:
    """Style, data and scripts: the only texts that are not escaped."""
    from markupsafe import Markup

    names = _SCRIPTS if charting else _SCRIPTS[:2]
    texts = {
        "style": read_parts(TEMPLATES, ["page.css"]),
        "data": data,
        "plotly": plotly_script() if charting else "",
        "script": read_parts(TEMPLATES, names),
    }
    return {name: Markup(text) for name, text in texts.items()}
