"""calibrant methods: what is in the box."""

import re
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.commands._console import Console
from calibrant.commands._options import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["methods"]


class Kind(StrEnum):
    """What can be listed."""

    ALL = "all"
    SORTERS = "sorters"
    REGULARIZERS = "regularizers"
    DISTRIBUTIONS = "distributions"
    NETWORKS = "networks"
    HEADS = "heads"
    RECALIBRATORS = "recalibrators"
    METRICS = "metrics"
    SCORES = "scores"


_MODULES = {
    Kind.SORTERS: "calibrant.registry",
    Kind.REGULARIZERS: "calibrant.regularizers",
    Kind.DISTRIBUTIONS: "calibrant.distributions",
    Kind.NETWORKS: "calibrant.learners",
    Kind.HEADS: "calibrant.learners",
    Kind.RECALIBRATORS: "calibrant.recalibration",
    Kind.METRICS: "calibrant.metrics",
    Kind.SCORES: "calibrant.scores",
}


def methods(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.ALL,
    json: JsonOption = False,
) -> None:
    """List what is in the box, each with one line on what it does.

    Example: calibrant methods regularizers
    """
    console = Console(json, quiet=False, verbose=False)
    found = {
        part.value: _summaries(getattr(import_module(_MODULES[part]), part.name))
        for part in Kind
        if part is not Kind.ALL and kind in (Kind.ALL, part)
    }
    console.json(found)
    for title, parts in found.items():
        console.show(_listing(title, parts))


def _summaries(parts: Mapping[str, object]) -> dict[str, str]:
    """Names and the first lines of their docstrings."""
    return {
        name: _plain((part.__doc__ or "").strip().splitlines()[0])
        for name, part in parts.items()
    }


def _listing(title: str, parts: Mapping[str, str]) -> "Table":
    from rich.table import Table

    from calibrant.regularizers import STRENGTHS

    listing = Table(title=title.capitalize(), title_justify="left")
    listing.add_column("name", no_wrap=True)
    listing.add_column("what it does")
    if title == Kind.REGULARIZERS:
        listing.add_column("default strength", justify="right")
    for name, summary in parts.items():
        strength = [f"{STRENGTHS[name]:g}"] if title == Kind.REGULARIZERS else []
        listing.add_row(name, summary, *strength)
    return listing


def _plain(text: str) -> str:
    """A line of a docstring without its markup; formulas are left out."""
    text = re.sub(r"\s*,?\s*:math:`[^`]*`", "", text)
    return re.sub(r"(:\w+:)?`+([^`]*)`+", r"\2", text)
