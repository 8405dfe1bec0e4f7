"""A small table of houses, as it should be and with what goes wrong in tables."""

import gzip
import io
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import parquet

__all__ = ["HEADER", "forecasts", "houses", "packed", "parquet_bytes", "rows_of_houses"]

HEADER = ("id", "size", "rooms", "zone", "day", "price")
ROWS = 120


def rows_of_houses(count: int = ROWS) -> list[list[str]]:
    """Cells of so many rows, always the same."""
    random = np.random.default_rng(0)
    rows = []
    for place in range(count):
        size, rooms = random.uniform(40, 160), int(random.integers(1, 6))
        price = 2 * size + 10 * rooms + 10 * random.normal()
        zone = ("north", "south", "east")[place % 3]
        day = f"2024-{1 + place % 12:02d}-{1 + place % 28:02d}"
        rows.append([f"h{place}", f"{size:.1f}", str(rooms), zone, day, f"{price:.2f}"])
    return rows


def houses(
    changes: Mapping[tuple[int | None, str], str] | None = None,
    *,
    rows: int = ROWS,
    columns: Sequence[str] = HEADER,
    names: Mapping[str, str] | None = None,
    delimiter: str = ",",
    end: str = "\n",
) -> str:
    """Text of a CSV file of houses.

    ``changes`` are cells to write instead, by row (from 1, or None for all rows) and
    column; a new column is put behind the others. ``names`` are for the header.
    """
    changes = changes or {}
    new = [name for _, name in changes if name not in columns]
    header = list(dict.fromkeys((*columns, *new)))
    lines = [delimiter.join((names or {}).get(name, name) for name in header)]
    for number, cells in enumerate(rows_of_houses(rows), start=1):
        own = dict(zip(HEADER, cells, strict=True))
        for (row, name), cell in changes.items():
            if row in (None, number):
                own[name] = cell
        lines.append(delimiter.join(own.get(name, "") for name in header))
    return end.join(lines) + end


def forecasts(changes: Mapping[tuple[int | None, str], str] | None = None) -> str:
    """Text of a CSV file with somebody's predictions: y, mu, sigma, low, high."""
    random = np.random.default_rng(1)
    lines = ["y,mu,sigma,low,high"]
    for number in range(1, 61):
        mean = random.normal()
        own = {
            "y": f"{mean + random.normal():.3f}",
            "mu": f"{mean:.3f}",
            "sigma": "1.0",
            "low": f"{mean - 1.645:.3f}",
            "high": f"{mean + 1.645:.3f}",
        }
        for (row, name), cell in (changes or {}).items():
            if row in (None, number):
                own[name] = cell
        lines.append(",".join(own.values()))
    return "\n".join(lines) + "\n"


def packed(text: str) -> bytes:
    """Return the text as a gzip file."""
    return gzip.compress(text.encode(), mtime=0)


def parquet_bytes(columns: Mapping[str, Sequence[object]]) -> bytes:
    """Return columns as a Parquet file."""
    stream = io.BytesIO()
    parquet.write_table(pa.table(dict(columns)), stream)
    return stream.getvalue()
