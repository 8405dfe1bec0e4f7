"""Tables on their way to a file, which appears only when it is complete."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from calibrant.tables._errors import input_error, one_line
from calibrant.tables._path import PARQUET, ending, user_path
from calibrant.tables._pending import PendingFile
from calibrant.tables._sinks import ParquetSink, Sink, TextSink

__all__ = ["TableWriter", "write_table"]

_WRITTEN = ".csv, .tsv (also with .gz behind it) or .parquet"


class TableWriter:
    r"""Write batches of rows to a file: all of them, or no file at all.

    The rows go to a hidden file beside ``path``, which is renamed at the end of the
    ``with`` block and removed at any error, Ctrl-C among them.

    Parameters
    ----------
    path
        Ends in ``.csv`` or ``.tsv`` (also with ``.gz`` behind it) or ``.parquet``. A
        file that is there already is replaced at the end.
    inputs
        Files that must not be overwritten.
    neutralize
        Put an apostrophe before text that a spreadsheet would run as a formula: cells
        and names that begin with ``= + - @``, a tab or a return, and are no numbers.
        Parquet files keep all text as it is.
    schema
        Of the batches, a :class:`pyarrow.Schema`; needed only if there may be none.

    Attributes
    ----------
    rows
        How many are written.
    neutralized
        How many cells and names got an apostrophe.
    example
        The first of them, as it was; None if there is none.

    Examples
    --------
    >>> import tempfile
    >>> batch = pa.record_batch({"id": ["a", "=1+1"], "mean": [0.5, 2.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "out.csv"
    ...     with TableWriter(path) as writer:
    ...         writer.write(batch)
    ...     path.read_text()
    "id,mean\na,0.5\n'=1+1,2\n"
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Iterable[str | os.PathLike[str]] = (),
        neutralize: bool = True,
        schema: pa.Schema | None = None,
    ) -> None:
        self._name = os.fspath(path)
        self._file = PendingFile(_target(path, inputs), self._name)
        self._neutralize = neutralize
        self._schema = schema
        self._sink: Sink | None = None
        self.rows = 0

    @property
    def neutralized(self) -> int:
        """How many cells and names got an apostrophe."""
        return self._sink.neutralized if isinstance(self._sink, TextSink) else 0

    @property
    def example(self) -> str | None:
        """The first cell or name that got an apostrophe, as it was."""
        return self._sink.example if isinstance(self._sink, TextSink) else None

    def __enter__(self) -> Self:
        self._file.open()
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write some rows; all batches must have the same columns."""
        try:
            sink = self._begun(batch.schema)
            if batch.schema != self._schema:
                batch = batch.cast(self._schema)
            sink.write(batch)
        except (pa.ArrowException, OSError) as error:
            raise self._cannot(error) from error
        self.rows += batch.num_rows

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._sink is not None:
                self._sink.abandon()
            self._file.discard()

    def _begun(self, schema: pa.Schema) -> Sink:
        if self._sink is None:
            self._schema = schema if self._schema is None else self._schema
            suffix, packed = ending(self._name)
            if suffix in PARQUET:
                self._sink = ParquetSink(self._file.stream, self._schema)
            else:
                self._sink = TextSink(
                    self._file.stream,
                    self._schema.names,
                    delimiter="\t" if suffix == ".tsv" else ",",
                    packed=packed,
                    neutralize=self._neutralize,
                )
        return self._sink

    def _finish(self) -> None:
        if self._sink is None and self._schema is None:
            raise input_error(f"{self._name}: there are no rows to write.")
        try:
            self._begun(self._schema).close()
            self._file.keep()
        except (pa.ArrowException, OSError) as error:
            raise self._cannot(error) from error

    def _cannot(self, error: BaseException) -> Exception:
        reason = getattr(error, "strerror", None) or one_line(error)
        return input_error(f"{self._name}: the file cannot be written: {reason}.")


def write_table(
    path: str | os.PathLike[str],
    table: pa.Table,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    neutralize: bool = True,
) -> None:
    """Write a whole :class:`pyarrow.Table`, as :class:`TableWriter` does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/out.csv", pa.table({"a": [1, 2]}))
    """
    options = {"neutralize": neutralize, "schema": table.schema}
    with TableWriter(path, inputs=inputs, **options) as writer:
        for batch in table.to_batches(max_chunksize=65_536):
            writer.write(batch)


def _target(
    path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]
) -> Path:
    """Return where the file goes, or say why it cannot."""
    name = os.fspath(path)
    place = user_path(path, what="the output")
    suffix, packed = ending(place)
    if suffix not in (".csv", ".tsv", *PARQUET) or (packed and suffix in PARQUET):
        raise input_error(f"{name}: the output must end in {_WRITTEN}.")
    place = Path(os.path.realpath(place))
    if place.is_dir():
        raise input_error(f"{name}: this is a folder. Name a file in it.")
    if not place.parent.is_dir():
        raise input_error(
            f"{name}: there is no folder {place.parent}. Make it first, or choose "
            "another."
        )
    if place.exists() and not place.is_file():
        raise input_error(f"{name}: this is no regular file. Choose another name.")
    _check_inputs(place, name, list(inputs))
    return place


def _check_inputs(
    place: Path, name: str, inputs: Sequence[str | os.PathLike[str]]
) -> None:
    for one in inputs:
        source = user_path(one, what="an input")
        same = os.path.realpath(source) == str(place)
        if same or (place.exists() and source.exists() and place.samefile(source)):
            raise input_error(
                f"{name}: this is the input itself, which would be lost. Choose "
                "another name for the output."
            )
