"""What turns batches into the bytes of a file."""

import contextlib
import gzip
from collections.abc import Sequence
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from calibrant.tables._errors import input_error, shown

__all__ = ["ParquetSink", "Sink", "TextSink"]

#: gzip's usual 6 takes three times as long, for 2 to 5 % less.
LEVEL = 4
#: Rows that are turned into text at once.
ROWS = 65_536
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-](\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$"


class Sink(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""

    def close(self) -> None:
        """Write what is left; the stream itself stays open."""

    def abandon(self) -> None:
        """Let go of a file that will be thrown away."""


class ParquetSink:
    """Rows as Parquet, every batch a group of rows."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write what is left; the stream itself stays open."""
        self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that will be thrown away."""
        self._writer.is_open = False  # or it writes its end when it is collected


class TextSink:
    """Rows as text, cells in quotes only where they must be.

    Numbers have as few digits as give the same number back.

    Parameters
    ----------
    stream
        Where the bytes go.
    names
        Of the columns.
    delimiter
        Between two cells.
    packed
        Compress by gzip.
    neutralize
        Put an apostrophe before what a spreadsheet takes for a formula.
    """

    def __init__(
        self,
        stream: BinaryIO,
        names: Sequence[str],
        *,
        delimiter: str,
        packed: bool,
        neutralize: bool,
    ) -> None:
        self._stream = stream
        self._file = (
            # Without the time of writing, equal rows give equal bytes.
            gzip.GzipFile("", "wb", LEVEL, stream, mtime=0) if packed else stream
        )
        self._packed = packed
        self._delimiter = delimiter
        self._neutralize = neutralize
        self.neutralized = 0
        self.example: str | None = None
        header = self._quoted(self._harmless(pa.array(names, pa.string())))
        self._file.write(f"{delimiter.join(header.to_pylist())}\n".encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        for start in range(0, batch.num_rows, ROWS):
            self._write(batch.slice(start, ROWS))

    def _write(self, batch: pa.RecordBatch) -> None:
        cells = [
            self._text(array, name)
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        lines = pc.binary_join_element_wise(
            *cells, self._delimiter, null_handling="replace", null_replacement=""
        )
        whole = pa.ListArray.from_arrays([0, len(lines)], lines)
        self._file.write(pc.binary_join(whole, "\n")[0].as_buffer())
        self._file.write(b"\n")

    def close(self) -> None:
        """Write what is left; the stream itself stays open."""
        if self._packed:
            self._file.close()

    def abandon(self) -> None:
        """Let go of a file that will be thrown away."""
        with contextlib.suppress(OSError):
            self.close()

    def _text(self, array: pa.Array, name: str) -> pa.Array:
        try:
            text = array.cast(pa.string())
        except pa.ArrowException:
            raise input_error(
                f"column {shown(name)} holds {array.type}, which has no place in a "
                "text file. Leave it out, or write to .parquet."
            ) from None
        if _is_plain(array.type):
            return text
        return self._quoted(self._harmless(text))

    def _harmless(self, text: pa.Array) -> pa.Array:
        if not self._neutralize:
            return text
        formula = pc.match_substring_regex(text, _FORMULA)
        if not pc.any(formula).as_py():
            return text
        number = pc.match_substring_regex(text, _NUMBER)
        formula = pc.and_not(formula, number)
        count = pc.sum(formula).as_py() or 0
        if count and self.example is None:
            self.example = text.filter(formula)[0].as_py()
        self.neutralized += count
        marked = pc.binary_join_element_wise("'", text, "")
        return pc.if_else(pc.fill_null(formula, False), marked, text)

    def _quoted(self, text: pa.Array) -> pa.Array:
        special = pc.match_substring_regex(text, rf'["\r\n{self._delimiter}]|^\s|\s$')
        if not pc.any(special).as_py():
            return text
        doubled = pc.replace_substring(text, '"', '""')
        quoted = pc.binary_join_element_wise('"', doubled, '"', "")
        return pc.if_else(pc.fill_null(special, False), quoted, text)


def _is_plain(kind: pa.DataType) -> bool:
    """Tell types whose text has nothing in it that a table could stumble on."""
    tests = (
        *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean),
        *(pa.types.is_temporal, pa.types.is_decimal, pa.types.is_null),
    )
    return any(test(kind) for test in tests)
