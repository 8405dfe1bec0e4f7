"""What calibration costs: sharpness against error, and sweeps of the strength."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.plots._style import COLORS, GRAY, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_sharpness", "plot_strengths"]


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
        Calibration error that a perfect model shows at this number of rows.
    title
        Above the picture.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> plot_sharpness({"base": (0.3, 1.0), "regularized": (0.1, 1.2)}).get_ylabel()
    'sharpness (mean predicted spread)'
    """
    if not models:
        raise InputError("models must hold at least one model, got none.")
    ax = axes(ax)
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
    """Draw one measure along strengths of the regularizer (the paper's Figure 2).

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
        Value that a perfect model shows, as a dashed line.
    title
        Above the picture.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> ax = plot_strengths([0, 1, 20], {"concrete": [60, 50, 40]}, label="error")
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['0', '1', '20']
    """
    grid = as_float_tensor(strengths, name="strengths")
    ax = axes(ax)
    places: Sequence[int] = range(len(grid))
    for color, (name, each) in zip(cycle(COLORS), values.items(), strict=False):
        table = as_float_tensor(each, name=f"values[{name!r}]")
        table = table[None] if table.ndim == 1 else table
        if table.ndim != 2 or table.shape[1] != len(grid):
            raise InputError(
                f"values[{name!r}] must have shape (k,) or (repeats, k) with k = "
                f"{len(grid)} strengths, got {tuple(table.shape)}."
            )
        spread = table.std(0, correction=0) if len(table) > 1 else None
        ax.errorbar(
            places,
            table.mean(0),
            yerr=spread,
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
    ax.set_xticks(list(places), [f"{strength:g}" for strength in grid.tolist()])
    ax.legend(frameon=False, fontsize="small")
    return finish(ax, x="strength λ", y=label, title=title)
