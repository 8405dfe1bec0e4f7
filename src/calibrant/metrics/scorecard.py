"""All metrics at once, each calibration number beside its noise floor."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.metrics.comparison import Comparison, compare_rows
from calibrant.metrics.conditional import GroupCalibration, WorstGroup
from calibrant.metrics.distribution_calibration import DistributionCalibration
from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.verdict import coverage_sentence, verdict_words

if TYPE_CHECKING:
    import pandas
    from _typeshed import DataclassInstance
    from rich.table import Table

__all__ = ["Measure", "Scorecard"]


@dataclass(frozen=True)
class Measure:
    """One number of a scorecard.

    Parameters
    ----------
    name
        As in ``METRICS``; for several levels with the level behind it.
    kind
        accuracy, score, calibration, coverage or sharpness.
    value
        The number; NaN where the law cannot give it.
    floor
        Its mean for a perfectly calibrated model on as many rows, where that is known.
    low, high
        95 % of perfect models show a value in this range.
    p_value
        Share of perfect models that show at least this value.
    note
        Why there is no value.
    """

    name: str
    kind: str
    value: float
    floor: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Scorecard(Mapping[str, float]):
    """How accurate, sharp and calibrated predictions are; made by ``evaluate``.

    A mapping from the names of the measures to their values, which prints as a table.

    Parameters
    ----------
    n
        Number of rows.
    measures
        The numbers, in the order of the table.
    grid
        What the targets were rounded or capped to, if they were.
    groups
        Column to the calibration within its groups.
    worst
        The group that stands out most, with a p-value that knows of the search;
        ``None`` where no column makes two groups.
    distribution_calibration
        Calibration given what was predicted; ``None`` for a law that has neither
        moments nor quantiles to group the rows by.
    curve
        Promised and observed frequencies.
    rows
        Scores, PIT values and target of each row, which a comparison resamples.
    """

    n: int
    measures: tuple[Measure, ...]
    grid: TargetGrid | None
    groups: dict[str, tuple[GroupCalibration, ...]]
    worst: WorstGroup | None
    distribution_calibration: DistributionCalibration | None
    curve: tuple[tuple[float, ...], tuple[float, ...]]
    rows: dict[str, npt.NDArray[np.floating]] = field(repr=False, compare=False)

    def __getitem__(self, name: str) -> float:
        return self.measure(name).value

    def __iter__(self) -> Iterator[str]:
        return (measure.name for measure in self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def measure(self, name: str) -> Measure:
        """Return one number with its floor."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(f"no measure is called {name!r}; there are {', '.join(self)}.")

    def verdict(self) -> str:
        """Say in plain words whether the intervals can be trusted.

        By the rule of :func:`~calibrant.metrics.verdict.diagnose`, which looks at the
        size of a fault as well as at its significance.
        """
        return f"{coverage_sentence(self)} {verdict_words(self)}"

    def compare(
        self,
        other: "Scorecard",
        *,
        confidence: float = 0.95,
        draws: int = 1000,
        seed: int = 0,
    ) -> Comparison:
        """Compare with another model on the same rows, by a paired bootstrap.

        Differences are this model's value minus the other's: below 0 this one is
        better. The rows must be the same and in the same order.

        Parameters
        ----------
        other
            The other model's scorecard.
        confidence
            Of the intervals.
        draws
            Bootstrap samples.
        seed
            Of the resampling.
        """
        return compare_rows(
            self.rows, other.rows, confidence=confidence, draws=draws, seed=seed
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single rows, as plain dictionaries, lists and numbers."""
        return {
            "n": self.n,
            "measures": {each.name: asdict(each) for each in self.measures},
            "grid": _plain(self.grid),
            "groups": {
                key: [asdict(group) for group in groups]
                for key, groups in self.groups.items()
            },
            "worst": _plain(self.worst),
            "distribution_calibration": _plain(self.distribution_calibration),
            "curve": {"promised": self.curve[0], "observed": self.curve[1]},
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text of :meth:`to_dict`; what is not a number becomes null."""
        return json.dumps(_without_nan(self.to_dict()), indent=indent, allow_nan=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """One row for each measure, indexed by its name."""
        import pandas as pd

        table = pd.DataFrame([asdict(each) for each in self.measures])
        return table.set_index("name")

    def __rich__(self) -> "Table":
        from rich.table import Table

        table = Table(title=f"{self.n:,} rows", title_justify="left")
        table.add_column("measure", no_wrap=True)
        table.add_column("value", justify="right")
        table.add_column("perfect model", justify="right")
        table.add_column("p-value", justify="right")
        kind = None
        for each in self.measures:
            if kind not in (None, each.kind):
                table.add_section()
            kind = each.kind
            table.add_row(each.name, *_cells(each))
        table.caption = self.verdict()
        table.caption_justify = "left"
        return table

    def __str__(self) -> str:
        from calibrant.metrics._render import as_text

        return as_text(self)


def _plain(part: "DataclassInstance | None") -> dict[str, Any] | None:
    return None if part is None else asdict(part)


def _cells(measure: Measure) -> tuple[str, str, str]:
    """Value, range of a perfect model and p-value as text."""
    if math.isnan(measure.value):
        return "-", measure.note, ""
    span = ""
    if measure.low is not None and measure.high is not None:
        span = f"{measure.low:.4g} to {measure.high:.4g}"
    p_value = "" if measure.p_value is None else f"{measure.p_value:.2g}"
    return f"{measure.value:.4g}", span, p_value


def _without_nan(value: object) -> object:
    """Replace NaN and infinity, which JSON does not know, by None."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
