"""calibrant reproduce: the paper's experiments, again."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calibrant._terminal import say
from calibrant.commands import _console as cli
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.paper.run import Reproduction

__all__ = ["reproduce"]


class Profile(StrEnum):
    """Plans by name."""

    QUICK = "quick"
    PAPER = "paper"
    SHUFFLED = "shuffled"


_OWN = "A plan of your own"
#: Options that make a plan of one's own: the field of a study, and its text.
_STUDY = {
    "data": cli.option(
        list[str],
        "Instead of a profile: data sets by name, or table.csv#target.",
        panel=_OWN,
    ),
    "networks": cli.option(
        list[str], "mc_dropout, deep_ensemble or default.", "--network", panel=_OWN
    ),
    "regularizers": cli.option(
        list[str],
        "As `calibrant methods regularizers` lists, or conditional.",
        "--regularizer",
        panel=_OWN,
    ),
    "strengths": cli.option(
        list[float], "Of the regularizer; 0 for none.", "--strength", panel=_OWN
    ),
    "epochs": cli.option(list[int], "Passes.", panel=_OWN),
    "recalibrations": cli.option(
        list[str], "none, isotonic or out_of_fold.", "--recalibration", panel=_OWN
    ),
    "split": cli.option(
        str,
        "unshuffled (as in the paper), shuffled, or fixed (Year Prediction MSD only).",
        panel=_OWN,
    ),
    "folds": cli.option(int, "Number of folds.", panel=_OWN),
    "repeats": cli.option(int, "Number of repeats.", panel=_OWN),
}


@cli.command(
    "What is finished is in {out}; the same command goes on, and --report-only reports "
    "it.",
    profile=cli.option(
        Profile,
        "quick (default): 8 sets, 1 repeat, minutes. paper: all tables and figures, "
        "hours. shuffled: shuffled folds, more methods, hours.",
    ),
    plan=cli.option(Path, "A plan in TOML instead; see --print-plan."),
    out=cli.option(
        Path,
        "Folder for results, tables, figures and report.",
        default=Path("reproduction"),
    ),
    only=cli.option(list[str], "Leave all data sets of the plan out but these."),
    **_STUDY,
    seed=cli.option(int, "One seed, the same numbers; 0 by default."),
    workers=cli.option(
        int, "Local processes; 0 for one per core.", default=1, min=0, panel=cli.RUN
    ),
    scheduler=cli.SCHEDULER,
    resume_from=cli.option(
        Path, "results.csv of another run; its cells count as finished.", panel=cli.RUN
    ),
    report_only=cli.flag(
        "Train nothing; report what is finished.", "--report-only", panel=cli.RUN
    ),
    print_plan=cli.flag("Print the plan as TOML and leave.", "--print-plan"),
)
def reproduce(
    console: cli.Console,
    *,
    out: Path,
    workers: int,
    scheduler: str | None,
    report_only: bool,
    print_plan: bool,
    **given: Any,  # noqa: ANN401
) -> None:
    """Repeat the paper's experiments and write a report that can be read.

    Finished parts are kept at once: the same command goes on after an interruption.

    Example: calibrant reproduce --profile quick --workers 0
    """
    from calibrant import paper
    from calibrant.paper.plan import choose_plan

    given = {name: value for name, value in given.items() if value not in (None, [])}
    if report_only:
        if given:
            raise InputError(
                f"--report-only reports all that is in --out, got {', '.join(given)} "
                "too. Leave that out."
            )
        _show(paper.report(out), console)
        return
    study = {name: value for name, value in given.items() if name in _STUDY}
    plan = choose_plan(
        given.get("profile"),
        given.get("plan"),
        study,
        only=given.get("only", ()),
        seed=given.get("seed"),
    )
    if print_plan:
        say(str(plan), end="")
        return
    done = paper.reproduce(
        plan,
        out,
        workers=workers or (1 if scheduler else os.cpu_count() or 1),
        scheduler=scheduler,
        resume_from=given.get("resume_from"),
        progress=not console.silent,
    )
    _show(done, console)


def _show(done: "Reproduction", console: cli.Console) -> None:
    fields = ("claim", "network", "epochs", "verdict")
    console.json(
        {
            "report": done.page,
            "cells": len(done.records),
            "added": done.added,
            "failures": [f"{job}: {error}" for job, error in done.failures],
            "verdicts": [
                {name: getattr(verdict, name) for name in fields}
                for verdict in done.verdicts
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
