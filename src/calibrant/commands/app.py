"""The command line: all commands, and how they end."""

import os
import sys
from typing import Annotated

import typer

from calibrant import __version__
from calibrant._terminal import say
from calibrant.commands._console import INTERRUPTED
from calibrant.commands.compare import compare
from calibrant.commands.evaluate import evaluate
from calibrant.commands.fit import fit
from calibrant.commands.listings import datasets, info, methods
from calibrant.commands.predict import predict
from calibrant.commands.recalibrate import recalibrate
from calibrant.commands.reproduce import reproduce

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="calibrant",
    help="Regression whose uncertainty can be trusted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback means a bug of ours: show it plainly
    context_settings={"help_option_names": ["-h", "--help"]},
)

# What typer raises for a command that was written wrongly, whichever version it has.
_Refusal: type[Exception] = typer.BadParameter.__mro__[2]


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
    """Regression whose uncertainty can be trusted.

    From a table to calibrated predictions: fit, predict, evaluate, recalibrate.
    Any other model's predictions: compare. The paper behind it: reproduce.
    """


# In the order in which a new user needs them.
for _command in (
    *(fit, predict, evaluate, recalibrate, compare),
    *(info, datasets, reproduce, methods),
):
    app.command()(_command)


def run() -> int:
    """Run the command line, and return its exit code.

    0 if all went well, 1 if something was found wanting, 2 for a mistake of the user,
    130 after an interruption.
    """
    # Threads of torch that spin while they wait take the cores from each other as soon
    # as anybody else works on the machine: a training was seen to take seven times as
    # long. They read this when torch is imported, so not yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        code = app(prog_name="calibrant", standalone_mode=False)
    except _Refusal as error:
        context = getattr(error, "ctx", None)
        who = "calibrant" if context is None else context.command_path
        said = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
        if said:
            end = "" if said.endswith((".", "?")) else "."
            say(f"{who}: {said}{end} See {who} --help.", err=True)
        elif context is not None:  # a command without anything: show what it takes
            typer.echo(context.get_help())
        return int(getattr(error, "exit_code", 2))
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`| head`): nothing more to say, not even at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return int(code or 0)


def main() -> None:
    """Run the command line."""
    sys.exit(run())
