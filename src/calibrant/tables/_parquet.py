"""Parquet files, a piece of some columns at a time."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from calibrant.tables._errors import input_error, one_line
from calibrant.tables._header import checked_names
from calibrant.tables._missing import tidy_typed
from calibrant.tables._path import cannot_read
from calibrant.tables.style import Style

__all__ = ["ParquetReader"]

#: Bytes that a batch should not have more of, as far as the file tells.
MOST_BYTES = 1 << 26
#: Bytes of a column that are read at once; the default is a whole group of rows.
BUFFER = 1 << 20


class ParquetReader:
    """A Parquet file, opened anew for every pass.

    Parameters
    ----------
    path
        Of the file.
    name
        As the user wrote it.
    style
        Which cells mean "missing".
    """

    def __init__(self, path: Path, name: str, style: Style) -> None:
        self._path = path
        self._name = name
        with self._opened() as file:
            self._schema = file.schema_arrow
            self._names: list[str] = self._schema.names
            self._bytes = sum(
                file.metadata.row_group(group).total_byte_size
                for group in range(file.metadata.num_row_groups)
            )
            self.rows: int | None = file.metadata.num_rows
        self.columns = checked_names(self._names, name)
        self.style = style.found(delimiter=None, decimal=".")

    def empty(self, places: Sequence[int]) -> pa.RecordBatch:
        """Return a batch of no rows with the columns at these places."""
        kinds = [self._schema.field(place).type for place in places]
        return self._tidy([pa.array([], kind) for kind in kinds], places)

    def parts(
        self, places: Sequence[int], rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches of at most ``rows`` rows, and the share of them so far."""
        total = max(self.rows or 0, 1)
        wanted = [self._names[place] for place in places]
        fewer = max(MOST_BYTES * total // max(self._bytes, 1), 1)
        count = 0
        with self._opened() as file:
            for batch in file.iter_batches(
                batch_size=min(rows, fewer), columns=wanted, use_threads=False
            ):
                count += batch.num_rows
                arrays = [batch.column(name) for name in wanted]
                yield self._tidy(arrays, places), min(count / total, 1.0)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[pyarrow.parquet.ParquetFile]:
        """Open the file; whatever a stranger's bytes lead to is one line."""
        try:
            with pyarrow.parquet.ParquetFile(
                self._path, buffer_size=BUFFER, pre_buffer=False
            ) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._broken(error) from error
        except OSError as error:
            if error.errno is None:  # pyarrow's word for bytes that make no sense
                raise self._broken(error) from error
            raise cannot_read(self._name, error) from error

    def _broken(self, error: BaseException) -> Exception:
        return input_error(
            f"{self._name}: this is no Parquet file, or a damaged one "
            f"({one_line(error, 120)}). Write or download it again."
        )

    def _tidy(self, arrays: list[pa.Array], places: Sequence[int]) -> pa.RecordBatch:
        cells = [tidy_typed(array, self.style) for array in arrays]
        return pa.RecordBatch.from_arrays(cells, [self.columns[p] for p in places])
