"""Verdicts and tables, arranged for the page's template."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from calibrant.benchmark.comparison import SetComparison
from calibrant.benchmark.verdict import Verdict
from calibrant.report._names import data_title, epochs_text, network_title
from calibrant.report._page_data import number_text
from calibrant.report.grid import Entry, Grid

__all__ = ["claim_cards", "count_words", "grid_view"]

View = dict[str, Any]
_KINDS = {"holds": "holds", "does not hold": "fails", "within noise": "noise"}


def claim_cards(verdicts: Iterable[Verdict]) -> list[View]:
    """Gather the verdicts on one claim into one card, in the order of first mention.

    Examples
    --------
    >>> claim_cards([])
    []
    """
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


def count_words(verdicts: Sequence[str]) -> str:
    """Count verdicts in a sentence.

    Examples
    --------
    >>> count_words(["holds", "not run", "holds"])
    'Of 3 verdicts on claims of the paper, 2 hold and 1 was not run.'
    >>> count_words(["not run"])
    'The claims of the paper are not judged: its sets were not run here on its splits.'
    """
    if set(verdicts) == {"not run"}:
        return (
            "The claims of the paper are not judged: its sets were not run here on its "
            "splits."
        )
    counts = Counter(verdicts)
    words = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "within noise": ("is within noise", "are within noise"),
        "not run": ("was not run", "were not run"),
    }
    parts = [
        f"{counts[name]} {forms[counts[name] > 1]}"
        for name, forms in words.items()
        if counts[name]
    ]
    if not parts:
        return ""
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"Of {len(verdicts)} verdicts on claims of the paper, {listed}."


def grid_view(grid: Grid) -> View:
    """Arrange a table: groups of columns, and classes for numbers and group edges.

    Examples
    --------
    >>> grid_view(Grid(name="a", title="A", caption="", columns=(), rows=()))["rows"]
    []
    """
    groups = [
        {"name": name, "span": len(list(columns))}
        for name, columns in groupby(grid.columns[1:], key=lambda column: column.group)
    ]
    if grid.columns:
        # The first column stays in view, so that its head must be one column wide.
        groups.insert(0, {"name": grid.columns[0].group, "span": 1})
    starts, place = set(), 0
    for group in groups:
        starts.add(place)
        place += int(str(group["span"]))
    grouped = any(group["name"] for group in groups)
    classes = [
        " ".join(
            word
            for word, wanted in (
                ("number", column.numeric),
                ("edge", grouped and index in starts and index > 0),
            )
            if wanted
        )
        for index, column in enumerate(grid.columns)
    ]
    return {
        "title": grid.title,
        "caption": grid.caption,
        "notes": grid.notes,
        "groups": groups if grouped else [],
        "columns": [
            {"title": column.title, "classes": each}
            for column, each in zip(grid.columns, classes, strict=True)
        ],
        "rows": [
            [_entry(entry, each) for entry, each in zip(row, classes, strict=True)]
            for row in grid.rows
        ],
    }


def _entry(entry: Entry, classes: str) -> View:
    return {
        "text": entry.text,
        # Python's "inf" is no number for a script.
        "value": None if entry.value is None else _script_number(entry.value),
        "detail": entry.detail,
        "emphasis": entry.emphasis,
        "classes": classes,
    }


def _script_number(value: float) -> str:
    return repr(value).replace("inf", "Infinity")


def _verdict(verdict: Verdict) -> View:
    epochs = f", {epochs_text(verdict.epochs)}" if verdict.epochs else ""
    names = [each.data for each in verdict.sets]
    who = f"{network_title(verdict.network)}{epochs}" if verdict.network else ""
    return {
        "kind": _KINDS.get(verdict.verdict, "idle"),
        "verdict": verdict.verdict,
        "who": who,
        "paper": verdict.paper,
        "ours": verdict.ours,
        "explanation": verdict.explanation,
        "columns": verdict.columns,
        "sets": [_set(each, names) for each in verdict.sets],
    }


def _set(each: SetComparison, names: Sequence[str]) -> View:
    return {
        "data": data_title(each.data, names),
        "b": number_text(each.b),
        "a": number_text(each.a),
        "says": each.direction,
        "p": f"{each.test.p:.2g}",
        "note": each.note,
    }
