"""The command line: parse, call one function, print."""

from collections.abc import Mapping
from typing import Annotated

import typer

from calibrant import __version__

__all__ = ["main"]

app = typer.Typer(
    name="calibrant",
    help="Regression whose uncertainty can be trusted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback means a bug of ours: show it plainly
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version and leave.",
        ),
    ] = False,
) -> None:
    """Regression whose uncertainty can be trusted."""


@app.command()
def methods(
    kind: Annotated[
        str,
        typer.Argument(help="sorters, regularizers, distributions, or all of them."),
    ] = "all",
) -> None:
    """List what is in the box, each with one line on what it does.

    Example: calibrant methods regularizers
    """
    from calibrant.distributions import DISTRIBUTIONS
    from calibrant.regularizers import REGULARIZERS, STRENGTHS
    from calibrant.sorting import SORTERS

    tables: dict[str, Mapping[str, object]] = {
        "sorters": SORTERS,
        "regularizers": REGULARIZERS,
        "distributions": DISTRIBUTIONS,
    }
    if kind != "all" and kind not in tables:
        typer.echo(
            f"calibrant: KIND must be all, {', '.join(tables)}; got {kind!r}.", err=True
        )
        raise typer.Exit(2)

    from rich.console import Console
    from rich.table import Table

    for name, parts in tables.items():
        if kind not in ("all", name):
            continue
        listing = Table(title=name.capitalize(), title_justify="left")
        listing.add_column("name", no_wrap=True)
        listing.add_column("what it does")
        if name == "regularizers":
            listing.add_column("default strength", justify="right")
        for each in parts:
            summary = (parts[each].__doc__ or "").strip().splitlines()[0]
            strength = [f"{STRENGTHS[each]:g}"] if name == "regularizers" else []
            listing.add_row(each, summary, *strength)
        Console().print(listing)


def main() -> None:
    """Run the command line."""
    app()
