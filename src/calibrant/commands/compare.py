"""calibrant compare: any model's predictions, measured and recalibrated."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.commands._console import (
    Console,
    command_line,
    group_table,
    one_line_errors,
    short_card,
)
from calibrant.commands._options import (
    ByOption,
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MissingOption,
    QuietOption,
    RecalibratorOption,
    SeedOption,
    Table,
    ThousandsOption,
    VerboseOption,
    column_names,
    complete_columns,
    style_of,
)
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.metrics.scorecard import Scorecard
    from calibrant.tables import Style

__all__ = ["TableComparison", "compare", "compare_table"]


@dataclass(frozen=True)
class TableComparison:
    """What :func:`compare_table` gives.

    Attributes
    ----------
    card
        How the predictions do as they are.
    fixed
        How they do after recalibration, each row by a map that it had no part in; None
        if that was not asked for.
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
        return {
            "report": None if self.page is None else str(self.page),
            "fixed": None if self.path is None else str(self.path),
            "words": self.words(),
            "notes": list(self.notes),
            "scorecard": self.card.to_dict(),
            "recalibrated": None if self.fixed is None else self.fixed.to_dict(),
        }


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
    report
        Page to write; None for none.
    style
        How a text file is written; None finds out.
    seed
        Of folds and of what is randomized in the measurement.
    command
        What the report says that makes it again.

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
    from calibrant.commands.foreign import (
        Maps,
        measurable,
        read_predictions,
        write_fixed,
    )
    from calibrant.estimators.pool import fresh_recalibrator
    from calibrant.report.own_page import write_own_page
    from calibrant.tables import TableWriter, open_source, read_target, require_rows

    by = measuring.as_names(by, what="by")
    name = measuring.as_name(target, what="target")
    source = open_source(table, style=style, expect=[name])
    source.check_columns(by)
    fresh_recalibrator(recalibrator)
    page = measuring.page_path(report, [source.path])
    inputs = [] if source.path is None else [source.path]
    writer = None if fix is None else TableWriter(fix, inputs=inputs)
    data = source.read()
    require_rows(data, name=source.name)
    foreign = read_predictions(source, data, mean=mean, std=std, quantiles=quantiles)
    y = read_target(data[target], target=target, name=source.name, style=source.style)
    rows, notes = measurable(source, y, foreign, seed)
    labeled = measuring.Labeled(
        x=np.empty((len(rows), 0)),
        y=y[rows],
        rows=1 + rows,
        looks={},
        groups={name: measuring.labels(data[name].take(rows), source) for name in by},
        notes=notes,
    )
    measured = measuring.measure(foreign.predictive(rows), labeled, seed=seed)
    after = None
    if writer is not None:
        maps = Maps(foreign, y, recalibrator, seed)
        after = measuring.measure(maps.predictive(rows), labeled, seed=seed)
        write_fixed(writer, source, data, foreign, maps)
    if page is not None:
        versions = measuring.versions().items()
        settings = {
            "Command": command,
            "Table": source.name,
            "SHA-256 of the table": measuring.checksum(source),
            "Versions": ", ".join(f"{name} {number}" for name, number in versions),
        }
        contents = measuring.own_report(
            "compare",
            after or measured,
            source=source.name,
            target=target,
            unseen="Whether the model has seen them in its training, only you know.",
            settings={n: text for n, text in settings.items() if text is not None},
            before=None if after is None else measured.card,
            notes=measured.notes,
        )
        write_own_page(page, contents)
    return TableComparison(
        card=measured.card,
        fixed=None if after is None else after.card,
        notes=measured.notes,
        page=page,
        path=None if fix is None else Path(fix),
    )


@one_line_errors("Nothing was written.")
def compare(
    table: Table,
    target: Annotated[
        str,
        typer.Option(
            help="Column with what came true.",
            autocompletion=complete_columns,
            show_default=False,
        ),
    ],
    mean: Annotated[
        str | None,
        typer.Option(help="Column of the means.", autocompletion=complete_columns),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(
            help="Column of the standard deviations.", autocompletion=complete_columns
        ),
    ] = None,
    quantile: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead, for each column of quantiles: LEVEL=COLUMN, as 0.05=q05."
        ),
    ] = None,
    by: ByOption = None,
    fix: Annotated[
        Path | None,
        typer.Option(
            help="Write the table with recalibrated columns here. Rows without a "
            "target are corrected too."
        ),
    ] = None,
    recalibrator: RecalibratorOption = "smooth",
    report: Annotated[
        Path, typer.Option(help="Page to write; none for no page.")
    ] = Path("comparison.html"),
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    missing: MissingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure the predictions of any model, and recalibrate them with --fix.

    Example: calibrant compare predictions.csv --target y --mean mu --std sigma
    """
    console = Console(json, quiet, verbose)
    style = style_of(delimiter, decimal, thousands, missing)
    columns = column_names(by, table, style)
    done = compare_table(
        table,
        target=target,
        mean=mean,
        std=std,
        quantiles=_levels(quantile),
        by=columns,
        fix=fix,
        recalibrator=recalibrator or "smooth",
        report=None if str(report) == "none" else report,
        style=style,
        seed=seed,
        command=command_line(),
    )
    console.json(done.to_dict())
    console.notes(done.notes)
    if done.fixed is not None and not console.silent and not console.verbose:
        titles = ("as they are", "recalibrated")
        console.show(short_card(done.card, done.fixed, titles=titles))
        for name in columns:
            console.show(group_table(name, done.card.groups[name]))
    else:
        console.card(done.card, columns)
    console.say(done.words())
    if done.path is not None:
        console.say(f"Recalibrated: {done.path}")
    if done.page is not None:
        console.say(f"Report: {done.page}")


def _levels(texts: Sequence[str] | None) -> dict[str, float]:
    """Read LEVEL=COLUMN, or COLUMN=LEVEL, which is as clear."""
    found = {}
    for text in texts or ():
        first, sign, second = text.partition("=")
        for level, column in ((first, second), (second, first)):
            try:
                found[column] = float(level)
            except ValueError:
                continue
            break
        else:
            sign = ""
        if not sign:
            raise InputError(
                f"--quantile takes LEVEL=COLUMN, as 0.05=q05; got {text!r}."
            )
    return found
