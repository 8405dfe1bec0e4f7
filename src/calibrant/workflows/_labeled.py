"""Rows of a table whose target is known, encoded for a model."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant._progress import Bar
from calibrant.tables import Findings, Source, TableEncoder, read_target
from calibrant.tables.wording import amount
from calibrant.workflows.table_model import TableModel

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MOST_ROWS",
    "Labeled",
    "labels",
    "look_columns",
    "read_labeled",
    "style_notes",
]

Array = npt.NDArray[np.float64]
_MISSING = "(missing)"
# Kinds whose first feature is the column itself, and what it is called then.
_LOOKS = {"number": "{}", "boolean": "{}", "date": "{} (days since the first)"}
#: So many rows tell the calibration error to a thousandth of what matters.
MOST_ROWS = 100_000


@dataclass(frozen=True)
class Labeled:
    """Encoded rows with their targets.

    Attributes
    ----------
    x, y
        Features ``(n, d)`` and targets ``(n,)``.
    rows
        Number of each row in its file, from 1, shape ``(n,)``.
    looks
        Columns to look for faults in, by name, each of shape ``(n,)``.
    groups
        Columns that were asked for, by name, each of shape ``(n,)``.
    total
        Rows of the file that have a target.
    notes
        What was unusual.
    """

    x: Array
    y: Array
    rows: npt.NDArray[np.int64]
    looks: dict[str, npt.NDArray[Any]]
    groups: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    total: int = 0
    notes: tuple[str, ...] = ()

    def part(self, chosen: npt.NDArray[np.bool_], *notes: str) -> "Labeled":
        """Some of the rows, with more notes."""
        return replace(
            self,
            x=self.x[chosen],
            y=self.y[chosen],
            rows=self.rows[chosen],
            looks={name: values[chosen] for name, values in self.looks.items()},
            groups={name: values[chosen] for name, values in self.groups.items()},
            notes=(*self.notes, *notes),
        )


def read_labeled(
    model: TableModel,
    source: Source,
    *,
    by: tuple[str, ...] = (),
    most: int = MOST_ROWS,
    seed: int = 0,
    progress: bool | None = None,
) -> Labeled:
    """Read the rows of a file that have a target; of very many a random choice.

    Parameters
    ----------
    model
        Whose features are wanted.
    source
        The file.
    by
        More columns to group the rows by.
    most
        Keep no more rows than that.
    seed
        Of the choice.
    progress
        Show a bar; None shows one on a terminal only.
    """
    _check_target(model, source)
    random = np.random.default_rng(seed)
    kept = _Kept(most)
    findings = Findings()
    wanted = tuple(dict.fromkeys((*model.encoder.needed, *by, model.target)))
    missing = 0
    with Bar("read", ("share",), total=1.0, shown=progress) as bar:
        for batch in source.batches(wanted):
            y = read_target(
                batch.data[model.target],
                target=model.target,
                name=source.name,
                style=model.encoder.style_for(source.style, model.target),
                first_row=batch.first_row,
            )
            x = model.encoder.encode(
                batch.data,
                name=source.name,
                first_row=batch.first_row,
                findings=findings,
                used=~np.isnan(y),
                style=source.style,
            )
            known = np.flatnonzero(~np.isnan(y))
            missing += len(y) - len(known)
            part = {"x": x, "y": y, "rows": batch.first_row + np.arange(len(y))}
            looks = look_columns(model.encoder, batch.data, x)
            part |= {f"look {name}": values for name, values in looks.items()}
            part |= {f"by {name}": _names(batch.data[name]) for name in by}
            kept.add({name: v[known] for name, v in part.items()}, random)
            bar.show(completed=batch.share)
    return _labeled(source, kept, findings, missing, most)


def style_notes(source: Source) -> list[str]:
    """Say how numbers were read, where that could be wrong by a factor of 1,000."""
    if source.style.decimal != ",":
        return []
    return [
        f"{source.name}: the comma is read as the decimal mark, so 1,234 is less than "
        "2. If it groups thousands, use --decimal . --thousands ,"
    ]


def look_columns(
    encoder: TableEncoder, data: "pa.RecordBatch | pa.Table", x: Array
) -> dict[str, npt.NDArray[Any]]:
    """Columns that a model uses, one array each: numbers, or texts of a category.

    Parameters
    ----------
    encoder
        That of the model.
    data, x
        The rows as they came, and encoded, shape ``(n, d)``.
    """
    places = {name: place for place, name in enumerate(encoder.feature_names)}
    looks = {}
    for column in encoder.columns:
        if not column.used:
            continue
        if column.kind == "category":
            looks[column.name] = _names(data[column.name])
        elif column.kind in _LOOKS:
            name = _LOOKS[column.kind].format(column.name)
            looks[name] = x[:, places[column.features[0]]]
    return looks


def labels(column: Any, source: Source) -> npt.NDArray[Any]:  # noqa: ANN401
    """Return a column of pyarrow to group rows by: numbers, or texts.

    Parameters
    ----------
    column
        The column.
    source
        Its table, which knows how numbers are written there.
    """
    return _numbers(_names(column), source)


def _numbers(names: npt.NDArray[Any], source: Source) -> npt.NDArray[Any]:
    """Turn names into numbers, if all of them are."""
    import pyarrow as pa

    cells = pa.array([None if each == _MISSING else each for each in names])
    try:
        numbers = read_target(cells, target="", name=source.name, style=source.style)
    except InputError:
        return names
    # Whole numbers beyond 2^53 may be different and yet the same float.
    alike = (
        len(np.unique(numbers)) < len(set(names))
        and np.nanmax(np.abs(numbers)) >= 2**53
    )
    return names if alike else numbers


def _names(column: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.fill_null(pc.cast(column, pa.string()), _MISSING)
    return np.asarray(texts.to_pylist(), dtype=object)


def _check_target(model: TableModel, source: Source) -> None:
    if model.target not in source.columns:
        raise InputError(
            f"{source.name} must have the target's column {model.target!r}, and it has "
            f"not. To predict rows without a target use `calibrant predict`."
        )


class _Kept:
    """A random choice of rows from a stream, all of them while they are few."""

    def __init__(self, most: int) -> None:
        self.most, self.total = most, 0
        self.parts: list[dict[str, npt.NDArray[Any]]] = []
        self.keys: list[Array] = []

    def add(
        self, part: dict[str, npt.NDArray[Any]], random: np.random.Generator
    ) -> None:
        count = len(part["y"])
        self.total += count
        self.parts.append(part)
        self.keys.append(random.random(count))
        if sum(map(len, self.keys)) > 2 * self.most:
            self._cut()

    def _cut(self) -> None:
        """Keep the rows with the smallest keys, in their order."""
        keys = np.concatenate(self.keys)
        joined = self._joined()
        if len(keys) > self.most:
            chosen = np.sort(np.argpartition(keys, self.most)[: self.most])
            keys = keys[chosen]
            joined = {name: values[chosen] for name, values in joined.items()}
        self.parts, self.keys = [joined], [keys]

    def _joined(self) -> dict[str, npt.NDArray[Any]]:
        names = self.parts[0]
        return {n: np.concatenate([part[n] for part in self.parts]) for n in names}

    def all(self) -> dict[str, npt.NDArray[Any]]:
        """Return the rows that were chosen."""
        self._cut()
        return self.parts[0]


def _labeled(
    source: Source, kept: _Kept, findings: Findings, missing: int, most: int
) -> Labeled:
    if not kept.total:
        raise InputError(
            f"{source.name} must have rows with a target to measure on, and it has "
            f"{'none' if not missing else amount(missing, 'row') + ' without one'}."
        )
    rows = kept.all()
    notes = [*style_notes(source), *findings.lines()]
    if missing:
        notes.append(f"{amount(missing, 'row')} without a target: left out.")
    if kept.total > most:
        notes.append(f"A random choice of {most:,} of {kept.total:,} rows is measured.")

    def named(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {
            name.removeprefix(prefix): values
            for name, values in rows.items()
            if name.startswith(prefix)
        }

    return Labeled(
        x=rows["x"],
        y=rows["y"],
        rows=rows["rows"],
        looks=named("look "),
        groups={name: _numbers(v, source) for name, v in named("by ").items()},
        total=kept.total,
        notes=tuple(notes),
    )
