"""How any model's predictions do, from a table that holds them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.mixture import Mixture
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.estimators.pool import fit_recorded, fresh_recalibrator
from calibrant.metrics.pit import TargetGrid, detect_grid
from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import coverage_sentence
from calibrant.report.own_page import write_own_page
from calibrant.tables import (
    Source,
    Style,
    TableWriter,
    open_source,
    read_target,
    require_rows,
)
from calibrant.tables.wording import amount
from calibrant.workflows._foreign import Foreign, read_predictions
from calibrant.workflows._given import as_name, as_names
from calibrant.workflows._labeled import MOST_ROWS, Labeled, labels, style_notes
from calibrant.workflows._making import checksum, versions
from calibrant.workflows._page_path import page_path
from calibrant.workflows._wishes import Wishes
from calibrant.workflows.measured import (
    Measured,
    judgment,
    measure,
    own_report,
)
from calibrant.workflows.predict_table import CHUNK

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableComparison", "compare_table"]

Array = npt.NDArray[np.float64]
_FOLDS = 5
_FEWEST = 25
_COVERAGES = (0.5, 0.9)


@dataclass(frozen=True)
class TableComparison:
    """What :func:`compare_table` gives.

    Attributes
    ----------
    card
        How the predictions do as they are.
    fixed
        How they do after recalibration, each row by a map that it had no part in; None
        if that was not asked for.
    notes
        What was unusual about the rows.
    page, path
        Report and recalibrated table, if they were written.
    """

    card: Scorecard
    fixed: Scorecard | None
    notes: tuple[str, ...]
    page: Path | None = None
    path: Path | None = None

    def words(self) -> str:
        """Say in plain words whether the intervals can be trusted."""
        if self.fixed is None:
            return judgment(self.card, which="row")
        said = coverage_sentence(self.card, whose="Your")
        after = coverage_sentence(self.fixed, whose="Your")
        return f"As they are: {said} Recalibrated: {after}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers."""
        return {
            "report": None if self.page is None else str(self.page),
            "fixed": None if self.path is None else str(self.path),
            "words": self.words(),
            "notes": list(self.notes),
            "scorecard": self.card.to_dict(),
            "recalibrated": None if self.fixed is None else self.fixed.to_dict(),
        }


def compare_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    target: str,
    mean: str | None = None,
    std: str | None = None,
    quantiles: Mapping[Any, Any] | None = None,
    by: str | Sequence[str] = (),
    fix: str | os.PathLike[str] | None = None,
    recalibrator: str = "smooth",
    report: str | os.PathLike[str] | None = None,
    style: Style | None = None,
    seed: int = 0,
    command: str | None = None,
) -> TableComparison:
    """Measure the predictions of any model, and recalibrate them if asked to.

    Parameters
    ----------
    table
        A path of a CSV (also .gz) or Parquet file, a data frame, or columns by name.
    target
        Column with what came true. Rows without it are not measured, but recalibrated.
    mean, std
        Columns with means and standard deviations: normal laws.
    quantiles
        Instead: columns and their levels, two or more, as ``{"q05": 0.05, ...}`` or
        the other way round.
    by
        Columns whose groups are looked at on their own.
    fix
        File to write: the table with recalibrated columns. Each row is corrected by a
        map that it had no part in: one of five folds, or all rows for those without a
        target.
    recalibrator
        A name from ``RECALIBRATORS``.
    report
        Page to write; None for none.
    style
        How a text file is written; None finds out.
    seed
        Of folds and of what is randomized in the measurement.
    command
        What the report says that makes it again.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> table = {"y": random.normal(size=300), "m": [0.0] * 300, "s": [0.5] * 300}
    >>> done = compare_table(table, target="y", mean="m", std="s")
    >>> 0.5 < done.card["coverage_90"] < 0.7
    True
    """
    by = as_names(by, what="by")
    name = as_name(target, what="target")
    source = open_source(table, style=style, expect=[name])
    source.check_columns(by)
    fresh_recalibrator(recalibrator)
    page, writer = page_path(report, [source.path]), _writer(fix, source)
    data = source.read()
    require_rows(data, name=source.name)
    foreign = read_predictions(source, data, mean=mean, std=std, quantiles=quantiles)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    rows, notes = _measurable(source, y, seed)
    labeled = _labeled(source, foreign, data, y, rows, by, notes)
    measured = measure(foreign.law(rows), labeled, seed=seed)
    after = None
    if writer is not None:
        maps = _Maps(foreign, y, recalibrator, seed)
        after = measure(maps.law(rows), labeled, seed=seed)
        _write_fixed(writer, source, data, foreign, maps)
    if page is not None:
        _write_report(page, measured, after, source, target, command)
    return TableComparison(
        card=measured.card,
        fixed=None if after is None else after.card,
        notes=measured.notes,
        page=page,
        path=None if fix is None else Path(fix),
    )


def _writer(path: str | os.PathLike[str] | None, source: Source) -> TableWriter | None:
    """Refuse a path that cannot be written before anything is measured."""
    if path is None:
        return None
    return TableWriter(path, inputs=[] if source.path is None else [source.path])


def _measurable(
    source: Source, y: Array, seed: int
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Rows with a target; of very many a random choice."""
    rows = np.flatnonzero(~np.isnan(y))
    if not len(rows):
        raise InputError(f"{source.name} must have rows with a target, it has none.")
    notes = style_notes(source)
    if len(rows) < len(y):
        notes.append(
            f"{amount(len(y) - len(rows), 'row')} without a target: not measured."
        )
    if len(rows) > MOST_ROWS:
        notes.append(
            f"A random choice of {MOST_ROWS:,} of {len(rows):,} rows is measured."
        )
        random = np.random.default_rng(seed)
        rows = np.sort(random.choice(rows, MOST_ROWS, replace=False))
    return rows, tuple(notes)


def _labeled(
    source: Source,
    foreign: Foreign,
    data: "pa.Table",
    y: Array,
    rows: npt.NDArray[np.int64],
    by: tuple[str, ...],
    notes: tuple[str, ...],
) -> Labeled:
    if foreign.crossed:
        notes += (f"Crossing quantiles in {amount(foreign.crossed, 'row')}: sorted.",)
    return Labeled(
        x=np.empty((len(rows), 0)),
        y=y[rows],
        rows=1 + rows,
        looks={},
        groups={name: labels(data[name].take(rows), source) for name in by},
        total=len(rows),
        notes=notes,
    )


class _Maps:
    """Recalibration of rows by maps that they had no part in."""

    def __init__(
        self, foreign: Foreign, y: Array, recalibrator: str, seed: int
    ) -> None:
        self.foreign = foreign
        known = np.flatnonzero(~np.isnan(y))
        if len(known) < _FEWEST:
            raise InputError(
                f"at least {_FEWEST} rows with a target are needed to recalibrate, got "
                f"{len(known)}. A few hundred are good."
            )
        grid = detect_grid(y[known])
        self.maps = []
        # Rows with equal predictions may be copies of one row, and share a fold.
        labels = linked_rows(foreign.values[known], None)
        count = min(_FOLDS, int(labels.max()) + 1)
        folds = Blocks(labels).folds(count, np.random.default_rng(seed))
        # Rows without a target go by the last map, which all others have taught.
        self.fold = np.full(len(y), count)
        self.fold[known] = folds
        for fold in range(count):
            rows = known[folds != fold]
            self.maps.append(_learned(recalibrator, foreign, y, rows, grid, seed))
        self.maps.append(_learned(recalibrator, foreign, y, known, grid, seed))

    def law(self, rows: npt.NDArray[np.int64]) -> AbstractDistribution:
        """Recalibrated laws of some rows, batch shape ``(k,)``."""
        plain = self.foreign.law(rows)
        folds = np.unique(self.fold[rows])
        laws = [self.maps[fold].transform(plain) for fold in folds]
        own = folds[:, None] == self.fold[rows]
        return Mixture(laws, torch.from_numpy(own.astype(np.float64)))


def _learned(
    name: str,
    foreign: Foreign,
    y: Array,
    rows: npt.NDArray[np.int64],
    grid: TargetGrid | None,
    seed: int,
) -> Any:  # noqa: ANN401
    law, target = foreign.law(rows), torch.from_numpy(y[rows])
    generator = torch.Generator().manual_seed(seed)
    return fit_recorded(fresh_recalibrator(name), law, target, grid, generator)


def _write_fixed(
    writer: TableWriter,
    source: Source,
    data: "pa.Table",
    foreign: Foreign,
    maps: _Maps,
) -> None:
    """Write the table with recalibrated columns behind its own."""
    import pyarrow as pa

    with writer as file:
        for start in range(0, data.num_rows, CHUNK):
            part = data.slice(start, CHUNK)
            rows = np.arange(start, start + part.num_rows)
            made = _corrected(foreign, maps.law(rows))
            taken = sorted(set(made) & set(data.column_names))
            if taken:
                raise InputError(
                    f"{source.name} must not have columns called as those that are "
                    f"made: {', '.join(taken)}. Rename them."
                )
            columns = {name: part[name].combine_chunks() for name in data.column_names}
            columns |= {name: pa.array(values) for name, values in made.items()}
            file.write(pa.RecordBatch.from_pydict(columns))


def _corrected(foreign: Foreign, law: AbstractDistribution) -> dict[str, Array]:
    """Return the recalibrated columns of a chunk of rows, each of shape ``(k,)``."""
    if foreign.levels:
        found = law.quantiles(foreign.levels).numpy()
        return {f"{n}_recalibrated": found[:, i] for i, n in enumerate(foreign.names)}
    numbers = Wishes(_COVERAGES, (), ()).numbers(law)
    own = dict(zip(("mean", "std"), foreign.names, strict=True))
    return {f"{own.get(n, n)}_recalibrated": values for n, values in numbers.items()}


def _write_report(
    page: Path,
    measured: Measured,
    after: Measured | None,
    source: Source,
    target: str,
    command: str | None,
) -> None:
    settings = {
        "Command": command,
        "Table": source.name,
        "SHA-256 of the table": checksum(source),
        "Versions": ", ".join(f"{name} {each}" for name, each in versions().items()),
    }
    contents = own_report(
        "compare",
        measured if after is None else after,
        source=source.name,
        target=target,
        unseen="Whether the model has seen them in its training, only you know.",
        settings={name: text for name, text in settings.items() if text is not None},
        before=None if after is None else measured.card,
        notes=measured.notes,
    )
    write_own_page(page, contents)
