"""calibrant info, datasets and methods: what there is."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

from calibrant.commands import _console as cli
from calibrant.errors import InputError
from calibrant.registry import load as load_part

__all__ = ["datasets", "info", "methods"]


@cli.command(model=cli.MODEL)
def info(console: cli.Console, model: Path) -> None:
    """Say what a model predicts, from which columns, how it was made and how it did.

    Example: calibrant info model/
    """
    from calibrant.commands import table_model
    from calibrant.storage import read_description

    parts: dict[str, Any] = read_description(model, kind=table_model.KIND)
    try:
        encoder, target, about, trend = table_model.described_table(parts)
        regressor = parts.get("regressor")
        strength = regressor.get("strength") if isinstance(regressor, dict) else None
        made = table_model.settings_of(about, strength, trend)
        did = table_model.how_it_did(about)
    except InputError as error:
        raise InputError(f"{model}: {error}") from None
    console.json(
        {
            "target": target,
            "columns": [vars(line) for line in encoder.lines],
            "features": list(encoder.feature_names),
            "about": about,
        }
    )
    console.say(
        f"Predicts {target!r:.60} from {len(encoder.needed)} columns "
        f"({len(encoder.feature_names)} features)."
    )
    console.columns(encoder.lines)
    for name, text in made.items():
        console.say(f"{name}: {text}")
    console.say(did)


@cli.command(
    "Nothing was written.",
    name=cli.argument(
        "One of them, to be written.", str | None, None, show_default=False
    ),
    out=cli.option(
        Path,
        "File to write: .csv, .csv.gz, .tsv or .parquet.",
        "--out",
        "-o",
        show_default="NAME.csv",
    ),
    new=cli.option(
        float,
        "Share of its rows, chosen at random, to write as a second file, NAME-new.csv, "
        "that stands for new rows. Rows with equal features stay together.",
        default=0.0,
    ),
)
def datasets(
    console: cli.Console, name: str | None, out: Path | None, new: float
) -> None:
    """List the data sets, or write one of them as a table.

    Example: calibrant datasets concrete --new 0.3
    """
    if name is None:
        _list_data(console)
    else:
        _write_data(name, out or Path(f"{name}.csv"), new, console)


def _list_data(console: cli.Console) -> None:
    from calibrant.data import DATA_SETS, is_present

    fields = ("name", "rows", "features", "target", "license", "citation")
    listed, rows = [], []
    for name, info in DATA_SETS.items():
        here = is_present(name)
        listed.append({field: getattr(info, field) for field in fields})
        listed[-1]["here"] = here
        size = (f"{info.rows:,}", str(info.features))
        place = "yes" if here else "download"
        rows.append((name, *size, info.target, place, info.title))
    console.json({"datasets": listed})
    titles = ("name", "rows", "features", "target", "here", "title")
    _show(console, "Data sets", titles, rows)


def _write_data(name: str, path: Path, new: float, console: cli.Console) -> None:
    import numpy as np
    import pyarrow as pa

    from calibrant.data import load
    from calibrant.estimators.folds import Blocks, linked_rows
    from calibrant.tables import write_table

    if not 0 <= new < 1:
        raise InputError(f"--new takes a share in [0, 1), as 0.3; got {new:g}.")
    data = load(name)
    columns = dict(zip(data.features, data.x.T, strict=True))
    table = pa.table(columns | {data.target: data.y})
    parts = {path: table}
    if new:
        blocks = Blocks(linked_rows(data.x, None))
        train, test = blocks.hold_out(new, np.random.default_rng(0))
        suffix = "".join(path.suffixes)
        second = path.with_name(f"{path.name.removesuffix(suffix)}-new{suffix}")
        parts = {path: table.take(train), second: table.take(test)}
    for place, part in parts.items():
        write_table(place, part)
        console.say(f"{part.num_rows:,} rows: {place}")
    paths = [str(place) for place in parts]
    console.json({"name": name, "paths": paths, "target": data.target})
    console.say(f"Next: calibrant fit {path} --target {data.target}")


_TABLES = {
    "sorters": "calibrant.registry:SORTERS",
    "regularizers": "calibrant.regularizers:REGULARIZERS",
    "distributions": "calibrant.distributions:DISTRIBUTIONS",
    "networks": "calibrant.learners:NETWORKS",
    "heads": "calibrant.learners:HEADS",
    "recalibrators": "calibrant.recalibration:RECALIBRATORS",
    "metrics": "calibrant.metrics:METRICS",
    "scores": "calibrant.scores:SCORES",
}
Kind = StrEnum("Kind", ["all", *_TABLES])  # type: ignore[misc]


@cli.command(kind=cli.argument("What to list.", Kind, Kind("all")))
def methods(console: cli.Console, kind: str) -> None:
    """List what is in the box, each with one line on what it does.

    Example: calibrant methods regularizers
    """
    from calibrant.regularizers import STRENGTHS

    found = {
        name: _summaries(load_part(path))
        for name, path in _TABLES.items()
        if kind in ("all", name)
    }
    console.json(found)
    for title, parts in found.items():
        titles: tuple[str, ...] = ("name", "what it does")
        rows: list[tuple[str, ...]] = list(parts.items())
        if title == "regularizers":
            titles += ("default strength",)
            rows = [(*row, f"{STRENGTHS[row[0]]:g}") for row in rows]
        _show(console, title.capitalize(), titles, rows)


def _summaries(parts: Any) -> dict[str, str]:  # noqa: ANN401  (a table of parts)
    """Names and first lines of docstrings, without markup and formulas."""
    found = {}
    for name, part in parts.items():
        text = (part.__doc__ or "").strip().splitlines()[0]
        text = re.sub(r"\s*,?\s*:math:`[^`]*`", "", text)
        found[name] = re.sub(r"(:\w+:)?`+([^`]*)`+", r"\2", text)
    return found


def _show(
    console: cli.Console,
    title: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in columns:
        right = name in ("rows", "default strength")
        table.add_column(
            name, justify="right" if right else "left", no_wrap=name == "name"
        )
    for row in rows:
        table.add_row(*row)
    console.show(table)
