"""A law whose values beyond bounds are recorded at the bounds."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.contracts import PitValues
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
        self._low, self._high = (each.to(base._like) for each in bounds)

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

    def _inside(self, value: Tensor) -> Tensor:
        return value.clamp(self._low, self._high)

    def _pit(self, value: Tensor) -> PitValues:
        pit = self._base.pit(self._inside(value))
        below, above = value < self._low, value >= self._high
        nothing = torch.zeros_like(pit.cdf)
        return PitValues(
            torch.where(above, 1.0, torch.where(below, nothing, pit.cdf)),
            torch.where(below, 1.0, torch.where(above, nothing, pit.survival)),
            torch.where(above, 0.0, torch.where(below, -torch.inf, pit.log_cdf)),
            torch.where(below, 0.0, torch.where(above, -torch.inf, pit.log_survival)),
        )

    def _cdf(self, value: Tensor) -> Tensor:
        cdf = self._base._cdf(self._inside(value))
        cdf = torch.where(value < self._low, 0.0, cdf)
        return torch.where(value >= self._high, 1.0, cdf)

    def _survival(self, value: Tensor) -> Tensor:
        survival = self._base._survival(self._inside(value))
        survival = torch.where(value < self._low, 1.0, survival)
        return torch.where(value >= self._high, 0.0, survival)

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        cdf, survival, height = self._base._tails(self._inside(value), density=density)
        below, above = value < self._low, value >= self._high
        cdf = torch.where(above, 1.0, torch.where(below, 0.0, cdf))
        survival = torch.where(below, 1.0, torch.where(above, 0.0, survival))
        if height is not None:  # a bound has a mass, and no density
            height = torch.where(above | (value <= self._low), 0.0, height)
        return Tails(cdf, survival, height)

    def _around(self, pit: PitValues) -> Around:
        return Around(*(self._inside(each) for each in self._base._around(pit)))

    def _bumps(self) -> Bumps:
        centers, scales = self._base._bumps()
        return Bumps(self._inside(centers), scales)

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = self._inside(value)
        pit = self._base.pit(inside)
        density = self._base.log_prob(inside)
        density = torch.where(value == self._low, pit.log_cdf, density)
        density = torch.where(value == self._high, pit.log_survival, density)
        return torch.where(inside == value, density, -torch.inf)

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
