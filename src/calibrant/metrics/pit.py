"""PIT values of held-out targets, randomized where the plain ones have steps."""

import math
import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.metrics._counts import torch_generator
from calibrant.metrics._rows import rows
from calibrant.metrics.target_grid import (
    GriddedTargetWarning,
    TargetGrid,
    detect_grid,
)

__all__ = ["material_grid", "pit_values", "recorded_pit"]

#: Rounding moves the calibration curve by half the mean width of the PIT intervals. It
#: matters from 0.01 on, and for many rows from half a standard error of the curve on.
_MATERIAL_WIDTH = 0.02
_MATERIAL_ERRORS = 0.5


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
