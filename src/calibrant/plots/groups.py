"""Calibration within groups: where a model can be trusted and where not."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant._checks import InputError
from calibrant.metrics.conditional import GroupCalibration
from calibrant.plots._style import COLORS, GRAY, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration_by"]


def plot_calibration_by(
    groups: Sequence[GroupCalibration],
    *,
    name: str = "group",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how much of each group the 90 % and 50 % intervals hold.

    Bars show what 95 % of perfect models show in a group of that size; a point outside
    its bar is orange.

    Parameters
    ----------
    groups
        What :func:`~calibrant.metrics.conditional.calibration_by` returned.
    name
        Of the column that makes the groups.
    title
        Above the picture.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> import torch
    >>> from calibrant.metrics.conditional import calibration_by
    >>> pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
    >>> ax = plot_calibration_by(calibration_by(pit, torch.arange(200.0)), name="row")
    >>> ax.get_xlabel()
    'row'
    """
    if not groups:
        raise InputError("groups must hold at least one group, got none.")
    ax = axes(ax, size=(max(4.2, 1.1 * len(groups)), 3.4))
    place = np.arange(len(groups))
    for promised, held, span in (
        (0.9, [g.coverage_90 for g in groups], [g.range_90 for g in groups]),
        (0.5, [g.coverage_50 for g in groups], [g.range_50 for g in groups]),
    ):
        low, high = np.array(span).T
        ax.axhline(promised, color=GRAY, linestyle="--", linewidth=1)
        ax.bar(place, high - low, 0.6, bottom=low, color=GRAY, alpha=0.25, linewidth=0)
        outside = (np.array(held) < low) | (np.array(held) > high)
        colors = [COLORS[1] if bad else COLORS[0] for bad in outside]
        ax.scatter(place, held, c=colors, s=36, zorder=3)
    labels = [f"{_short(group)}\nn = {group.rows:,}" for group in groups]
    ax.set_xticks(place, labels, fontsize="small")
    ax.set_ylim(0, 1.02)
    return finish(ax, x=name, y="covered by 50 % and 90 % intervals", title=title)


def _short(group: GroupCalibration) -> str:
    """Label that fits under its bar."""
    if group.low is None or group.high is None or group.low == group.high:
        return group.label
    return f"{group.low:.3g} to\n{group.high:.3g}"
