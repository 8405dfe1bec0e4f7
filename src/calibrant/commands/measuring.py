"""Rows with known targets: read, encoded, measured, and described for a report."""

import os
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant._progress import Bar
from calibrant._version import __version__
from calibrant.commands.table_model import TableModel, settings_of
from calibrant.distributions.base import AbstractDistribution
from calibrant.errors import InputError
from calibrant.files import sha256_of
from calibrant.metrics.scorecard import Scorecard, evaluate
from calibrant.metrics.verdict import coverage_sentence, verdict_words
from calibrant.report.contents import OwnReport, Predictions
from calibrant.tables import Findings, Source, TableEncoder, read_target
from calibrant.tables.wording import amount

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MOST_ROWS",
    "Labeled",
    "Measured",
    "as_model",
    "as_name",
    "as_names",
    "as_numbers",
    "checksum",
    "judgment",
    "labels",
    "look_columns",
    "measure",
    "own_report",
    "page_path",
    "read_labeled",
    "seen_notes",
    "settings_lines",
    "style_notes",
    "summary",
    "versions",
]

Array = npt.NDArray[np.float64]
_MISSING = "(missing)"
# Kinds whose first feature is the column itself, and what it is called then.
_LOOKS = {"number": "{}", "boolean": "{}", "date": "{} (days since the first)"}
#: So many rows tell the calibration error to a thousandth of what matters.
MOST_ROWS = 100_000
#: With so many columns, a search for faults in all of them takes longer than the rest.
_MOST_LOOKS = 60
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


# What callers pass, in the forms that they like to write ---------------------------


def as_model(model: TableModel | str | os.PathLike[str]) -> TableModel:
    """Load a model, if it is not one already."""
    return model if isinstance(model, TableModel) else TableModel.load(model)


def as_name(value: object, *, what: str) -> str:
    """Return the name of a column; anything else is refused."""
    if not isinstance(value, str):
        raise InputError(
            f"{what} must be the name of a column, as text, got {value!r:.60}."
        )
    return value


def as_names(value: str | Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return names of columns; one name alone is fine."""
    names = (value,) if isinstance(value, str) else tuple(value)
    return tuple(dict.fromkeys(as_name(name, what=what) for name in names))


def as_numbers(value: float | Iterable[float], *, what: str) -> tuple[float, ...]:
    """Return numbers; one alone is fine."""
    values = (value,) if isinstance(value, Real) else tuple(value)  # type: ignore[arg-type]
    for number in values:
        if not isinstance(number, Real):
            raise InputError(f"{what} must be numbers, got {number!r:.60}.")
    return tuple(float(number) for number in values)


def page_path(
    path: str | os.PathLike[str] | None, inputs: Sequence[Path | None] = ()
) -> Path | None:
    """Check the path of a page before long work; None stays None.

    Parameters
    ----------
    path
        Must end in .html, so that no table and no part of a model is overwritten.
    inputs
        Files that it must not be.
    """
    if path is None:
        return None
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"{page}: the name of a report must end in .html. Choose another name."
        )
    if page.is_dir():
        raise InputError(f"{page}: this is a folder. Name a file that ends in .html.")
    if not page.parent.is_dir():
        raise InputError(f"{page}: there is no folder {page.parent}. Make it first.")
    for file in inputs:
        if file is not None and page.exists() and file.exists() and page.samefile(file):
            raise InputError(f"{page}: a report must not replace what it is about.")
    return page


# Reading ---------------------------------------------------------------------------


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
    notes
        What was unusual.
    """

    x: Array
    y: Array
    rows: npt.NDArray[np.int64]
    looks: dict[str, npt.NDArray[Any]]
    groups: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
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
    if model.target not in source.columns:
        raise InputError(
            f"{source.name} must have the target's column {model.target!r}, and it has "
            f"not. To predict rows without a target use `calibrant predict`."
        )
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
    if not kept.total:
        raise InputError(
            f"{source.name} must have rows with a target to measure on, and it has "
            f"{'none' if not missing else amount(missing, 'row') + ' without one'}."
        )
    notes = [*style_notes(source), *findings.lines()]
    if missing:
        notes.append(f"{amount(missing, 'row')} without a target: left out.")
    if kept.total > most:
        notes.append(f"A random choice of {most:,} of {kept.total:,} rows is measured.")
    rows = kept.all()
    groups = {name: _numbers(rows[f"by {name}"], source) for name in by}
    looks = {
        name.removeprefix("look "): values
        for name, values in rows.items()
        if name.startswith("look ")
    }
    return Labeled(rows["x"], rows["y"], rows["rows"], looks, groups, tuple(notes))


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
            self.all()

    def all(self) -> dict[str, npt.NDArray[Any]]:
        """Return the rows with the smallest keys, in order, and keep only them."""
        keys = np.concatenate(self.keys)
        joined = {
            name: np.concatenate([part[name] for part in self.parts])
            for name in self.parts[0]
        }
        if len(keys) > self.most:
            chosen = np.sort(np.argpartition(keys, self.most)[: self.most])
            keys = keys[chosen]
            joined = {name: values[chosen] for name, values in joined.items()}
        self.parts, self.keys = [joined], [keys]
        return joined


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
    """Return a column of pyarrow to group rows by: numbers if all are, or texts.

    Parameters
    ----------
    column
        The column.
    source
        Its table, which knows how numbers are written there.
    """
    return _numbers(_names(column), source)


def _numbers(names: npt.NDArray[Any], source: Source) -> npt.NDArray[Any]:
    import pyarrow as pa

    cells = pa.array([None if name == _MISSING else name for name in names])
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


# Measuring -------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """How predictions did on rows with known targets.

    Attributes
    ----------
    card
        Each metric next to its expected value under perfect calibration.
    predictions
        Medians and intervals of the rows.
    notes
        What was unusual about the rows.
    """

    card: Scorecard
    predictions: Predictions
    notes: tuple[str, ...]


def measure(
    predictive: AbstractDistribution, labeled: Labeled, *, seed: int = 0
) -> Measured:
    """Measure predictive distributions, batch shape ``(n,)``, on their rows.

    Parameters
    ----------
    predictive
        Predictions for the rows.
    labeled
        The rows.
    seed
        Of what is randomized in the measurement.
    """
    # What was asked for stands for itself.
    looks = {n: v for n, v in labeled.looks.items() if n not in labeled.groups}
    count, notes = len(looks), labeled.notes
    if count > _MOST_LOOKS:
        looks = dict(list(looks.items())[:_MOST_LOOKS])
        notes += (
            f"Faults were looked for within the first {_MOST_LOOKS} of {count} "
            "columns.",
        )
    card = evaluate(
        predictive, labeled.y, features=looks, groups=labeled.groups, seed=seed
    )
    quantiles = predictive.quantiles(_LEVELS).numpy()
    low_90, low_50, center, high_50, high_90 = np.moveaxis(quantiles, -1, 0)
    predictions = Predictions(
        row=labeled.rows,
        y=labeled.y,
        center=center,
        low_50=low_50,
        high_50=high_50,
        low_90=low_90,
        high_90=high_90,
    )
    if card.grid is not None:
        inside = (low_90 <= labeled.y) & (labeled.y <= high_90)
        notes += (
            f"{100 * inside.mean():.1f} % of the targets lie within their 90 % "
            "interval as it stands, ends included. Rounded or capped targets lie on "
            "its ends more often than others, so calibration counts each of them by "
            "the share of its own step that is inside.",
        )
    return Measured(card, predictions, notes)


def judgment(card: Scorecard, *, which: str = "unseen row") -> str:
    """Say in plain words whether the intervals can be trusted, as the report does.

    Examples
    --------
    >>> import torch
    >>> noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    >>> card = evaluate((torch.zeros(400), torch.ones(400)), noise)
    >>> print(judgment(card))
    Your 90 % intervals covered 92.5 % of 400 unseen rows; a perfectly calibrated \
model would cover 87.0 to 92.8 %. No sign of a fault: the intervals can be trusted as \
they are.
    """
    sentence = coverage_sentence(card, whose="Your", which=which)
    return f"{sentence} {verdict_words(card)}"


# What a report and a model's folder say --------------------------------------------


def own_report(
    kind: Literal["fit", "evaluate", "recalibrate", "compare"],
    measured: Measured,
    **fields: Any,  # noqa: ANN401  (other fields of the contents)
) -> OwnReport:
    """Gather what the page shows: see :class:`OwnReport`."""
    return OwnReport(
        kind=kind, card=measured.card, predictions=measured.predictions, **fields
    )


def settings_lines(model: TableModel, command: str | None = None) -> dict[str, str]:
    """Say what makes a model again, and the command that measured it."""
    lines = settings_of(model.about, model.regressor.strength_, model.trend)
    return lines if command is None else lines | {"Command": command}


def summary(card: Scorecard, which: str = "unseen rows") -> dict[str, Any]:
    """Return the numbers of a scorecard that a model's folder keeps."""
    names = ("coverage_50", "coverage_90", "calibration_error", "rmse", "nll", "crps")
    return {
        "rows": card.n,
        "which": which,
        "measures": {
            name: {
                part: getattr(card.measure(name), part)
                for part in ("value", "floor", "low", "high", "p_value")
            }
            for name in names
            if np.isfinite(card[name])
        },
    }


def versions() -> dict[str, str]:
    """Versions that numbers may depend on."""
    found = {"calibrant": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "lightgbm", "pyarrow"):
        with suppress(PackageNotFoundError):  # networks do without LightGBM
            found[name] = version(name)
    return found


def checksum(source: Source) -> str | None:
    """SHA-256 of a file; None for what is no file."""
    return None if source.path is None else sha256_of(Path(source.path))


def seen_notes(model: TableModel, source: Source) -> list[str]:
    """Say so if a table is the very one that the model was trained on."""
    known = model.about.get("sha256")
    if known is None or checksum(source) != known:
        return []
    return [
        f"{source.name} is the table that the model was trained on: most of its rows "
        "are not new to it, and what is measured on them flatters it."
    ]
