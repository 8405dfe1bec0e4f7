"""Two models on the same rows: differences with paired bootstrap intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant.metrics.calibration import level_cells
from calibrant.metrics.floors import gaps_of_counts
from calibrant.metrics.pit import check_draws, numpy_generator
from calibrant.text import plain_table
from calibrant.validation import InputError, check_between

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Comparison", "Difference"]

Floats = npt.NDArray[np.floating]
_LEVELS = 20
#: The targets are told apart from others by more than the rounding to float32.
_SAME = 1e-5
_LABELS = {"pit": "calibration_error", "squared_error": "rmse"}


@dataclass(frozen=True)
class Difference:
    """One measure of two models.

    Parameters
    ----------
    name
        Of the measure; smaller values are better.
    first, second
        Its value for the two models.
    difference
        ``first - second``.
    low, high
        Bootstrap interval of the difference; 0 outside it means a real difference.
    """

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float

    @property
    def better(self) -> str:
        """Which model is better: first, second, or neither beyond noise."""
        if self.high < 0:
            return "first"
        return "second" if self.low > 0 else "neither"


@dataclass(frozen=True)
class Comparison:
    """Differences of two models, one for each measure; prints as a table."""

    n: int
    confidence: float
    differences: tuple[Difference, ...]

    def __getitem__(self, name: str) -> Difference:
        found = {difference.name: difference for difference in self.differences}
        if name not in found:
            raise KeyError(
                f"no measure is called {name!r}; there are {', '.join(found)}."
            )
        return found[name]

    def __rich__(self) -> "Table":
        from rich.table import Table

        title = f"first minus second, {self.n:,} rows, paired bootstrap"
        table = Table(title=title, title_justify="left")
        table.add_column("measure", no_wrap=True)
        interval = f"{self.confidence:.0%} interval"
        for column in ("first", "second", "difference", interval, "better"):
            table.add_column(column, justify="right")
        for found in self.differences:
            table.add_row(
                found.name,
                f"{found.first:.4g}",
                f"{found.second:.4g}",
                f"{found.difference:+.3g}",
                f"{found.low:+.3g} to {found.high:+.3g}",
                found.better,
            )
        return table

    def __str__(self) -> str:
        return plain_table(self)


def compare_rows(
    first: Mapping[str, Floats],
    second: Mapping[str, Floats],
    *,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Resample the rows of both models together and look at the differences.

    ``first`` and ``second`` have the values of each row by measure, ``(n,)``. The mean
    is compared; of ``"pit"`` the calibration error, and of ``"squared_error"`` the
    root. ``"y"``, the targets, must be the same in both. Intervals are percentiles of
    the resampled differences, but for the calibration error: two models that are both
    calibrated differ by squares of noise alone. Its interval excludes 0 in 2 to 9 % of
    the comparisons of equally calibrated models at 95 %, measured on 100 and 500 rows.
    """
    check_between(confidence, 0, 1, name="confidence")
    check_draws(draws)
    names = [name for name in first if name in second and name != "y"]
    sizes = {len(rows[name]) for name in names for rows in (first, second)}
    if len(sizes) != 1:
        raise InputError(
            "two models are compared on the same rows, got different numbers of rows: "
            f"{', '.join(map(str, sorted(sizes)))}."
        )
    (n,) = sizes
    if "y" in first and "y" in second:
        _check_targets(first["y"], second["y"])
    rng = numpy_generator(seed)
    pairs = {name: (_cells(name, first), _cells(name, second)) for name in names}
    resampled: dict[str, list[list[Floats]]] = {name: [] for name in names}
    for _ in range(draws):
        rows = rng.integers(n, size=n)
        for name, pair in pairs.items():
            resampled[name].append([_summary(name, model[rows]) for model in pair])
    differences = []
    for name, pair in pairs.items():
        summaries = np.array([_summary(name, model) for model in pair])
        samples = np.array(resampled[name])  # (draws, 2, levels or 1)
        if name == "pit":
            one, two = np.square(summaries).sum(-1)
            low, high = _gap_interval(summaries, samples, 1 - confidence)
        else:
            one, two = summaries[:, 0]
            ends = (1 - confidence) / 2, 1 - (1 - confidence) / 2
            low, high = np.quantile(samples[:, 0] - samples[:, 1], ends)
        values = (float(value) for value in (one, two, one - two, low, high))
        differences.append(Difference(_LABELS.get(name, name), *values))
    return Comparison(n, confidence, tuple(differences))


def _gap_interval(gaps: Floats, samples: Floats, outside: float) -> tuple[float, float]:
    r"""Interval of the difference of two sums of squared gaps.

    With gaps :math:`g, h` of the two models and :math:`d = g - h`, :math:`s = g + h`
    the difference is :math:`d \cdot s`, and its error :math:`\delta d \cdot s +
    d \cdot \delta s`. For two models whose curves are the same :math:`d` is nothing but
    noise, which the second term would count again: such an interval of two calibrated
    models would cover 0 always. So that term counts only if the curves differ.
    """
    noise = samples - gaps
    of_difference, of_sum = noise[:, 0] - noise[:, 1], noise[:, 0] + noise[:, 1]
    difference, total = gaps[0] - gaps[1], gaps[0] + gaps[1]
    error = of_difference @ total
    as_large = np.square(of_difference).sum(-1) >= np.square(difference).sum()
    if as_large.mean() < outside:
        error = error + of_sum @ difference
    lower, upper = np.quantile(error, [outside / 2, 1 - outside / 2])
    found = float(difference @ total)
    return found - float(upper), found - float(lower)


def _check_targets(first: Floats, second: Floats) -> None:
    """Refuse cards of other rows, or of the same rows in another order."""
    slack = _SAME * (float(np.std(first)) + np.abs(first))
    other = np.abs(first - second) > slack
    if other.any():
        at = int(other.argmax())
        raise InputError(
            "two models are compared on the same rows, got different targets in "
            f"{int(other.sum())} of {len(first)} rows: the first is y[{at}] = "
            f"{first[at]:.6g} and {second[at]:.6g}. Evaluate both on one test set, in "
            "one order and one unit."
        )


def _cells(name: str, rows: Mapping[str, Floats]) -> npt.NDArray[Any]:
    """PIT values as the number of their level, once, so that a sample is a count."""
    if name != "pit":
        return rows[name]
    # As a tensor, which keeps its type: 0.55 of float32 lies above 0.55 of float64.
    return level_cells(torch.from_numpy(rows[name]), _LEVELS)


def _summary(name: str, values: npt.NDArray[Any]) -> Floats:
    """What is compared, ``(1,)``; of PIT values the gaps of the curve at levels."""
    if name != "pit":
        mean: Floats = np.mean(values, keepdims=True)
        return np.sqrt(mean) if name == "squared_error" else mean
    return gaps_of_counts(np.bincount(values, minlength=_LEVELS))
