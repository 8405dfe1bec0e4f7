"""A law whose values beyond bounds are recorded at the bounds."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor, pit_from_cdf
from calibrant.contracts import PitValues
from calibrant.distributions._between import on_bounds
from calibrant.distributions._derived import DerivedDistribution
from calibrant.distributions._outline import Around, Bumps, Tails
from calibrant.distributions._value_integrals import crps_by_values, moments_by_values
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Censored"]


class Censored(DerivedDistribution):
    r"""The law of :math:`\min(\max(Y, a), b)`, with mass on the bounds themselves.

    For targets that pile up there: no rain, a sold-out house, a capped price. At a
    bound ``log_prob`` is the logarithm of a probability, elsewhere that of a density
    (Tobin 1958), so a mean over both is a proper score, but no likelihood per unit.
    Distributions that are built on this one (``Recalibrated``, ``Transformed``,
    ``Truncated``, ``Mixture``) do the same: at an atom ``log_prob`` is the logarithm of
    the jump of the cdf.

    Parameters
    ----------
    base
        The law of :math:`Y`, of any batch shape.
    low, high
        :math:`a < b`, numbers; infinite for none.

    References
    ----------
    Tobin (1958), *Estimation of Relationships for Limited Dependent Variables*.

    Examples
    --------
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> law = Censored(Gaussian([0.0], [1.0]), low=0.0)
    >>> law.quantile(0.3).tolist(), round(law.cdf([0.0]).item(), 3)
    ([0.0], 0.5)
    >>> round(law.mean.item(), 4)  # 1 / sqrt(2 pi)
    0.3989
    """

    def __init__(
        self,
        base: AbstractDistribution,
        low: ArrayLike = -torch.inf,
        high: ArrayLike = torch.inf,
    ) -> None:
        bounds = [
            as_float_tensor(each, name=name).double()
            for each, name in ((low, "low"), (high, "high"))
        ]
        if any(each.ndim for each in bounds) or not bounds[0] < bounds[1]:
            raise InputError(
                "low and high must be numbers with low < high, got "
                f"{low!r} and {high!r}."
            )
        self._base = base
        # In float64: rounded to float32, a bound is not the target that was recorded.
        self._low, self._high = (each.to(base._like.device) for each in bounds)

    @property
    def _searched(self) -> bool:
        return True

    def __getitem__(self, rows: slice | Tensor) -> "Censored":
        """Select rows of the first batch axis."""
        return Censored(self._base[rows], self._low, self._high)

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._once(lambda: moments_by_values(self))[0].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return self._once(lambda: moments_by_values(self))[1].to(self.dtype)

    def _placed(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Values in float64, and those that the base is asked for."""
        y = on_bounds(value, self._low, self._high, self.dtype)
        return y, self._inside(y).to(value.dtype)

    def _inside(self, value: Tensor) -> Tensor:
        return value.clamp(self._low.to(value.dtype), self._high.to(value.dtype))

    def _pit(self, value: Tensor) -> PitValues:
        y, inside = self._placed(value)
        return _ended(self._base.pit(inside), y < self._low, y >= self._high)

    def _pit_before(self, value: Tensor) -> PitValues:
        y, inside = self._placed(value)
        before = self._base._pit_before(inside)
        pit = self._base.pit(inside) if before is None else before
        return _ended(pit, y <= self._low, y > self._high)

    def _atoms(self) -> Tensor | None:
        bounds = torch.stack([self._low, self._high]).to(self.dtype)
        bounds = bounds[bounds.isfinite()].view(-1, *[1] * len(self.batch_shape))
        own, inner = bounds.expand(-1, *self.batch_shape), self._base._atoms()
        own = own if inner is None else torch.cat([own, self._inside(inner)])
        return own if len(own) else None

    def _cdf(self, value: Tensor) -> Tensor:
        y, inside = self._placed(value)
        cdf, above = self._base._cdf(inside), y >= self._high
        return _filled(cdf, above.to(cdf), above | (y < self._low))

    def _survival(self, value: Tensor) -> Tensor:
        y, inside = self._placed(value)
        survival, below = self._base._survival(inside), y < self._low
        return _filled(survival, below.to(survival), below | (y >= self._high))

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        y, inside = self._placed(value)
        cdf, survival, height = self._base._tails(inside, density=density)
        below, above = y < self._low, y >= self._high
        cdf = _filled(cdf, above.to(cdf), below | above)
        survival = _filled(survival, below.to(survival), below | above)
        if height is not None:  # a bound has a mass, and no density
            height = torch.where(above | (y <= self._low), 0.0, height)
        return Tails(cdf, survival, height)

    def _around(self, pit: PitValues) -> Around:
        return Around(*(self._inside(each) for each in self._base._around(pit)))

    def _bumps(self) -> Bumps:
        centers, scales = self._base._bumps()
        return Bumps(self._inside(centers), scales)

    def _log_prob(self, value: Tensor) -> Tensor:
        y, inside = self._placed(value)
        pit, before = self._base.pit(inside), self._base._pit_before(inside)
        at_least = pit.log_survival if before is None else before.log_survival
        density = self._base.log_prob(inside)
        density = torch.where(y == self._low, pit.log_cdf, density)
        density = torch.where(y == self._high, at_least, density)
        outside = (y < self._low) | (y > self._high)
        return _filled(density, torch.full_like(density, -torch.inf), outside)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._inside(self._base._quantile(level))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._inside(self._base._upper_quantile(survival))

    def _crps(self, value: Tensor) -> Tensor:
        return crps_by_values(self, value).to(self.dtype)

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        return self._inside(self._base._sample(shape, generator))


def _filled(values: Tensor, ends: Tensor, outside: Tensor) -> Tensor:
    """Put what is known beyond the bounds, except where the base says NaN."""
    return torch.where(outside & ~values.isnan(), ends, values)


def _ended(pit: PitValues, below: Tensor, above: Tensor) -> PitValues:
    """PIT values of the base, 0 below and 1 above."""
    ends = pit_from_cdf(above.to(pit.cdf.dtype))
    pairs = zip(pit, ends, strict=True)
    return PitValues(*(_filled(own, end, below | above) for own, end in pairs))
