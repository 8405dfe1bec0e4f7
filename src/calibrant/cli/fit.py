"""calibrant fit: from a table to a model and its report."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._app import command_line, one_line_errors
from calibrant.cli._options import (
    DecimalOption,
    DelimiterOption,
    ForceOption,
    JsonOption,
    MissingOption,
    QuietOption,
    RecalibratorOption,
    SeedOption,
    Table,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    style_of,
)
from calibrant.cli._voice import Voice

if TYPE_CHECKING:
    from calibrant.workflows.fit_table import TableFit

__all__ = ["fit"]

_COLUMNS = "Columns"
_TEST = "Rows to measure on"
_MODEL = "The model"
# Parameters that have options of their own, which must not contradict each other.
_OWN_OPTIONS = (
    *("learners", "network", "hidden", "members", "strength", "recalibrator"),
    *("epochs", "target_transform"),
)


@one_line_errors("There is no model yet, and nothing was written.")
def fit(
    table: Table,
    target: Annotated[
        str,
        typer.Option(
            help="Column to predict.",
            autocompletion=complete_columns,
            rich_help_panel=_COLUMNS,
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for model and report.")] = Path(
        "model"
    ),
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns not to use.",
            autocompletion=complete_columns,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to take as names though they hold numbers.",
            autocompletion=complete_columns,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column that says which rows belong together (patient, site).",
            autocompletion=complete_columns,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    day_first: Annotated[
        bool | None,
        typer.Option(
            "--day-first/--month-first",
            help="Whether 03/04/2025 is in April or in March.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    keep_outliers: Annotated[
        bool,
        typer.Option(
            "--keep-outliers",
            help="Learn also from targets beyond any reason, as -9999.",
            rich_help_panel=_COLUMNS,
        ),
    ] = False,
    test: Annotated[
        float | None,
        typer.Option(
            help="Share of the rows that is set aside; 0 for none.",
            rich_help_panel=_TEST,
            show_default="0.2",
        ),
    ] = None,
    test_file: Annotated[
        Path | None,
        typer.Option(help="Measure on this file instead.", rich_help_panel=_TEST),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            help="Set the latest rows aside, by this column; a feature too unless "
            "it is dropped.",
            autocompletion=complete_columns,
            rich_help_panel=_TEST,
        ),
    ] = None,
    learners: Annotated[
        str,
        typer.Option(
            help="network, boosting (LightGBM's trees), or both.",
            rich_help_panel=_MODEL,
        ),
    ] = "network,boosting",
    network: Annotated[
        str, typer.Option(help="deep_ensemble or mc_dropout.", rich_help_panel=_MODEL)
    ] = "deep_ensemble",
    hidden: Annotated[
        str, typer.Option(help="Units of the hidden layers.", rich_help_panel=_MODEL)
    ] = "64,64",
    members: Annotated[
        int,
        typer.Option(
            min=1,
            help="Networks that have not seen a row; members x folds are trained.",
            rich_help_panel=_MODEL,
        ),
    ] = 4,
    strength: Annotated[
        str,
        typer.Option(
            help="Of the quantile regularizer, or auto to choose it by rule.",
            rich_help_panel=_MODEL,
        ),
    ] = "0",
    recalibrator: RecalibratorOption = "auto",
    epochs: Annotated[
        str,
        typer.Option(
            help="Passes at most, or auto: 120, fewer beyond 50,000 rows.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto",
    target_transform: Annotated[
        str | None,
        typer.Option(
            help="log, box_cox, yeo_johnson or logit.", rich_help_panel=_MODEL
        ),
    ] = None,
    lower: Annotated[
        float | None,
        typer.Option(help="Least possible target.", rich_help_panel=_MODEL),
    ] = None,
    upper: Annotated[
        float | None,
        typer.Option(help="Largest possible target.", rich_help_panel=_MODEL),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other parameter of CalibratedRegressor, as learning_rate=0.001.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Train on a table, measure on unseen rows, and write a report.

    Numbers, booleans, categories and dates, with gaps: it says what it did with each
    column. Interrupted by Ctrl-C, it keeps the best model so far.

    Example: calibrant fit houses.csv --target price --drop id --categorical zip
    """
    from calibrant.workflows.fit_table import fit_table

    voice = Voice(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    settings: dict[str, Any] = {
        "learners": tuple(name.strip() for name in learners.split(",")),
        "network": network,
        "hidden": _units(hidden),
        "members": members,
        "strength": _number(strength, "--strength", float),
        "recalibrator": None if recalibrator == "none" else recalibrator,
        "epochs": _number(epochs, "--epochs", int),
        "target_transform": target_transform,
        "bounds": None if lower is None and upper is None else (lower, upper),
        **_parameters(more),
    }
    done = fit_table(
        table,
        target=target,
        out=out,
        test=test,
        test_table=test_file,
        drop=column_names(drop, table, style),
        categorical=column_names(categorical, table, style),
        time=time_column,
        group=group,
        day_first=day_first,
        keep_outliers=keep_outliers,
        style=style,
        seed=seed,
        overwrite=force,
        progress=voice.progress,
        command=command_line(),
        **settings,
    )
    _tell(done, voice)


def _tell(done: "TableFit", voice: Voice) -> None:
    voice.json(done.to_dict())
    voice.columns(done.model.encoder.lines)
    voice.notes(done.notes)
    if done.card is not None:
        voice.card(done.card)
        voice.say(done.accuracy())
    voice.say(done.words())
    voice.say(f"Trained: {done.model.regressor.plan_}")
    voice.say(f"Model:  {done.folder}")
    if done.page is not None:
        voice.say(f"Report: {done.page}")
    elif done.card is not None:  # a note says why
        raise typer.Exit(1)


def _parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE; what is no value of Python is a text."""
    from calibrant._checks import InputError

    found: dict[str, Any] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if name in _OWN_OPTIONS:
            raise InputError(f"--set {name}: use --{name.replace('_', '-')}.")
        if not sign or not name.isidentifier():
            raise InputError(
                f"--set takes NAME=VALUE, as learning_rate=0.001; got {text!r}."
            )
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found[name] = value
    return found


def _number(text: str, option: str, kind: type[int] | type[float]) -> float | str:
    from calibrant._checks import InputError

    what = "an integer from 1 on" if kind is int else "a number"
    try:
        if text == "auto" or kind is float or int(text) >= 1:
            return text if text == "auto" else kind(text)
    except ValueError:
        pass
    raise InputError(f"{option} takes {what} or auto, got {text!r}.")


def _units(text: str) -> tuple[int, ...]:
    from calibrant._checks import InputError

    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise InputError(
            f"--hidden takes whole numbers with commas between them, as 64,64; got "
            f"{text!r}."
        ) from None
