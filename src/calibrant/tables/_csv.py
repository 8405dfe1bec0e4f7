"""Text files with a delimiter: every cell as text, in blocks of bounded size."""

import gzip
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from calibrant.tables._csv_fault import find_fault, swallowed_rows
from calibrant.tables._csv_look import look_at
from calibrant.tables._csv_stream import ByteStream, NoTextError
from calibrant.tables._errors import input_error, one_line
from calibrant.tables._missing import spellings, tidy_text
from calibrant.tables._path import cannot_read
from calibrant.tables.style import Style

__all__ = ["CsvReader"]

#: Bytes that are parsed at once, and the most that a row may have. Four times as much
#: was no faster and took twice the memory.
BLOCK = 1 << 20
#: Bytes of cells that wait for their batch to be full.
MOST_BYTES = 1 << 26
#: Seconds to wait for pyarrow's thread that reads ahead.
_LONGEST_WAIT = 2.0


class CsvReader:
    """A file of text, read anew for every pass.

    Parameters
    ----------
    path
        Of the file.
    name
        As the user wrote it.
    style
        What is known about it.
    expect
        Columns that it should have.
    """

    rows: int | None = None

    def __init__(
        self, path: Path, name: str, style: Style, expect: Sequence[str]
    ) -> None:
        self._path = path
        self._name = name
        self._look = look_at(path, name, style, expect)
        self.columns = self._look.columns
        self.style = self._look.style

    def empty(self, places: Sequence[int]) -> pa.RecordBatch:
        """Return a batch of no rows with the columns at these places."""
        names = [self.columns[place] for place in places]
        return pa.RecordBatch.from_arrays(
            [pa.array([], pa.string())] * len(names), names
        )

    def parts(
        self, places: Sequence[int], rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches of ``rows`` rows, and the share of the file read so far."""
        waiting: list[pa.RecordBatch] = []
        count = size = 0
        for block, share in self._checked(places):
            waiting.append(block)
            count += block.num_rows
            size += block.nbytes
            if count >= rows or size >= MOST_BYTES:
                *full, rest = _cut(waiting, rows)
                if size >= MOST_BYTES:  # long cells: do not wait for more
                    full, rest = [*full, rest], rest.slice(0, 0)
                for batch in full:
                    yield batch, share
                waiting, count, size = [rest], rest.num_rows, rest.nbytes
        for batch in _cut(waiting, rows) if waiting else ():
            yield batch, 1.0

    def _checked(self, places: Sequence[int]) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield the blocks of the file, or say what is wrong with which row."""
        try:
            with ByteStream(self._path, packed=self._look.packed) as stream:
                stream.take(self._look.start)
                for number, block in enumerate(self._blocks(stream, places), 1):
                    yield block, stream.share(number)
                # pyarrow takes the end of the file for the end of an open quote.
                if stream.quotes % 2 and (text := self._look_again()):
                    raise input_error(text)
        except (pa.ArrowException, NoTextError) as error:
            raise self._fault(error) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise input_error(
                f"{self._name}: the gzip file is cut off or damaged. Download it again."
            ) from error
        except OSError as error:
            raise cannot_read(self._name, error) from error

    def _blocks(
        self, stream: ByteStream, places: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        # Places for names: what a stranger calls a column is never parsed.
        every = [str(place) for place in range(len(self.columns))]
        handler = _BlankRows()
        held, reader = weakref.ref(handler), None
        options = _options(every, places, self.style, handler)
        try:
            with pa.PythonFile(stream, mode="r") as file:
                try:
                    reader = pyarrow.csv.open_csv(file, *options)
                except pa.ArrowInvalid:
                    if stream.taken:
                        raise
                    return  # not a byte below the header
                with reader:
                    for block in reader:
                        if stream.quotes:
                            self._check_quotes(block, places)
                        yield self._tidy(block, places)
        finally:
            del handler, options, reader
            _wait_for(held)

    def _check_quotes(self, block: pa.RecordBatch, places: Sequence[int]) -> None:
        """Refuse cells that hold rows of the table, between two stray quotes."""
        for place, column in zip(places, block.columns, strict=True):
            lines = column.filter(pc.match_substring_regex(column, r"[\r\n]"))
            for cell in lines.drop_null().to_pylist():
                if text := swallowed_rows(self._path, self._look, cell, place):
                    raise input_error(f"{self._name}{text}")

    def _tidy(self, block: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        cells = [tidy_text(column, self.style) for column in block.columns]
        names = [self.columns[place] for place in places]
        return pa.RecordBatch.from_arrays(cells, names)

    def _look_again(self) -> str | None:
        fault = find_fault(self._path, self._look, longest=BLOCK)
        return f"{self._name}{fault}" if fault else None

    def _fault(self, reason: object) -> Exception:
        text = self._look_again()
        return input_error(
            text or f"{self._name}: no table can be read from it: {one_line(reason)}."
        )


def _options(
    every: list[str], places: Sequence[int], style: Style, handler: "_BlankRows"
) -> tuple[Any, ...]:
    # Blocks in threads gave nothing here, and the errors would come in any order.
    read = pyarrow.csv.ReadOptions(
        use_threads=False, block_size=BLOCK, column_names=every
    )
    parse = pyarrow.csv.ParseOptions(
        delimiter=style.delimiter,
        newlines_in_values=True,
        invalid_row_handler=handler,
    )
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in every},
        include_columns=[str(place) for place in places],
        check_utf8=False,  # the stream has done it
        null_values=spellings(style),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    return read, parse, convert


class _BlankRows:
    """Leaves a line of spaces or of an empty cell out; others are errors."""

    def __call__(self, row: pyarrow.csv.InvalidRow) -> str:
        nothing = not row.text.strip('" \t\r\n') and row.text.count('"') in (0, 2)
        return "skip" if nothing else "error"


def _wait_for(held: "weakref.ref[_BlankRows]") -> None:
    """Let pyarrow's thread that reads ahead let go of what is Python's.

    If it did so while Python ends, the process would abort.
    """
    end = time.monotonic() + _LONGEST_WAIT
    while held() is not None and time.monotonic() < end:
        time.sleep(0.001)


def _cut(blocks: list[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    """Join blocks and cut them into batches, of which the last is never full."""
    joined = pa.concat_batches(blocks)
    return [joined.slice(start, rows) for start in range(0, joined.num_rows + 1, rows)]
