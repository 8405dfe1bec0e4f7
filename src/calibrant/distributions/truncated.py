"""A law that is known to stay between two bounds."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor, pit_from_cdf
from calibrant.contracts import PitValues
from calibrant.distributions._between import log_between, on_bounds
from calibrant.distributions._derived import DerivedDistribution
from calibrant.distributions._level_integrals import (
    LevelIntegrals,
    even_rule,
    quantiles_at,
    refuse_endless_crps,
)
from calibrant.distributions._outline import Bumps
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Truncated"]

# Mass inside from which on a difference of tails is precise.
_MUCH = 0.1


class _Inside(NamedTuple):
    """What lies between the bounds, all of ``batch_shape``."""

    low: PitValues  # just below the lower bound
    high: PitValues  # at the upper one
    log_mass: Tensor  # 0 where there is none
    empty: Tensor  # rows without mass
    point: Tensor  # where such a row puts all of it


class Truncated(DerivedDistribution):
    r"""The given law on the condition that the target lies in :math:`[a, b]`.

    .. math::
        F_T(y) = \frac{F(y) - F(a)}{F(b) - F(a)}, \qquad
        \log f_T(y) = \log f(y) - \log(F(b) - F(a))

    for :math:`a \le y \le b`; outside the cdf is 0 or 1 and ``log_prob`` is ``-inf``.
    All differences are taken in the tail where they are not rounded, so an interval
    far out in a tail is as precise as any. An atom on a bound (samples) belongs to the
    interval.

    Where the base has no mass inside that floats can tell from 0, all of it is put at
    the bound that is nearest to the base: the cdf is a step there, and ``log_prob`` is
    ``inf`` at the bound and ``-inf`` elsewhere. Quantiles, moments and samples are at
    that bound as soon as the mass is below 1e-307 (1e-37 in float32), while ``cdf`` and
    ``log_prob`` follow the base as far as the logarithms of its tails do.

    ``mean``, ``variance`` and ``crps`` are integrals over levels as in
    :class:`Recalibrated`: below 1e-6 standard deviations off for smooth laws, 1e-4 for
    quantile tables and mixtures with a gap, and some 1e-3 for samples, whose steps have
    no common levels once rows are cut differently. A moment that is infinite on a side
    without a bound, as the mean of Student's t with one degree of freedom, is so here
    if float64 shows it; ``crps`` then raises.

    Parameters
    ----------
    base
        The given law, of any batch shape.
    low, high
        The bounds :math:`a < b`, numbers or of shape ``batch_shape``; ``-inf`` and
        ``inf`` are no bound.

    Examples
    --------
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> law = Truncated(Gaussian([0.0, -50.0], 1.0), 0.0)
    >>> [round(value, 4) for value in law.cdf([1.0, 0.02]).tolist()]
    [0.6827, 0.6323]
    >>> [round(value, 4) for value in law.mean.tolist()]
    [0.7979, 0.0]
    """

    def __init__(
        self,
        base: AbstractDistribution,
        low: ArrayLike = -math.inf,
        high: ArrayLike = math.inf,
    ) -> None:
        self._base = base
        self._low, self._high = (
            _bound(bound, base, name) for bound, name in ((low, "low"), (high, "high"))
        )
        if not (self._low < self._high).all():
            raise InputError(
                "low must be below high in every row, and it is not in "
                f"{int((~(self._low < self._high)).sum())} of {self._low.numel()}. "
                "Swap them, or leave one out: -inf and inf are no bound."
            )

    @property
    def low(self) -> Tensor:
        """Lower bound of each row, float64, shape ``batch_shape``."""
        return self._low

    @property
    def high(self) -> Tensor:
        """Upper bound of each row, float64, shape ``batch_shape``."""
        return self._high

    def __getitem__(self, rows: slice | Tensor) -> "Truncated":
        """Select rows of the first batch axis."""
        return Truncated(self._base[rows], self._low[rows], self._high[rows])

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._moments()[0].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return self._moments()[1].to(self.dtype)

    def _pit(self, value: Tensor) -> PitValues:
        y, inside = self._placed(value), self._inside()
        pit = self._base.pit(y.clamp(self._low, self._high))
        # Exactly 0 or 1 outside, and a step where there is no mass.
        zero = torch.where(inside.empty, y < inside.point, y < self._low)
        one = torch.where(inside.empty, y >= inside.point, y >= self._high)
        return self._share(inside, pit, zero, one, self._answer_dtype(value))

    def _pit_before(self, value: Tensor) -> PitValues | None:
        y, inside = self._placed(value), self._inside()
        at = y.clamp(self._low, self._high)
        pit = self._base._pit_before(at)
        if pit is None:
            if not inside.empty.any():
                return None
            pit = self._base.pit(at)
        zero = torch.where(inside.empty, y <= inside.point, y <= self._low)
        one = torch.where(inside.empty, y > inside.point, y > self._high)
        return self._share(inside, pit, zero, one, self._answer_dtype(value))

    def _share(
        self,
        inside: _Inside,
        pit: PitValues,
        zero: Tensor,
        one: Tensor,
        dtype: torch.dtype,
    ) -> PitValues:
        """Both tails between the bounds, from those of the base."""
        known = ~inside.log_mass.isnan()  # a diverged model stays NaN
        zero, one = zero & known, one & known
        log_cdf = log_between(inside.low, pit) - inside.log_mass
        log_survival = log_between(pit, inside.high) - inside.log_mass
        log_cdf = torch.where(one, 0.0, torch.where(zero, -torch.inf, log_cdf))
        log_survival = torch.where(zero, 0.0, log_survival)
        log_survival = torch.where(one, -torch.inf, log_survival)
        return _from_logs(log_cdf, log_survival, dtype)

    def _placed(self, value: Tensor) -> Tensor:
        return on_bounds(value, self._low, self._high, self.dtype)

    def _atoms(self) -> Tensor | None:
        return self._base._atoms()

    def _cdf(self, value: Tensor) -> Tensor:
        quick = self._quick_tails(value)
        return self._pit(value).cdf if quick is None else quick[0]

    def _survival(self, value: Tensor) -> Tensor:
        quick = self._quick_tails(value)
        return self._pit(value).survival if quick is None else quick[1]

    def _quick_tails(self, value: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cdf and survival by plain division, where float64 and much mass allow it.

        An integral asks for them hundreds of times, and their logarithms cost more.
        """
        if self.dtype != torch.float64:
            return None
        inside = self._inside()
        mass = inside.log_mass.exp()
        if bool((inside.empty | ~(mass >= _MUCH)).any()):  # NaN among them
            return None
        value = self._placed(value)
        y = value.clamp(self._low, self._high)
        cdf = (self._base._cdf(y) - inside.low.cdf).clamp_min(0) / mass
        survival = self._base._survival(y) - inside.high.survival
        survival = survival.clamp_min(0) / mass
        below, above = value < self._low, value >= self._high
        cdf = torch.where(below, 0.0, torch.where(above, 1.0, cdf.clamp_max(1)))
        survival = survival.clamp_max(1)
        survival = torch.where(above, 0.0, torch.where(below, 1.0, survival))
        return cdf, survival

    def _log_prob(self, value: Tensor) -> Tensor:
        y, inside = self._placed(value), self._inside()
        density = self._base.log_prob(y.clamp(self._low, self._high)) - inside.log_mass
        within = (y >= self._low) & (y <= self._high) & ~inside.empty
        density = torch.where(within | density.isnan(), density, -torch.inf)
        at_point = inside.empty & (y == inside.point)
        density = torch.where(at_point, torch.inf, density)
        return density.to(self._answer_dtype(value))

    def _quantile(self, level: Tensor) -> Tensor:
        return self._inverse(pit_from_cdf(level.double()))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._inverse(pit_from_cdf(survival.double()).mirrored())

    def _inverse(self, given: PitValues) -> Tensor:
        inside = self._inside()
        found = self._at(inside, given)
        # Only levels of 0 and 1 may reach the ends of the support.
        ends = (given.cdf <= 0) | (given.survival <= 0)
        if ends.any():
            outer = self._base.quantile(torch.where(ends, given.cdf, 0.5)).double()
            outer = outer.clamp(self._low, self._high)
            outer = torch.where(inside.empty, inside.point, outer)
            found = torch.where(ends, outer, found)
        return found.to(self.dtype)

    def _at(self, inside: _Inside, pit: PitValues) -> Tensor:
        """Quantiles in float64 at PIT values of this law."""
        below = torch.logaddexp(inside.low.log_cdf, pit.log_cdf + inside.log_mass)
        above = torch.logaddexp(
            inside.high.log_survival, pit.log_survival + inside.log_mass
        )
        unknown = inside.log_mass.isnan()  # a diverged model, asked for its median
        below, above = (
            torch.where(unknown, math.log(0.5), part.clamp_max(0))
            for part in (below, above)
        )
        inner = PitValues(below.exp(), above.exp(), below, above)
        smallest = torch.finfo(self.dtype).tiny
        found = quantiles_at(self._base, inner, smallest=smallest).double()
        found = found.clamp(self._low, self._high).where(~unknown, torch.nan)
        return torch.where(inside.empty, inside.point, found)

    def _crps(self, value: Tensor) -> Tensor:
        integrals, center, probe = self._integrals()
        refuse_endless_crps(torch.stack(integrals.endless(1, center, probe=probe)))
        score = integrals.crps(value, self.pit(value.double()))
        return score.to(self._answer_dtype(value))

    def _answer_dtype(self, value: Tensor) -> torch.dtype:
        return torch.promote_types(value.dtype, self.dtype)

    def _moments(self) -> tuple[Tensor, ...]:
        def compute() -> tuple[Tensor, ...]:
            integrals, center, probe = self._integrals()
            return integrals.mean_and_variance(center, probe=probe)

        return self._once(compute)

    def _bumps(self) -> Bumps:
        # Those of the base, and what the bounds make of them.
        own, (centers, scales) = super()._bumps(), self._base._bumps()
        inside = centers.clamp(self._low, self._high)
        return Bumps(torch.cat([own.centers, inside]), torch.cat([own.scales, scales]))

    def _integrals(
        self,
    ) -> tuple[LevelIntegrals, Tensor, Callable[[PitValues], Tensor] | None]:
        """Return integrals, the median, and a probe if floats reach 1e-300."""
        at = partial(self._at, self._inside())
        shape, device = self.batch_shape, self._like.device
        center = at(pit_from_cdf(torch.full_like(self._low, 0.5)))
        probe = at if self.dtype == torch.float64 else None
        integrals = LevelIntegrals(
            even_rule(), at, shape, device, searched=self if self._searched else None
        )
        return integrals, center, probe

    def _inside(self) -> _Inside:
        """Probabilities at the bounds, with a graph of their own in every call."""
        low, high = self._pit_at(self._low, before=True), self._pit_at(self._high)
        log_mass = log_between(low, high)
        empty = log_mass == -torch.inf
        point = torch.where(high.cdf < 0.5, self._high, self._low)
        return _Inside(low, high, torch.where(empty, 0.0, log_mass), empty, point)

    def _pit_at(self, bound: Tensor, *, before: bool = False) -> PitValues:
        """PIT values of the base, float64, at or below bounds that may be infinite."""
        finite = bound.isfinite()
        at = torch.where(finite, bound, 0.0)
        pit = self._base._pit_before(at) if before else None
        pit = (self._base.pit(at) if pit is None else pit).map(lambda p: p.double())
        if finite.all():
            return pit
        above = (bound > 0).double()
        ends = PitValues(above, 1 - above, above.log(), (1 - above).log())
        pairs = zip(pit, ends, strict=True)
        return PitValues(*(torch.where(finite, own, end) for own, end in pairs))


def _bound(bound: ArrayLike, base: AbstractDistribution, name: str) -> Tensor:
    """Return a bound for each row in float64."""
    values = as_float_tensor(bound, name=name).double()
    if values.ndim != 0 and values.shape != base.batch_shape:
        raise InputError(
            f"{name} must be a number or have the law's batch shape "
            f"{tuple(base.batch_shape)}, got {tuple(values.shape)}."
        )
    return values.to(base._like.device).expand(base.batch_shape)


def _from_logs(log_cdf: Tensor, log_survival: Tensor, dtype: torch.dtype) -> PitValues:
    """Both tails of logarithms; those of 0 are that of the smallest float."""
    log_cdf, log_survival = log_cdf.clamp_max(0), log_survival.clamp_max(0)
    least = math.log(torch.finfo(dtype).tiny)
    pit = PitValues(
        log_cdf.exp(),
        log_survival.exp(),
        torch.where(log_cdf == -torch.inf, least, log_cdf),
        torch.where(log_survival == -torch.inf, least, log_survival),
    )
    return pit.map(lambda part: part.to(dtype))
