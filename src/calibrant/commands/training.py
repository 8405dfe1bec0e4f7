"""The table that a model is trained on: read, cut, encoded; and the training."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import theilslopes
from sklearn.base import clone

from calibrant.commands.measuring import (
    Labeled,
    checksum,
    labels,
    look_columns,
    style_notes,
    versions,
)
from calibrant.commands.table_model import TableModel, Trend
from calibrant.errors import InputError
from calibrant.estimators.base import usual_range
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.tables import (
    Findings,
    Roles,
    Source,
    Style,
    TableEncoder,
    open_source,
    read_target,
    read_times,
    require_rows,
)
from calibrant.tables.wording import amount, shown, written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Cut",
    "TrainingTable",
    "baselines",
    "chosen_regressor",
    "curves",
    "cut_rows",
    "encoded",
    "held_rows",
    "learn_columns",
    "read_training_table",
    "test_source",
    "train",
    "unseen",
    "without_own_targets",
]

Array = npt.NDArray[np.float64]
#: A model and its measurement need this many rows each, to be worth anything.
_FEWEST_LEARNED = 20
_FEWEST_HELD = 5
#: Held-out rows of which fewer are independent vary more than as many rows do.
_MOSTLY = 0.9
#: So many rows give the median of a million slopes.
_SLOPE_ROWS = 1_500
_LATE = 0.2
_FEWEST_EARLY = 20
#: The error on later rows must shrink to this part of it, so that chance is no reason.
_BETTER = 0.95


@dataclass(frozen=True)
class TrainingTable:
    """A table, read; ``known`` are those of its rows that have a target to learn."""

    source: Source
    target: str
    data: "pa.Table"
    known: npt.NDArray[np.int64]
    y: Array

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of the rows that are left out."""
        notes = []
        lost = int(np.isnan(self.y).sum())
        if lost:
            notes.append(f"{amount(lost, 'row')} without a target: left out.")
        wild = np.setdiff1d(np.flatnonzero(~np.isnan(self.y)), self.known)
        if len(wild):
            first, known = wild[0], self.y[self.known]
            more = (
                f" (and {amount(len(wild) - 1, 'more row')})" if len(wild) > 1 else ""
            )
            notes.append(
                f"{self.source.name}, row {first + 1:,}, column {shown(self.target)}: "
                f"the target {written(self.y[first])} is beyond any reason and left "
                f"out{more}; the others are {written(known.min())} to "
                f"{written(known.max())}. Correct it, or learn from it as it is with "
                "--keep-outliers."
            )
        return tuple(notes)

    def column(self, name: str) -> Any:  # noqa: ANN401  (of pyarrow)
        """Return one column, if there is one of that name."""
        self.source.check_columns([name])
        return self.data[name]


@dataclass(frozen=True)
class Cut:
    """Rows to learn from and held-out rows to measure on."""

    learned: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    times: Array | None
    groups: npt.NDArray[np.int64] | None
    how: str
    notes: tuple[str, ...] = ()


def read_training_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    target: str,
    style: Style | None,
    *,
    keep_outliers: bool = False,
) -> TrainingTable:
    """Read all of a table, and its target as numbers; leave wild targets out."""
    source = open_source(table, style=style, expect=[target])
    data = source.read()
    require_rows(data, name=source.name)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    known = ~np.isnan(y)
    if known.any() and not keep_outliers:
        low, high = usual_range(y[known])
        known &= (y >= low) & (y <= high)
    return TrainingTable(source, target, data, np.flatnonzero(known), y)


def cut_rows(rows: TrainingTable, roles: Roles, share: float, seed: int) -> Cut:
    """Hold rows out by chance, by time, by group or by both.

    Rows with equal features, and rows of a group, are never on both sides: see
    :func:`linked_rows` and :meth:`Blocks.hold_out`.
    """
    if not 0 <= share < 1:
        raise InputError(
            f"the share of rows to set aside must be in [0, 1), got {share:g}. Write "
            "0.2 for a fifth, and 0 for none."
        )
    times = groups = None
    if roles.time is not None:
        times = read_times(
            rows.column(roles.time),
            time=roles.time,
            name=rows.source.name,
            style=rows.source.style,
            day_first=roles.day_first,
        )
    if roles.group is not None:
        groups = _codes(rows.column(roles.group))
    learned, held = rows.known, rows.known[:0]
    notes: tuple[str, ...] = ()
    if len(learned) < _FEWEST_LEARNED:
        _check_counts(rows, len(learned), 0 if share else None)
    if share:
        learned, held, notes = _held_out(rows, roles, share, seed, times, groups)
    _check_counts(rows, len(learned), len(held) if share else None)
    y = rows.y[learned]
    if np.ptp(y) == 0:
        raise InputError(
            f"{rows.source.name}: the target is {y[0]:g} in all rows to learn from, so "
            "there is nothing to predict. Choose another column."
        )
    how = " and ".join(
        word
        for word, given in (("time", roles.time), ("group", roles.group))
        if given is not None
    )
    lost = len(rows.known) - len(learned) - len(held)
    if lost:
        notes += (
            f"{amount(lost, 'row')} left out: groups with rows before and after the "
            "moment from which rows are held out are either learned from or measured "
            "on, with their rows of that time.",
        )
    return Cut(learned, held, times, groups, how or "random", notes)


def _held_out(
    rows: TrainingTable,
    roles: Roles,
    share: float,
    seed: int,
    times: Array | None,
    groups: npt.NDArray[np.int64] | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[str, ...]]:
    known = rows.known
    x = np.empty((len(known), 0))
    if times is None:
        # Learned from all rows, and used for nothing but to find equal ones.
        encoder = learn_columns(rows, known, roles)
        data = rows.data.take(known)
        x = encoder.encode(data, name=rows.source.name, style=rows.source.style)
    own = None if groups is None else groups[known]
    labels = linked_rows(x, own, time=times)
    blocks = Blocks(labels, None if times is None else times[known])
    try:
        learned, held = blocks.hold_out(share, np.random.default_rng(seed))
    except InputError:
        by = " and ".join(repr(n)[:60] for n in (roles.time, roles.group) if n)
        raise InputError(
            f"{rows.source.name}, column {by}: all rows have the same value, so none "
            "can be set aside by it. Choose another column, or set nothing aside (0)."
            if by
            else f"{rows.source.name}: all rows have the same features, so none can be "
            "set aside. Set nothing aside (0)."
        ) from None
    notes: tuple[str, ...] = ()
    sets = len(np.unique(labels[held]))
    if sets < _MOSTLY * len(held):
        notes = (
            f"The {len(held):,} held-out rows come in {sets:,} independent sets (equal "
            "features, or one group): what a perfect model would show is computed for "
            "independent rows, and varies more here.",
        )
    return known[learned], known[held], notes


def _check_counts(rows: TrainingTable, learned: int, held: int | None) -> None:
    if learned < _FEWEST_LEARNED or (held is not None and held < _FEWEST_HELD):
        aside = "" if held is None else f" and {held} set aside to measure on"
        raise InputError(
            f"{rows.source.name}: at least {_FEWEST_LEARNED} rows to learn from and "
            f"{_FEWEST_HELD} to measure on are needed; "
            f"{amount(len(rows.known), 'row')} with a target give {learned}{aside}. "
            "Bring more rows, or change what is set aside (0 for nothing)."
        )


def _codes(column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401  (of pyarrow)
    """Number the values of a column; missing ones are a value of their own."""
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def learn_columns(
    rows: TrainingTable, chosen: npt.NDArray[np.int64], roles: Roles
) -> TableEncoder:
    """Learn the columns from some of the rows, and from no other."""
    return TableEncoder.learn(
        rows.data.take(chosen),
        target=rows.target,
        roles=roles,
        style=rows.source.style,
        name=rows.source.name,
        rows=1 + chosen,
    )


def chosen_regressor(settings: Mapping[str, Any], seed: int) -> CalibratedRegressor:
    """Make the regressor, and refuse settings before the table is read."""
    default = CalibratedRegressor().settings()
    unknown = sorted(set(settings) - set(default))
    if unknown:
        raise InputError(
            f"there are no parameters {', '.join(unknown)}. Besides its own, fit_table "
            f"takes those of CalibratedRegressor: {', '.join(default)}."
        )
    if "random_state" in settings:
        raise InputError("random_state= is set by seed=, for the held-out rows too.")
    if settings.get("distributed"):
        raise InputError(
            "distributed training is for CalibratedRegressor in a script of your own: "
            "here all processes would write to one folder."
        )
    for name, value in settings.items():
        _check_type(name, value, default[name])
    regressor = CalibratedRegressor(random_state=seed).set_params(**settings)
    regressor.check_settings()
    return regressor


def _check_type(name: str, value: object, default: object) -> None:
    """Refuse a text where a number belongs; the rest is looked at by its users."""
    takes_number = isinstance(default, int | float) and not isinstance(default, bool)
    if takes_number and isinstance(value, str) and value != "auto":
        raise InputError(f"{name} must be a number, got {value!r:.60}.")


def test_source(
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


def encoded(
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


def without_own_targets(
    rows: TrainingTable, cut: Cut, encoder: TableEncoder, x: Array, seed: int
) -> Array:
    """Encode the rows to learn from anew where features are made of targets."""
    if not encoder.uses_target:
        return x
    groups = None if cut.groups is None else cut.groups[cut.learned]
    x = x.copy()
    x[cut.learned] = encoder.encode_training(
        rows.data.take(cut.learned),
        name=rows.source.name,
        labels=linked_rows(x[cut.learned], groups),
        style=rows.source.style,
        seed=seed,
    )
    return x


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


def held_rows(
    rows: TrainingTable, cut: Cut, encoder: TableEncoder, x: Array
) -> Labeled:
    """Return the rows that are held out of the table, encoded."""
    held = cut.held
    return Labeled(
        x=x[held],
        y=rows.y[held],
        rows=1 + held,
        looks=look_columns(encoder, rows.data.take(held), x[held]),
    )


def unseen(
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


def train(
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
        trend, said = _find_trend(regressor, encoder, x, y, times, groups)
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
    about = _how_made(rows.source, regressor, rows=len(cut.learned), command=command)
    return replace(model, about=about), tuple(notes)


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
    notes.extend(str(warning.message) for warning in caught)


def baselines(rows: TrainingTable, cut: Cut, y: Array) -> dict[str, float]:
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


def _how_made(
    source: Source, regressor: CalibratedRegressor, *, rows: int, command: str | None
) -> dict[str, Any]:
    """Describe the making of a model, as JSON can hold it."""
    default = CalibratedRegressor().settings()
    return {
        "table": source.name,
        "sha256": checksum(source),
        "rows": rows,
        "seed": regressor.random_state,
        "command": command,
        "changed": {
            name: repr(value)
            for name, value in regressor.settings().items()
            if name != "random_state" and repr(value) != repr(default[name])
        },
        # None for trees alone.
        "epochs": max((len(it.loss) for it in regressor.history_), default=None),
        "plan": regressor.plan_,
        "interrupted": any(history.interrupted for history in regressor.history_),
        "versions": versions(),
    }


def curves(regressor: CalibratedRegressor) -> Mapping[str, list[float]]:
    """Return the training curves of the first stack; none of trees alone."""
    named: dict[str, list[float]] = {}
    for history in regressor.history_[:1]:
        named = {"loss": history.loss, "on rows held back": history.held_out_score}
    return {name: values for name, values in named.items() if values}


def _find_trend(
    regressor: CalibratedRegressor,
    encoder: TableEncoder,
    x: Array,
    y: Array,
    times: Array,
    groups: npt.NDArray[np.int64] | None,
) -> tuple[Trend | None, str]:
    """Look for a straight line in time that helps to predict later rows.

    Neither networks nor trees go on with a trend beyond the rows that they have seen.
    The slope is the median over pairs of rows (Theil and Sen). Two small models, with
    and without the line, learn from the earlier rows and are compared on the latest
    fifth.

    Parameters
    ----------
    regressor
        What is to be trained; it stays as it is.
    encoder
        Knows which feature is the position in time.
    x, y, times, groups
        The rows to learn from: ``(n, d)`` and ``(n,)``.

    Returns
    -------
    tuple
        The line, or None, and what to say about it.
    """
    feature = _position(encoder)
    # A bound, or a transform that takes positive targets alone, would move with time.
    free = regressor.bounds is None and regressor.target_transform is None
    if feature is None or not free:
        return None, ""
    moments = x[:, encoder.feature_names.index(feature)]
    blocks = Blocks(linked_rows(x, groups, time=times), times)
    try:
        early, late = blocks.hold_out(_LATE, np.random.default_rng(0))
    except InputError:
        return None, ""
    trend = _line(feature, moments[early], y[early])
    if trend is None or len(early) < _FEWEST_EARLY:
        return None, ""
    without, with_line = (
        _error(regressor, x, y - line, times, early, late)
        for line in (np.zeros(len(y)), trend.line(moments))
    )
    trend = _line(feature, moments, y)
    if trend is None or with_line > _BETTER * without:
        return None, ""
    return trend, (
        f"The target follows a line in {feature!r:.60}, slope {trend.slope:.3g}: it is "
        "taken off before the training and added to what is predicted, because that "
        f"lowers the RMSE on the latest training rows from {without:.3g} to "
        f"{with_line:.3g}."
    )


def _position(encoder: TableEncoder) -> str | None:
    """Name of the feature that says where a row lies in time, if there is one."""
    place = 0
    for column in encoder.columns:
        if column.kind == "time" and column.features:
            name = encoder.feature_names[place]
            return None if column.features[0].endswith((")", " is missing")) else name
        place += len(column.features)
    return None


def _line(feature: str, moments: Array, y: Array) -> Trend | None:
    """Return the line through some rows, or None if its slope may be 0."""
    order = np.argsort(moments, kind="stable")
    places = np.linspace(0, len(y) - 1, min(len(y), _SLOPE_ROWS)).round().astype(int)
    rows = order[places]
    if np.ptp(moments[rows]) == 0:
        return None
    found = theilslopes(y[rows], moments[rows])
    if found.low_slope <= 0 <= found.high_slope or not np.isfinite(found.slope):
        return None
    return Trend(feature, float(found.slope), float(np.median(moments)))


def _error(
    regressor: CalibratedRegressor,
    x: Array,
    y: Array,
    times: Array,
    early: npt.NDArray[np.int64],
    late: npt.NDArray[np.int64],
) -> float:
    """RMSE on the late rows of a small model of the early ones."""
    small = clone(regressor).set_params(
        learners=("network",),
        members=2,
        strength=0.0 if regressor.strength == "auto" else regressor.strength,
        recalibrator=None,
        recalibrate_on=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        small.fit(x[early], y[early], time=times[early])
    if any(history.interrupted for history in small.history_):
        raise KeyboardInterrupt
    means = small.model_.distribution(x[late]).mean.numpy()
    return float(np.sqrt(np.mean((means - y[late]) ** 2)))
