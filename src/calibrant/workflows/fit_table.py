"""From a table to a model, its scorecard and its report."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.estimators.folds import linked_rows
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own.page import own_page
from calibrant.storage import StorageError, check_writable
from calibrant.tables import (
    Findings,
    Roles,
    Source,
    Style,
    TableEncoder,
    open_source,
    read_times,
)
from calibrant.tables._errors import shown
from calibrant.tables._words import amount, written
from calibrant.tables.column import Column
from calibrant.workflows._chosen import chosen_regressor, share_aside
from calibrant.workflows._given import as_name, as_names
from calibrant.workflows._labeled import (
    Labeled,
    labels,
    look_columns,
    read_labeled,
    style_notes,
)
from calibrant.workflows._making import (
    UNSEEN,
    checksum,
    curves,
    how_made,
    summary,
)
from calibrant.workflows._training_table import (
    Cut,
    TrainingTable,
    cut_rows,
    learn_columns,
    read_training_table,
)
from calibrant.workflows._trend import find_trend
from calibrant.workflows.measured import (
    judgment,
    measure,
    own_report,
)
from calibrant.workflows.table_model import TableModel, settings_of

__all__ = ["TableFit", "fit_table"]

_NOT_MEASURED = (
    "The measurement was interrupted: the model is complete, but it has no scorecard "
    "and no report. Measure it with `calibrant evaluate`."
)
_NOT_REPORTED = (
    "The model is complete, but its scorecard and its report could not be written. "
    "Make them with `calibrant evaluate`."
)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableFit:
    """What :func:`fit_table` gives.

    Attributes
    ----------
    model
        Predicts tables; see :class:`TableModel`.
    card
        How it did on the rows that were set aside; None if there were none.
    notes
        What was unusual: bad cells, an interrupted training, ordered rows.
    folder, page
        Where the model and its report were written, if they were. A report that does
        not fit on the disk costs no model: a note says so.
    baselines
        RMSE on the same rows of always predicting one number: the mean of the rows
        that it learned from, and with a time the last value of them.
    interrupted
        Whether the training was ended by hand.
    """

    model: TableModel
    card: Scorecard | None
    notes: tuple[str, ...]
    folder: Path | None = None
    page: Path | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """What was done with each column of the table."""
        return self.model.encoder.columns

    def words(self) -> str:
        """Say in plain words whether its intervals can be trusted."""
        if self.card is None:
            return "It was not measured, so nothing is known about new rows."
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
        return {
            "model": None if self.folder is None else str(self.folder),
            "report": None if self.page is None else str(self.page),
            "interrupted": self.interrupted,
            "words": self.words(),
            "accuracy": self.accuracy(),
            "baselines": dict(self.baselines),
            "notes": list(self.notes),
            "columns": [vars(line) for line in self.model.encoder.lines],
            "scorecard": None if self.card is None else self.card.to_dict(),
        }


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
    style: Style | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
    command: str | None = None,
    **settings: Any,  # noqa: ANN401  (parameters of CalibratedRegressor)
) -> TableFit:
    """Train on a table, measure on rows that were set aside, and write a report.

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
        Share of the rows that is set aside to measure on, 0 for none; a fifth if left
        out.
    test_table
        Measure on this table instead. Its rows that the training has, too (equal
        features, or the same group), are left out.
    drop, categorical
        Columns not to use, and columns to take as names though they hold numbers.
    time
        Column with the time of each row: the latest rows are set aside, and folds are
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
    seed
        The same seed gives the same model and report.
    overwrite
        Replace a model that is in the folder.
    progress
        Show progress; None for a terminal only.
    command
        What the report says that makes it again; None for this call.
    **settings
        Parameters of :class:`CalibratedRegressor`: ``strength="auto"``, ``epochs``,
        ``network``, ``recalibrator``, ``bounds``, ...

    Returns
    -------
    TableFit
        The model, its scorecard, and where they were written.

    Examples
    --------
    >>> x = np.linspace(0, 1, 200)
    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> table = {"x": x, "kind": ["a", "b"] * 100, "y": x + 0.1 * noise}
    >>> done = fit_table(table, target="y", epochs=5, progress=False)
    >>> print(done.words())
    Your 90 % intervals covered ... % of 40 unseen rows; a perfect model would show ...
    >>> [column.kind for column in done.columns]
    ['number', 'category', 'target']
    """
    if out is not None:
        check_writable(out, overwrite=overwrite)
    regressor = chosen_regressor(settings, seed)
    share = share_aside(test, test_table)
    roles = Roles(
        drop=as_names(drop, what="drop"),
        categorical=as_names(categorical, what="categorical"),
        time=time,
        group=group,
        day_first=day_first,
    )
    rows = read_training_table(
        table, as_name(target, what="target"), style, keep_outliers=keep_outliers
    )
    cut = cut_rows(rows, roles, share, seed)
    encoder = learn_columns(rows, cut, roles)
    other = _test_source(test_table, style, rows, encoder)
    x, noted = _encoded(rows, encoder)
    if other is None:
        labeled = _held(rows, cut, encoder, x)
        measured_on, how = rows.source.name, cut.how
    else:
        asking = TableModel(regressor, encoder, rows.target)
        labeled = read_labeled(asking, other, seed=seed, progress=progress)
        labeled = _unseen(labeled, other, rows, cut, roles, x)
        measured_on, how = other.name, "file"
    model, notes = _train(rows, cut, encoder, regressor, command, x, progress)
    notes = (*noted, *cut.notes, *notes)
    fitted = TableFit(
        model=model,
        card=None,
        notes=notes,
        # Already now, so that nothing is lost if the measurement is interrupted.
        folder=None if out is None else model.save(out, overwrite=overwrite),
        interrupted=any(each.interrupted for each in regressor.history_),
    )
    if not len(labeled.y):
        return fitted
    fitted = replace(fitted, baselines=_baselines(rows, cut, labeled.y))
    try:
        return _measured(fitted, labeled, measured_on, how)
    except KeyboardInterrupt:
        return replace(fitted, interrupted=True, notes=(*notes, _NOT_MEASURED))


def _test_source(
    table: Any | None,  # noqa: ANN401
    style: Style | None,
    rows: TrainingTable,
    encoder: TableEncoder,
) -> Source | None:
    """Open the table to measure on, and refuse it before the training if it is bad."""
    if table is None:
        return None
    source = open_source(table, style=style, expect=[*encoder.needed, rows.target])
    both = (source.path, rows.source.path)
    if None not in both and checksum(source) == checksum(rows.source):
        raise InputError(
            f"{source.name}: the rows to measure on must be others than those to learn "
            "from, and this is the same table. Leave it out to set some rows aside."
        )
    return source


def _encoded(
    rows: TrainingTable, encoder: TableEncoder
) -> tuple[Array, tuple[str, ...]]:
    """All rows as numbers, and what is unusual about them."""
    name = rows.source.name
    findings = Findings()
    x = encoder.encode(
        rows.data,
        name=name,
        findings=findings,
        used=np.isin(np.arange(len(rows.y)), rows.known),
        style=rows.source.style,
    )
    unusual = _only_held(findings, encoder)
    return x, (*rows.notes, *style_notes(rows.source), *unusual)


def _unseen(
    labeled: Labeled,
    source: Source,
    rows: TrainingTable,
    cut: Cut,
    roles: Roles,
    x: Array,
) -> Labeled:
    """Leave out the rows of a table to measure on that the training has, too."""
    count = len(cut.learned)
    features, groups = np.vstack((x[cut.learned], labeled.x)), None
    if cut.times is not None and roles.time in source.columns:
        times = read_times(
            source.read([roles.time])[roles.time],
            time=roles.time,
            name=source.name,
            style=source.style,
            day_first=roles.day_first,
        )
        # Equal features at another moment mean nothing.
        both = np.concatenate((cut.times[cut.learned], times[labeled.rows - 1]))
        features = np.column_stack((features, both))
    if roles.group in source.columns:
        learned = labels(rows.data[roles.group], rows.source)[cut.learned]
        own = labels(source.read([roles.group])[roles.group], source)
        groups = np.concatenate((learned, own[labeled.rows - 1])).astype(str)
    label = linked_rows(features, groups)
    seen = np.isin(label[count:], label[:count])
    if not seen.any():
        return labeled
    said = (
        f"{source.name}: {amount(int(seen.sum()), 'row')} of {len(seen):,} stand in "
        "the training table, too (equal features, or the same group), the first is "
        f"row {labeled.rows[seen][0]:,}"
    )
    if seen.all():
        raise InputError(
            f"{said}. The rows to measure on must be others than those to learn from. "
            "Bring other rows, or leave the table out to set some rows aside."
        )
    return labeled.part(~seen, f"{said}: they are not measured.")


def _train(
    rows: TrainingTable,
    cut: Cut,
    encoder: TableEncoder,
    regressor: CalibratedRegressor,
    command: str | None,
    x: Array,
    progress: bool | None,
) -> tuple[TableModel, tuple[str, ...]]:
    """Train the regressor on its part of all rows, encoded."""
    whole, x, y = x, x[cut.learned], rows.y[cut.learned]
    times = None if cut.times is None else cut.times[cut.learned]
    groups = None if cut.groups is None else cut.groups[cut.learned]
    trend, said = None, ""
    if times is not None:
        trend, said = find_trend(regressor, encoder, x, y, times, groups)
    model = TableModel(regressor, encoder, rows.target, trend=trend)
    notes = [said] if said else []
    with _heard(notes):
        try:
            regressor.fit(
                x, y - model.line(x), time=times, groups=groups, progress=progress
            )
        except KeyboardInterrupt:
            if not hasattr(regressor, "model_"):
                raise  # there is no best model so far
    networks = regressor.model_.members.networks
    limits = None if networks is None else networks.limits
    notes += _clipped(rows, whole, encoder, limits)
    about = how_made(rows.source, regressor, rows=len(cut.learned), command=command)
    return replace(model, about=about), tuple(notes)


def _baselines(rows: TrainingTable, cut: Cut, y: Array) -> dict[str, float]:
    """RMSE of one number for all rows."""
    learned = rows.y[cut.learned]
    numbers = {"the mean of the training rows": float(learned.mean())}
    if cut.times is not None:
        times = cut.times[cut.learned]
        numbers["their last value"] = float(learned[times == times.max()].mean())
    return {
        name: float(np.sqrt(np.mean((y - number) ** 2)))
        for name, number in numbers.items()
    }


def _only_held(findings: Findings, encoder: TableEncoder) -> list[str]:
    """What is unusual in rows set aside alone: the table of columns has the rest."""
    known = {column.name: column for column in encoder.columns}
    lines = []
    for found in findings.found:
        column = known[found.column]
        told = {"bad": column.bad, "missing": column.missing + column.bad}
        if found.what == "unknown" or told.get(found.what) == 0:
            lines.append(found.line())
    return lines


def _clipped(
    rows: TrainingTable,
    x: Array,
    encoder: TableEncoder,
    limits: tuple[Array, Array] | None,
) -> list[str]:
    """Name the first cell of each feature that lies beyond what the model looks at."""
    lines: list[str] = []
    if limits is None:
        return lines
    for name, column, low, high in zip(
        encoder.feature_names, x.T, *limits, strict=True
    ):
        seen = column[rows.known].clip(low, high)
        places = rows.known[seen != column[rows.known]]
        if not len(places):
            continue
        first = places[0]
        more = f", as do {len(places) - 1:,} more" if len(places) > 1 else ""
        lines.append(
            f"{rows.source.name}, row {first + 1:,}, column {shown(name)}: "
            f"{written(column[first])} is far from the other rows and counts as "
            f"{written(column[first].clip(low, high))}{more}. Correct it if wrong."
        )
    return lines


@contextmanager
def _heard(notes: list[str]) -> Iterator[None]:
    """Turn warnings of the training into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    notes.extend(str(each.message) for each in caught)


def _held(rows: TrainingTable, cut: Cut, encoder: TableEncoder, x: Array) -> Labeled:
    held = cut.held
    return Labeled(
        x=x[held],
        y=rows.y[held],
        rows=1 + held,
        looks=look_columns(encoder, rows.data.take(held), x[held]),
        total=len(held),
    )


def _measured(fitted: TableFit, labeled: Labeled, source: str, how: str) -> TableFit:
    """Measure the model, and put scorecard and report into its folder."""
    model = fitted.model
    measured = measure(model.distribution(labeled.x), labeled, seed=model.about["seed"])
    card = measured.card
    notes = (*fitted.notes, *measured.notes)
    model = model.with_regressor(model.regressor, scorecard=summary(card))
    done = replace(fitted, model=model, card=card, notes=notes)
    if fitted.folder is None:
        return done
    contents = own_report(
        "fit",
        measured,
        source=source,
        target=model.target,
        unseen=UNSEEN[how],
        settings=settings_of(model.about, model.regressor.strength_, model.trend),
        columns=model.encoder.lines,
        notes=(*notes, done.accuracy()),
        training=curves(model.regressor),
    )
    page = own_page(contents)
    try:
        model.save(fitted.folder, page=page, overwrite=True)
    except StorageError as error:  # a full disk; the model is there already
        return replace(done, notes=(*notes, f"{_NOT_REPORTED} {error}"))
    return replace(done, page=fitted.folder / "report.html")
