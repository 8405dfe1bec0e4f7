"""The table that a model is trained on: read, cut, encoded; and the training."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
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
    read_labeled,
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
from calibrant.tables.options import shown, written
from calibrant.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TrainingTable", "chosen_regressor", "cut_rows", "read_training_table"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
#: A model and its measurement need this many rows each, to be worth anything.
_FEWEST_LEARNED, _FEWEST_HELD = 20, 5
#: Held-out rows of which fewer are independent vary more than as many rows do.
_MOSTLY = 0.9
#: So many rows give the median of a million slopes.
_SLOPE_ROWS = 1_500
_LATE, _FEWEST_EARLY = 0.2, 20
#: The error on later rows must shrink to this part of it, so that chance is no reason.
_BETTER = 0.95


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
        number = isinstance(default[name], int | float) and default[name] is not True
        if number and isinstance(value, str) and value != "auto":
            raise InputError(f"{name} must be a number, got {value!r:.60}.")
    regressor = CalibratedRegressor(random_state=seed).set_params(**settings)
    regressor.check_settings()
    return regressor


@dataclass(frozen=True)
class TrainingTable:
    """A table, read and cut into rows to learn from and held-out rows."""

    source: Source
    target: str
    roles: Roles
    data: "pa.Table"
    y: Array  # targets of all rows, (n,)
    known: Rows  # numbers of the rows with a target to learn
    learned: Rows
    held: Rows
    times: Array | None = None  # of all rows, (n,)
    groups: Rows | None = None
    how: str = "random"  # were rows held out
    notes: tuple[str, ...] = ()

    def learn_columns(self, chosen: Rows) -> TableEncoder:
        """Learn the columns from some of the rows, and from no other."""
        return TableEncoder.learn(
            self.data.take(chosen),
            target=self.target,
            roles=self.roles,
            style=self.source.style,
            name=self.source.name,
            rows=1 + chosen,
        )

    def encoded(self, encoder: TableEncoder) -> tuple[Array, tuple[str, ...]]:
        """All rows as numbers, and what is unusual about them."""
        findings = Findings()
        x = encoder.encode(
            self.data,
            name=self.source.name,
            findings=findings,
            used=np.isin(np.arange(len(self.y)), self.known),
            style=self.source.style,
        )
        # The table of columns tells of the rows to learn from.
        columns = {column.name: column for column in encoder.columns}
        lines = []
        for found in findings.found:
            column = columns[found.column]
            told = {"bad": column.bad, "missing": column.missing + column.bad}
            if found.what == "unknown" or told.get(found.what) == 0:
                lines.append(found.line())
        return x, (*style_notes(self.source), *lines)

    def without_own_targets(self, encoder: TableEncoder, x: Array, seed: int) -> Array:
        """Encode the rows to learn from anew where features are made of targets."""
        if not encoder.uses_target:
            return x
        groups = None if self.groups is None else self.groups[self.learned]
        x = x.copy()
        x[self.learned] = encoder.encode_training(
            self.data.take(self.learned),
            name=self.source.name,
            labels=linked_rows(x[self.learned], groups),
            style=self.source.style,
            seed=seed,
        )
        return x

    def unseen(
        self,
        table: Any,  # noqa: ANN401
        style: Style | None,
        model: TableModel,
        x: Array,
        seed: int,
    ) -> tuple[Labeled, str]:
        """Read another table to measure on, less the rows that are learned from."""
        encoder = model.encoder
        other = open_source(table, style=style, expect=[*encoder.needed, self.target])
        own = checksum(self.source)
        if own is not None and own == checksum(other):
            raise InputError(
                f"{other.name}: the rows to measure on must be others than those to "
                "learn from, and this is the same table. Leave it out to hold some "
                "rows out."
            )
        labeled = read_labeled(model, other, seed=seed)
        features, groups = np.vstack((x[self.learned], labeled.x)), None
        if self.times is not None and self.roles.time in other.columns:
            times = _times(other, other.read([self.roles.time]), self.roles)
            # Equal features at another moment mean nothing.
            both = np.concatenate((self.times[self.learned], times[labeled.rows - 1]))
            features = np.column_stack((features, both))
        if self.roles.group in other.columns:
            pairs = ((self.source, self.learned), (other, labeled.rows - 1))
            names = [
                labels(source.read([self.roles.group])[self.roles.group], source)[rows]
                for source, rows in pairs
            ]
            groups = np.concatenate(names).astype(str)
        label, count = linked_rows(features, groups), len(self.learned)
        seen = np.isin(label[count:], label[:count])
        if not seen.any():
            return labeled, other.name
        said = (
            f"{other.name}: {counted(int(seen.sum()))} of {len(seen):,} stand in the "
            "training table, too (equal features, or the same group), the first is row "
            f"{labeled.rows[seen][0]:,}"
        )
        if seen.all():
            raise InputError(
                f"{said}. The rows to measure on must be others than those to learn "
                "from. Bring other rows, or leave the table out to hold some rows out."
            )
        return labeled.part(~seen, f"{said}: they are not measured."), other.name

    def train(
        self,
        model: TableModel,
        x: Array,
        *,
        command: str | None = None,
        progress: bool | None = None,
    ) -> tuple[TableModel, tuple[str, ...]]:
        """Train the model's regressor on its part of all rows, encoded."""
        regressor, rows = model.regressor, self.learned
        y = self.y[rows]
        times = None if self.times is None else self.times[rows]
        groups = None if self.groups is None else self.groups[rows]
        notes: list[str] = []
        if times is not None:
            trend, notes = _find_trend(model, x[rows], y, times, groups)
            model = replace(model, trend=trend)
        with _heard(notes):
            try:
                regressor.fit(
                    x[rows],
                    y - model.line(x[rows]),
                    time=times,
                    groups=groups,
                    progress=progress,
                )
            except KeyboardInterrupt:
                if not hasattr(regressor, "model_"):
                    raise  # there is no best model so far
        notes += self._clipped(model, x)
        histories, default = regressor.history_, CalibratedRegressor().settings()
        return model.with_about(
            table=self.source.name,
            sha256=checksum(self.source),
            rows=len(rows),
            seed=regressor.random_state,
            command=command,
            changed={
                name: repr(value)
                for name, value in regressor.settings().items()
                if name != "random_state" and repr(value) != repr(default[name])
            },
            # None for trees alone.
            epochs=max((len(history.loss) for history in histories), default=None),
            plan=regressor.plan_,
            interrupted=any(history.interrupted for history in histories),
            versions=versions(),
        ), tuple(notes)

    def _clipped(self, model: TableModel, x: Array) -> Iterator[str]:
        """Name the first cell of each feature that is beyond what networks look at."""
        networks = model.regressor.model_.members.networks
        if networks is None or networks.limits is None:
            return
        names = model.encoder.feature_names
        x = x[self.known]
        for name, column, low, high in zip(names, x.T, *networks.limits, strict=True):
            places = np.flatnonzero(column.clip(low, high) != column)
            if not len(places):
                continue
            first = places[0]
            more = f", as do {len(places) - 1:,} more" if len(places) > 1 else ""
            yield (
                f"{self.source.name}, row {self.known[first] + 1:,}, column "
                f"{shown(name)}: {written(column[first])} is far from the other rows "
                f"and counts as {written(column[first].clip(low, high))}{more}. "
                "Correct it if wrong."
            )

    def baselines(self, y: Array) -> dict[str, float]:
        """RMSE of one number for all rows."""
        learned = self.y[self.learned]
        numbers = {"the mean of the training rows": learned.mean()}
        if self.times is not None:
            times = self.times[self.learned]
            numbers["their last value"] = learned[times == times.max()].mean()
        return {
            name: float(np.sqrt(np.mean((y - number) ** 2)))
            for name, number in numbers.items()
        }


def read_training_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    target: str,
    roles: Roles,
    style: Style | None = None,
    *,
    keep_outliers: bool = False,
) -> TrainingTable:
    """Read all of a table, and its target as numbers; leave wild targets out."""
    source = open_source(table, style=style, expect=[target])
    data = source.read()
    require_rows(data, name=source.name)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    good = ~np.isnan(y)
    notes = []
    if not good.all():
        notes.append(f"{counted(int((~good).sum()))} without a target: left out.")
    known = np.flatnonzero(good)
    if len(known) and not keep_outliers:
        low, high = usual_range(y[known])
        usual = (y[known] >= low) & (y[known] <= high)
        wild, known = known[~usual], known[usual]
        if len(wild):
            more = (
                f" (and {counted(len(wild) - 1, 'more row')})" if wild[1:].size else ""
            )
            notes.append(
                f"{source.name}, row {wild[0] + 1:,}, column {shown(target)}: the "
                f"target {written(y[wild[0]])} is beyond any reason and left out{more};"
                f" the others are {written(y[known].min())} to "
                f"{written(y[known].max())}. Correct it, or learn from it as it is "
                "with --keep-outliers."
            )
    times = groups = None
    if roles.time is not None:
        source.check_columns([roles.time])
        times = _times(source, data, roles)
    if roles.group is not None:
        source.check_columns([roles.group])
        codes = data[roles.group].dictionary_encode("encode").combine_chunks()
        groups = np.asarray(codes.indices.to_numpy(), dtype=np.int64)
    none = known[:0]
    return TrainingTable(
        *(source, target, roles, data, y, known, known, none, times, groups),
        notes=tuple(notes),
    )


def _times(source: Source, data: "pa.Table", roles: Roles) -> Array:
    return read_times(
        data[roles.time],
        time=roles.time or "",
        name=source.name,
        style=source.style,
        day_first=roles.day_first,
    )


def cut_rows(rows: TrainingTable, share: float, seed: int) -> TrainingTable:
    """Hold rows out by chance, by time, by group or by both.

    Rows with equal features, and rows of a group, are never on both sides: see
    :func:`linked_rows` and :meth:`Blocks.hold_out`.
    """
    if not 0 <= share < 1:
        raise InputError(
            f"the share of rows to hold out must be in [0, 1), got {share:g}. Write "
            "0.2 for a fifth, and 0 for none."
        )
    known, notes = rows.known, list(rows.notes)
    if share and len(known) >= _FEWEST_LEARNED:
        labels, learned, held = _held_out(rows, share, seed)
        rows = replace(rows, learned=learned, held=held)
        sets = len(np.unique(labels[np.isin(known, held)]))
        if sets < _MOSTLY * len(held):
            notes.append(
                f"The {len(held):,} held-out rows come in {sets:,} independent sets "
                "(equal features, or one group): what a perfect model would show is "
                "computed for independent rows, and varies more here."
            )
        lost = len(known) - len(learned) - len(held)
        if lost:
            notes.append(
                f"{counted(lost)} left out: groups with rows before and after the "
                "moment from which rows are held out are either learned from or "
                "measured on, with their rows of that time."
            )
    learned, held = rows.learned, rows.held
    if len(learned) < _FEWEST_LEARNED or (share and len(held) < _FEWEST_HELD):
        least, aside = "", ""
        if share:
            least = f" and {_FEWEST_HELD} to measure on"
            aside = f" and {len(held)} held out to measure on"
        raise InputError(
            f"{rows.source.name}: at least {_FEWEST_LEARNED} rows to learn from{least} "
            f"are needed; {counted(len(known))} with a target give {len(learned)}"
            f"{aside}. Bring more rows, or change what is held out (0 for nothing)."
        )
    y = rows.y[learned]
    if np.ptp(y) == 0:
        raise InputError(
            f"{rows.source.name}: the target is {y[0]:g} in all rows to learn from, so "
            "there is nothing to predict. Choose another column."
        )
    given = {"time": rows.roles.time, "group": rows.roles.group}
    how = " and ".join(word for word, name in given.items() if name is not None)
    return replace(rows, how=how or "random", notes=tuple(notes))


def _held_out(rows: TrainingTable, share: float, seed: int) -> tuple[Rows, Rows, Rows]:
    """Labels of the known rows, and both parts of them."""
    known, times = rows.known, rows.times
    x = np.empty((len(known), 0))
    if times is None:
        # Learned from all rows, and used for nothing but to find equal ones.
        encoder = rows.learn_columns(known)
        data = rows.data.take(known)
        x = encoder.encode(data, name=rows.source.name, style=rows.source.style)
    groups = None if rows.groups is None else rows.groups[known]
    labels = linked_rows(x, groups, time=times)
    blocks = Blocks(labels, None if times is None else times[known])
    try:
        learned, held = blocks.hold_out(share, np.random.default_rng(seed))
    except InputError:
        names = [name for name in (rows.roles.time, rows.roles.group) if name]
        by = " and ".join(map(shown, names))
        raise InputError(
            f"{rows.source.name}, column {by}: all rows have the same value, so none "
            "can be held out by it. Choose another column, or hold nothing out (0)."
            if by
            else f"{rows.source.name}: all rows have the same features, so none can be "
            "held out. Hold nothing out (0)."
        ) from None
    return labels, known[learned], known[held]


@contextmanager
def _heard(notes: list[str]) -> Iterator[None]:
    """Turn warnings of the training into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    notes.extend(str(warning.message) for warning in caught)


# A trend ---------------------------------------------------------------------------


def _find_trend(
    model: TableModel, x: Array, y: Array, times: Array, groups: Rows | None
) -> tuple[Trend | None, list[str]]:
    """Look for a straight line in time that helps to predict later rows.

    Neither networks nor trees go on with a trend beyond the rows that they have seen.
    The slope is the median over pairs of rows (Theil and Sen). Two small models, with
    and without the line, learn from the earlier rows and are compared on the latest
    fifth.
    """
    regressor, names = model.regressor, model.encoder.feature_names
    feature = _position(model.encoder)
    # A bound, or a transform that takes positive targets alone, would move with time.
    if feature is None or regressor.bounds or regressor.target_transform:
        return None, []
    moments = x[:, names.index(feature)]
    blocks = Blocks(linked_rows(x, groups, time=times), times)
    try:
        early, late = blocks.hold_out(_LATE, np.random.default_rng(0))
    except InputError:
        return None, []
    trend = _line(feature, moments[early], y[early])
    if trend is None or len(early) < _FEWEST_EARLY:
        return None, []
    without, with_line = (
        _late_error(regressor, x, y - line, times, (early, late))
        for line in (np.zeros(len(y)), trend.line(moments))
    )
    trend = _line(feature, moments, y)
    if trend is None or with_line > _BETTER * without:
        return None, []
    return trend, [
        f"The target follows a line in {feature!r:.60}, slope {trend.slope:.3g}: it is "
        "taken off before the training and added to what is predicted, because that "
        f"lowers the RMSE on the latest training rows from {without:.3g} to "
        f"{with_line:.3g}."
    ]


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


def _late_error(
    regressor: CalibratedRegressor,
    x: Array,
    y: Array,
    times: Array,
    parts: Sequence[Rows],
) -> float:
    """RMSE on the late rows of a small model of the early ones."""
    early, late = parts
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
