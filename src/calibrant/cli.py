"""The command line: parse, call one function, print."""

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant import __version__

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.benchmark.plan import Plan

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


@app.command()
def methods(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.ALL,
) -> None:
    """List what is in the box, each with one line on what it does.

    Example: calibrant methods regularizers
    """
    from rich.console import Console

    import calibrant

    console = Console()
    for each in Kind:
        if each is not Kind.ALL and kind in (Kind.ALL, each):
            parts: Mapping[str, object] = getattr(calibrant, each.name)
            console.print(_listing(each.value, parts))


def _listing(title: str, parts: Mapping[str, object]) -> "Table":
    """Names and the first lines of their docstrings as a table."""
    from rich.table import Table

    from calibrant.regularizers import STRENGTHS

    listing = Table(title=title.capitalize(), title_justify="left")
    listing.add_column("name", no_wrap=True)
    listing.add_column("what it does")
    if title == Kind.REGULARIZERS:
        listing.add_column("default strength", justify="right")
    for name, part in parts.items():
        summary = _plain((part.__doc__ or "").strip().splitlines()[0])
        strength = [f"{STRENGTHS[name]:g}"] if title == Kind.REGULARIZERS else []
        listing.add_row(name, summary, *strength)
    return listing


class Profile(StrEnum):
    """Plans by name."""

    QUICK = "quick"
    PAPER = "paper"
    SHUFFLED = "shuffled"


Many = list[str] | None
_STUDY = "A plan of your own"
_RUN = "How it is run"


@app.command()
def reproduce(  # noqa: PLR0913  (one parameter for each option)
    profile: Annotated[
        Profile,
        typer.Option(
            help="quick: 8 sets, 1 repeat, minutes. paper: all tables and figures, "
            "hours. shuffled: shuffled folds, more methods, hours."
        ),
    ] = Profile.QUICK,
    plan: Annotated[
        Path | None, typer.Option(help="A plan in TOML instead; see --print-plan.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for ledger, tables, figures and report.")
    ] = Path("reproduction"),
    only: Annotated[
        Many, typer.Option(help="Leave all data sets of the plan out but these.")
    ] = None,
    data: Annotated[
        Many,
        typer.Option(
            help="Instead of a profile: data sets by name, or table.csv#target.",
            rich_help_panel=_STUDY,
        ),
    ] = None,
    network: Annotated[
        Many,
        typer.Option(
            help="mc_dropout, deep_ensemble or default.", rich_help_panel=_STUDY
        ),
    ] = None,
    regularizer: Annotated[
        Many,
        typer.Option(help="As `calibrant methods` lists.", rich_help_panel=_STUDY),
    ] = None,
    strength: Annotated[
        list[float] | None,
        typer.Option(help="Of the regularizer; 0 for none.", rich_help_panel=_STUDY),
    ] = None,
    epochs: Annotated[
        list[int] | None, typer.Option(help="Passes.", rich_help_panel=_STUDY)
    ] = None,
    recalibration: Annotated[
        Many,
        typer.Option(
            help="none, isotonic, cross_fit or out_of_bag.", rich_help_panel=_STUDY
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="unshuffled, shuffled or fixed.", rich_help_panel=_STUDY),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Number of folds.", rich_help_panel=_STUDY)
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Number of repeats.", rich_help_panel=_STUDY)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="One seed, the same numbers; 0 by default.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=0, help="Local processes; 0 for one per core.", rich_help_panel=_RUN
        ),
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, tcp://host:8786, whose workers do the "
            "work instead.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    resume_from: Annotated[
        Path | None,
        typer.Option(
            help="results.csv of another run; its cells count as finished.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only",
            help="Train nothing; report what is finished.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    print_plan: Annotated[
        bool, typer.Option("--print-plan", help="Print the plan as TOML and leave.")
    ] = False,
) -> None:
    """Repeat the paper's experiments and write a report that can be read.

    Finished parts are kept at once: the same command goes on after an interruption.

    Example: calibrant reproduce --profile quick --workers 0
    """
    from calibrant._checks import InputError

    options = {
        "data": data,
        "networks": network,
        "regularizers": regularizer,
        "strengths": strength,
        "epochs": epochs,
        "recalibrations": recalibration,
        "split": split,
        "folds": folds,
        "repeats": repeats,
    }
    try:
        chosen = _chosen_plan(profile, plan, only, seed, options)
        if print_plan:
            typer.echo(str(chosen), nl=False)
            return
        _reproduce(chosen, out, workers, scheduler, resume_from, report_only)
    except (InputError, OSError) as error:
        typer.echo(f"calibrant: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(
            f"calibrant: interrupted. What is finished is in {out}; the same command "
            "goes on, and --report-only reports it.",
            err=True,
        )
        raise typer.Exit(130) from None


def _chosen_plan(
    profile: Profile,
    plan: Path | None,
    only: Many,
    seed: int | None,
    options: Mapping[str, object],
) -> "Plan":
    """Return the plan of a file, of the options, or of a profile."""
    from calibrant.workflows.plans import choose_plan

    given = {n: value for n, value in options.items() if value not in (None, [])}
    return choose_plan(profile.value, plan, given, only=only or (), seed=seed)


def _reproduce(
    plan: "Plan",
    out: Path,
    workers: int,
    scheduler: str | None,
    resume_from: Path | None,
    report_only: bool,
) -> None:
    import os

    from rich.console import Console

    from calibrant.workflows import reproduce as work
    from calibrant.workflows.screen import screen

    if report_only:
        done = work.report(out)
    else:
        done = work.reproduce(
            plan,
            out,
            workers=work.Workers(workers or os.cpu_count() or 1, scheduler),
            resume_from=resume_from,
            progress=True,
        )
    console = Console()
    console.print(screen(done, width=console.width))
    for job, error in done.failures:
        typer.echo(f"calibrant: failed: {job}: {error}", err=True)
    sys.stdout.flush()
    typer.echo(f"Report: {done.page}")
    if done.failures:
        raise typer.Exit(1)


def _plain(text: str) -> str:
    """A line of a docstring without its markup; formulas are left out."""
    text = re.sub(r"\s*,?\s*:math:`[^`]*`", "", text)
    return re.sub(r"(:\w+:)?`+([^`]*)`+", r"\2", text)


def main() -> None:
    """Run the command line."""
    app()
