"""Calibration curve with the band of a perfect model."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from calibrant._checks import ArrayLike, as_pit
from calibrant.metrics.bands import calibration_band
from calibrant.metrics.calibration import calibration_curve
from calibrant.plots._style import COLORS, GRAY, as_models, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration"]


def plot_calibration(
    pit: ArrayLike | Mapping[str, ArrayLike],
    *,
    levels: int = 50,
    confidence: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw observed against promised frequency, one line for each model.

    The gray band holds the whole curve of a perfectly calibrated model at that number
    of rows with probability ``confidence``: a line inside it shows no fault. With
    models of different sizes the band is that of the smallest.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, or several by label.
    levels
        Number of probabilities.
    confidence
        Of the band.
    title
        Above the picture.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> import torch
    >>> pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
    >>> plot_calibration({"calibrated": pit}).get_xlabel()
    'promised probability'
    """
    models = {name: as_pit(each).cdf for name, each in as_models(pit).items()}
    ax = axes(ax)
    n = min(len(values) for values in models.values())
    promised, low, high = calibration_band(
        n, levels, confidence=confidence, simultaneous=True
    )
    start = [0.0]
    ax.fill_between(
        start + promised.tolist(),
        start + low.tolist(),
        start + high.tolist(),
        color=GRAY,
        alpha=0.2,
        linewidth=0,
        label=f"perfect model ({100 * confidence:.0f} %, n = {n:,})",
    )
    ax.plot([0, 1], [0, 1], color=GRAY, linewidth=1, linestyle="--")
    for color, (name, values) in zip(cycle(COLORS), models.items(), strict=False):
        promised, observed = calibration_curve(values, levels=levels)
        ax.plot(
            start + promised.tolist(),
            start + observed.tolist(),
            color=color,
            linewidth=1.8,
            label=name or None,
        )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.legend(frameon=False, fontsize="small", loc="lower right", handlelength=1.4)
    return finish(ax, x="promised probability", y="observed frequency", title=title)
