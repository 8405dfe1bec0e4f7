"""Rows with known targets: read, encoded and measured; what commands have in common."""

import os
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant._version import __version__
from calibrant.commands.table_model import TableModel
from calibrant.distributions.base import AbstractDistribution
from calibrant.errors import InputError
from calibrant.estimators.folds import Blocks, linked_rows
from calibrant.files import sha256_of
from calibrant.metrics.scorecard import Scorecard, evaluate
from calibrant.metrics.verdict import coverage_sentence, verdict_words
from calibrant.report.contents import Predictions
from calibrant.tables import Findings, Source, TableEncoder, read_target, require_rows
from calibrant.text import counted

__all__ = [
    "Labeled",
    "Measured",
    "as_model",
    "as_names",
    "as_numbers",
    "checksum",
    "cross_fit_folds",
    "judgment",
    "labels",
    "measurable",
    "measure",
    "page_path",
    "read_labeled",
    "seen_notes",
    "style_notes",
    "summary",
    "versions",
]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
_MISSING = "(missing)"
# Kinds whose first feature is the column itself, and what it is called then.
_LOOKS = {"number": "{}", "boolean": "{}", "date": "{} (days since the first)"}
#: So many rows tell the calibration error to a thousandth of what matters.
MOST_ROWS = 100_000
#: With so many columns, a search for faults in all of them takes longer than the rest.
_MOST_LOOKS = 60
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_FOLDS = 5
#: So that four of five folds have the rows that a map needs.
_FEWEST = 25


# What callers pass, in the forms that they like to write ---------------------------


def as_model(model: TableModel | str | os.PathLike[str]) -> TableModel:
    """Load a model, if it is not one already."""
    return model if isinstance(model, TableModel) else TableModel.load(model)


def _as_tuple(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    one = isinstance(value, str) or not isinstance(value, Iterable)
    return (value,) if one else tuple(value)


def as_names(value: Any, *, what: str) -> tuple[str, ...]:  # noqa: ANN401
    """Return names of columns; one name alone is fine."""
    names = _as_tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"{what} must be the name of a column, as text, got {name!r:.60}."
            )
    return tuple(dict.fromkeys(names))


def as_numbers(value: Any, *, what: str) -> tuple[float, ...]:  # noqa: ANN401
    """Return numbers; one alone is fine."""
    for number in _as_tuple(value):
        if not isinstance(number, Real):
            raise InputError(f"{what} must be numbers, got {number!r:.60}.")
    return tuple(map(float, _as_tuple(value)))


def page_path(
    path: str | os.PathLike[str] | None, source: Path | None = None
) -> Path | None:
    """Check the path of a page before long work: it must replace nothing but a page."""
    if path is None:
        return None
    page = Path(path)
    fault = None
    if page.suffix.lower() not in (".html", ".htm"):
        fault = "the name of a report must end in .html. Choose another name."
    elif page.is_dir():
        fault = "this is a folder. Name a file that ends in .html."
    elif not page.parent.is_dir():
        fault = f"there is no folder {page.parent}. Make it first, or choose another."
    elif source is not None and page.resolve() == source.resolve():
        fault = "a report must not replace what it is about. Choose another name."
    if fault:
        raise InputError(f"{page}: {fault}")
    return page


# Rows with known targets -----------------------------------------------------------


@dataclass(frozen=True)
class Labeled:
    """Encoded rows with their targets."""

    x: Array  # features, (n, d)
    y: Array
    rows: Rows  # number of each row in its file, from 1
    looks: dict[str, npt.NDArray[Any]]  # columns to look for faults in
    groups: dict[str, npt.NDArray[Any]] = field(default_factory=dict)  # and asked for
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        data: pa.Table,
        rows: Rows,
        x: Array,
        y: Array,
        *,
        encoder: TableEncoder,
        notes: Sequence[str] = (),
    ) -> "Labeled":
        """Take some rows of a table that is encoded as ``(n, d)``."""
        places = {name: place for place, name in enumerate(encoder.feature_names)}
        looks = {}
        for column in encoder.columns:
            if column.used and column.kind == "category":
                looks[column.name] = _names(data[column.name].take(rows))
            elif column.used and column.kind in _LOOKS:
                name = _LOOKS[column.kind].format(column.name)
                looks[name] = x[rows, places[column.features[0]]]
        return cls(x[rows], y[rows], 1 + rows, looks, notes=tuple(notes))

    def part(self, chosen: npt.NDArray[np.bool_], note: str) -> "Labeled":
        """Some of the rows, with one more note."""
        looks = {name: values[chosen] for name, values in self.looks.items()}
        return replace(
            self,
            x=self.x[chosen],
            y=self.y[chosen],
            rows=self.rows[chosen],
            looks=looks,
            notes=(*self.notes, note),
        )


def measurable(source: Source, y: Array, seed: int) -> tuple[Rows, list[str]]:
    """Return the rows with a target, of very many a random choice, and notes."""
    known = np.flatnonzero(~np.isnan(y))
    if not len(known):
        raise InputError(
            f"{source.name} must have rows with a target to measure on, and none of "
            f"its {counted(len(y))} has one."
        )
    notes = []
    if len(known) < len(y):
        lost = counted(len(y) - len(known))
        notes.append(f"{lost} without a target: not measured.")
    if len(known) <= MOST_ROWS:
        return known, notes
    notes.append(
        f"A random choice of {MOST_ROWS:,} of {len(known):,} rows is measured."
    )
    random = np.random.default_rng(seed)
    return np.sort(random.choice(known, MOST_ROWS, replace=False)), notes


def read_labeled(
    model: TableModel, source: Source, *, by: Sequence[str] = (), seed: int = 0
) -> Labeled:
    """Read the rows of a table that have a target; of very many a random choice.

    ``by`` are columns to group the rows by.
    """
    if model.target not in source.columns:
        raise InputError(
            f"{source.name} must have the target's column {model.target!r}, and it has "
            f"not. To predict rows without a target use `calibrant predict`."
        )
    encoder, findings = model.encoder, Findings()
    data = source.read(tuple(dict.fromkeys((*encoder.needed, *by, model.target))))
    require_rows(data, name=source.name)
    y = read_target(
        data[model.target],
        target=model.target,
        name=source.name,
        style=encoder.style_for(source.style, model.target),
    )
    rows, notes = measurable(source, y, seed)
    x = encoder.encode(
        data, name=source.name, findings=findings, used=~np.isnan(y), style=source.style
    )
    notes = [*style_notes(source), *findings.lines(), *notes]
    labeled = Labeled.of(data, rows, x, y, encoder=encoder, notes=notes)
    groups = {name: labels(data[name].take(rows), source) for name in by}
    return replace(labeled, groups=groups)


def style_notes(source: Source) -> list[str]:
    """Say how numbers were read, where that could be wrong by a factor of 1,000."""
    if source.style.decimal != ",":
        return []
    return [
        f"{source.name}: the comma is read as the decimal mark, so 1,234 is less than "
        "2. If it groups thousands, use --decimal . --thousands ,"
    ]


def labels(column: Any, source: Source) -> npt.NDArray[Any]:  # noqa: ANN401
    """Return a column of pyarrow to group rows by: numbers if all are, or texts."""
    names = _names(column)
    cells = pa.array([None if name == _MISSING else name for name in names])
    try:
        numbers = read_target(cells, target="", name=source.name, style=source.style)
    except InputError:
        return names
    # Whole numbers beyond 2^53 may be different and yet the same float.
    return names if (abs(numbers) >= 2**53).any() else numbers


def _names(column: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    texts = pc.fill_null(pc.cast(column, pa.string()), _MISSING)
    return np.asarray(texts.to_pylist(), dtype=object)


def cross_fit_folds(x: Array, seed: int, *, what: str) -> Rows:
    """Cut rows ``(n, d)`` into folds for maps that they have no part in.

    Rows with equal numbers may be copies of one row, and share a fold.
    """
    if len(x) < _FEWEST:
        raise InputError(
            f"{what}: at least {_FEWEST} rows with a target are needed to recalibrate, "
            f"got {len(x)}. A few hundred are good."
        )
    return Blocks(linked_rows(x, None)).folds(_FOLDS, np.random.default_rng(seed))


# Measuring -------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """How predictions did on rows: the scorecard, the rows one by one, and notes."""

    card: Scorecard
    predictions: Predictions
    notes: tuple[str, ...]


def measure(
    predictive: AbstractDistribution, labeled: Labeled, *, seed: int = 0
) -> Measured:
    """Measure predictive distributions, batch shape ``(n,)``, on their rows."""
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
    quantiles = np.moveaxis(predictive.quantiles(_LEVELS).numpy(), -1, 0)
    names = ("low_90", "low_50", "center", "high_50", "high_90")
    ends = dict(zip(names, quantiles, strict=True))
    predictions = Predictions(row=labeled.rows, y=labeled.y, **ends)
    if card.grid is not None:
        inside = (ends["low_90"] <= labeled.y) & (labeled.y <= ends["high_90"])
        notes += (
            f"{100 * inside.mean():.1f} % of the targets lie within their 90 % "
            "interval as it stands, ends included. Rounded or capped targets lie on "
            "its ends more often than others, so calibration counts each of them by "
            "the share of its own step that is inside.",
        )
    return Measured(card, predictions, notes)


def judgment(card: Scorecard, *, which: str = "unseen row") -> str:
    """Say in plain words whether the intervals can be trusted, as the report does."""
    sentence = coverage_sentence(card, whose="Your", which=which)
    return f"{sentence} {verdict_words(card)}"


def summary(card: Scorecard, which: str = "unseen rows") -> dict[str, Any]:
    """Return the numbers of a scorecard that a model's folder keeps."""
    names = ("coverage_50", "coverage_90", "calibration_error", "rmse", "nll", "crps")
    parts = ("value", "floor", "low", "high", "p_value")
    measures = {
        name: {part: getattr(card.measure(name), part) for part in parts}
        for name in names
        if np.isfinite(card[name])
    }
    return {"rows": card.n, "which": which, "measures": measures}


def versions() -> dict[str, str]:
    """Versions that numbers may depend on."""
    found = {"calibrant": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "lightgbm", "pyarrow"):
        with suppress(PackageNotFoundError):  # networks do without LightGBM
            found[name] = version(name)
    return found


def checksum(source: Source) -> str | None:
    """SHA-256 of a file; None for what is not a file."""
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
