"""Histogram of PIT values with the band of a perfect model."""

from typing import TYPE_CHECKING

import numpy as np

from calibrant._checks import ArrayLike, InputError, as_pit
from calibrant.metrics.bands import histogram_band
from calibrant.plots._style import COLORS, GRAY, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_pit_histogram"]


def plot_pit_histogram(
    pit: ArrayLike,
    *,
    bins: int = 10,
    confidence: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how often PIT values fall into equal bins.

    A calibrated model is flat; a U means over-confident, a hump means timid, a slope
    means biased. The gray band holds all bars of a perfect model at once with
    probability ``confidence``.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``.
    bins
        Number of equal bins.
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
    >>> len(plot_pit_histogram(pit, bins=8).containers[0])
    8
    """
    values = as_pit(pit).cdf.detach().cpu().numpy()
    if values.ndim != 1:
        raise InputError(f"pit must have shape (n,), got {values.shape}.")
    low, high = histogram_band(
        len(values), bins, confidence=confidence, simultaneous=True
    )
    counts, edges = np.histogram(values, bins=bins, range=(0, 1))
    ax = axes(ax, size=(4.2, 3.0))
    ax.bar(
        edges[:-1],
        counts,
        width=1 / bins,
        align="edge",
        color=COLORS[0],
        edgecolor="white",
        linewidth=0.8,
    )
    ax.axhspan(low, high, color=GRAY, alpha=0.25, linewidth=0, zorder=3)
    ax.axhline(len(values) / bins, color=GRAY, linewidth=1, linestyle="--", zorder=4)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.15 * max(high, int(counts.max())))
    ax.text(
        0.98,
        0.97,
        f"band: perfect model, {100 * confidence:.0f} %, n = {len(values):,}",
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize="small",
        color="#374151",
    )
    return finish(ax, x="PIT value", y="rows", title=title)
