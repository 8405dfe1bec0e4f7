"""PIT values of held-out targets, randomized where the plain ones have steps.

They have steps where targets are rounded to a grid or pile up at a cap: `detect_grid`
notices it.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_target, check_positive
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.metrics._counts import torch_generator
from calibrant.metrics._rows import rows

__all__ = [
    "GriddedTargetWarning",
    "TargetGrid",
    "detect_grid",
    "material_grid",
    "pit_values",
    "recorded_pit",
]

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

#: Rounding moves the calibration curve by half the mean width of the PIT intervals. It
#: matters from 0.01 on, and for many rows from half a standard error of the curve on.
_MATERIAL_WIDTH = 0.02
_MATERIAL_ERRORS = 0.5


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


def pit_values(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    y: ArrayLike,
    *,
    randomized: bool | Literal["auto"] = "auto",
    grid: TargetGrid | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""PIT values that a perfect model makes uniform even on rounded or capped targets.

    The plain PIT value :math:`F(y)` cannot be uniform when the target takes few values
    (wine quality: six integers) or piles up (house prices capped at 50). The randomized
    one can:

    .. math::
        u = F(a) + V \, (F(b) - F(a)), \qquad V \sim \mathcal{U}[0, 1] ,

    where the recorded target stands for an outcome in :math:`(a, b]`.

    Samples (:class:`~calibrant.distributions.empirical.Empirical`) are not the law but
    draws from it: the share of draws below the target takes few values, and is too
    often 0 or 1 even for a perfect sampler. Their value is the target's rank among the
    ``m`` draws, as in a rank histogram,

    .. math::
        u = \frac{k + V \, (t + 1)}{m + 1} ,

    with :math:`k` draws below the target and :math:`t` equal to it (on a grid: in its
    interval). It is exactly uniform where target and draws come from one law.

    Parameters
    ----------
    distribution
        Predicted laws of shape ``(n,)``: anything that
        :func:`~calibrant.distributions.conversion.as_distribution` takes.
    y
        Held-out targets, shape ``(n,)``.
    randomized
        ``"auto"``: where the predicted distribution has an atom at the target, as
        :class:`~calibrant.distributions.derived.Censored` has at its bounds, with
        :math:`F(y^-)` and :math:`F(y)` as ends; and where ``grid`` is given, or
        :func:`detect_grid` finds one that
        matters, with a :class:`GriddedTargetWarning`. Rounding matters where it leaves
        PIT values open by more than 0.02 on average (a step of about 0.07 predicted
        standard deviations), or :math:`1 / (2 \sqrt n)` if that is less. Samples give
        ranks, without a warning. ``True``: always, with :math:`F(y^-)` below a target
        that is not on a grid, which serves laws with atoms; samples are then taken as
        the law itself. ``False``: never, :math:`F(y)`.
    grid
        What the targets stand for, when you know it.
    generator
        Source of :math:`V`; a fixed seed unless told, so that a number does not change
        from call to call.

    Returns
    -------
    Tensor
        Shape ``(n,)``, in [0, 1], without gradient.

    References
    ----------
    Smith (1985), *Diagnostic checks of non-standard time series models*.
    Czado, Gneiting and Held (2009), *Predictive model assessment for count data*.
    Hamill (2001), *Interpretation of Rank Histograms for Verifying Ensemble Forecasts*.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian([5.2, 5.9, 5.5], 0.7)
    >>> round(pit_values(law, [5.0, 6.0, 5.0], randomized=False)[2].item(), 3)
    0.238
    >>> grid = TargetGrid(step=1)
    >>> u = pit_values(law, [5.0, 6.0, 5.0], grid=grid)
    >>> bool(law.cdf([4.5, 5.5, 4.5])[2] < u[2] < law.cdf([5.5, 6.5, 5.5])[2])
    True
    """
    law, target = rows(distribution, y)
    target = target.detach()
    _check_options(randomized, grid, target)
    with torch.no_grad():
        if not randomized:
            return law.cdf(target)
        if randomized is True:
            grid = detect_grid(target) if grid is None else grid
            return _anywhere(*_pit_interval(law, target, grid), generator)
        if grid is None:
            grid = _material_grid(law, target)
            if grid is not None:
                _warn_of(grid, target)
        return recorded_pit(law, target, grid, generator=generator)


@torch.no_grad()
def recorded_pit(
    law: AbstractDistribution,
    target: Tensor,
    grid: TargetGrid | None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """PIT values of targets on a known grid, or taken as they are for ``None``.

    The core of :func:`pit_values`: ranks for samples, else randomized on a grid and at
    atoms of the predicted distribution only.
    """
    low, high = _pit_interval(law, target, grid)
    if isinstance(law, Empirical):
        draws = len(law.samples)
        # The target joins the draws: it is one more value that ties with itself.
        low, high = draws * low / (draws + 1), (draws * high + 1) / (draws + 1)
    elif grid is None and torch.equal(low, high):
        return high
    return _anywhere(low, high, generator)


def _anywhere(low: Tensor, high: Tensor, generator: torch.Generator | None) -> Tensor:
    """A random place between the two ends, for each row."""
    if generator is None:
        generator = torch_generator(0, low.device)
    share = torch.rand(
        low.shape, generator=generator, dtype=low.dtype, device=low.device
    )
    # Rounding must not lead out of [0, 1].
    return (low + share * (high - low)).clamp(0, 1)


def material_grid(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    y: ArrayLike,
) -> TargetGrid | None:
    """The grid that :func:`pit_values` takes by itself, or ``None`` for plain values.

    It is what :func:`detect_grid` finds, without a step that is small against the
    predicted spread.

    Parameters
    ----------
    distribution
        Predicted laws of shape ``(n,)``, as in :func:`pit_values`.
    y
        Held-out targets, shape ``(n,)``.

    Examples
    --------
    >>> y = 5 * [3.0, 4.0, 5.0, 6.0]
    >>> material_grid((20 * [4.5], 0.9), y)
    TargetGrid(step=1.0, offset=0.0, lower_cap=None, upper_cap=None)
    >>> material_grid((20 * [4.5], 90.0), y) is None
    True
    """
    return _material_grid(*rows(distribution, y))


@torch.no_grad()
def _material_grid(law: AbstractDistribution, target: Tensor) -> TargetGrid | None:
    grid = detect_grid(target)
    if grid is None or grid.step is None:
        return grid
    low, high = _pit_interval(law, target, TargetGrid(grid.step, grid.offset))
    enough = min(_MATERIAL_WIDTH, _MATERIAL_ERRORS / math.sqrt(len(target)))
    if float((high - low).mean()) >= enough:
        return grid
    caps = grid.lower_cap, grid.upper_cap
    return None if caps == (None, None) else TargetGrid(None, 0.0, *caps)


def _check_options(
    randomized: bool | str, grid: TargetGrid | None, target: Tensor
) -> None:
    """Refuse options that contradict each other, and targets off the grid."""
    if randomized not in (True, False, "auto"):
        raise InputError(
            f'randomized must be "auto", True or False, got {randomized!r}.'
        )
    if grid is None:
        return
    if randomized is False:
        raise InputError(
            "a grid is used for randomized PIT values only, got randomized=False with "
            "a grid. Drop one of them."
        )
    # Targets that were standardized in float32 are off by some 1e-6 of a step.
    slack = 0.0 if grid.step is None else 1e-3 * grid.step
    off = (grid.round(target) - target).abs() > slack
    if off.any():
        raise InputError(
            f"every target must lie on the grid ({grid.describe()}): {int(off.sum())} "
            f"of {len(target)} do not, the first is {target[off][0].item():.6g}. Scale "
            "the grid as the targets were scaled, or pass grid=None."
        )


def _pit_interval(
    law: AbstractDistribution, target: Tensor, grid: TargetGrid | None
) -> tuple[Tensor, Tensor]:
    """F just below and at each target, or at both ends of its interval."""
    if grid is None:
        return law.cdf_before(target), law.cdf(target)
    low, high = grid.edges(target)
    # Laws take finite values only; where there is no end the cdf is 0 or 1.
    if grid.step is None:  # an upper cap is part of what it stands for
        below, above = law.cdf_before(target), law.cdf(target)
    else:
        below = law.cdf(torch.where(low.isinf(), target, low))
        above = law.cdf(torch.where(high.isinf(), target, high))
    return below.masked_fill(low.isinf(), 0), above.masked_fill(high.isinf(), 1)


def _warn_of(grid: TargetGrid, target: Tensor) -> None:
    distinct = len(set(target.tolist()))
    warnings.warn(
        f"y looks {grid.describe()} ({distinct} distinct values in {len(target)} "
        f"rows), so randomized PIT values are used. Pass grid={grid} to do so without "
        "this warning, or randomized=False for plain ones.",
        GriddedTargetWarning,
        stacklevel=3,
    )
