"""The application, and how it ends: well, with one line, or with a traceback."""

import functools
import os
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from calibrant import __version__
from calibrant._terminal import printable, say
from calibrant.errors import InputError

__all__ = [
    "app",
    "command_line",
    "for_the_shell",
    "one_line_errors",
    "run",
]

Parameters = ParamSpec("Parameters")

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
_INTERRUPTED = 130
# What errors advise that were written for Python.
_OPTIONS = {
    "pass overwrite=True": "use --force",
    "pass time= or groups= to fit": "use --time-column or --group",
    "use None for the other": "leave the other out",
    'recalibrator="beta"': "--recalibrator beta",
    'recalibrate_on="held_out"': "--set recalibrate_on=held_out",
    "recalibrate_on=None": "--set recalibrate_on=None",
    "patience=None": "--set patience=None",
    "set gradient_clip=1.0": "use --set gradient_clip=1.0",
    "random_state is set by the seed": "--set random_state: use --seed",
    "bounds must be (low, high) with low < high": "--lower must be below --upper",
    "within bounds=": "within --lower and --upper, ",
    "target_transform:": "--target-transform:",
    "fit_table has no settings": "there are no parameters",
    "columns of mean and std,": "--mean and --std,",
    "columns of quantiles with their levels": "--quantile LEVEL=COLUMN",
}


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


def run() -> int:
    """Run the command line, and return its exit code.

    Returns
    -------
    int
        0 if all went well, 1 if something was found wanting, 2 for a mistake of the
        user, 130 after an interruption.
    """
    # Threads of torch that spin while they wait take the cores from each other as soon
    # as anybody else works on the machine: a training was seen to take seven times as
    # long. They read this when torch is imported, so not yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        code = app(standalone_mode=False)
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
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`| head`): nothing more to say, not even at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return int(code or 0)


def one_line_errors(
    nothing_yet: str,
) -> Callable[[Callable[Parameters, None]], Callable[Parameters, None]]:
    """Let a command end with one line and exit code 2 for a mistake of the user.

    Parameters
    ----------
    nothing_yet
        What to say after an interruption.
    """

    def decorate(
        command: Callable[Parameters, None],
    ) -> Callable[Parameters, None]:
        @functools.wraps(command)
        def told(*args: Parameters.args, **options: Parameters.kwargs) -> None:
            warnings.formatwarning = _short_warning
            try:
                command(*args, **options)
            except KeyboardInterrupt:
                say(f"calibrant: interrupted. {nothing_yet}", err=True)
                raise typer.Exit(_INTERRUPTED) from None
            except BrokenPipeError:
                raise  # the reader has left, see run
            except (ValueError, OSError, RuntimeError) as error:
                if not _is_for_the_user(error):
                    raise
                say(f"calibrant: {for_the_shell(error)}", err=True)
                raise typer.Exit(2) from None

        return told

    return decorate


def _is_for_the_user(error: Exception) -> bool:
    """Whether the text says what the user can do, so that no traceback is needed."""
    if isinstance(error, OSError | InputError):
        return True
    from calibrant.training.history import DivergedError

    return isinstance(error, DivergedError)


def for_the_shell(message: object) -> str:
    """Return a message on one line, with the options of the command line in it."""
    text = " ".join(str(message).split())
    for python, option in _OPTIONS.items():
        text = text.replace(python, option)
    return text


def _short_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001  (Python's signature)
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> str:
    """Warnings speak to the user here, whom places in our files do not help."""
    return printable(f"calibrant: {for_the_shell(message)}\n")


def command_line() -> str | None:
    """Return the command as it was typed, or None if this is not its process."""
    if Path(sys.argv[0]).name not in ("calibrant", "calibrant.exe", "__main__.py"):
        return None
    return shlex.join(["calibrant", *sys.argv[1:]])
