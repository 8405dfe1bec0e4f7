"""Plots of calibration with their bands under perfect calibration: ``ax`` in and out.

They need ``calibrant[plots]``.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calibrant.distributions.conversion import as_distribution
from calibrant.metrics.calibration import calibration_curve, pit_rows
from calibrant.metrics.floors import calibration_band, coverage_range, histogram_band
from calibrant.metrics.groups import GroupCalibration
from calibrant.text import percent, span
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_float_tensor,
    as_pit,
    as_target,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_calibration",
    "plot_calibration_by",
    "plot_intervals",
    "plot_pit_histogram",
    "plot_sharpness",
    "plot_strengths",
]

# Okabe and Ito's palette, which readers with any color vision can tell apart, without
# its yellow, which is too pale for lines; the order keeps neighbors far apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
GRAY = "#6B7280"


def plot_calibration(
    pit: ArrayLike | Mapping[str, ArrayLike],
    *,
    levels: int = 50,
    confidence: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw observed against nominal frequency, one line for each model.

    The gray band covers the whole curve under perfect calibration with probability
    ``confidence``. With models of different sizes it is that of the smallest.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, or several by label.
    levels
        Number of probabilities.
    confidence
        Of the band.
    title
        Above the plot.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
    >>> plot_calibration({"calibrated": pit}).get_xlabel()
    'nominal probability'
    """
    given = dict(pit) if isinstance(pit, Mapping) else {"": pit}
    models = {name: as_pit(values).cdf for name, values in given.items()}
    ax = _axes(ax)
    n = min(len(values) for values in models.values())
    nominal, low, high = calibration_band(
        n, levels, confidence=confidence, simultaneous=True
    )
    ax.fill_between(
        _from_zero(nominal),
        _from_zero(low),
        _from_zero(high),
        color=GRAY,
        alpha=0.2,
        linewidth=0,
        label=f"perfect calibration ({100 * confidence:.0f} %, n = {n:,})",
    )
    ax.plot([0, 1], [0, 1], color=GRAY, linewidth=1, linestyle="--")
    for color, (name, values) in zip(cycle(COLORS), models.items(), strict=False):
        curve = map(_from_zero, calibration_curve(values, levels=levels))
        ax.plot(*curve, color=color, linewidth=1.8, label=name or None)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.legend(frameon=False, fontsize="small", loc="lower right", handlelength=1.4)
    return finish(ax, x="nominal probability", y="observed frequency", title=title)


def _from_zero(values: torch.Tensor) -> list[float]:
    return [0.0, *values.tolist()]


def plot_pit_histogram(
    pit: ArrayLike,
    *,
    bins: int = 10,
    confidence: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how often PIT values fall into equal bins.

    A calibrated model is flat; a U means overconfident, a hump underconfident, a slope
    biased. The gray band covers all bars at once under perfect calibration with
    probability ``confidence``. Parameters as in :func:`plot_calibration`.

    Examples
    --------
    >>> pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
    >>> len(plot_pit_histogram(pit, bins=8).containers[0])
    8
    """
    values = pit_rows(pit).cpu().numpy()
    n = len(values)
    low, high = histogram_band(n, bins, confidence=confidence, simultaneous=True)
    counts, edges = np.histogram(values, bins=bins, range=(0, 1))
    ax = _axes(ax, size=(4.2, 3.0))
    bar: dict[str, Any] = {"width": 1 / bins, "align": "edge", "color": COLORS[0]}
    ax.bar(edges[:-1], counts, **bar, edgecolor="white", linewidth=0.8)
    ax.axhspan(low, high, color=GRAY, alpha=0.25, linewidth=0, zorder=3)
    ax.axhline(n / bins, color=GRAY, linewidth=1, linestyle="--", zorder=4)
    ax.set(xlim=(0, 1), ylim=(0, 1.15 * max(high, int(counts.max()))))
    ax.text(
        0.98,
        0.97,
        f"band: perfect calibration, {100 * confidence:.0f} %, n = {n:,}",
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize="small",
        color="#374151",
    )
    return finish(ax, x="PIT value", y="rows", title=title)


def plot_intervals(
    distribution: Any,  # noqa: ANN401  (whatever as_distribution takes)
    y: ArrayLike,
    *,
    coverage: float = 0.9,
    rows: int = 150,
    seed: int = 0,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw central intervals and targets, ordered by the predicted median.

    Targets outside their interval are crosses. The text has the coverage of all rows
    and its range under perfect calibration.

    Parameters
    ----------
    distribution
        Predictions of ``n`` rows.
    y
        Targets, shape ``(n,)``.
    coverage
        Probability of the interval.
    rows
        Draw at most so many rows, chosen at random.
    seed
        Of that choice.
    title, ax
        As in :func:`plot_calibration`.

    Examples
    --------
    >>> y = torch.randn(50, generator=torch.Generator().manual_seed(0))
    >>> plot_intervals((torch.zeros(50), torch.ones(50)), y).get_ylabel()
    'target'
    """
    predictive = as_distribution(distribution)
    target = as_target(y).detach().cpu().numpy()
    if target.ndim != 1 or predictive.batch_shape != target.shape or rows < 1:
        raise InputError(
            "distribution and y must have shape (n,) and rows be at least 1, got "
            f"{tuple(predictive.batch_shape)}, {target.shape} and rows={rows}."
        )
    with torch.no_grad():
        lower, upper = (end.cpu().numpy() for end in predictive.interval(coverage))
        middle = predictive.quantile(0.5).cpu().numpy()
    inside = (lower <= target) & (target <= upper)

    chosen = np.random.default_rng(seed).permutation(len(target))[:rows]
    chosen = chosen[np.argsort(middle[chosen], kind="stable")]
    place = np.arange(len(chosen))
    ax = _axes(ax, size=(6.4, 3.4))
    ax.vlines(place, lower[chosen], upper[chosen], color=COLORS[4], linewidth=1.6)
    ax.plot(place, middle[chosen], color=COLORS[0], linewidth=1.2, label="median")
    covered = inside[chosen]
    ax.plot(
        place[covered], target[chosen][covered], ".", color="#111827", markersize=3.5
    )
    ax.plot(
        place[~covered], target[chosen][~covered], "x", color=COLORS[1], markersize=5.5
    )
    ax.text(
        0.02,
        0.98,
        f"{100 * coverage:.0f} % intervals covered {percent(float(inside.mean()))} of "
        f"{len(target):,} rows\n"
        f"perfect calibration: {span(*coverage_range(coverage, len(target)))}",
        transform=ax.transAxes,
        va="top",
        fontsize="small",
    )
    return finish(ax, x="rows, ordered by the prediction", y="target", title=title)


def plot_calibration_by(
    groups: Sequence[GroupCalibration],
    *,
    name: str = "group",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the coverage of the 90 % and 50 % intervals in each group.

    Bars are the 95 % ranges under perfect calibration; a point outside its bar is
    orange.

    Parameters
    ----------
    groups
        What :func:`~calibrant.metrics.groups.calibration_by` returned.
    name
        Of the column that makes the groups.
    title, ax
        As in :func:`plot_calibration`.

    Examples
    --------
    >>> from calibrant.metrics import calibration_by
    >>> pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
    >>> ax = plot_calibration_by(calibration_by(pit, torch.arange(200.0)), name="row")
    >>> ax.get_xlabel()
    'row'
    """
    if not groups:
        raise InputError("groups must contain at least one group, got none.")
    ax = _axes(ax, size=(max(4.2, 1.1 * len(groups)), 3.4))
    place = np.arange(len(groups))
    for nominal, observed, ranges in (
        (0.9, [g.coverage_90 for g in groups], [g.range_90 for g in groups]),
        (0.5, [g.coverage_50 for g in groups], [g.range_50 for g in groups]),
    ):
        low, high = np.array(ranges).T
        ax.axhline(nominal, color=GRAY, linestyle="--", linewidth=1)
        ax.bar(place, high - low, 0.6, bottom=low, color=GRAY, alpha=0.25, linewidth=0)
        outside = (np.array(observed) < low) | (np.array(observed) > high)
        colors = [COLORS[1] if bad else COLORS[0] for bad in outside]
        ax.scatter(place, observed, c=colors, s=36, zorder=3)
    labels = [f"{_short(group)}\nn = {group.rows:,}" for group in groups]
    ax.set_xticks(place, labels, fontsize="small")
    ax.set_ylim(0, 1.02)
    return finish(ax, x=name, y="covered by 50 % and 90 % intervals", title=title)


def _short(group: GroupCalibration) -> str:
    """Label that fits under its bar."""
    if group.low is None or group.high is None or group.low == group.high:
        return group.label
    return f"{group.low:.3g} to\n{group.high:.3g}"


def plot_sharpness(
    models: Mapping[str, tuple[float, float]],
    *,
    floor: float | None = None,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw sharpness against calibration error, one point for each model.

    Best is the lower left corner. Left of the floor nothing can be told apart.

    Parameters
    ----------
    models
        Label to ``(calibration error, sharpness)``.
    floor
        Expected calibration error under perfect calibration at this number of rows.
    title, ax
        As in :func:`plot_calibration`.

    Examples
    --------
    >>> plot_sharpness({"base": (0.3, 1.0), "regularized": (0.1, 1.2)}).get_ylabel()
    'sharpness (mean predicted spread)'
    """
    if not models:
        raise InputError("models must contain at least one model, got none.")
    ax = _axes(ax)
    if floor is not None:
        ax.axvspan(0, floor, color=GRAY, alpha=0.2, linewidth=0, label="noise floor")
    for color, (name, (error, sharpness)) in zip(
        cycle(COLORS), models.items(), strict=False
    ):
        ax.plot(error, sharpness, "o", color=color, markersize=7, label=name)
    ax.margins(x=0.1, y=0.15)
    ax.set_xlim(left=0)
    ax.legend(frameon=False, fontsize="small")
    return finish(
        ax, x="calibration error", y="sharpness (mean predicted spread)", title=title
    )


def plot_strengths(
    strengths: ArrayLike,
    values: Mapping[str, ArrayLike],
    *,
    label: str,
    floor: float | None = None,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric along strengths of the regularizer (the paper's Figure 2).

    Parameters
    ----------
    strengths
        Shape ``(k,)``, at least 0, ascending.
    values
        Label to values, of shape ``(k,)``, or ``(repeats, k)``: then the mean is drawn
        with bars of one standard deviation.
    label
        Of the vertical axis.
    floor
        Expected value under perfect calibration, as a dashed line.
    title, ax
        As in :func:`plot_calibration`.

    Examples
    --------
    >>> ax = plot_strengths([0, 1, 20], {"concrete": [60, 50, 40]}, label="error")
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['0', '1', '20']
    """
    grid = as_float_tensor(strengths, name="strengths")
    ax = _axes(ax)
    places = list(range(len(grid)))
    for color, (name, numbers) in zip(cycle(COLORS), values.items(), strict=False):
        table = as_float_tensor(numbers, name=f"values[{name!r}]")
        table = table[None] if table.ndim == 1 else table
        if table.ndim != 2 or table.shape[1] != len(grid):
            raise InputError(
                f"values[{name!r}] must have shape (k,) or (repeats, k) with k = "
                f"{len(grid)} strengths, got {tuple(table.shape)}."
            )
        ax.errorbar(
            places,
            table.mean(0),
            yerr=table.std(0, correction=0) if len(table) > 1 else None,
            color=color,
            marker="o",
            markersize=4,
            linewidth=1.6,
            capsize=2,
            label=name,
        )
    if floor is not None:
        ax.axhline(floor, color=GRAY, linestyle="--", linewidth=1, label="noise floor")
    # Strengths such as 0, 1, 2, 5, ... 50 are evenly placed: 0 has no logarithm.
    ax.set_xticks(places, [f"{strength:g}" for strength in grid.tolist()])
    ax.legend(frameon=False, fontsize="small")
    return finish(ax, x="strength λ", y=label, title=title)


def _axes(ax: "Axes | None", *, size: tuple[float, float] = (4.2, 3.6)) -> "Axes":
    """Return ``ax``, or new axes of a figure of that size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, new = pyplot.subplots(figsize=size, layout="constrained")
    return new


def finish(ax: "Axes", *, x: str, y: str, title: str | None) -> "Axes":
    """Label the axes and remove what is not data."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title is not None:
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#E5E7EB", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax
