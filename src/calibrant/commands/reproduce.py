"""calibrant reproduce: the paper's experiments, again."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._terminal import say
from calibrant.commands._console import Console
from calibrant.commands._options import (
    RUN,
    JsonOption,
    QuietOption,
    VerboseOption,
)
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.paper.plan import Plan
    from calibrant.paper.run import Reproduction

__all__ = ["reproduce"]


class Profile(StrEnum):
    """Plans by name."""

    QUICK = "quick"
    PAPER = "paper"
    SHUFFLED = "shuffled"


Many = list[str] | None
_STUDY = "A plan of your own"


def reproduce(
    profile: Annotated[
        Profile | None,
        typer.Option(
            help="quick (default): 8 sets, 1 repeat, minutes. paper: all tables and "
            "figures, hours. shuffled: shuffled folds, more methods, hours."
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="A plan in TOML instead; see --print-plan.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for results, tables, figures and report.")
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
        typer.Option(
            help="As `calibrant methods regularizers` lists, or conditional.",
            rich_help_panel=_STUDY,
        ),
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
        typer.Option(help="none, isotonic or out_of_fold.", rich_help_panel=_STUDY),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="unshuffled (as in the paper), shuffled, or fixed (Year Prediction "
            "MSD only).",
            rich_help_panel=_STUDY,
        ),
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
            min=0, help="Local processes; 0 for one per core.", rich_help_panel=RUN
        ),
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, tcp://host:8786, whose workers do the "
            "work instead.",
            rich_help_panel=RUN,
        ),
    ] = None,
    resume_from: Annotated[
        Path | None,
        typer.Option(
            help="results.csv of another run; its cells count as finished.",
            rich_help_panel=RUN,
        ),
    ] = None,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only",
            help="Train nothing; report what is finished.",
            rich_help_panel=RUN,
        ),
    ] = False,
    print_plan: Annotated[
        bool, typer.Option("--print-plan", help="Print the plan as TOML and leave.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Repeat the paper's experiments and write a report that can be read.

    Finished parts are kept at once: the same command goes on after an interruption.

    Example: calibrant reproduce --profile quick --workers 0
    """
    console = Console(json, quiet, verbose)
    wishes = {
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
    options = {n: value for n, value in wishes.items() if value not in (None, [])}
    try:
        if report_only:
            _refuse_beside_report(
                {**options, "profile": profile, "plan": plan, "only": only}
                | {"seed": seed, "resume-from": resume_from}
            )
            _report(out, console)
            return
        chosen = _chosen_plan(profile, plan, only, seed, options)
        if print_plan:
            say(str(chosen), end="")
            return
        runners = (workers, scheduler)
        _reproduce(chosen, out, runners, resume_from, console)
    except (InputError, OSError) as error:
        place = "" if isinstance(error, InputError) or error.filename else f" ({out})"
        say(f"calibrant: {error}{place}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        say(
            f"calibrant: interrupted. What is finished is in {out}; the same command "
            "goes on, and --report-only reports it.",
            err=True,
        )
        raise typer.Exit(130) from None


def _refuse_beside_report(options: Mapping[str, object]) -> None:
    """A report takes what is in the folder; anything else would be ignored."""
    given = [name for name, value in options.items() if value not in (None, [])]
    if given:
        raise InputError(
            f"--report-only reports all that is in --out, got {', '.join(given)} too. "
            "Leave that out."
        )


def _chosen_plan(
    profile: Profile | None,
    plan: Path | None,
    only: Many,
    seed: int | None,
    options: Mapping[str, object],
) -> "Plan":
    """Return the plan of a file, of the options, or of a profile."""
    from calibrant.paper.plan import choose_plan

    name = None if profile is None else profile.value
    return choose_plan(name, plan, options, only=only or (), seed=seed)


def _reproduce(
    plan: "Plan",
    out: Path,
    runners: tuple[int, str | None],
    resume_from: Path | None,
    console: Console,
) -> None:
    import os

    from calibrant import paper

    workers, scheduler = runners
    done = paper.reproduce(
        plan,
        out,
        workers=workers or (1 if scheduler else os.cpu_count() or 1),
        scheduler=scheduler,
        resume_from=resume_from,
        progress=not console.silent,
    )
    _show(done, console)


def _report(out: Path, console: Console) -> None:
    from calibrant import paper

    _show(paper.report(out), console)


def _show(done: "Reproduction", console: Console) -> None:
    console.json(
        {
            "report": done.page,
            "cells": len(done.records),
            "added": done.added,
            "failures": [f"{job}: {error}" for job, error in done.failures],
            "verdicts": [
                {
                    "claim": each.claim,
                    "network": each.network,
                    "epochs": each.epochs,
                    "verdict": each.verdict,
                }
                for each in done.verdicts
            ],
        }
    )
    if not console.silent:
        console.show(done.screen())
        sys.stdout.flush()
    for job, error in done.failures:
        say(f"calibrant: failed: {job}: {error}", err=True)
    console.say(f"Report: {done.page}")
    if done.failures:
        raise typer.Exit(1)
