"""calibrant datasets: the data sets of the paper, listed or as CSV files."""

from pathlib import Path
from typing import Annotated

import typer

from calibrant.commands._console import Console, one_line_errors
from calibrant.commands._options import JsonOption, QuietOption, VerboseOption
from calibrant.errors import InputError

__all__ = ["datasets"]


@one_line_errors("Nothing was written.")
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, to be written.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv, .csv.gz, .tsv or .parquet.",
            show_default="NAME.csv",
        ),
    ] = None,
    new: Annotated[
        float,
        typer.Option(
            help="Share of its rows, chosen at random, to write as a second file, "
            "NAME-new.csv, that stands for new rows. Rows with equal features stay "
            "together."
        ),
    ] = 0.0,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List the data sets, or write one of them as a table.

    Example: calibrant datasets concrete --new 0.3
    """
    console = Console(json, quiet, verbose)
    if name is None:
        _list(console)
    else:
        _write(name, Path(f"{name}.csv") if out is None else out, new, console)


def _list(console: Console) -> None:
    from rich.table import Table

    from calibrant.data import DATA_SETS, is_present

    table = Table(title="Data sets", title_justify="left")
    for title in ("name", "rows", "features", "target", "here", "title"):
        table.add_column(title, justify="right" if title == "rows" else "left")
    listed = []
    for name, info in DATA_SETS.items():
        here = is_present(name)
        fields = ("name", "rows", "features", "target", "license", "citation")
        listed.append(
            {field: getattr(info, field) for field in fields} | {"here": here}
        )
        table.add_row(
            name,
            f"{info.rows:,}",
            str(info.features),
            info.target,
            "yes" if here else "download",
            info.title,
        )
    console.json({"datasets": listed})
    console.show(table)


def _write(name: str, path: Path, new: float, console: Console) -> None:
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
