"""Targets that are rounded to a grid or pile up at a cap, and how to notice it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_target, check_positive

__all__ = ["GriddedTargetWarning", "TargetGrid", "detect_grid"]

#: A grid has at most this many values, and each of them five times on average.
_MOST_VALUES = 500
_FEWEST_REPEATS = 5
#: A pile-up holds 1 % of the rows, at least 5, and four times its largest neighbor.
_PILE_SHARE = 0.01
_PILE_ROWS = 5
_PILE_RATIO = 4
_NEIGHBORS = 10
#: Rows that are looked at first: more than a grid has values.
_LOOK = 1000
#: Rounding of the numbers themselves, relative to their range.
_ROUNDING = 1e-6


class GriddedTargetWarning(UserWarning):
    """The targets are rounded or capped, and PIT values were randomized for it."""


@dataclass(frozen=True)
class TargetGrid:
    r"""Which interval of outcomes each recorded target stands for.

    With step :math:`h` a target stands for :math:`(y - h/2,\, y + h/2]`; one at the
    upper cap for everything above its lower end, one at the lower cap for everything
    below its upper end.

    Parameters
    ----------
    step
        :math:`h > 0`, the distance of neighboring targets; ``None`` if not rounded.
    offset
        Where the grid passes: targets are ``offset + k * step``.
    lower_cap, upper_cap
        Smallest and largest target that is recorded; ``None`` where there is no cap.

    Examples
    --------
    >>> integers = TargetGrid(step=1)
    >>> integers.round(torch.tensor([4.6, 5.2])).tolist()
    [5.0, 5.0]
    >>> TargetGrid(upper_cap=50).edges(torch.tensor([20.0, 50.0]))[1].tolist()
    [20.0, inf]
    """

    step: float | None = None
    offset: float = 0.0
    lower_cap: float | None = None
    upper_cap: float | None = None

    def __post_init__(self) -> None:
        if self.step is None and self.lower_cap is None and self.upper_cap is None:
            raise InputError(
                "a TargetGrid must have a step or a cap, got none. For a target that "
                "is neither rounded nor capped pass randomized=False."
            )
        if self.step is not None:
            check_positive(self.step, name="step")
        low, high = self._caps
        if not low < high:
            raise InputError(
                f"lower_cap must be below upper_cap, got {low} and {high}."
            )

    @property
    def _caps(self) -> tuple[float, float]:
        low = -math.inf if self.lower_cap is None else self.lower_cap
        return low, math.inf if self.upper_cap is None else self.upper_cap

    def edges(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Both ends of the interval of each target, shape kept; caps are infinite."""
        half = 0.0 if self.step is None else self.step / 2
        lower_cap, upper_cap = self._caps
        low = torch.where(y <= lower_cap, -math.inf, y - half)
        return low, torch.where(y >= upper_cap, math.inf, y + half)

    def round(self, y: Tensor) -> Tensor:
        """What would be recorded of exact outcomes ``y``, shape kept."""
        if self.step is not None:
            y = self.offset + self.step * ((y - self.offset) / self.step).round()
        return y.clamp(*self._caps)

    def describe(self) -> str:
        """Say in words what was recorded."""
        parts = [] if self.step is None else [f"rounded to steps of {self.step:.6g}"]
        if self.lower_cap is not None:
            parts.append(f"piled up at its minimum {self.lower_cap:.6g}")
        if self.upper_cap is not None:
            parts.append(f"piled up at its maximum {self.upper_cap:.6g}")
        return " and ".join(parts)


def detect_grid(y: ArrayLike) -> TargetGrid | None:
    """Find out whether targets are rounded to few values or pile up at an end.

    It would rather miss a grid than invent one. A step needs at most 500 distinct
    values, each five times on average, that are multiples of one step. A cap needs 1 %
    of the rows (and five), four times as many as any of its ten neighbors. So a few
    ties and a continuous target with three decimals are no grid.

    A small test fold shows less than all data: ask for the grid of all known targets
    and hand it to :func:`~calibrant.metrics.pit.pit_values`.

    Parameters
    ----------
    y
        Targets, shape ``(n,)``.

    Returns
    -------
    TargetGrid | None
        The grid, or ``None`` for a continuous target.

    Examples
    --------
    >>> detect_grid(5 * [3, 4, 5, 6])
    TargetGrid(step=1.0, offset=0.0, lower_cap=None, upper_cap=None)
    >>> detect_grid([21.5, 24.1, 18.9, 30.2, 21.5, 27.3]) is None
    True
    """
    values = as_target(y).detach()
    if values.ndim != 1 or len(values) == 0:
        raise InputError(f"y must have shape (n,), got {tuple(values.shape)}.")
    column = values.double().cpu().numpy()
    if _surely_continuous(column):
        return None
    distinct, counts = np.unique(column, return_counts=True)
    few = 2 <= len(distinct) <= min(_MOST_VALUES, len(values) / _FEWEST_REPEATS)
    step = _common_step(distinct) if few else None
    lower = float(distinct[0]) if _piles_up(counts) else None
    upper = float(distinct[-1]) if _piles_up(counts[::-1]) else None
    if step is None and lower is None and upper is None:
        return None
    offset = 0.0 if step is None else _offset(float(distinct[0]), step)
    return TargetGrid(step, offset, lower, upper)


def _surely_continuous(values: npt.NDArray[np.float64]) -> bool:
    """Whether some rows and both ends rule a grid out already; no sort of all rows.

    Some rows with too many distinct values show that all have, and an end that holds
    too few rows is no cap.
    """
    if len(np.unique(values[:: max(1, len(values) // _LOOK)])) <= _MOST_VALUES:
        return False
    pile = max(_PILE_ROWS, _PILE_SHARE * len(values))
    ends = values.min(), values.max()
    return all(np.count_nonzero(values == end) < pile for end in ends)


def _common_step(distinct: npt.NDArray[np.float64]) -> float | None:
    """Greatest common divisor of the gaps, if it stands clear of rounding.

    Euclid's algorithm on all gaps at once. Values without a common step drive it down
    to their rounding, where it says nothing.
    """
    gaps = np.diff(distinct)
    extent = float(distinct[-1] - distinct[0])
    step = float(gaps.min())
    while step >= 100 * _ROUNDING * extent:
        rest = np.abs(gaps - step * np.rint(gaps / step))
        rest = rest[rest > _ROUNDING * extent]
        if rest.size == 0:
            return extent / round(extent / step)
        step = float(rest.min())
    return None


def _offset(first: float, step: float) -> float:
    """Distance of the grid from the multiples of its step, in (-step/2, step/2]."""
    offset = first - step * round(first / step)
    return 0.0 if abs(offset) < 1e-6 * step else offset


def _piles_up(counts: npt.NDArray[np.int64]) -> bool:
    """Whether the first value is repeated far more than those next to it."""
    if len(counts) < 3:
        return False
    end, near = int(counts[0]), int(counts[1 : 1 + _NEIGHBORS].max())
    enough = end >= max(_PILE_ROWS, _PILE_SHARE * int(counts.sum()))
    return enough and end >= _PILE_RATIO * near
