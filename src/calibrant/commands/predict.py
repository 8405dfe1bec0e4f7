"""calibrant predict: a table or a folder of tables with predictions, row by row."""

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from calibrant._progress import Bar
from calibrant._terminal import say
from calibrant.commands import _console as cli
from calibrant.errors import InputError
from calibrant.files import replace_file
from calibrant.storage import SUMS, check_writable
from calibrant.text import counted

# Torch and numpy are imported where they are used: --help needs neither.
if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.commands.table_model import TableModel
    from calibrant.distributions.base import AbstractDistribution
    from calibrant.tables import Findings, Source, Style

__all__ = ["CHUNK", "OutputOptions", "TablePrediction", "predict", "predict_table"]

#: Rows that are predicted at once: what they need fits into 200 MB with 25 members.
CHUNK = 16_384
#: Of a level; farther out a distribution is all assumption.
_OUTERMOST = 1e-6
#: More notes than that on the files of a folder are left out.
_MOST_NOTES = 20
#: The file that says what made the predictions of a folder.
_MAKER = "_predictions.json"
_RULE = "a folder to predict must hold Parquet files only, or .csv and .tsv files only"


@dataclass(frozen=True)
class OutputOptions:
    """Which numbers each row gets: intervals, quantiles, and columns to keep."""

    coverages: tuple[float, ...]
    quantiles: tuple[float, ...]
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        named = [("coverage", value) for value in self.coverages]
        named += [("quantiles", value) for value in self.quantiles]
        for name, value in named:
            if not 0 < value < 1:
                hint = f" Write {value / 100:g} for {value:g} %."
                raise InputError(
                    f"{name} must lie strictly between 0 and 1, got {value:g}."
                    f"{hint if 1 <= value < 100 else ''}"
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
    rows, columns
        Number of rows that were predicted, and names of the columns that were made.
    notes
        What was unusual: bad cells, unknown categories, values beyond the training's.
    path, table
        The file (or folder) that was written, or the predictions as a table of pyarrow.
    files, skipped, failures
        Of a folder: names of the files that were predicted now, and by a former call;
        what was wrong with others.
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
        lists = ("columns", "notes", "files", "skipped", "failures")
        more = {name: getattr(self, name) for name in lists}
        return cli.plain_dict(predictions=self.path, rows=self.rows, **more)


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
    The same call goes on after an interruption: files whose predictions are there, with
    the columns asked for and not older than their input and the model, are skipped, if
    the same model and options made them (``_predictions.json`` there tells).

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
    coverage, quantiles
        Of central intervals: 0.9 makes ``lower_90`` and ``upper_90``. Levels: 0.05
        makes ``q0.05``.
    keep
        Columns of the input that are written too.
    strict
        Refuse a cell that does not fit its column, rather than take it as missing.
    neutralize
        Put an apostrophe before kept texts which a spreadsheet would run as formulas.
    style, progress
        As for :func:`fit_table`.
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
    import pyarrow as pa

    from calibrant.commands.measuring import as_model, as_names, as_numbers, style_notes
    from calibrant.tables import Findings, TableWriter

    loaded = as_model(model)
    options = OutputOptions(
        as_numbers(coverage, what="coverage"),
        as_numbers(quantiles, what="quantiles"),
        as_names(keep, what="keep"),
    )
    if isinstance(table, str | os.PathLike) and Path(table).is_dir():
        how = {"strict": strict, "neutralize": neutralize, "style": style}
        return _predict_folder(
            loaded, model, Path(table), out, options, how, scheduler, progress
        )
    if scheduler is not None:
        raise InputError(
            f"a scheduler shares out the files of a folder, got one table and "
            f"{scheduler!r:.60}. Leave the scheduler out, or cut the table into files."
        )
    source = loaded.open(table, style=style)
    source.check_columns(options.keep)
    findings = Findings()
    parts = _predicted(loaded, source, options, findings, strict, progress)
    rows, path, whole, formulas = 0, None, None, []
    if out is None:
        whole = pa.Table.from_batches(parts)
        rows = whole.num_rows
    else:
        inputs, path = [] if source.path is None else [source.path], Path(out)
        with TableWriter(out, inputs=inputs, neutralize=neutralize) as writer:
            for part in parts:
                writer.write(part)
        rows = writer.rows
        if writer.neutralized:
            formulas = [
                f"An apostrophe in front of {counted(writer.neutralized, 'text')} that "
                "a spreadsheet would run as a formula, the first is "
                f"{writer.example!r:.60}."
            ]
    notes = (*style_notes(source), *findings.lines(), *formulas)
    return TablePrediction(rows, options.names, notes, path, whole)


def _predicted(
    model: "TableModel",
    source: "Source",
    options: OutputOptions,
    findings: "Findings",
    strict: bool,
    progress: bool | None,
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    needed = tuple(dict.fromkeys((*model.encoder.needed, *options.keep)))
    shown = ("share", "elapsed", "left")
    rows = 0
    with Bar(f"predict {source.name}", shown, total=1.0, shown=progress) as bar:
        for batch in source.batches(needed, rows=CHUNK):
            x = model.encoder.encode(
                batch.data,
                name=source.name,
                first_row=batch.first_row,
                findings=findings,
                style=source.style,
                strict=strict,
            )
            made: dict[str, Any] = {name: batch.data[name] for name in options.keep}
            made |= options.numbers(model.distribution(x))
            yield pa.RecordBatch.from_pydict(made)
            rows += len(x)
            bar.show(completed=batch.share)
    if not rows:
        raise InputError(f"{source.name}: there is a header, but no rows below it.")


# A folder of tables ----------------------------------------------------------------


class _FileJob(NamedTuple):
    """One file of a folder: paths of it, of its predictions and of the model."""

    source: Path
    target: Path
    model: Path
    options: OutputOptions
    how: Mapping[str, Any]

    def is_finished(self) -> bool:
        """Whether the predictions are there; what others put there is refused."""
        if not self.target.exists():
            return False
        from calibrant.tables import open_source

        made = [*self.options.keep, *self.options.names]
        try:
            # Formulas have an apostrophe in front.
            found = [name.lstrip("'") for name in open_source(self.target).columns]
        except InputError:
            found = []
        if found != [name.lstrip("'") for name in made]:
            raise InputError(
                f"{self.target}: this is not a file of the predictions asked for, so "
                "it is not replaced. Choose another folder, or move it away."
            )
        newest = max(path.stat().st_mtime_ns for path in (self.source, self.model))
        return self.target.stat().st_mtime_ns >= newest


def _predict_file(
    job: _FileJob, model: "TableModel | None" = None
) -> TablePrediction | str:
    """Predict a file, in a worker without a model; or say why it cannot be done."""
    if model is None:
        import torch

        torch.set_num_threads(1)
        for path in (job.source, job.model, job.target.parent):
            if not path.exists():
                return (
                    f"{path}: the worker at {socket.gethostname()} does not see it. "
                    "Put model, files and output on a file system that all machines "
                    "share."
                )
    try:
        return predict_table(
            model or job.model,
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


def _predict_folder(
    loaded: "TableModel",
    model: "TableModel | str | os.PathLike[str]",
    folder: Path,
    out: str | os.PathLike[str] | None,
    options: OutputOptions,
    how: Mapping[str, Any],
    scheduler: str | None,
    progress: bool | None,
) -> TablePrediction:
    """Predict the files of a folder that are not finished, each into its own file."""
    home, target = _checked_places(model, folder, out)
    sources = _tables_in(folder)
    with ExitStack() as stack:
        client = None
        if scheduler is not None:
            from calibrant._dask import connect

            client = stack.enter_context(connect(scheduler))
            stack.enter_context(client.as_current())
            # Another process may be in another folder.
            home, target = home.absolute(), target.absolute()
            sources = [source.absolute() for source in sources]
        jobs = [
            _FileJob(source, target / source.name, home, options, how)
            for source in sources
        ]
        finished = [job.source.name for job in jobs if job.is_finished()]
        made, maker = target / _MAKER, _maker(home, options, how)
        # Those of another model, or by other options, are made again.
        same = made.is_file() and made.read_bytes() == maker
        skipped = finished if same else []
        jobs = [job for job in jobs if job.source.name not in set(skipped)]
        if not target.is_dir():
            target.mkdir()
        for job in jobs:
            # Otherwise a file that fails now would leave a former model's predictions.
            job.target.unlink(missing_ok=True)
        replace_file(made, maker)  # last: after an interruption all are made again
        here = ((job, _predict_file(job, loaded)) for job in jobs)
        outcomes = here if client is None else _on_cluster(client, jobs)
        done: dict[str, TablePrediction] = {}
        failures = []
        shown = ("count", "elapsed", "left")
        title = f"predict {target.name}"
        with Bar(title, shown, total=len(jobs), shown=progress) as bar:
            for count, (job, outcome) in enumerate(outcomes, 1):
                if isinstance(outcome, str):
                    failures.append(outcome)
                else:
                    done[job.source.name] = outcome
                bar.show(completed=count)
    notes = [note for outcome in done.values() for note in outcome.notes]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES:,} more notes are left out."]
    return TablePrediction(
        rows=sum(outcome.rows for outcome in done.values()),
        columns=options.names,
        notes=tuple(notes),
        path=Path(out or ""),
        files=tuple(sorted(done)),
        skipped=tuple(skipped),
        failures=tuple(sorted(failures)),
    )


def _maker(home: Path, options: OutputOptions, how: Mapping[str, Any]) -> bytes:
    """Say which model and options make the files of a folder."""
    made = {
        "model": (home / SUMS).read_text("utf-8").split(),
        "columns": [*options.keep, *options.names],
        "options": {name: repr(value) for name, value in sorted(how.items())},
    }
    return f"{json.dumps(made, indent=2)}\n".encode()


def _on_cluster(
    client: Any,  # noqa: ANN401  (of Dask)
    jobs: Sequence[_FileJob],
) -> Iterator[tuple[_FileJob, TablePrediction | str]]:
    from distributed import KilledWorker, as_completed

    futures = {client.submit(_predict_file, job, pure=False): job for job in jobs}
    for future in as_completed(futures):
        job = futures[future]
        try:
            yield job, future.result()
        except KilledWorker:
            yield (
                job,
                f"{job.source}: its workers died again and again, most often for a "
                "lack of memory. Start workers with more of it (dask worker "
                "--memory-limit).",
            )


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
    kinds = {path: _kind(path) for path in found}
    counts = Counter(kinds.values())
    if counts["others"] or len(counts) > 1:
        got = ", ".join(
            f"{count} {kind}" for kind, count in sorted(counts.items()) if count
        )
        other = next((path.name for path in found if kinds[path] == "others"), None)
        named = "" if other is None else f", such as {other!r:.60}"
        raise InputError(f"{folder}: {_RULE}, got {got}{named}. Move the others away.")
    return found


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    if path.is_file() and name.endswith((".csv", ".tsv")):
        return "text"
    parquet = path.is_file() and path.name.lower().endswith((".parquet", ".pq"))
    return "Parquet" if parquet else "others"


def _checked_places(
    model: object, folder: Path, out: str | os.PathLike[str] | None
) -> tuple[Path, Path]:
    """Return the model's folder, and that for the predictions."""
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
    fault = None
    if real in (inputs, home.resolve()) or real.parent == inputs:
        fault = (
            "predictions must go to a folder that is not the input's, nor in it, nor "
            "the model's"
        )
    elif os.path.lexists(target) and not target.is_dir():
        fault = "predictions of a folder go to a folder, and this is a file"
    if fault:
        raise InputError(f"{target}: {fault}. Choose another name.")
    if not target.is_dir():
        check_writable(target)
    return home, target


@cli.command(
    "No predictions were written.",
    model=cli.MODEL,
    table=cli.argument(
        "CSV (also .gz) or Parquet file, or a folder of such files.", show_default=False
    ),
    out=cli.option(
        Path,
        "File to write: .csv, .csv.gz, .tsv or .parquet; for a folder another folder.",
        "--out",
        "-o",
        show_default="TABLE.predictions.csv, or FOLDER.predictions",
    ),
    coverage=cli.option(
        str,
        "Of the intervals, comma-separated.",
        default="0.5,0.9",
        read=cli.numbers("--coverage"),
    ),
    quantiles=cli.option(
        str, "Levels of quantiles, as 0.05,0.5,0.95.", read=cli.numbers("--quantiles")
    ),
    keep=cli.columns(list[str], "Columns of the input to write as well."),
    strict=cli.flag(
        "Refuse cells that do not fit rather than fill them in.", "--strict"
    ),
    neutralize=cli.flag(
        "Write kept texts that a spreadsheet would run as they are.",
        "--keep-formulas",
        read=lambda kept: not kept,
    ),
    scheduler=cli.SCHEDULER,
    **cli.STYLE,
)
def predict(console: cli.Console, **given: Any) -> None:  # noqa: ANN401
    """Write mean, std, intervals and quantiles of each row, in the order of the rows.

    The file is read in parts, so it may be larger than memory; the output appears only
    when it is complete. Columns are found by name; others than the model's are ignored.

    A folder of files gives a folder of predictions. The same command goes on after an
    interruption: it leaves out what is finished. Model, files and output must be on a
    file system that all workers of a scheduler see. With another model or other options
    name another folder.

    Example: calibrant predict model/ new.csv -o out.csv --coverage 0.9 --keep id
    """
    table: Path = given["table"]
    folder = table.is_dir()
    if given["out"] is None:
        name = table.resolve().name if folder else table.name.split(".")[0] or "table"
        given["out"] = Path(f"{name}.predictions{'' if folder else '.csv'}")
    first = _tables_in(table)[0] if given["keep"] and folder else table
    given["keep"] = cli.column_names(given["keep"], first, given["style"])
    try:
        done = predict_table(**given, progress=console.progress)
    except KeyboardInterrupt:
        if not folder:
            raise
        raise KeyboardInterrupt(
            f"Finished files are in {given['out']}; the same command goes on."
        ) from None
    console.json(done.to_dict())
    console.notes(done.notes)
    before = f", {len(done.skipped):,} finished before" if done.skipped else ""
    count = len(done.files) + len(done.skipped)
    files = f"{counted(count, 'file')}{before}, " if count else ""
    console.say(f"{files}{done.rows:,} rows: {', '.join(done.columns)}")
    console.say(f"Predictions: {done.path}")
    for failure in done.failures:
        say(f"calibrant: {cli.for_the_shell(failure)}", err=True)
    if done.failures:
        raise typer.Exit(2)
