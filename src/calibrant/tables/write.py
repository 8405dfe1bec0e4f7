"""Tables on their way to a file, which appears only when it is complete."""

import contextlib
import gzip
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from calibrant.errors import InputError
from calibrant.files import replacing
from calibrant.tables.options import one_line, shown
from calibrant.tables.read import PARQUET, ending, user_path

__all__ = ["TableWriter", "write_table"]

#: Rows that are turned into text at once.
ROWS = 65_536
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-](\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$"


class TableWriter:
    r"""Write batches of rows to a file: all of them, or no file at all.

    The rows go to a hidden file beside ``path``, which is renamed at the end of the
    ``with`` block and removed at any error, Ctrl-C among them. Numbers have as few
    digits as give the same number back, and only texts that need quotes have them.

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
        self._target = _target(path, inputs)
        suffix, self._packed = ending(path)
        self._parquet = suffix in PARQUET
        self._delimiter = "\t" if suffix == ".tsv" else ","
        self._neutralize = neutralize and not self._parquet
        self._schema = schema
        self._stack = contextlib.ExitStack()
        self._stream: Any = None
        self._sink: Any = None
        self.rows = 0
        self.neutralized = 0
        self.example: str | None = None

    def __enter__(self) -> Self:
        with self._one_line():
            self._stream = self._stack.enter_context(replacing(self._target))
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write some rows; all batches must have the same columns."""
        with self._one_line():
            self._begin(batch.schema)
            batch = batch.cast(self._schema)
            if self._parquet:
                self._sink.write_batch(batch)
            else:
                for start in range(0, batch.num_rows, ROWS):
                    self._write_text(batch.slice(start, ROWS))
        self.rows += batch.num_rows

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._one_line(), self._stack:
            self._finish()

    def _begin(self, schema: pa.Schema) -> None:
        """Write the header once there is a schema."""
        if self._sink is not None:
            return
        self._schema = schema if self._schema is None else self._schema
        if self._parquet:
            self._sink = pyarrow.parquet.ParquetWriter(self._stream, self._schema)
            # Else it writes its end when it is collected, also after an error.
            self._stack.callback(setattr, self._sink, "is_open", False)
            return
        self._sink = self._stream
        if self._packed:
            # Without the time of writing, equal rows give equal bytes. gzip's usual
            # level 6 takes three times as long, for 2 to 5 % less.
            self._sink = gzip.GzipFile("", "wb", 4, self._stream, mtime=0)
        header = self._quoted(pa.array(self._schema.names, pa.string()))
        self._sink.write(f"{self._delimiter.join(header.to_pylist())}\n".encode())

    def _finish(self) -> None:
        """Write what is left."""
        if self._schema is None:
            raise InputError(f"{self._name}: there are no rows to write.")
        self._begin(self._schema)
        if self._sink is not self._stream:
            self._sink.close()

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or one_line(error)
            raise InputError(
                f"{self._name}: the file cannot be written: {reason}."
            ) from error

    def _write_text(self, batch: pa.RecordBatch) -> None:
        cells = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            try:
                text = array.cast(pa.string())
            except pa.ArrowException:
                raise InputError(
                    f"column {shown(name)} holds {array.type}, which has no place in a "
                    "text file. Leave it out, or write to .parquet."
                ) from None
            kind = array.type
            known = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
            cells.append(text if known else self._quoted(text))
        lines = pc.binary_join_element_wise(
            *cells, self._delimiter, null_handling="replace", null_replacement=""
        )
        whole = pa.ListArray.from_arrays([0, len(lines)], lines)
        self._sink.write(pc.binary_join(whole, "\n")[0].as_buffer())
        self._sink.write(b"\n")

    def _quoted(self, text: pa.Array) -> pa.Array:
        """Put apostrophes before formulas, and quotes around what needs them."""
        if self._neutralize:
            formula = pc.match_substring_regex(text, _FORMULA)
            formula = pc.and_not(formula, pc.match_substring_regex(text, _NUMBER))
            if pc.any(formula).as_py():
                self.example = self.example or text.filter(formula)[0].as_py()
                self.neutralized += pc.sum(formula).as_py()
                marked = pc.binary_join_element_wise("'", text, "")
                text = pc.if_else(formula, marked, text)
        special = pc.match_substring_regex(text, rf'["\r\n{self._delimiter}]|^\s|\s$')
        doubled = pc.replace_substring(text, '"', '""')
        quoted = pc.binary_join_element_wise('"', doubled, '"', "")
        return pc.if_else(special, quoted, text)


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
    with TableWriter(
        path, inputs=inputs, neutralize=neutralize, schema=table.schema
    ) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def _target(
    path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]
) -> Path:
    """Return where the file goes, or say why it cannot."""
    suffix, packed = ending(path)
    place = Path(os.path.realpath(user_path(path, what="the output")))
    fault = None
    if suffix not in (".csv", ".tsv", *PARQUET) or (packed and suffix in PARQUET):
        ends = ".csv, .tsv (also with .gz behind it) or .parquet"
        fault = f"the output must end in {ends}."
    elif place.exists() and not place.is_file():
        noun = "a folder. Name a file in it" if place.is_dir() else "no regular file"
        fault = f"this is {noun}."
    elif not place.parent.is_dir():
        fault = f"there is no folder {place.parent}. Make it first, or choose another."
    elif any(
        place.exists() and Path(one).exists() and place.samefile(one) for one in inputs
    ):
        fault = (
            "this is the input itself, which would be lost. Choose another name for "
            "the output."
        )
    if fault:
        raise InputError(f"{os.fspath(path)}: {fault}")
    return place
