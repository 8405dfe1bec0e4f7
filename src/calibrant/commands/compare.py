"""calibrant compare: any model's predictions, measured and recalibrated."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.commands import _console as cli
from calibrant.errors import InputError
from calibrant.text import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from calibrant.distributions.base import AbstractDistribution
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Source, Style, TableWriter

__all__ = ["TableComparison", "compare", "compare_table"]


@dataclass(frozen=True)
class TableComparison:
    """What :func:`compare_table` gives.

    Attributes
    ----------
    card, fixed
        How the predictions do as they are, and recalibrated, each row by a map that it
        had no part in (None if that was not asked for).
    notes
        What was unusual about the rows.
    page, path
        Report and recalibrated table, if they were written.
    """

    card: "Scorecard"
    fixed: "Scorecard | None"
    notes: tuple[str, ...]
    page: Path | None = None
    path: Path | None = None

    def words(self) -> str:
        """Say in plain words whether the intervals can be trusted."""
        from calibrant.commands.measuring import judgment
        from calibrant.metrics.verdict import coverage_sentence

        if self.fixed is None:
            return judgment(self.card, which="row")
        said = coverage_sentence(self.card, whose="Your")
        after = coverage_sentence(self.fixed, whose="Your")
        return f"As they are: {said} Recalibrated: {after}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers."""
        return cli.plain_dict(
            report=self.page,
            fixed=self.path,
            words=self.words(),
            notes=self.notes,
            scorecard=self.card,
            recalibrated=self.fixed,
        )


def compare_table(
    table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
    *,
    target: str,
    mean: str | None = None,
    std: str | None = None,
    quantiles: Mapping[Any, Any] | None = None,
    by: str | Sequence[str] = (),
    fix: str | os.PathLike[str] | None = None,
    recalibrator: str = "smooth",
    report: str | os.PathLike[str] | None = None,
    style: "Style | None" = None,
    seed: int = 0,
    command: str | None = None,
) -> TableComparison:
    """Measure the predictions of any model, and recalibrate them if asked to.

    Parameters
    ----------
    table
        A path of a CSV (also .gz) or Parquet file, a data frame, or columns by name.
    target
        Column with what came true. Rows without it are not measured, but recalibrated.
    mean, std
        Columns with means and standard deviations: normal distributions.
    quantiles
        Instead: columns and their levels, two or more, as ``{"q05": 0.05, ...}`` or
        the other way round.
    by
        Columns whose groups are looked at on their own.
    fix
        File to write: the table with recalibrated columns. Each row is corrected by a
        map that it had no part in: one of five folds, or all rows for those without a
        target.
    recalibrator
        A name from ``RECALIBRATORS``.
    report, style, seed, command
        As for :func:`evaluate_table`.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> table = {"y": random.normal(size=300), "m": [0.0] * 300, "s": [0.5] * 300}
    >>> done = compare_table(table, target="y", mean="m", std="s")
    >>> 0.5 < done.card["coverage_90"] < 0.7
    True
    """
    import numpy as np

    from calibrant.commands import measuring
    from calibrant.estimators.pool import fresh_recalibrator
    from calibrant.report.contents import OwnReport
    from calibrant.report.own_page import write_own_page
    from calibrant.tables import TableWriter, open_source, read_target, require_rows

    by = measuring.as_names(by, what="by")
    (target,) = measuring.as_names(target, what="target")
    source = open_source(table, style=style, expect=[target])
    source.check_columns(by)
    fresh_recalibrator(recalibrator)
    page = measuring.page_path(report, source.path)
    inputs = [] if source.path is None else [source.path]
    writer = None if fix is None else TableWriter(fix, inputs=inputs)
    data = source.read()
    require_rows(data, name=source.name)
    foreign = _read_predictions(source, data, mean, std, quantiles)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    rows, notes = measuring.measurable(source, y, seed)
    if foreign.crossed:
        notes.append(f"Crossing quantiles in {counted(foreign.crossed)}: sorted.")
    labeled = measuring.Labeled(
        x=np.empty((len(rows), 0)),
        y=y[rows],
        rows=1 + rows,
        looks={},
        groups={name: measuring.labels(data[name].take(rows), source) for name in by},
        notes=(*measuring.style_notes(source), *notes),
    )
    before = measuring.measure(foreign.predictive(rows), labeled, seed=seed)
    after = None
    if writer is not None:
        fixed = _recalibrated(foreign, y, recalibrator, seed, source.name)
        after = measuring.measure(fixed.predictive(rows), labeled, seed=seed)
        _write_fixed(writer, source, data, fixed)
    if page is not None:
        versions = measuring.versions().items()
        settings = {
            "Command": command,
            "Table": source.name,
            "SHA-256 of the table": measuring.checksum(source),
            "Versions": ", ".join(f"{name} {number}" for name, number in versions),
        }
        contents = OwnReport(
            kind="compare",
            card=(after or before).card,
            predictions=(after or before).predictions,
            source=source.name,
            target=target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings={name: text for name, text in settings.items() if text},
            before=None if after is None else before.card,
            notes=before.notes,
        )
        write_own_page(page, contents)
    return TableComparison(
        card=before.card,
        fixed=None if after is None else after.card,
        notes=before.notes,
        page=page,
        path=None if fix is None else Path(fix),
    )


# Predictions as the columns of a table hold them -----------------------------------


class _Predictions(NamedTuple):
    """Predictive distributions of the rows of a table, recalibrated if there are maps.

    Columns are mean and deviation, or quantiles in the order of their levels.
    """

    names: tuple[str, ...]
    values: "npt.NDArray[np.float64]"  # (n, columns)
    levels: tuple[float, ...] = ()  # of the quantiles
    crossed: int = 0  # rows whose quantiles had to be sorted
    maps: tuple[Any, ...] = ()  # recalibrators
    map_of_row: Any = None  # (n,)

    def predictive(self, rows: "npt.NDArray[np.int64]") -> "AbstractDistribution":
        """Distributions of some rows, batch shape ``(k,)``."""
        import numpy as np

        from calibrant.distributions.normal import Gaussian
        from calibrant.distributions.quantile_table import QuantileTable
        from calibrant.estimators.pool import cross_fitted

        values = self.values[rows]
        plain: AbstractDistribution
        if self.levels:
            plain = QuantileTable(self.levels, values)
        else:
            plain = Gaussian(values[:, 0], values[:, 1])
        if not self.maps:
            return plain
        used, place = np.unique(self.map_of_row[rows], return_inverse=True)
        return cross_fitted([self.maps[one].transform(plain) for one in used], place)


def _read_predictions(
    source: "Source",
    data: "pa.Table",
    mean: str | None,
    std: str | None,
    quantiles: Mapping[Any, Any] | None,
) -> _Predictions:
    """Read the columns that hold predictions, all of them numbers without gaps."""
    import numpy as np

    if quantiles and (mean or std):
        raise InputError(
            "predictions are means and deviations, or quantiles, got both. Leave one "
            "of them out."
        )
    if quantiles:
        columns = _by_level(quantiles)
        names = tuple(columns.values())
        values = _numbers(source, data, names)
        ordered = np.sort(values, axis=1)
        crossed = int((ordered != values).any(1).sum())
        return _Predictions(names, ordered, tuple(columns), crossed)
    if mean is None or std is None:
        raise InputError(
            "say where the predictions are: mean= and std=, or quantiles= for two or "
            "more columns."
        )
    values = _numbers(source, data, (mean, std))
    _refuse(source, std, values[:, 1] <= 0, values[:, 1], "must be above 0")
    return _Predictions((mean, std), values)


def _by_level(quantiles: Mapping[Any, Any]) -> dict[float, str]:
    """Columns by their levels, ascending, whichever of both came first."""
    pairs = []
    for first, second in quantiles.items():
        column, level = (first, second) if isinstance(first, str) else (second, first)
        if not isinstance(column, str) or not isinstance(level, Real):
            raise InputError(
                f"quantiles are columns and their levels, got {first!r}: {second!r}."
            )
        pairs.append((float(level), column))
    found = dict(sorted(pairs))
    levels = list(found)
    if len(found) < max(2, len(pairs)):
        raise InputError(f"quantiles need two or more different levels, got {levels}.")
    if not 0 < levels[0] <= levels[-1] < 1:
        raise InputError(
            f"levels of quantiles must lie strictly between 0 and 1, got {levels}. "
            "Write 0.05 for 5 %."
        )
    return found


def _numbers(
    source: "Source", data: "pa.Table", names: Sequence[str]
) -> "npt.NDArray[np.float64]":
    import numpy as np

    from calibrant.tables import read_target

    source.check_columns(names)
    found = []
    for name in names:
        values = read_target(
            data[name],
            target=name,
            name=source.name,
            style=source.style,
            what="prediction",
        )
        _refuse(source, name, np.isnan(values), values, "must not be missing")
        found.append(values)
    return np.stack(found, axis=1)


def _refuse(
    source: "Source",
    name: str,
    bad: "npt.NDArray[np.bool_]",
    values: "npt.NDArray[np.float64]",
    rule: str,
) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{source.name}, row {row + 1}, column {name!r}: a prediction {rule}, got "
            f"{values[row]:g} ({counted(int(bad.sum()), 'such row')}). Fix it."
        )


def _recalibrated(
    foreign: _Predictions,
    y: "npt.NDArray[np.float64]",
    recalibrator: str,
    seed: int,
    name: str,
) -> _Predictions:
    """Correct each row by a map that it had no part in."""
    import numpy as np
    import torch

    from calibrant.commands.measuring import cross_fit_folds
    from calibrant.estimators.pool import fit_recorded, fresh_recalibrator
    from calibrant.metrics.pit import detect_grid

    known = np.flatnonzero(~np.isnan(y))
    folds = cross_fit_folds(foreign.values[known], seed, what=name)
    count, grid = int(folds.max()) + 1, detect_grid(y[known])
    # Rows without a target go by the last map, which all others have taught.
    map_of_row = np.full(len(y), count)
    map_of_row[known] = folds
    maps = tuple(
        fit_recorded(
            fresh_recalibrator(recalibrator),
            foreign.predictive(rows),
            torch.from_numpy(y[rows]),
            grid,
            torch.Generator().manual_seed(seed),
        )
        for rows in (*(known[folds != fold] for fold in range(count)), known)
    )
    return foreign._replace(maps=maps, map_of_row=map_of_row)


def _write_fixed(
    writer: "TableWriter", source: "Source", data: "pa.Table", fixed: _Predictions
) -> None:
    """Write the table with recalibrated columns behind its own."""
    import numpy as np
    import pyarrow as pa

    from calibrant.commands.predict import CHUNK, OutputOptions

    names, levels = fixed.names, fixed.levels
    own = dict(zip(("mean", "std"), names, strict=False))
    with writer as file:
        for start in range(0, data.num_rows, CHUNK):
            part = data.slice(start, CHUNK)
            predictive = fixed.predictive(np.arange(start, start + part.num_rows))
            if levels:
                made = dict(zip(names, predictive.quantiles(levels).T, strict=True))
            else:
                made = OutputOptions((0.5, 0.9), (), ()).numbers(predictive)
            for old, values in made.items():
                name = f"{own.get(old, old)}_recalibrated"
                if name in data.column_names:
                    raise InputError(
                        f"{source.name} must not have columns called as those that are "
                        f"made: {name}. Rename it."
                    )
                part = part.append_column(name, pa.array(np.asarray(values)))
            file.write(part.combine_chunks().to_batches()[0])


def _levels(texts: Sequence[str] | None) -> dict[str, float]:
    """Read LEVEL=COLUMN, or COLUMN=LEVEL, which is as clear."""
    found = {}
    for text in texts or ():
        first, sign, second = text.partition("=")
        for level, column in ((first, second), (second, first)):
            with suppress(ValueError):
                found[column] = float(level)
                break
        else:
            sign = ""
        if not sign:
            raise InputError(
                f"--quantile takes LEVEL=COLUMN, as 0.05=q05; got {text!r}."
            )
    return found


@cli.command(
    "Nothing was written.",
    table=cli.TABLE,
    target=cli.columns(
        str, "Column with what came true.", default=cli.REQUIRED, show_default=False
    ),
    mean=cli.columns(str, "Column of the means."),
    std=cli.columns(str, "Column of the standard deviations."),
    quantiles=cli.option(
        list[str],
        "Instead, for each column of quantiles: LEVEL=COLUMN, as 0.05=q05.",
        "--quantile",
        read=_levels,
    ),
    by=cli.BY,
    fix=cli.option(
        Path,
        "Write the table with recalibrated columns here. Rows without a target are "
        "corrected too.",
    ),
    recalibrator=cli.RECALIBRATOR._replace(default="smooth"),
    report=cli.page_option("comparison.html"),
    seed=cli.SEED,
    **cli.STYLE,
)
def compare(console: cli.Console, **given: Any) -> None:  # noqa: ANN401
    """Measure the predictions of any model, and recalibrate them with --fix.

    Example: calibrant compare predictions.csv --target y --mean mu --std sigma
    """
    given["by"] = cli.column_names(given["by"], given["table"], given["style"])
    done = compare_table(**given, command=cli.command_line())
    console.json(done.to_dict())
    console.notes(done.notes)
    if done.fixed is None:
        console.cards(done.card, by=given["by"])
    else:
        titles = ("as they are", "recalibrated")
        console.cards(done.card, done.fixed, titles=titles, by=given["by"])
    console.say(done.words())
    if done.path is not None:
        console.say(f"Recalibrated: {done.path}")
    if done.page is not None:
        console.say(f"Report: {done.page}")
