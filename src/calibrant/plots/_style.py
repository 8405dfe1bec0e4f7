"""One look for all pictures: color-blind safe, readable at column width."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant._checks import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "GRAY", "as_models", "axes", "finish"]

# Okabe and Ito's palette, which readers with any color vision can tell apart, without
# its yellow, which is too pale for lines; the order keeps neighbors far apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
GRAY = "#6B7280"


def axes(ax: "Axes | None", *, size: tuple[float, float] = (4.2, 3.6)) -> "Axes":
    """Return ``ax``, or new axes of a figure of that size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, new = pyplot.subplots(figsize=size, layout="constrained")
    return new


def finish(ax: "Axes", *, x: str, y: str, title: str | None) -> "Axes":
    """Label and clear away what is not data."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title is not None:
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#E5E7EB", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def as_models(
    values: "ArrayLike | Mapping[str, ArrayLike]", *, name: str = ""
) -> dict[str, Any]:
    """Return one model or several as a mapping from label to values."""
    return dict(values) if isinstance(values, Mapping) else {name: values}
