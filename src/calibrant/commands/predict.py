"""calibrant predict: a table or a folder of tables with predictions, row by row."""

import json as json_text
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from calibrant._progress import Bar
from calibrant._terminal import say
from calibrant.commands._console import (
    INTERRUPTED,
    Console,
    for_the_shell,
    one_line_errors,
)
from calibrant.commands._options import (
    RUN,
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    Model,
    QuietOption,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    numbers,
    style_of,
)
from calibrant.errors import InputError
from calibrant.files import replace_file, sha256_of
from calibrant.storage import SUMS, check_writable

# Torch and numpy are imported where they are used: --help needs neither.
if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.commands.table_model import TableModel
    from calibrant.distributions.base import AbstractDistribution
    from calibrant.tables import Source, Style

__all__ = ["CHUNK", "OutputOptions", "TablePrediction", "predict", "predict_table"]

#: Rows that are predicted at once: what they need fits into 200 MB with 25 members.
CHUNK = 16_384
#: Of a level; farther out a distribution is all assumption.
_OUTERMOST = 1e-6
#: In a folder of predictions, by which model and with which options they were made.
#: The underscore hides it from readers of folders of Parquet files.
STAMP = "_predictions.json"
#: More notes than that on the files of a folder are left out.
_MOST_NOTES = 20
_RULE = "a folder to predict must hold Parquet files only, or .csv and .tsv files only"


@dataclass(frozen=True)
class OutputOptions:
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
        named = {"coverage": self.coverages, "quantiles": self.quantiles}
        for name, values in named.items():
            for value in values:
                if not 0 < value < 1:
                    percent = f" Write {value / 100:g} for {value:g} %."
                    hint = percent if 1 <= value < 100 else ""
                    raise InputError(
                        f"{name} must lie strictly between 0 and 1, got {value:g}."
                        f"{hint}"
                    )
        for level in self._places().values():
            if not _OUTERMOST <= level <= 1 - _OUTERMOST:
                raise InputError(
                    f"quantiles farther out than {_OUTERMOST:g} are not predicted, got "
                    f"a level of {level:.12g}: no table has taught them."
                )
        both = sorted(set(self.keep) & set(self.names))
        if both:
            raise InputError(
                f"columns to keep must not be called as those that are made: "
                f"{', '.join(both)}. Rename them in the input."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are made."""
        return ("mean", "std", *self._places())

    def _places(self) -> dict[str, float]:
        """Column to the level of its quantile."""
        places = {}
        for coverage in self.coverages:
            percent = f"{100 * coverage:.10g}"
            places[f"lower_{percent}"] = round(0.5 - coverage / 2, 12)
            places[f"upper_{percent}"] = round(0.5 + coverage / 2, 12)
        return places | {f"q{level:.10g}": round(level, 12) for level in self.quantiles}

    def numbers(self, predictive: "AbstractDistribution") -> dict[str, Any]:
        """Return the columns for a chunk of rows, each of shape ``(n,)``."""
        columns = {"mean": predictive.mean.numpy(), "std": predictive.stddev.numpy()}
        places = self._places()
        levels = sorted(set(places.values()))
        if levels:
            found = predictive.quantiles(levels).numpy()
            for name, level in places.items():
                columns[name] = found[:, levels.index(level)]
        return columns


@dataclass(frozen=True)
class TablePrediction:
    """What :func:`predict_table` gives.

    Attributes
    ----------
    rows
        Number of rows that were predicted.
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
        of_folder = {
            "files": list(self.files),
            "skipped": list(self.skipped),
            "failures": list(self.failures),
        }
        return plain | of_folder if any(of_folder.values()) else plain


def predict_table(
    model: "TableModel | str | os.PathLike[str]",
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    out: str | os.PathLike[str] | None = None,
    *,
    coverage: float | Sequence[float] = (0.5, 0.9),
    quantiles: float | Sequence[float] = (),
    keep: str | Sequence[str] = (),
    strict: bool = False,
    style: "Style | None" = None,
    neutralize: bool = True,
    progress: bool | None = None,
    scheduler: str | None = None,
) -> TablePrediction:
    """Predict mean, spread, intervals and quantiles of each row, in their order.

    A file is read and written in chunks, so it may be larger than memory, and the
    output appears under its name only when it is complete.

    A folder of files gives a folder of predictions, a file for each under its name. A
    file that cannot be predicted leaves the others alone, and is told in ``failures``.
    The same call goes on after an interruption: files whose predictions are there and
    not older than their input are skipped. With another model or other options all are
    made again, which ``_predictions.json`` beside them tells apart.

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
    >>> import numpy as np
    >>> from calibrant import fit_table
    >>> x = np.linspace(0, 1, 100)
    >>> fitted = fit_table({"x": x, "y": x}, target="y", epochs=2, progress=False)
    >>> done = predict_table(fitted.model, {"x": [0.2, 0.7]}, coverage=[0.9])
    >>> done.table.column_names
    ['mean', 'std', 'lower_90', 'upper_90']
    """
    from calibrant.commands.measuring import as_model, as_names, as_numbers, style_notes
    from calibrant.tables import Findings, TableWriter
    from calibrant.tables.wording import amount

    loaded = as_model(model)
    options = OutputOptions(
        as_numbers(coverage, what="coverage"),
        as_numbers(quantiles, what="quantiles"),
        as_names(keep, what="keep"),
    )
    if isinstance(table, str | os.PathLike) and Path(table).is_dir():
        how = {"strict": strict, "neutralize": neutralize, "style": style}
        places = (model, Path(table), out)
        return _predict_folder(places, loaded, options, how, scheduler, progress)
    if scheduler is not None:
        raise InputError(
            f"a scheduler shares out the files of a folder, got one table and "
            f"{scheduler!r:.60}. Leave the scheduler out, or cut the table into files."
        )
    source = loaded.open(table, style=style)
    source.check_columns(options.keep)
    findings, parts, rows, notes = Findings(), [], 0, []
    inputs = [] if source.path is None else [source.path]
    writer = (
        nullcontext()
        if out is None
        else TableWriter(out, inputs=inputs, neutralize=neutralize)
    )
    with writer as file:
        for part in _predicted(loaded, source, options, findings, strict, progress):
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
        columns=options.names,
        notes=(*style_notes(source), *findings.lines(), *notes),
        path=None if out is None else Path(out),
        table=_joined(parts) if out is None else None,
    )


def _predicted(
    model: "TableModel",
    source: "Source",
    options: OutputOptions,
    findings: Any,  # noqa: ANN401
    strict: bool,
    progress: bool | None,
) -> Iterator["pa.RecordBatch"]:
    import numpy as np
    import pyarrow as pa

    needed = tuple(dict.fromkeys((*model.encoder.needed, *options.keep)))
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
            joined = {name: batch.data[name] for name in options.keep}
            for name, values in options.numbers(model.distribution(x)).items():
                joined[name] = pa.array(np.asarray(values))
            yield pa.RecordBatch.from_arrays(list(joined.values()), names=list(joined))
            bar.show(completed=batch.share)


def _joined(parts: "list[pa.RecordBatch]") -> "pa.Table":
    import pyarrow as pa

    return pa.Table.from_batches(parts)


# A folder of tables ----------------------------------------------------------------


class _FileJob(NamedTuple):
    """One file of a folder: paths of it, of its predictions and of the model."""

    source: str
    target: str
    model: str
    options: OutputOptions
    how: Mapping[str, Any]


#: Rows and notes of a file that was predicted, or what was wrong with it.
_Outcome = tuple[int, tuple[str, ...]] | str


def _predict_folder(
    places: tuple["TableModel | str | os.PathLike[str]", Path, Any],
    loaded: "TableModel",
    options: OutputOptions,
    how: Mapping[str, Any],
    scheduler: str | None,
    progress: bool | None,
) -> TablePrediction:
    """Predict the files of a folder that are not finished, each into its own file."""
    model, folder, out = places
    sources = _tables_in(folder)
    home, target = _checked_places(model, folder, out)
    with _runner(loaded, scheduler) as run:
        # Not earlier: somebody must be there to make again what is removed now.
        finished, notes = _finished(home, target, sources, options, how)
        # Another process may be in another folder.
        place = Path.absolute if scheduler else Path
        jobs = [
            _FileJob(
                str(place(source)),
                str(place(target / source.name)),
                str(place(home)),
                options,
                how,
            )
            for source in sources
            if source.name not in finished
        ]
        rows, files, failures = 0, [], []  # type: int, list[str], list[str]
        columns = ("count", "elapsed", "left")
        title = f"predict {target.name}"
        with Bar(title, columns, total=len(jobs), shown=progress) as bar:
            for count, (job, outcome) in enumerate(run(jobs), 1):
                if isinstance(outcome, str):
                    failures.append(outcome)
                else:
                    rows += outcome[0]
                    notes += outcome[1]
                    files.append(Path(job.source).name)
                bar.show(completed=count)
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES:,} more notes are left out."]
    return TablePrediction(
        rows=rows,
        columns=options.names,
        notes=tuple(notes),
        path=target,
        files=tuple(sorted(files)),
        skipped=tuple(finished),
        failures=tuple(sorted(failures)),
    )


def _finished(
    model: Path,
    out: Path,
    sources: Sequence[Path],
    options: OutputOptions,
    how: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """Return the names of finished files; remove what must be made again, and say so.

    A file is finished if its predictions are there and not older than it, and if the
    stamp beside them names the same model and options.
    """
    made = json_text.loads(
        json_text.dumps(
            {"model": sha256_of(model / SUMS), **vars(options), **how}, default=vars
        )
    )
    try:
        former = json_text.loads((out / STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        former = None
    there = [source.name for source in sources if (out / source.name).exists()]
    if former is None and there:
        raise InputError(
            f"{out}: predictions go to a folder without other files of these names, "
            f"and {there[0]!r:.60} is there. Choose another folder."
        )
    finished = [
        source.name
        for source in sources
        if former == made
        and source.name in there
        and (out / source.name).stat().st_mtime_ns >= source.stat().st_mtime_ns
    ]
    # Otherwise a file that fails now would leave a former model's predictions.
    stale = [name for name in there if name not in finished]
    for name in stale:
        (out / name).unlink()
    replace_file(out / STAMP, json_text.dumps(made, indent=1).encode())
    notes = [
        f"{len(stale):,} of {len(sources):,} files in {out} are of another model, "
        "other options or a former input: they are made again."
    ]
    return finished, notes if stale else []


@contextmanager
def _runner(
    model: "TableModel", scheduler: str | None
) -> Iterator[Callable[[Sequence[_FileJob]], Iterator[tuple[_FileJob, _Outcome]]]]:
    """Give what predicts files: here one after another, or all on a Dask cluster."""
    if scheduler is None:
        yield lambda jobs: ((job, _predict_file(job, model)) for job in jobs)
        return
    from calibrant._dask import connect

    with connect(scheduler) as client, client.as_current():
        yield lambda jobs: _on_cluster(client, jobs)


def _on_cluster(
    client: Any,  # noqa: ANN401  (of Dask)
    jobs: Sequence[_FileJob],
) -> Iterator[tuple[_FileJob, _Outcome]]:
    from distributed import KilledWorker, as_completed

    futures = {client.submit(_predict_file, job, pure=False): job for job in jobs}
    for future in as_completed(futures):
        try:
            yield futures[future], future.result()
        except KilledWorker:
            yield (
                futures[future],
                f"{futures[future].source}: its workers died again and again, most "
                "often for a lack of memory. Start workers with more of it (dask "
                "worker --memory-limit).",
            )


def _predict_file(job: _FileJob, model: "TableModel | None" = None) -> _Outcome:
    """Predict one file of a folder: here, or without a model in a worker."""
    if model is None:
        import torch

        torch.set_num_threads(1)
        seen = (Path(job.source), Path(job.model), Path(job.target).parent)
        for path in seen:
            if not path.exists():
                return (
                    f"{path}: the worker at {socket.gethostname()} does not see it. "
                    "Put model, files and output on a file system that all machines "
                    "share."
                )
    try:
        done = predict_table(
            job.model if model is None else model,
            job.source,
            job.target,
            coverage=job.options.coverages,
            quantiles=job.options.quantiles,
            keep=job.options.keep,
            progress=False,
            **job.how,
        )
    except (InputError, OSError) as error:
        return " ".join(str(error).split())
    return done.rows, done.notes


def _tables_in(folder: Path) -> list[Path]:
    """Return the tables of a folder, all of one kind, in the order of their names.

    Files whose names begin with a dot or an underscore are left out, as everywhere with
    folders of Parquet files.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be read: {error}.") from None
    if not found:
        raise InputError(
            f"{folder}: {_RULE}, and there are none. Put some into it, or name another."
        )
    kinds = Counter(_kind(path) for path in found)
    if kinds["others"] or len(kinds) > 1:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        others = [path.name for path in found if _kind(path) == "others"]
        named = f", such as {others[0]!r:.60}" if others else ""
        raise InputError(
            f"{folder}: {_RULE}, got {counts}{named}. Move the others away."
        )
    return found


def _kind(path: Path) -> str:
    name = path.name.lower()
    if path.is_dir():
        return "others"
    if name.endswith((".parquet", ".pq")):
        return "Parquet"
    text = name.removesuffix(".gz").endswith((".csv", ".tsv"))
    return "text" if text else "others"


def _checked_places(model: object, folder: Path, out: Any) -> tuple[Path, Path]:  # noqa: ANN401
    """Return the model's folder, and that for the predictions, which is made."""
    if not isinstance(model, str | os.PathLike):
        raise InputError(
            "a folder of files is predicted by a saved model, so that a later call can "
            "tell which files it has done, got one in memory. Save it, and pass its "
            "folder."
        )
    if out is None:
        raise InputError(
            f"{folder}: predictions of a folder go to a folder, and there is none. "
            "Name it as out."
        )
    home, target = Path(model), Path(out)
    real, inputs = target.resolve(), folder.resolve()
    if real in (inputs, home.resolve()) or real.parent == inputs:
        raise InputError(
            f"{target}: predictions must go to a folder that is not the input's, nor "
            "in it, nor the model's. Choose another name."
        )
    if not target.is_dir():
        if os.path.lexists(target):
            raise InputError(
                f"{target}: predictions of a folder go to a folder, and this is a "
                "file. Choose another name."
            )
        check_writable(target)
        target.mkdir()
    return home, target


@one_line_errors("No predictions were written.")
def predict(
    model: Model,
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV (also .gz) or Parquet file, or a folder of such files.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv, .csv.gz, .tsv or .parquet; for a folder another "
            "folder.",
            show_default="TABLE.predictions.csv, or FOLDER.predictions",
        ),
    ] = None,
    coverage: Annotated[
        str, typer.Option(help="Of the intervals, comma-separated.")
    ] = "0.5,0.9",
    quantiles: Annotated[
        str | None, typer.Option(help="Levels of quantiles, as 0.05,0.5,0.95.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the input to write as well.",
            autocompletion=complete_columns,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse cells that do not fit rather than fill them in."
        ),
    ] = False,
    keep_formulas: Annotated[
        bool,
        typer.Option(
            "--keep-formulas",
            help="Write kept texts that a spreadsheet would run as they are.",
        ),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, tcp://host:8786, whose workers do the "
            "files of a folder instead. All must see model, files and output under "
            "the same paths: a shared file system is needed.",
            rich_help_panel=RUN,
        ),
    ] = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write mean, std, intervals and quantiles of each row, in the order of the rows.

    The file is read in parts, so it may be larger than memory; the output appears only
    when it is complete. Columns are found by name; others than the model's are ignored.

    A folder of files gives a folder of predictions. The same command goes on after an
    interruption: it leaves out what this model has finished with these options.

    Example: calibrant predict model/ new.csv -o out.csv --coverage 0.9 --keep id
    """
    console = Console(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    place = _default(table) if out is None else out
    try:
        done = predict_table(
            model,
            table,
            place,
            coverage=numbers(coverage, option="--coverage"),
            quantiles=numbers(quantiles, option="--quantiles"),
            keep=_kept(keep, table, style),
            strict=strict,
            style=style,
            neutralize=not keep_formulas,
            progress=console.progress,
            scheduler=scheduler,
        )
    except KeyboardInterrupt:
        if not table.is_dir():
            raise
        say(
            f"calibrant: interrupted. Finished files are in {place}; the same command "
            "goes on.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    _tell(done, console)


def _tell(done: TablePrediction, console: Console) -> None:
    from calibrant.tables.wording import amount

    console.json(done.to_dict())
    console.notes(done.notes)
    before = f", {len(done.skipped):,} finished before" if done.skipped else ""
    count = len(done.files) + len(done.skipped)
    files = f"{amount(count, 'file')}{before}, " if count else ""
    console.say(f"{files}{done.rows:,} rows: {', '.join(done.columns)}")
    console.say(f"Predictions: {done.path}")
    for failure in done.failures:
        say(f"calibrant: {for_the_shell(failure)}", err=True)
    if done.failures:
        raise typer.Exit(2)


def _default(table: Path) -> Path:
    """Where predictions go if nobody says where."""
    if table.is_dir():
        return Path(f"{table.resolve().name}.predictions")
    return Path(f"{_stem(table)}.predictions.csv")


def _kept(keep: list[str] | None, table: Path, style: "Style") -> tuple[str, ...]:
    """Read names of columns; those of a folder are the columns of its first file."""
    if keep and table.is_dir():
        table = _tables_in(table)[0]
    return column_names(keep, table, style)


def _stem(table: Path) -> str:
    """Name of a file without what says how it is written."""
    return table.name.split(".")[0] or "table"
