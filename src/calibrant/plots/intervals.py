"""Predicted intervals against the truth, ordered by the prediction."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calibrant._checks import ArrayLike, InputError, as_target
from calibrant.distributions.conversion import as_distribution
from calibrant.metrics.bands import coverage_range
from calibrant.plots._style import COLORS, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_intervals"]


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

    Targets outside their interval are crosses. The text counts them over ALL rows and
    says what a perfect model shows.

    Parameters
    ----------
    distribution
        Predicted laws of ``n`` rows.
    y
        Targets, shape ``(n,)``.
    coverage
        Probability of the interval.
    rows
        Draw at most so many rows, chosen at random.
    seed
        Of that choice.
    title
        Above the picture.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> import torch
    >>> y = torch.randn(50, generator=torch.Generator().manual_seed(0))
    >>> plot_intervals((torch.zeros(50), torch.ones(50)), y).get_ylabel()
    'target'
    """
    law = as_distribution(distribution)
    target = as_target(y).detach().cpu().numpy()
    if target.ndim != 1 or law.batch_shape != target.shape or rows < 1:
        raise InputError(
            "distribution and y must have shape (n,) and rows be at least 1, got "
            f"{tuple(law.batch_shape)}, {target.shape} and rows={rows}."
        )
    with torch.no_grad():
        lower, upper = (bound.cpu().numpy() for bound in law.interval(coverage))
        middle = law.quantile(0.5).cpu().numpy()
    inside = (lower <= target) & (target <= upper)
    low, high = coverage_range(coverage, len(target))

    chosen = np.random.default_rng(seed).permutation(len(target))[:rows]
    chosen = chosen[np.argsort(middle[chosen], kind="stable")]
    place = np.arange(len(chosen))
    ax = axes(ax, size=(6.4, 3.4))
    ax.vlines(place, lower[chosen], upper[chosen], color=COLORS[4], linewidth=1.6)
    ax.plot(place, middle[chosen], color=COLORS[0], linewidth=1.2, label="median")
    held = inside[chosen]
    ax.plot(place[held], target[chosen][held], ".", color="#111827", markersize=3.5)
    ax.plot(place[~held], target[chosen][~held], "x", color=COLORS[1], markersize=5.5)
    ax.text(
        0.02,
        0.98,
        f"{100 * coverage:.0f} % intervals covered {100 * inside.mean():.1f} % of "
        f"{len(target):,} rows\n"
        f"a perfect model: {100 * low:.1f} % to {100 * high:.1f} %",
        transform=ax.transAxes,
        va="top",
        fontsize="small",
    )
    return finish(ax, x="rows, ordered by the prediction", y="target", title=title)
