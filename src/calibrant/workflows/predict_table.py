"""From a model and a table to predictions, chunk by chunk."""

import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._checks import InputError
from calibrant._progress import Bar
from calibrant._version import __version__
from calibrant.tables import Batch, Findings, Source, Style, TableWriter
from calibrant.tables.wording import amount
from calibrant.workflows._folder import FileJob, check_seen, predict_files
from calibrant.workflows._folder_files import as_folder, out_folder, tables_in
from calibrant.workflows._folder_ledger import signature
from calibrant.workflows._given import as_names, as_numbers
from calibrant.workflows._labeled import style_notes
from calibrant.workflows._model import as_model
from calibrant.workflows._wishes import Wishes
from calibrant.workflows.table_model import TableModel

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TablePrediction", "predict_table"]

#: Rows that are predicted at once: what they need fits into 200 MB with 25 members.
CHUNK = 16_384
# What only the predictions of a folder have.
_OF_FOLDER = ("files", "skipped", "failures")


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
        The file that was written, if one was; of a folder of tables the folder.
    table
        The predictions as a table of pyarrow, if no file was asked for.
    files, skipped
        Of a folder: names of the files that were predicted now, and by a former call.
    failures
        Of a folder: what was wrong with files that could not be predicted.
    """

    rows: int
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    path: Path | None = None
    table: "pa.Table | None" = None
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the table as plain dictionaries, lists and numbers."""
        plain = {
            "predictions": None if self.path is None else str(self.path),
            "rows": self.rows,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }
        of_folder = {n: list(getattr(self, n)) for n in _OF_FOLDER}
        return plain | of_folder if any(of_folder.values()) else plain


def predict_table(
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
    scheduler: str | None = None,
) -> TablePrediction:
    """Predict mean, spread, intervals and quantiles of each row, in their order.

    A file is read and written in chunks, so it may be larger than memory, and the
    output appears under its name only when it is complete.

    A folder of files gives a folder of predictions, a file for each under its name. A
    file that cannot be predicted leaves the others alone, and is told in ``failures``.
    The same call goes on after an interruption: files are left out whose predictions
    were made from the same input (by size and time of writing) with the same model and
    options, as ``_predictions.jsonl`` beside them says; others are made again.

    Parameters
    ----------
    model
        A :class:`TableModel`, or its folder.
    table
        A path of a CSV (also .gz) or Parquet file, a data frame, or columns by name,
        with the columns that the model needs, in any order; others are ignored. Or a
        folder of CSV files or of Parquet files; then ``model`` must be a folder too.
    out
        File to write, .csv, .csv.gz, .tsv or .parquet; None returns a table. For a
        folder of tables another folder.
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
    scheduler
        Address of a Dask scheduler, as ``"tcp://host:8786"``, whose workers predict the
        files of a folder. They must see model, files and output under the same paths,
        on a file system that all machines share.

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
    folder = as_folder(table)
    if folder is not None:
        options = {
            **asdict(wishes),
            "strict": strict,
            "neutralize": neutralize,
            "style": asdict(style or Style()),
        }
        places = (folder, out, model)
        return _of_folder(loaded, places, wishes, options, (scheduler, progress))
    if scheduler is not None:
        raise InputError(
            f"a scheduler shares out the files of a folder, got one table and "
            f"{scheduler!r:.60}. Leave the scheduler out, or cut the table into files."
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


def _of_folder(
    model: TableModel,
    places: tuple[Path, Any, Any],
    wishes: Wishes,
    options: Mapping[str, Any],
    runner: tuple[str | None, bool | None],
) -> TablePrediction:
    """Predict the files of a folder into another, by the model of a third one."""
    folder, out, home = places
    scheduler, progress = runner
    _check_names(wishes)
    sources = tables_in(folder)
    out, home = out_folder(out, folder, home)
    done = predict_files(
        sources,
        out,
        home,
        # Only a worker has to read the model again for each file.
        predict_file
        if scheduler is not None
        else functools.partial(predict_file, model=model),
        options=options,
        scheduler=scheduler,
        progress=progress,
    )
    return TablePrediction(
        rows=done.rows,
        columns=wishes.names,
        notes=tuple(done.notes),
        path=out,
        **{name: tuple(getattr(done, name)) for name in _OF_FOLDER},
    )


def predict_file(job: FileJob, model: TableModel | None = None) -> dict[str, Any]:
    """Predict one file of a folder, in a worker or here.

    Parameters
    ----------
    job
        Which, and how.
    model
        None reads the one that the job names.

    Returns
    -------
    dict
        Number of rows, notes, and what the file of predictions is like.
    """
    check_seen(job)
    options = json.loads(job.options)
    style, wishes = options.pop("style"), ("coverages", "quantiles", "keep")
    coverage, quantiles, keep = (options.pop(name) for name in wishes)
    done = predict_table(
        job.model if model is None else model,
        job.source,
        job.target,
        coverage=coverage,
        quantiles=quantiles,
        keep=keep,
        style=Style(**style),
        progress=False,
        **options,
    )
    return {
        "rows": done.rows,
        "notes": list(done.notes),
        "output": signature(Path(job.target)),
        "calibrant": __version__,
    }


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
            yield _with_kept(batch, wishes, wishes.numbers(model.distribution(x)))
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
