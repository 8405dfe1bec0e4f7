"""From a model and a table to predictions, chunk by chunk."""

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._checks import InputError
from calibrant._progress import Bar
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimator.table_model import TableModel
from calibrant.tables import Batch, Findings, Source, Style, TableWriter
from calibrant.tables._words import amount
from calibrant.workflows._given import as_names, as_numbers
from calibrant.workflows._labeled import style_notes
from calibrant.workflows._model import as_model

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TablePrediction", "predict_table"]

#: Rows that are predicted at once: what they need fits into 200 MB with 25 members.
CHUNK = 16_384
# Of a level; farther out a law is all assumption.
_OUTERMOST = 1e-6


@dataclass(frozen=True)
class TablePrediction:
    """What :func:`predict_table` gives.

    Attributes
    ----------
    rows
        Number of rows.
    columns
        Names of the columns that were made.
    notes
        What was unusual: bad cells, unknown categories, values beyond the training's.
    path
        The file that was written, if one was.
    table
        The predictions as a table of pyarrow, if no file was asked for.
    """

    rows: int
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    path: Path | None = None
    table: "pa.Table | None" = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the table as plain dictionaries, lists and numbers."""
        return {
            "predictions": None if self.path is None else str(self.path),
            "rows": self.rows,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Wishes:
    """Which numbers each row gets.

    Attributes
    ----------
    coverages
        Of central intervals.
    quantiles
        Levels.
    keep
        Columns of the input to write as well.
    """

    coverages: tuple[float, ...]
    quantiles: tuple[float, ...]
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, values in (
            ("coverage", self.coverages),
            ("quantiles", self.quantiles),
        ):
            for value in values:
                if not 0 < value < 1:
                    percent = f" Write {value / 100:g} for {value:g} %."
                    hint = percent if 1 <= value < 100 else ""
                    raise InputError(
                        f"{name} must lie strictly between 0 and 1, got {value:g}."
                        f"{hint}"
                    )
        for level in self.levels:
            if not _OUTERMOST <= level <= 1 - _OUTERMOST:
                raise InputError(
                    f"quantiles farther out than {_OUTERMOST:g} are not predicted, got "
                    f"a level of {level:.12g}: no table has taught them."
                )

    @property
    def levels(self) -> list[float]:
        """All levels at which quantiles are needed, ascending."""
        ends = [
            level
            for coverage in self.coverages
            for level in (0.5 - coverage / 2, 0.5 + coverage / 2)
        ]
        return sorted({round(level, 12) for level in (*ends, *self.quantiles)})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are made."""
        return ("mean", "std", *self._places())

    def _places(self) -> dict[str, float]:
        """Column to the level of its quantile."""
        places = {}
        for coverage in self.coverages:
            percent = f"{100 * coverage:.10g}"
            places[f"lower_{percent}"] = 0.5 - coverage / 2
            places[f"upper_{percent}"] = 0.5 + coverage / 2
        return places | {f"q{level:.10g}": level for level in self.quantiles}

    def numbers(self, law: AbstractDistribution) -> dict[str, Any]:
        """Return the columns for a chunk of rows, each of shape ``(n,)``."""
        columns = {"mean": law.mean.numpy(), "std": law.stddev.numpy()}
        if self.levels:
            found = law.quantiles(self.levels).numpy()
            index = {level: place for place, level in enumerate(self.levels)}
            for name, level in self._places().items():
                columns[name] = found[:, index[round(level, 12)]]
        return columns


def predict_table(  # noqa: PLR0913  (one parameter for each option of the command)
    model: TableModel | str | os.PathLike[str],
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    out: str | os.PathLike[str] | None = None,
    *,
    coverage: float | Sequence[float] = (0.5, 0.9),
    quantiles: float | Sequence[float] = (),
    keep: str | Sequence[str] = (),
    strict: bool = False,
    style: Style | None = None,
    neutralize: bool = True,
    progress: bool | None = None,
) -> TablePrediction:
    """Predict mean, spread, intervals and quantiles of each row, in their order.

    A file is read and written in chunks, so it may be larger than memory, and the
    output appears under its name only when it is complete.

    Parameters
    ----------
    model
        A :class:`TableModel`, or its folder.
    table
        A path of a CSV (also .gz) or Parquet file, a data frame, or columns by name,
        with the columns that the model needs, in any order; others are ignored.
    out
        File to write, .csv, .csv.gz, .tsv or .parquet; None returns a table.
    coverage
        Of central intervals: 0.9 makes ``lower_90`` and ``upper_90``.
    quantiles
        Levels: 0.05 makes ``q0.05``.
    keep
        Columns of the input that are written too.
    strict
        Refuse a cell that does not fit its column, rather than take it as missing.
    style
        How a text file is written; None finds out.
    neutralize
        Put an apostrophe before kept texts which a spreadsheet would run as formulas.
    progress
        Show progress; None for a terminal only.

    Examples
    --------
    >>> from calibrant import fit_table
    >>> x = np.linspace(0, 1, 100)
    >>> fitted = fit_table({"x": x, "y": x}, target="y", epochs=2, progress=False)
    >>> done = predict_table(fitted.model, {"x": [0.2, 0.7]}, coverage=[0.9])
    >>> done.table.column_names
    ['mean', 'std', 'lower_90', 'upper_90']
    """
    loaded = as_model(model)
    wishes = Wishes(
        as_numbers(coverage, what="coverage"),
        as_numbers(quantiles, what="quantiles"),
        as_names(keep, what="keep"),
    )
    source = loaded.open(table, style=style)
    source.check_columns(wishes.keep)
    _check_names(wishes)
    findings, parts, rows, notes = Findings(), [], 0, []
    inputs = [] if source.path is None else [source.path]
    writer = (
        nullcontext()
        if out is None
        else TableWriter(out, inputs=inputs, neutralize=neutralize)
    )
    with writer as file:
        for part in _predicted(loaded, source, wishes, findings, strict, progress):
            rows += part.num_rows
            if file is None:
                parts.append(part)
            else:
                file.write(part)
        if not rows:
            raise InputError(f"{source.name}: there is a header, but no rows below it.")
    if file is not None and file.neutralized:
        notes.append(
            f"An apostrophe in front of {amount(file.neutralized, 'text')} that a "
            f"spreadsheet would run as a formula, the first is {file.example!r:.60}."
        )
    return TablePrediction(
        rows=rows,
        columns=wishes.names,
        notes=(*style_notes(source), *findings.lines(), *notes),
        path=None if out is None else Path(out),
        table=_joined(parts) if out is None else None,
    )


def _check_names(wishes: Wishes) -> None:
    both = sorted(set(wishes.keep) & set(wishes.names))
    if both:
        raise InputError(
            f"columns to keep must not be called as those that are made: "
            f"{', '.join(both)}. Rename them in the input."
        )


def _predicted(
    model: TableModel,
    source: Source,
    wishes: Wishes,
    findings: Findings,
    strict: bool,
    progress: bool | None,
) -> Iterator["pa.RecordBatch"]:
    needed = tuple(dict.fromkeys((*model.encoder.needed, *wishes.keep)))
    columns = ("share", "elapsed", "left")
    with Bar(f"predict {source.name}", columns, total=1.0, shown=progress) as bar:
        for batch in source.batches(needed, rows=CHUNK):
            x = model.encoder.encode(
                batch.data,
                name=source.name,
                first_row=batch.first_row,
                findings=findings,
                style=source.style,
                strict=strict,
            )
            yield _with_kept(batch, wishes, wishes.numbers(model.law(x)))
            bar.show(completed=batch.share)


def _with_kept(
    batch: Batch, wishes: Wishes, numbers: dict[str, Any]
) -> "pa.RecordBatch":
    import pyarrow as pa

    kept = {name: batch.data[name] for name in wishes.keep}
    made = {name: pa.array(np.asarray(v)) for name, v in numbers.items()}
    joined = kept | made
    return pa.RecordBatch.from_arrays(list(joined.values()), names=list(joined))


def _joined(parts: "list[pa.RecordBatch]") -> "pa.Table":
    import pyarrow as pa

    return pa.Table.from_batches(parts)
