"""Distributions made from others: transformed, truncated, censored, rounded, moved."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.distributions._numerics import integrated_crps, moments
from calibrant.distributions.base import (
    AbstractDistribution,
    FromBothTails,
    Shape,
    Source,
    joint_shape,
    same_value,
)
from calibrant.protocols import PitValues, TargetTransform
from calibrant.validation import ArrayLike, InputError, as_float_tensor, pit_from_cdf

#: Values of the base; which of these lie below all that comes, and above.
Places = tuple[Tensor, Tensor, Tensor]


class DerivedDistribution(AbstractDistribution, ABC):
    """A distribution made from another one, its ``base``, row by row; abstract."""

    base: AbstractDistribution
    #: Moments that were computed already.
    _kept: tuple[Tensor, Tensor] | None = None

    def _outside(self, value: Tensor) -> Tensor:
        """Where values ``(..., *batch_shape)`` of the base lie in this one."""
        return value

    def _kinks(self) -> Tensor | None:
        places = self.base._kinks()
        return None if places is None else self._outside(places).to(self.dtype)

    def _atoms(self) -> Tensor | None:
        places = self.base._atoms()
        return None if places is None else self._outside(places).to(self.dtype)

    @property
    def _like(self) -> Tensor:
        return self.base._like

    @property
    def _searched(self) -> bool:
        return self.base._searched

    @property
    def _least_tail(self) -> float:
        return self.base._least_tail

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self.base.batch_shape

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance, in float64, computed once unless with a graph."""
        if self._kept is not None:
            return self._kept
        found = moments(self)
        if not self._trained:
            self._kept = found
        return found

    def _crps(self, value: Tensor) -> Tensor:
        return integrated_crps(self, value).to(self._answer_dtype(value))


class _Moved(DerivedDistribution, ABC):
    """A distribution whose values are those of another one, moved by ``_outside``."""

    #: Whether the cdf jumps even where that of the base does not.
    _jumps = False

    @abstractmethod
    def _inside(self, value: Tensor, before: bool = False) -> Places:
        """Values of the base, and what lies outside of all that comes."""

    def _base_value(self, value: Tensor, inner: Tensor) -> Tensor:
        """Values of the base; rounding must not move one off its atom."""
        atoms, inner_atoms = self._atoms(), self.base._atoms()
        if atoms is None or inner_atoms is None:
            return inner
        for atom, own in zip(atoms, inner_atoms, strict=True):
            inner = torch.where(same_value(value, atom), own.to(inner.dtype), inner)
        return inner

    def _pit(self, value: Tensor) -> PitValues:
        z, below, above = self._inside(value)
        return self._ended(self.base._pit(z), below, above, value)

    def _pit_before(self, value: Tensor) -> PitValues | None:
        z, below, above = self._inside(value, before=True)
        before = self.base._pit_before(z)
        if before is None and not self._jumps:
            return None
        pit = self.base._pit(z) if before is None else before
        return self._ended(pit, below, above, value)

    def _ended(
        self, pit: PitValues, below: Tensor, above: Tensor, value: Tensor
    ) -> PitValues:
        """PIT values of the base, 0 below and 1 above."""
        ends = pit_from_cdf(above.to(pit.cdf.dtype))
        filled = (_filled(*pair, below | above) for pair in zip(pit, ends, strict=True))
        return PitValues(*(part.to(self._answer_dtype(value)) for part in filled))

    def _level_kinks(self) -> Tensor | None:
        return self.base._level_kinks()

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        z, below, above = self._inside(value)
        cdf, survival = self.base._tails(z)
        cdf = _filled(cdf, above.to(cdf), below | above)
        return cdf, _filled(survival, below.to(survival), below | above)

    def _density(self, z: Tensor, log_slope: Tensor) -> Tensor:
        """Logarithm of the base's density, or of a probability, which has no unit."""
        atom = self.base._at_atom(z)
        if atom is not None:
            log_slope = torch.where(atom, 0.0, log_slope)
        return self.base._log_prob(z) + log_slope

    def _quantile(self, level: Tensor) -> Tensor:
        return self._outside(self.base._quantile(level)).to(self.dtype)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._outside(self.base._upper_quantile(survival)).to(self.dtype)

    def _quantile_at(self, cdf: Tensor, survival: Tensor) -> Tensor:
        return self._outside(self.base._quantile_at(cdf, survival))

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        return self._outside(self.base._sample(shape, generator)).to(self.dtype)


class Transformed(_Moved):
    r"""Distribution of :math:`Y = g^{-1}(Z)` for one of :math:`Z`, for each row.

    The prediction of a model of transformed targets :math:`g(y)`, in their own unit:

    .. math::
        F_Y(y) = F_Z(g(y)), \qquad
        Q_Y(p) = g^{-1}(Q_Z(p)), \qquad
        \log f_Y(y) = \log f_Z(g(y)) + \log g'(y) .

    Outside of the support of g the cdf is 0 or 1 and ``log_prob`` is ``-inf``. Moments
    and ``crps`` are integrals as in :class:`Recalibrated`. A moment that runs off, as
    that of Student's t under ``log``, is ``inf``, and ``crps`` raises.

    Parameters
    ----------
    base
        The distribution of :math:`Z`, of any batch shape.
    transform
        The map g: an entry of ``TRANSFORMS``, fitted, or your own ``TargetTransform``.

    Examples
    --------
    >>> from calibrant.distributions import Gaussian
    >>> from calibrant.transforms import TRANSFORMS
    >>> predictive = Transformed(Gaussian([0.0, 1.0], 0.5), TRANSFORMS["log"]())
    >>> [round(value, 4) for value in predictive.mean.tolist()]
    [1.1331, 3.0802]
    """

    _parameters = ("base", "transform")
    _shared = ("transform",)

    def __init__(self, base: AbstractDistribution, transform: TargetTransform) -> None:
        self.base, self.transform = base, transform

    def _outside(self, value: Tensor) -> Tensor:
        return self.transform.inverse(value.double())

    def _inside(self, value: Tensor, before: bool = False) -> Places:  # noqa: ARG002
        z = self._image(value)[1]
        low, high = self.transform.support
        return z, value.double() <= low, value.double() >= high

    def _image(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value and image in float64, the median's if not inside; who is inside."""
        y = value.double()
        low, high = self.transform.support
        inside = (y > low) & (y < high)
        if not inside.all():
            y = torch.where(inside, y, self._outside(self.base.quantile(0.5)).detach())
        # A power of a large number may be none.
        limit = torch.finfo(torch.float64).max
        z = self.transform.forward(y).clamp(-limit, limit)
        return y, self._base_value(y, z), inside

    def _log_prob(self, value: Tensor) -> Tensor:
        y, z, inside = self._image(value)
        density = self._density(z, self.transform.log_derivative(y))
        density = torch.where(inside, density, -torch.inf)
        return density.to(self._answer_dtype(value))

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        drawn = super()._sample(shape, generator)
        # Rounding may reach the ends of the support, which have no likelihood.
        low, high = torch.tensor(self.transform.support).to(drawn)
        return drawn.clamp(torch.nextafter(low, high), torch.nextafter(high, low))


class _Bounded(DerivedDistribution, ABC):
    """A distribution with two bounds for each row, kept in float64."""

    _parameters = ("base", "low", "high")

    def __init__(
        self,
        base: AbstractDistribution,
        low: ArrayLike = -math.inf,
        high: ArrayLike = math.inf,
    ) -> None:
        self.base = base
        # In float64: rounded to float32, a bound is not the target that was recorded.
        self.low, self.high = (
            _bound(bound, base, name) for bound, name in ((low, "low"), (high, "high"))
        )
        wrong = ~(self.low < self.high)
        if wrong.any():
            raise InputError(
                "low must be below high in every row, and it is not in "
                f"{int(wrong.sum())} of {wrong.numel()}. Swap them, or leave one out."
            )

    def _placed(self, value: Tensor) -> Tensor:
        """Values in float64, where a bound in any float type is the bound itself."""
        y = value.double()
        for bound in (self.low, self.high):
            own = bound.to(self.dtype).double()
            same = (value == bound.to(value.dtype)) | (y == own)
            y = torch.where(same, bound, y)
        return y


def _bound(bound: ArrayLike, base: AbstractDistribution, name: str) -> Tensor:
    values = as_float_tensor(bound, name=name).double()
    if values.ndim != 0 and values.shape != base.batch_shape:
        raise InputError(
            f"{name} must be a number or have the batch shape "
            f"{tuple(base.batch_shape)}, got {tuple(values.shape)}."
        )
    return values.to(base._like.device).expand(base.batch_shape)


def log_between(low: PitValues, high: PitValues) -> Tensor:
    """Logarithm of the probability between two values; ``-inf`` if there is none."""
    lower = _log_difference(high.log_cdf, low.log_cdf)
    upper = _log_difference(low.log_survival, high.log_survival)
    outside = low.cdf + high.survival
    some = outside < 1
    middle = torch.where(
        some, torch.log1p(-torch.where(some, outside, 0.5)), -torch.inf
    )
    answer = torch.where(low.survival <= 0.5, upper, middle)
    answer = torch.where(high.cdf <= 0.5, lower, answer)
    return torch.where(outside.isnan(), torch.nan, answer)


def _log_difference(larger: Tensor, smaller: Tensor) -> Tensor:
    """Logarithm of the difference of two exponentials, with a finite gradient."""
    gap = smaller - larger
    some = gap < 0  # false for NaN, the difference of two that are 0
    safe = torch.where(some, gap, -1.0)
    start = torch.where(some, larger, 0.0)
    return torch.where(some, start + torch.log(-torch.expm1(safe)), -torch.inf)


class _Inside(NamedTuple):
    """What lies between the bounds, all of ``batch_shape``."""

    low: PitValues  # just below the lower bound
    high: PitValues  # at the upper one
    log_mass: Tensor  # 0 where there is none
    empty: Tensor  # rows without mass
    point: Tensor  # where such a row puts all of it


class Truncated(FromBothTails, _Bounded):
    r"""The given distribution on the condition that the target lies in :math:`[a, b]`.

    .. math::
        F_T(y) = \frac{F(y) - F(a)}{F(b) - F(a)}, \qquad
        \log f_T(y) = \log f(y) - \log(F(b) - F(a))

    for :math:`a \le y \le b`; outside the cdf is 0 or 1 and ``log_prob`` is ``-inf``.
    An interval far out in a tail is as precise as any, and an atom on a bound belongs
    to it. Where the base has no mass inside, all of it is put at the nearest bound,
    where ``log_prob`` is ``inf``. ``mean``, ``variance`` and ``crps`` are integrals.

    Parameters
    ----------
    base
        The given distribution, of any batch shape.
    low, high
        The bounds :math:`a < b`, numbers or of shape ``batch_shape``; ``-inf`` and
        ``inf`` are no bound.

    Examples
    --------
    >>> from calibrant.distributions import Gaussian
    >>> predictive = Truncated(Gaussian([0.0, -50.0], 1.0), 0.0)
    >>> [round(value, 4) for value in predictive.mean.tolist()]
    [0.7979, 0.0]
    """

    def _pit(self, value: Tensor) -> PitValues:
        return self._shares(value, before=False)

    def _pit_before(self, value: Tensor) -> PitValues:
        return self._shares(value, before=True)

    def _shares(self, value: Tensor, *, before: bool) -> PitValues:
        """Both tails between the bounds, from those of the base."""
        y, inside = self._placed(value), self._inside()
        at, dtype = y.clamp(self.low, self.high), self._answer_dtype(value)
        pit = self._base_pit(at, before=before)
        # Exactly 0 or 1 outside, and a step where there is no mass.
        low, high = (
            torch.where(inside.empty, inside.point, end)
            for end in (self.low, self.high)
        )
        zero, one = (y <= low, y > high) if before else (y < low, y >= high)
        known = ~inside.log_mass.isnan()  # a diverged model stays NaN
        zero, one = zero & known, one & known
        log_cdf = log_between(inside.low, pit) - inside.log_mass
        log_survival = log_between(pit, inside.high) - inside.log_mass
        log_cdf = torch.where(one, 0.0, torch.where(zero, -torch.inf, log_cdf))
        log_survival = torch.where(zero, 0.0, log_survival)
        log_survival = torch.where(one, -torch.inf, log_survival)
        logs = [log_cdf.clamp_max(0), log_survival.clamp_max(0)]
        least = math.log(torch.finfo(dtype).tiny)  # a logarithm of 0 stays finite
        floored = (torch.where(log == -torch.inf, least, log) for log in logs)
        found = PitValues(logs[0].exp(), logs[1].exp(), *floored)
        return found.map(lambda part: part.to(dtype))

    def _log_prob(self, value: Tensor) -> Tensor:
        y, inside = self._placed(value), self._inside()
        density = self.base._log_prob(y.clamp(self.low, self.high)) - inside.log_mass
        within = (y >= self.low) & (y <= self.high) & ~inside.empty
        density = torch.where(within | density.isnan(), density, -torch.inf)
        at_point = inside.empty & (y == inside.point)
        density = torch.where(at_point, torch.inf, density)
        return density.to(self._answer_dtype(value))

    def _quantile_at(self, cdf: Tensor, survival: Tensor) -> Tensor:
        inside = self._inside()
        below = torch.logaddexp(inside.low.log_cdf, cdf.log() + inside.log_mass)
        above = torch.logaddexp(
            inside.high.log_survival, survival.log() + inside.log_mass
        )
        unknown = inside.log_mass.isnan()  # a diverged model, asked for its median
        least = self.base._least_tail
        tails = (
            torch.where(unknown, 0.5, part.clamp_max(0).exp().clamp_min(least))
            for part in (below, above)
        )
        found = self.base._quantile_at(*tails).double()
        found = found.clamp(self.low, self.high).where(~unknown, torch.nan)
        # Only levels of 0 and 1 may reach the ends of the support.
        ends = (cdf <= 0) | (survival <= 0)
        if ends.any():
            level = torch.where(ends, cdf, 0.5).to(self.dtype)
            outer = self.base._quantile(level).double()
            found = torch.where(ends, outer.clamp(self.low, self.high), found)
        return torch.where(inside.empty, inside.point, found)

    def _inside(self) -> _Inside:
        """Probabilities at the bounds, with a graph of their own in every call."""
        low, high = self._pit_at(self.low, before=True), self._pit_at(self.high)
        log_mass = log_between(low, high)
        empty = log_mass == -torch.inf
        point = torch.where(high.cdf < 0.5, self.high, self.low)
        return _Inside(low, high, torch.where(empty, 0.0, log_mass), empty, point)

    def _pit_at(self, bound: Tensor, *, before: bool = False) -> PitValues:
        """PIT values of the base, float64, at or below bounds that may be infinite."""
        finite = bound.isfinite()
        pit = self._base_pit(torch.where(finite, bound, 0.0), before=before)
        above = (bound > 0).double()
        ends = PitValues(above, 1 - above, above.log(), (1 - above).log())
        return pit.map(lambda part: part.double()).where(finite, ends)

    def _base_pit(self, value: Tensor, *, before: bool) -> PitValues:
        pit = self.base._pit_before(value) if before else None
        return self.base._pit(value) if pit is None else pit


class Censored(_Bounded, _Moved):
    r"""The distribution of :math:`\min(\max(Y, a), b)`, with mass on the bounds.

    For targets that pile up there, as rainfall at 0. At a bound ``log_prob`` is the
    logarithm of a probability, elsewhere of a density (Tobin 1958): a mean over both is
    a proper score, but no likelihood per unit.

    Parameters
    ----------
    base
        The distribution of :math:`Y`, of any batch shape.
    low, high
        :math:`a < b`, numbers or of shape ``batch_shape``; infinite for none.

    References
    ----------
    Tobin (1958), *Estimation of Relationships for Limited Dependent Variables*.

    Examples
    --------
    >>> from calibrant.distributions import Gaussian
    >>> predictive = Censored(Gaussian([0.0], [1.0]), low=0.0)
    >>> predictive.quantile(0.3).tolist(), round(predictive.cdf([0.0]).item(), 3)
    ([0.0], 0.5)
    >>> round(predictive.mean.item(), 4)  # 1 / sqrt(2 pi)
    0.3989
    """

    _jumps = True
    _searched = True  # the cdf is smooth between the bounds, the quantiles bend there

    def _outside(self, value: Tensor) -> Tensor:
        return value.clamp(self.low.to(value.dtype), self.high.to(value.dtype))

    def _inside(self, value: Tensor, before: bool = False) -> Places:
        y = self._placed(value)
        z = self._outside(y).to(value.dtype)
        if before:
            return z, y <= self.low, y > self.high
        return z, y < self.low, y >= self.high

    def _atoms(self) -> Tensor | None:
        return self._with_bounds(super()._atoms())

    def _kinks(self) -> Tensor | None:
        return self._with_bounds(super()._kinks())

    def _with_bounds(self, inner: Tensor | None) -> Tensor | None:
        own = [bound for bound in (self.low, self.high) if bound.isfinite().any()]
        inner = self._like.new_empty(0, *self.batch_shape) if inner is None else inner
        places = torch.cat([*(bound.to(self.dtype)[None] for bound in own), inner])
        return places if len(places) else None

    def _log_prob(self, value: Tensor) -> Tensor:
        y = self._placed(value)
        inside = self._outside(y).to(value.dtype)
        pit, before = self.base._pit(inside), self.base._pit_before(inside)
        at_least = pit.log_survival if before is None else before.log_survival
        density = self.base._log_prob(inside)
        density = torch.where(y == self.low, pit.log_cdf, density)
        density = torch.where(y == self.high, at_least, density)
        outside = (y < self.low) | (y > self.high)
        return _filled(density, torch.full_like(density, -torch.inf), outside)


def _filled(values: Tensor, ends: Tensor, outside: Tensor) -> Tensor:
    """Put what is known beyond the bounds, except where the base says NaN."""
    return torch.where(outside & ~values.isnan(), ends, values)


class Rounded(_Moved):
    r"""The distribution of :math:`Y`, rounded to the nearest of some values.

    For targets that take few values, as ratings: intervals end on values, and the CRPS
    is lower. Each value has the mass between the middles on both sides of it, the first
    and the last also all beyond. ``log_prob`` is the logarithm of a probability.

    Parameters
    ----------
    base
        The distribution of :math:`Y`, of any batch shape.
    values
        What can come, ascending, the same for all rows, shape ``(k,)``.

    Examples
    --------
    >>> from calibrant.distributions import Gaussian
    >>> rating = Rounded(Gaussian([3.2], [0.6]), [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> [end.item() for end in rating.interval(0.9)]
    [2.0, 4.0]
    >>> round(rating.log_prob([3.0]).exp().item(), 3)
    0.57
    """

    _parameters = ("base", "values")
    _shared = ("values",)
    _jumps = True

    def __init__(self, base: AbstractDistribution, values: ArrayLike) -> None:
        self.base = base
        self.values = as_float_tensor(values, name="values").to(base._like)
        if self.values.ndim != 1 or not bool((self.values.diff() > 0).all()):
            raise InputError(
                "values must be ascending, shape (k,), got shape "
                f"{tuple(self.values.shape)}."
            )
        self._middles = (self.values[:-1] + self.values[1:]) / 2

    def _outside(self, value: Tensor) -> Tensor:
        # A quantile that is a middle up to its rounding belongs to the value below.
        middles = (self._middles + 1e-7 * self.values.diff()).to(value.dtype)
        return self.values[torch.searchsorted(middles, value.contiguous())]

    def _inside(self, value: Tensor, before: bool = False) -> Places:
        """Middles above the last of the values that lie up to these, or below them."""
        values, k = self.values.to(value.dtype), len(self.values)
        count = torch.searchsorted(values, value.contiguous(), right=not before)
        # One that is off by its rounding is the value.
        for shift in (-1, 0):
            place = (count + shift).clamp(0, k - 1)
            same = same_value(value, values[place])
            count = torch.where(same, place + (0 if before else 1), count)
        count = count.expand(joint_shape(value.shape, self.batch_shape))
        edge = self.values[:1] if k == 1 else self._middles
        return edge[(count - 1).clamp(0, len(edge) - 1)], count == 0, count == k

    def _log_prob(self, value: Tensor) -> Tensor:
        low, high = self._pit_before(value), self._pit(value)
        # Between two values both are equal: there is no mass.
        return log_between(low, high)  # type: ignore[arg-type]

    def _atoms(self) -> Tensor:
        return self._for_each_row(self.values)

    def _kinks(self) -> Tensor:
        return self._atoms()

    def _cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """Lengths between neighbors, and cdf and survival there, ``(k - 1, ...)``."""
        middles = self._for_each_row(self._middles)
        cdf, survival = self.base._tails(middles)
        return self._for_each_row(self.values.diff()), cdf, survival

    def _moments(self) -> tuple[Tensor, Tensor]:
        length, cdf, survival = self._cells()
        mean = self.values[0] + (length * survival).sum(0)
        zero, one = torch.zeros_like(cdf[:1]), torch.ones_like(cdf[:1])
        steps = torch.cat([zero, cdf, one]).diff(dim=0)
        distance = self._for_each_row(self.values) - mean
        return mean, (steps * distance.square()).sum(0)

    def _crps(self, value: Tensor) -> Tensor:
        length, cdf, survival = self._cells()
        value = value.expand(joint_shape(value.shape, self.batch_shape))
        low, high = self.values[0], self.values[-1]
        score = (low - value).clamp_min(0) + (value - high).clamp_min(0)
        for place, start in enumerate(self.values[:-1]):
            below = (value - start).clamp_min(0).clamp_max(length[place])
            score = score + below * cdf[place].square()
            score = score + (length[place] - below) * survival[place].square()
        return score.to(self._answer_dtype(value))


class Affine(_Moved):
    r"""The distribution of :math:`c + s\,Y` for each row; :func:`rescaled` makes it.

    ``center`` c and ``scale`` s have the shape ``batch_shape`` and one dtype.
    """

    _parameters = ("base", "center", "scale")

    def __init__(
        self, base: AbstractDistribution, center: Tensor, scale: Tensor
    ) -> None:
        self.base, self.center, self.scale = base, center, scale

    def _moments(self) -> tuple[Tensor, Tensor]:
        base = self.base
        return self._outside(base.mean), self.scale.square() * base.variance

    @property
    def _like(self) -> Tensor:
        return self.center

    def _inside(self, value: Tensor, before: bool = False) -> Places:  # noqa: ARG002
        never = torch.zeros_like(value, dtype=torch.bool)
        z = self._base_value(value, (value - self.center) / self.scale)
        return z, never, never

    def _outside(self, value: Tensor) -> Tensor:
        return self.center + self.scale * value

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._density(self._inside(value)[0], -self.scale.log())

    def _crps(self, value: Tensor) -> Tensor:
        return self.scale * self.base._crps(self._inside(value)[0])
