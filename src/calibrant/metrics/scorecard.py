"""All metrics at once: ``evaluate``, and the scorecard that it returns."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant.metrics import accuracy, calibration
from calibrant.metrics.comparison import Comparison, compare_rows
from calibrant.metrics.floors import NoiseFloor, noise_floor
from calibrant.metrics.groups import (
    DistributionCalibration,
    GroupCalibration,
    Key,
    WorstGroup,
    calibration_by,
    distribution_calibration,
    worst_group,
)
from calibrant.metrics.pit import (
    TargetGrid,
    center_and_spread,
    material_grid,
    no_nan,
    recorded_pit,
    rows,
    torch_generator,
)
from calibrant.metrics.scores import CrpsDecomposition, crps_decomposition
from calibrant.metrics.spread import ence, spread_noise_floors, uce
from calibrant.metrics.verdict import coverage_sentence, verdict_words
from calibrant.protocols import Distribution
from calibrant.scores import SCORES
from calibrant.text import plain_table
from calibrant.validation import ArrayLike, InputError

if TYPE_CHECKING:
    import pandas
    from rich.table import Table

__all__ = ["Measure", "Scorecard", "evaluate"]

_COVERAGES = (0.5, 0.8, 0.9, 0.95)
_ROW_SCORES = ("nll", "crps", "interval_score", "squared_error", "absolute_error")


@dataclass(frozen=True)
class Measure:
    """One number of a scorecard.

    Parameters
    ----------
    name
        As in ``METRICS``, followed by the level where there are several.
    kind
        accuracy, score, calibration, coverage or sharpness.
    value
        The number; NaN where the distribution cannot give it.
    floor
        Its mean under perfect calibration on as many rows, where that is known.
    low, high
        Its 95 % range under perfect calibration.
    p_value
        Probability of at least this value under perfect calibration.
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
        Calibration given the prediction; ``None`` for distributions that have neither
        moments nor quantiles to group the rows by.
    curve
        Nominal and observed frequencies.
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
        draws, seed
            Bootstrap samples, and the seed of the resampling.
        """
        return compare_rows(
            self.rows, other.rows, confidence=confidence, draws=draws, seed=seed
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single rows, as plain dictionaries, lists and numbers."""
        parts = asdict(replace(self, rows={}))
        del parts["rows"]
        return parts | {
            "measures": {part["name"]: part for part in parts["measures"]},
            "groups": {key: list(groups) for key, groups in parts["groups"].items()},
            "curve": {"nominal": self.curve[0], "observed": self.curve[1]},
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text of :meth:`to_dict`; what is not a number becomes null."""
        return json.dumps(_without_nan(self.to_dict()), indent=indent, allow_nan=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """One row for each measure, indexed by its name."""
        import pandas as pd

        table = pd.DataFrame([asdict(measure) for measure in self.measures])
        return table.set_index("name")

    def __rich__(self) -> "Table":
        from rich.table import Table

        table = Table(title=f"{self.n:,} rows", title_justify="left")
        table.add_column("measure", no_wrap=True)
        for title in ("value", "perfect calibration", "p-value"):
            table.add_column(title, justify="right")
        kind = None
        for measure in self.measures:
            if kind not in (None, measure.kind):
                table.add_section()
            kind = measure.kind
            table.add_row(measure.name, *_cells(measure))
        table.caption = self.verdict()
        table.caption_justify = "left"
        return table

    def __str__(self) -> str:
        return plain_table(self)


def _cells(measure: Measure) -> tuple[str, str, str]:
    """Value, range under perfect calibration and p-value as text."""
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
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@torch.no_grad()
def evaluate(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    y: ArrayLike,
    *,
    features: Mapping[str, Key] | ArrayLike | None = None,
    groups: Mapping[str, Key] | Key | None = None,
    seed: int = 0,
) -> Scorecard:
    """Measure accuracy, sharpness and calibration of held-out predictions.

    Each calibration metric stands next to its expected value under perfect calibration
    on as many rows. Rounded and capped targets are found and treated with randomized
    PIT values, and samples by ranks. What a distribution cannot give (a density from
    samples) is left out with a note.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``: ours, torch's, scipy's, ``(mean, std)``.
    y
        Held-out targets, shape ``(n,)``.
    features
        Columns to look within: a mapping or data frame of names to columns, or an
        array ``(n, columns)``.
    groups
        Labels of the rows, or a mapping of names to labels.
    seed
        Of the randomized PIT values and the simulated p-values.

    Returns
    -------
    Scorecard
        Print it; or ``to_dict``, ``to_pandas``, ``to_json``, ``compare``.

    Examples
    --------
    >>> noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    >>> card = evaluate((torch.zeros(400), 0.5 * torch.ones(400)), noise)
    >>> card["coverage_90"] < 0.7  # half the spread that it should have
    True
    >>> card.measure("calibration_error").p_value < 0.001
    True
    """
    predictive, target = rows(distribution, y)
    target = target.detach()
    grid = material_grid(predictive, target)
    generator = torch_generator(seed, target.device)
    pit = calibration.pit_rows(
        recorded_pit(predictive, target, grid, generator=generator)
    )
    scores = {name: _or_error(SCORES[name], predictive, target) for name in _ROW_SCORES}
    keys: dict[str, Key] = {}
    try:
        spread = center_and_spread(predictive, target)[1]
        keys["predicted spread"] = spread.cpu().numpy()
        given = distribution_calibration(predictive, target, seed=seed, pit=pit)
    except InputError:  # neither moments nor quantiles
        given = None
    keys |= _columns(features, "feature") | _columns(groups, "group")
    by_key = {name: calibration_by(pit, key) for name, key in keys.items()}
    # All rows in one group say nothing that the whole card does not.
    several = {name: key for name, key in keys.items() if len(by_key[name]) > 1}
    nominal, observed = calibration.calibration_curve(pit)
    kept = {
        name: values.cpu().numpy()
        for name, values in scores.items()
        if isinstance(values, Tensor) and bool(values.isfinite().all())
    }
    kept |= {"pit": pit.cpu().numpy(), "y": target.double().cpu().numpy()}
    return Scorecard(
        n=len(target),
        measures=(
            *_accuracy_and_scores(predictive, target, scores),
            *_calibration(predictive, target, pit, grid, seed),
            *_sharpness(predictive),
        ),
        grid=grid,
        groups=by_key,
        worst=worst_group(pit, several, seed=seed) if several else None,
        distribution_calibration=given,
        curve=(tuple(nominal.tolist()), tuple(observed.tolist())),
        rows=kept,
    )


def _or_error(
    score: Callable[[Distribution, Tensor], Tensor],
    predictive: Distribution,
    target: Tensor,
) -> Tensor | InputError:
    """The score of each row, or why the distribution cannot give it."""
    try:
        return no_nan(score(predictive, target)).double()
    except InputError as error:
        return error


def _mean(values: Tensor | InputError) -> float:
    if isinstance(values, InputError):
        raise values
    return float(values.mean())


def _measure(
    name: str, kind: str, compute: Callable[[], float], floor: NoiseFloor | None = None
) -> Measure:
    """A value next to its floor, or NaN and why the distribution cannot give it."""
    try:
        value = compute()
    except InputError as error:  # no density, no mean, no variance
        return Measure(name, kind, math.nan, note=str(error))
    if floor is None:
        return Measure(name, kind, value)
    p_value = floor.p_value(value)
    return Measure(name, kind, value, floor.expectation, floor.low, floor.high, p_value)


def _accuracy_and_scores(
    predictive: Distribution,
    target: Tensor,
    scores: Mapping[str, Tensor | InputError],
) -> Iterator[Measure]:
    for metric in (accuracy.rmse, accuracy.mae, accuracy.r2, accuracy.bias):
        compute = partial(metric, predictive, target)
        yield _measure(metric.__name__, "accuracy", compute)
    for name in ("nll", "crps", "interval_score"):
        yield _measure(name, "score", partial(_mean, scores[name]))
    parts, note = CrpsDecomposition(math.nan, math.nan, math.nan), ""
    try:
        mean = _mean(scores["crps"])
        parts = crps_decomposition(predictive, target, mean_crps=mean)
    except InputError as error:
        note = str(error)
    for name, value in parts._asdict().items():
        yield Measure(f"crps_{name}", "score", value, note=note)


def _calibration(
    predictive: Distribution,
    target: Tensor,
    pit: Tensor,
    grid: TargetGrid | None,
    seed: int,
) -> Iterator[Measure]:
    """Each number next to its floor."""
    n, ordered = len(target), torch.from_numpy(np.sort(pit.cpu().numpy()))
    for name, of_pit in calibration.PIT_METRICS.items():
        floor = noise_floor(name, n=n)
        yield _measure(name, "calibration", partial(of_pit, ordered), floor)
    try:
        floors = spread_noise_floors(predictive, target, grid=grid, seed=seed)
    except InputError:  # no variance, no spread, no samples
        floors = {}
    for metric in (ence, uce):
        compute = partial(metric, predictive, target)
        name = metric.__name__
        yield _measure(name, "calibration", compute, floors.get(name))
    # From the PIT values, so that it is right for rounded and capped targets too.
    distance = (2 * pit - 1).abs()
    for level in _COVERAGES:
        share = float((distance <= level).double().mean())
        floor = noise_floor("coverage", n=n, coverage=level)
        yield _measure(
            f"coverage_{100 * level:.0f}", "coverage", partial(float, share), floor
        )


def _sharpness(predictive: Distribution) -> Iterator[Measure]:
    for level in _COVERAGES:
        width = partial(calibration.mean_width, predictive, level=level)
        yield _measure(f"width_{100 * level:.0f}", "sharpness", width)
    for metric in (accuracy.sharpness, accuracy.mean_stddev, accuracy.dispersion):
        yield _measure(metric.__name__, "sharpness", partial(metric, predictive))


def _columns(
    columns: Mapping[str, Key] | ArrayLike | Key | None, name: str
) -> dict[str, Key]:
    """Columns by name, from a mapping, a data frame or an array."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        return dict(columns)
    names = getattr(columns, "columns", None)
    if names is not None:  # a data frame, of whichever library
        frame: Any = columns
        return {str(column): frame[column] for column in names}
    table = columns.detach().cpu() if isinstance(columns, Tensor) else columns
    array = np.asarray(table)
    if array.ndim == 1:
        return {name: array}
    if array.ndim != 2:
        raise InputError(
            f"{name}s must be columns by name or an array (n, columns), got an array "
            f"of shape {array.shape}."
        )
    return {f"{name} {i}": column for i, column in enumerate(array.T)}
