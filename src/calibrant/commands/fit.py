"""calibrant fit: from a table to a model, its scorecard and its report."""

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calibrant.commands import _console as cli
from calibrant.errors import InputError, StorageError

# Torch and numpy are imported where they are used: --help needs neither.
if TYPE_CHECKING:
    from calibrant.commands.measuring import Labeled
    from calibrant.commands.table_model import TableModel
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Column, Style

__all__ = ["TableFit", "fit", "fit_table"]

_NOT_MEASURED = (
    "The measurement was interrupted: the model is complete, but it has no scorecard "
    "and no report. Measure it with `calibrant evaluate`."
)
_NOT_REPORTED = (
    "The model is complete, but its scorecard and its report could not be written. "
    "Make them with `calibrant evaluate`."
)
#: Why rows are new to a model, by how they were held out.
_UNSEEN = {
    "file": "They come from a file of their own, which the model has not seen.",
    "time": "They are the latest rows, held out before the training.",
    "time and group": "They are the latest rows, of groups that the model has not "
    "learned from, held out before the training.",
    "group": "They are whole groups, chosen at random and held out before the "
    "training.",
    "random": "They were chosen at random and held out before the training.",
}


@dataclass(frozen=True)
class TableFit:
    """What :func:`fit_table` gives.

    Attributes
    ----------
    model, card
        Predicts tables; how it did on the held-out rows, if there were any.
    notes
        What was unusual: bad cells, an interrupted training, ordered rows.
    folder, page
        Where the model and its report were written, if they were.
    baselines
        RMSE on the same rows of always predicting one number: the mean of the rows
        that it learned from, and with a time the last value of them.
    interrupted
        Whether the training was ended by hand.
    """

    model: "TableModel"
    card: "Scorecard | None"
    notes: tuple[str, ...]
    folder: Path | None = None
    page: Path | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def columns(self) -> "tuple[Column, ...]":
        """What was done with each column of the table."""
        return self.model.encoder.columns

    def words(self) -> str:
        """Say in plain words whether its intervals can be trusted."""
        if self.card is None:
            return "It was not measured, so nothing is known about new rows."
        from calibrant.commands.measuring import judgment

        return judgment(self.card)

    def accuracy(self) -> str:
        """Say whether the means are better than one number for all rows."""
        if self.card is None:
            return ""
        own = self.card["rmse"]
        said = " and ".join(f"{v:.4g} for {n}" for n, v in self.baselines.items())
        text = f"R2 {_below_one(self.card['r2'])}: RMSE {own:.4g}, against {said}."
        lost = [name for name, error in self.baselines.items() if own > error]
        if lost:
            text += (
                f" The model is worse than predicting {' or '.join(lost)} for every "
                "row: do not use its means."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model as plain dictionaries, lists and numbers."""
        return cli.plain_dict(
            model=self.folder,
            report=self.page,
            interrupted=self.interrupted,
            words=self.words(),
            accuracy=self.accuracy(),
            baselines=dict(self.baselines),
            notes=self.notes,
            columns=[vars(line) for line in self.model.encoder.lines],
            scorecard=self.card,
        )


def _below_one(share: float) -> str:
    """Write a share with as many digits, two or more, as do not make it 1.

    >>> _below_one(0.5), _below_one(0.9979), _below_one(1.0)
    ('0.50', '0.998', '1.00')
    """
    texts = [f"{share:.{digits}f}" for digits in range(2, 10)]
    return next((text for text in texts if float(text) < 1), texts[0])


def fit_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    target: str,
    out: str | os.PathLike[str] | None = None,
    test: float | None = None,
    test_table: Any | None = None,  # noqa: ANN401
    drop: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    time: str | None = None,
    group: str | None = None,
    day_first: bool | None = None,
    keep_outliers: bool = False,
    style: "Style | None" = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
    command: str | None = None,
    **settings: Any,  # noqa: ANN401  (parameters of CalibratedRegressor)
) -> TableFit:
    """Train on a table, measure on held-out rows, and write a report.

    Columns may be numbers, booleans, categories and dates, with gaps; what was done
    with each of them is in ``columns`` of the result. What is learned about them (the
    median for gaps, the levels of a category) comes from the rows to learn from alone.
    Rows with equal features are on one side of every cut.

    Interrupted by hand (Ctrl-C), it goes on with the best model so far.

    Parameters
    ----------
    table
        A path of a CSV (also .gz) or Parquet file, a data frame of pandas or polars,
        a table of pyarrow, or columns by name.
    target
        Column to predict. Rows without a value in it are left out.
    out
        Folder for model and report; None writes nothing.
    test
        Share of the rows that is held out to measure on, 0 for none; by default 0.2.
    test_table
        Measure on this table instead. Its rows that the training has, too (equal
        features, or the same group), are left out.
    drop, categorical
        Columns not to use, and columns to take as names though they hold numbers.
    time
        Column with the time of each row: the latest rows are held out, and folds are
        stretches of time. It is a feature too, unless ``drop`` names it. A straight
        line in time is taken off the target if that helps to predict later rows (not
        with ``bounds`` or ``target_transform``).
    group
        Column that says which rows belong together (a patient, a site): they are never
        on both sides of a cut. It is no feature. With a time as well, the rows to
        measure on are the latest ones, of groups that are not learned from.
    day_first
        Whether 03/04/2025 is the third of April; None finds out where it can.
    keep_outliers
        Learn also from targets beyond any reason (-9999 where the others are of order
        1). They are left out otherwise, and a note names the first of them.
    style
        How a text file is written; None finds out.
    seed, overwrite
        The same seed gives the same model; whether to replace one in the folder.
    progress
        Show progress; None for a terminal only.
    command
        What the report says that makes it again.
    **settings
        Parameters of :class:`CalibratedRegressor`, such as ``strength="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 200)
    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> table = {"x": x, "kind": ["a", "b"] * 100, "y": x + 0.1 * noise}
    >>> done = fit_table(table, target="y", epochs=5, progress=False)
    >>> print(done.words())
    Your 90 % intervals covered ... % of 40 unseen rows; a perfectly calibrated ...
    >>> [column.kind for column in done.columns]
    ['number', 'category', 'target']
    """
    from calibrant.commands import measuring, training
    from calibrant.commands.table_model import TableModel
    from calibrant.storage import check_writable
    from calibrant.tables import Roles

    if out is not None:
        check_writable(out, overwrite=overwrite)
    regressor = training.chosen_regressor(settings, seed)
    if test is not None and test_table is not None:
        raise InputError(
            "rows to measure on are held out, or come from a table of their own, got "
            "both. Leave one of them out."
        )
    share = 0.2 if test_table is None else 0.0
    if test is not None:
        (share,) = measuring.as_numbers(test, what="test")
    roles = Roles(
        drop=measuring.as_names(drop, what="drop"),
        categorical=measuring.as_names(categorical, what="categorical"),
        time=time,
        group=group,
        day_first=day_first,
    )
    (target,) = measuring.as_names(target, what="target")
    rows = training.read_training_table(
        table, target, roles, style, keep_outliers=keep_outliers
    )
    rows = training.cut_rows(rows, share, seed)
    model = TableModel(regressor, rows.learn_columns(rows.learned), target)
    x, noted = rows.encoded(model.encoder)
    if test_table is None:
        labeled = measuring.Labeled.of(
            rows.data, rows.held, x, rows.y, encoder=model.encoder
        )
        measured_on, how = rows.source.name, rows.how
    else:
        labeled, measured_on = rows.unseen(test_table, style, model, x, seed)
        how = "file"
    x = rows.without_own_targets(model.encoder, x, seed)
    model, notes = rows.train(model, x, command=command, progress=progress)
    notes = (*rows.notes, *noted, *notes)
    fitted = TableFit(
        model=model,
        card=None,
        notes=notes,
        # Already now, so that nothing is lost if the measurement is interrupted.
        folder=None if out is None else model.save(out, overwrite=overwrite),
        interrupted=model.about["interrupted"],
    )
    if not len(labeled.y):
        return fitted
    fitted = replace(fitted, baselines=rows.baselines(labeled.y))
    try:
        return _measured(fitted, labeled, measured_on, how)
    except KeyboardInterrupt:
        return replace(fitted, interrupted=True, notes=(*notes, _NOT_MEASURED))


def _measured(fitted: TableFit, labeled: "Labeled", source: str, how: str) -> TableFit:
    """Measure the model, and put scorecard and report into its folder."""
    from calibrant.commands import measuring
    from calibrant.report.contents import OwnReport
    from calibrant.report.own_page import own_page

    model = fitted.model
    measured = measuring.measure(
        model.distribution(labeled.x), labeled, seed=model.about["seed"]
    )
    card, notes = measured.card, (*fitted.notes, *measured.notes)
    model = model.with_about(scorecard=measuring.summary(card))
    done = replace(fitted, model=model, card=card, notes=notes)
    if fitted.folder is None:
        return done
    curves: dict[str, list[float]] = {}
    for history in model.regressor.history_[:1]:  # none of trees alone
        curves = {"loss": history.loss, "on rows held back": history.held_out_score}
    contents = OwnReport(
        kind="fit",
        card=card,
        predictions=measured.predictions,
        source=source,
        target=model.target,
        unseen=_UNSEEN[how],
        settings=model.settings(),
        columns=model.encoder.lines,
        notes=(*notes, done.accuracy()),
        training={name: values for name, values in curves.items() if values},
    )
    try:
        model.save(fitted.folder, page=own_page(contents), overwrite=True)
    except StorageError as error:  # a full disk; the model is there already
        return replace(done, notes=(*notes, f"{_NOT_REPORTED} {error}"))
    return replace(done, page=fitted.folder / "report.html")


def _or_auto(flag: str, what: str, kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads a value of an option, or "auto"."""

    def read(text: str) -> Any:  # noqa: ANN401
        try:
            return text if text == "auto" else kind(text)
        except ValueError:
            raise InputError(f"{flag} takes {what} or auto, got {text!r}.") from None

    return read


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


_COLUMNS = "Columns"
_TEST = "Rows to measure on"
_MODEL = "The model"
#: Parameters of the regressor that have options of their own.
_PARAMETERS = {
    "learners": cli.option(
        str,
        "network, boosting (LightGBM's trees), or both.",
        default="network,boosting",
        panel=_MODEL,
        read=lambda text: tuple(name.strip() for name in text.split(",")),
    ),
    "network": cli.option(
        str, "deep_ensemble or mc_dropout.", default="deep_ensemble", panel=_MODEL
    ),
    "hidden": cli.option(
        str,
        "Units of the hidden layers, e.g. 64,64; auto chooses by the rows.",
        default="auto",
        panel=_MODEL,
        read=_or_auto(
            "--hidden",
            "comma-separated whole numbers, e.g. 64,64,",
            lambda text: tuple(map(int, text.split(","))),
        ),
    ),
    "members": cli.option(
        str,
        "Networks that have not seen a row (members x folds are trained), or auto: 4, "
        "and 6 for more than 20,000 rows.",
        default="auto",
        panel=_MODEL,
        read=_or_auto("--members", "an integer from 1 on", _count),
    ),
    "strength": cli.option(
        str,
        "Of the quantile regularizer, or auto to choose it by rule.",
        default="0",
        panel=_MODEL,
        read=_or_auto("--strength", "a number", float),
    ),
    "recalibrator": cli.RECALIBRATOR._replace(
        default="auto", read=lambda name: None if name == "none" else name
    ),
    "epochs": cli.option(
        str,
        "Passes at most, or auto: 120, fewer beyond 50,000 rows.",
        default="auto",
        panel=_MODEL,
        read=_or_auto("--epochs", "an integer from 1 on", _count),
    ),
    "target_transform": cli.option(
        str, "log, box_cox, yeo_johnson or logit.", panel=_MODEL
    ),
}


def _parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE; what is no value of Python is a text."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if name == "bounds":
            raise InputError("--set bounds: use --lower and --upper.")
        if name in _PARAMETERS:
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


@cli.command(
    "There is no model yet, and nothing was written.",
    table=cli.TABLE,
    target=cli.columns(
        str,
        "Column to predict.",
        default=cli.REQUIRED,
        panel=_COLUMNS,
        show_default=False,
    ),
    out=cli.option(Path, "Folder for model and report.", default=Path("model")),
    drop=cli.columns(list[str], "Columns not to use.", panel=_COLUMNS),
    categorical=cli.columns(
        list[str], "Columns to take as names though they hold numbers.", panel=_COLUMNS
    ),
    group=cli.columns(
        str,
        "Column that says which rows belong together (patient, site).",
        panel=_COLUMNS,
    ),
    day_first=cli.option(
        bool,
        "Whether 03/04/2025 is in April or in March.",
        "--day-first/--month-first",
        panel=_COLUMNS,
    ),
    keep_outliers=cli.flag(
        "Learn also from targets beyond any reason, as -9999.",
        "--keep-outliers",
        panel=_COLUMNS,
    ),
    test=cli.option(
        float,
        "Share of the rows that is held out; 0 for none.",
        panel=_TEST,
        show_default="0.2",
    ),
    test_table=cli.option(
        Path, "Measure on this file instead.", "--test-file", panel=_TEST
    ),
    time=cli.columns(
        str,
        "Hold the latest rows out, by this column; a feature too unless it is dropped.",
        "--time-column",
        panel=_TEST,
    ),
    **_PARAMETERS,
    lower=cli.option(float, "Least possible target.", panel=_MODEL),
    upper=cli.option(float, "Largest possible target.", panel=_MODEL),
    more=cli.option(
        list[str],
        "Any other parameter of CalibratedRegressor, as learning_rate=0.001.",
        "--set",
        panel=_MODEL,
        read=_parameters,
    ),
    seed=cli.SEED,
    overwrite=cli.OVERWRITE,
    **cli.STYLE,
)
def fit(
    console: cli.Console,
    *,
    lower: float | None,
    upper: float | None,
    more: dict[str, Any],
    **given: Any,  # noqa: ANN401
) -> None:
    """Train on a table, measure on unseen rows, and write a report.

    Numbers, booleans, categories and dates, with gaps: it says what it did with each
    column. Interrupted by Ctrl-C, it keeps the best model so far.

    Example: calibrant fit houses.csv --target price --drop id --categorical zip
    """
    if lower is not None and upper is not None and not lower < upper:
        raise InputError(f"--lower must be below --upper, got {lower:g} and {upper:g}.")
    for name in ("drop", "categorical"):
        given[name] = cli.column_names(given[name], given["table"], given["style"])
    done = fit_table(
        **given,
        bounds=None if lower is None and upper is None else (lower, upper),
        progress=console.progress,
        command=cli.command_line(),
        **more,
    )
    console.json(done.to_dict())
    console.columns(done.model.encoder.lines)
    console.notes(done.notes)
    if done.card is not None:
        console.cards(done.card)
        console.say(done.accuracy())
    console.say(done.words())
    console.say(f"Trained: {done.model.regressor.plan_}")
    console.say(f"Model:  {done.folder}")
    if done.page is not None:
        console.say(f"Report: {done.page}")
    elif done.card is not None:  # a note says why
        raise typer.Exit(1)
