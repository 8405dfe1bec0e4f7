"""PIT values of held-out targets, and the checks and random streams of all metrics.

Plain PIT values have steps where targets are rounded to a grid or pile up at a cap:
`detect_grid` finds that, and `pit_values` randomizes within the steps.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant.distributions.adapters import CdfDistribution
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.empirical import Empirical
from calibrant.protocols import Distribution
from calibrant.scores import Prediction, distribution_and_target
from calibrant.validation import ArrayLike, InputError, as_target, check_positive

__all__ = ["GriddedTargetWarning", "TargetGrid", "detect_grid", "pit_values"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
#: A grid has at most this many values, each of them five times on average.
_MOST_VALUES = 500
_FEWEST_REPEATS = 5
#: A pile-up holds 1 % of the rows, at least 5, and four times its largest neighbor.
_PILE_SHARE = 0.01
_PILE_ROWS = 5
_PILE_RATIO = 4
_NEIGHBORS = 10
#: Rounding of the numbers themselves, relative to their range.
_ROUNDING = 1e-6
#: Rounding moves the calibration curve by half the mean width of the PIT intervals. It
#: matters from 0.01 on, and for many rows from half a standard error of the curve on.
_MATERIAL_WIDTH = 0.02
_MATERIAL_ERRORS = 0.5
#: Keeps our streams apart from those of a caller who made data with the same seed:
#: noise that repeats the caller's would be correlated with the predictions.
_OUR_STREAMS = 190_506_023


def check_count(value: int, *, name: str, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``."""
    if isinstance(value, bool) or value != int(value) or value < least:
        raise InputError(f"{name} must be a whole number >= {least}, got {value!r}.")
    return int(value)


def check_draws(draws: int) -> int:
    """Return the number of simulations, of which 2.5 % must be at least one."""
    return check_count(draws, name="draws", least=40)


def numpy_generator(seed: int) -> np.random.Generator:
    """Return a generator that repeats no stream of ``default_rng(seed)``."""
    own = [check_count(seed, name="seed", least=0), _OUR_STREAMS]
    return np.random.default_rng(own)


def torch_generator(seed: int, device: torch.device) -> torch.Generator:
    """Return a generator that repeats no stream of ``manual_seed(seed)``."""
    mixed = numpy_generator(seed).integers(2**32)
    return torch.Generator(device).manual_seed(int(mixed))


def row_distribution(distribution: Prediction) -> AbstractDistribution:
    """Return the distribution, which must have batch shape ``(n,)`` with n >= 1."""
    predictive = as_distribution(distribution)
    shape = tuple(predictive.batch_shape)
    if len(shape) != 1 or shape[0] == 0:
        raise InputError(
            "a metric takes one distribution for each row, batch shape (n,) with "
            f"n >= 1, got {shape}. Repeat a single one, (np.full(n, mean), "
            "np.full(n, std)); squeeze a last axis of 1; score the members of an "
            "ensemble one by one, or mix them."
        )
    return predictive


def rows(distribution: Prediction, y: ArrayLike) -> tuple[AbstractDistribution, Tensor]:
    """Return the distribution and its targets, both of shape ``(n,)``.

    An object with nothing but a cdf passes, although it does not tell its shape.
    """
    predictive, target = distribution_and_target(distribution, y)
    base = getattr(predictive, "base", predictive)
    if predictive.batch_shape or not isinstance(base, CdfDistribution):
        row_distribution(predictive)
    if target.ndim != 1 or target.numel() == 0:
        raise InputError(
            f"y must have shape (n,) with n >= 1, got {tuple(target.shape)}."
        )
    return predictive, target


def no_nan(values: Tensor) -> Tensor:
    """Return what a distribution answered for each row, none of it NaN."""
    missing = int(torch.isnan(values).sum())
    if missing:
        raise InputError(
            f"the predicted distribution must be finite: {missing} of {values.numel()} "
            "rows give NaN. The model's mean or spread is NaN or infinite, most often "
            "because training diverged."
        )
    return values


def _finite(values: Tensor, name: str, hint: str) -> Tensor:
    infinite = int((~values.isfinite()).sum())
    if infinite:
        raise InputError(
            f"the {name} must be finite: it is not in {infinite} of {values.numel()} "
            f"rows {hint}"
        )
    return values


def error_of_mean(predictive: Distribution, target: Tensor) -> Tensor:
    """Return mean minus target in float64, checked to be finite, shape ``(n,)``."""
    error = predictive.mean.double() - target.double()
    hint = (
        "(a Student's t with at most 1 degree of freedom has none). Look at mae, which "
        "takes the median."
    )
    return _finite(error, "mean", hint)


def variance_of(predictive: Distribution) -> Tensor:
    """Return the variance in float64, checked to be finite, shape ``(n,)``."""
    variance = predictive.variance.double()
    hint = (
        "(a Student's t with at most 2 degrees of freedom has none). Look at "
        "mean_width instead."
    )
    return _finite(variance, "variance", hint)


@torch.no_grad()
def center_and_spread(
    predictive: Distribution, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation in float64, or median and quartile range.

    A heavy tail has no variance, but it has quartiles. Samples are taken together with
    the target: groups of rows by the samples' own spread are not fair, since few
    samples that happen to lie close cover the target too rarely even if all come from
    one distribution. What treats target and samples alike says nothing of the target's
    rank among them.
    """
    if isinstance(predictive, Empirical):
        samples = predictive.samples
        predictive = Empirical(torch.cat([samples, target[None].to(samples)]))
    try:
        center, spread = predictive.mean.double(), predictive.stddev.double()
        if bool((center.isfinite() & spread.isfinite()).all()):
            return center, spread
    except InputError:
        pass
    lower, upper = predictive.interval(0.5)
    return predictive.quantile(0.5).double(), (upper - lower).double()


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
        """Return both ends of each target's interval, shape kept; caps are infinite."""
        half = 0.0 if self.step is None else self.step / 2
        lower_cap, upper_cap = self._caps
        low = torch.where(y <= lower_cap, -math.inf, y - half)
        return low, torch.where(y >= upper_cap, math.inf, y + half)

    def round(self, y: Tensor) -> Tensor:
        """Return what would be recorded of exact outcomes ``y``, shape kept."""
        if self.step is not None:
            y = self.offset + self.step * ((y - self.offset) / self.step).round()
        return y.clamp(*self._caps)

    def describe(self) -> str:
        """Say in words how targets are recorded."""
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
    of the rows (and five), four times as many as any of its ten neighbors. A small test
    fold shows less than all data: detect the grid of all known targets and pass it to
    :func:`pit_values`. ``None`` for a continuous target.

    Parameters
    ----------
    y
        Targets, shape ``(n,)``.

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
    distinct, counts = np.unique(values.double().cpu().numpy(), return_counts=True)
    first = float(distinct[0])
    few = 2 <= len(distinct) <= min(_MOST_VALUES, len(values) / _FEWEST_REPEATS)
    step = _common_step(distinct) if few else None
    lower = first if _piles_up(counts) else None
    upper = float(distinct[-1]) if _piles_up(counts[::-1]) else None
    if step is None:
        none = lower is None and upper is None
        return None if none else TargetGrid(None, 0.0, lower, upper)
    offset = first - step * round(first / step)
    offset = 0.0 if abs(offset) < 1e-6 * step else offset
    return TargetGrid(step, offset, lower, upper)


def _common_step(distinct: Floats) -> float | None:
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


def _piles_up(counts: Integers) -> bool:
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
    r"""PIT values, uniform under perfect calibration also for rounded or capped y.

    The plain PIT value :math:`F(y)` cannot be uniform when the target takes few values
    (wine quality: six integers) or piles up (house prices capped at 50). The randomized
    one can:

    .. math::
        u = F(a) + V \, (F(b) - F(a)), \qquad V \sim \mathcal{U}[0, 1] ,

    where the recorded target stands for an outcome in :math:`(a, b]`.

    Of samples (:class:`~calibrant.distributions.empirical.Empirical`) the share below
    the target takes few values, and is too often 0 or 1 even for a perfect sampler.
    Their value is the target's rank among the ``m`` draws, as in a rank histogram,

    .. math::
        u = \frac{k + V \, (t + 1)}{m + 1} ,

    with :math:`k` draws below the target and :math:`t` equal to it (on a grid: in its
    interval). It is exactly uniform where target and draws come from one distribution.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``: anything that
        :func:`~calibrant.distributions.conversion.as_distribution` takes.
    y
        Held-out targets, shape ``(n,)``.
    randomized
        ``"auto"``: where the predicted distribution has an atom at the target, as
        :class:`~calibrant.distributions.derived.Censored` has at its bounds, with
        :math:`F(y^-)` and :math:`F(y)` as ends; and where ``grid`` is given, or
        :func:`detect_grid` finds one that matters, with a
        :class:`GriddedTargetWarning`. Rounding matters where it leaves PIT values open
        by more than 0.02 on average (a step of about 0.07 predicted standard
        deviations), or :math:`1 / (2 \sqrt n)` if that is less. ``True``: always, with
        :math:`F(y^-)` below a target that is not on a grid; samples are then taken as
        the distribution itself. ``False``: never, :math:`F(y)`.
    grid
        What the targets stand for, when you know it.
    generator
        Source of :math:`V`; a fixed seed by default, so that a number does not change
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
    >>> predictive = Gaussian([5.2, 5.9, 5.5], 0.7)
    >>> round(pit_values(predictive, [5.0, 6.0, 5.0], randomized=False)[2].item(), 3)
    0.238
    >>> u = pit_values(predictive, [5.0, 6.0, 5.0], grid=TargetGrid(step=1))
    >>> low, high = predictive.cdf([4.5, 5.5, 4.5]), predictive.cdf([5.5, 6.5, 5.5])
    >>> bool(low[2] < u[2] < high[2])
    True
    """
    predictive, target = rows(distribution, y)
    target = target.detach()
    if randomized not in (True, False, "auto"):
        raise InputError(
            f'randomized must be "auto", True or False, got {randomized!r}.'
        )
    if grid is not None:
        if randomized is False:
            raise InputError(
                "a grid is used for randomized PIT values only, got randomized=False "
                "with a grid. Drop one of them."
            )
        _check_on_grid(target, grid)
    with torch.no_grad():
        if not randomized:
            return predictive.cdf(target)
        if randomized is True:
            grid = detect_grid(target) if grid is None else grid
            return _anywhere(*_pit_interval(predictive, target, grid), generator)
        if grid is None:
            grid = material_grid(predictive, target)
            if grid is not None:
                warnings.warn(
                    f"y looks {grid.describe()} ({len(target.unique())} distinct "
                    f"values in {len(target)} rows), so randomized PIT values are "
                    f"used. Pass grid={grid} to do so without this warning, or "
                    "randomized=False for plain ones.",
                    GriddedTargetWarning,
                    stacklevel=2,
                )
        return recorded_pit(predictive, target, grid, generator=generator)


@torch.no_grad()
def recorded_pit(
    predictive: AbstractDistribution,
    target: Tensor,
    grid: TargetGrid | None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """PIT values of targets on a known grid, or taken as they are for ``None``.

    The core of :func:`pit_values`: ranks for samples, else randomized on a grid and at
    atoms of the predicted distribution only.
    """
    low, high = _pit_interval(predictive, target, grid)
    if isinstance(predictive, Empirical):
        draws = len(predictive.samples)
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


@torch.no_grad()
def material_grid(
    predictive: AbstractDistribution, target: Tensor
) -> TargetGrid | None:
    """Detect the grid, without a step that is small against the predicted spread.

    It is what :func:`pit_values` takes by itself; ``None`` for plain values.
    """
    grid = detect_grid(target)
    if grid is None or grid.step is None:
        return grid
    low, high = _pit_interval(predictive, target, TargetGrid(grid.step, grid.offset))
    enough = min(_MATERIAL_WIDTH, _MATERIAL_ERRORS / math.sqrt(len(target)))
    if float((high - low).mean()) >= enough:
        return grid
    caps = grid.lower_cap, grid.upper_cap
    return None if caps == (None, None) else TargetGrid(None, 0.0, *caps)


def _check_on_grid(target: Tensor, grid: TargetGrid) -> None:
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
    predictive: AbstractDistribution, target: Tensor, grid: TargetGrid | None
) -> tuple[Tensor, Tensor]:
    """F just below and at each target, or at both ends of its interval."""
    if grid is None:
        return predictive.cdf_before(target), predictive.cdf(target)
    low, high = grid.edges(target)
    # A cdf takes finite values only; where there is no end it is 0 or 1.
    if grid.step is None:  # an upper cap is part of what it stands for
        below, above = predictive.cdf_before(target), predictive.cdf(target)
    else:
        below = predictive.cdf(torch.where(low.isinf(), target, low))
        above = predictive.cdf(torch.where(high.isinf(), target, high))
    return below.masked_fill(low.isinf(), 0), above.masked_fill(high.isinf(), 1)
