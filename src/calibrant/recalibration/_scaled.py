"""Laws stretched around their center."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import InputError, UnsupportedError
from calibrant.contracts import PitValues
from calibrant.distributions.adapters import TorchDistribution
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import (
    Censored,
    DerivedDistribution,
    Transformed,
    Truncated,
    on_atoms,
)
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture, Mixture
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.distributions.student_t import StudentT

__all__ = ["Scaled", "scaled_law", "stretched", "widened"]


def stretched(law: AbstractDistribution, factor: float) -> AbstractDistribution:
    """Stretch a law around its center, within its family where there is one."""
    family = _FAMILIES.get(type(law))
    return Scaled(law, factor) if family is None else family(law, factor)


def scaled_law(law: AbstractDistribution, factor: float) -> AbstractDistribution:
    """Stretch a law in float64; what is recorded at a bound stays there."""
    if isinstance(law, Censored):
        return Censored(scaled_law(law.base, factor), law.low, law.high)
    return Scaled(law, factor)


def widened(law: AbstractDistribution, factor: float) -> AbstractDistribution:
    """Stretch a distribution inside of its bounds and transform: its support stays."""
    if factor == 1:
        return law
    match law:
        case Mixture() if any(
            isinstance(p, DerivedDistribution) for p in law.components
        ):
            return Mixture(
                [widened(part, factor) for part in law.components], law.weights
            )
        case Recalibrated():
            return Recalibrated(widened(law.base, factor), law.unit_map)
        case Transformed():
            return Transformed(widened(law.base, factor), law.transform)
        case Truncated():
            return Truncated(widened(law.base, factor), law.low, law.high)
        case Censored():
            return Censored(widened(law.base, factor), law.low, law.high)
    wider = stretched(law, factor)
    if not isinstance(wider, Scaled):
        return wider
    # The quantile of torch at a level of 0 is some small number.
    low, high = (
        law._bounds()
        if isinstance(law, TorchDistribution)
        else (law.quantile(0.0), law.quantile(1.0))
    )
    bounded = bool((low.isfinite() | high.isfinite()).any())
    return Truncated(wider, low, high) if bounded else wider


class Scaled(DerivedDistribution):
    r"""The law of :math:`m + k (Y - m)`, with :math:`m` the center of :math:`Y`.

    That is its mean, or the median of Student's t and of what has no mean.

    Parameters
    ----------
    base
        The law of :math:`Y`, of any batch shape.
    factor
        :math:`k > 0`.
    """

    def __init__(self, base: AbstractDistribution, factor: float) -> None:
        self._base, self._factor = base, factor
        self._center = _center(base)
        if not self._center.isfinite().all():
            raise InputError(
                "a law is stretched around its center, which must be finite, and it is "
                "not for some rows (a diverged model)."
            )

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._center + self._factor * (self._base.mean - self._center)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return self._factor**2 * self._base.variance

    def __getitem__(self, rows: slice | Tensor) -> "Scaled":
        """Select rows of the first batch axis."""
        return Scaled(self._base[rows], self._factor)

    def _inside(self, value: Tensor) -> Tensor:
        inner = self._center + (value - self._center) / self._factor
        return on_atoms(value, inner, self._atoms(), self._base._atoms())

    def _outside(self, value: Tensor) -> Tensor:
        return self._center + self._factor * (value - self._center)

    def _atoms(self) -> Tensor | None:
        atoms = self._base._atoms()
        return None if atoms is None else self._outside(atoms).detach()

    def _pit(self, value: Tensor) -> PitValues:
        return self._base.pit(self._inside(value))

    def _pit_before(self, value: Tensor) -> PitValues | None:
        return self._base._pit_before(self._inside(value))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._base.cdf(self._inside(value))

    def _survival(self, value: Tensor) -> Tensor:
        return self._base.survival(self._inside(value))

    def _log_prob(self, value: Tensor) -> Tensor:
        inner = self._inside(value)
        density, atom = self._base.log_prob(inner), self._base._at_atom(inner)
        log_factor = math.log(self._factor)
        if atom is None:
            return density - log_factor
        return density - torch.where(atom, 0.0, log_factor)  # a probability has no unit

    def _quantile(self, level: Tensor) -> Tensor:
        return self._outside(self._base.quantile(level))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._outside(self._base.upper_quantile(survival))

    def _crps(self, value: Tensor) -> Tensor:
        return self._factor * self._base.crps(self._inside(value))


def _center(law: AbstractDistribution) -> Tensor:
    if isinstance(law, StudentT):
        return law.location
    try:
        return law.mean
    except UnsupportedError:
        return law.quantile(0.5)


def _mixture(law: GaussianMixture, factor: float) -> GaussianMixture:
    means = law.mean + factor * (law.means - law.mean)
    return GaussianMixture(means, factor * law.stddevs, law.weights)


def _samples(law: Empirical, factor: float) -> Empirical:
    return Empirical(law.mean + factor * (law.samples - law.mean))


def _table(law: QuantileTable, factor: float) -> QuantileTable:
    center = law.mean.unsqueeze(-1)
    return QuantileTable(law.levels, center + factor * (law.values - center))


_FAMILIES: dict[type, Callable[[Any, float], AbstractDistribution]] = {
    Gaussian: lambda law, k: Gaussian(law.mean, k * law.stddev),
    Laplace: lambda law, k: Laplace(law.location, k * law.scale),
    StudentT: lambda law, k: StudentT(
        law.degrees_of_freedom, law.location, k * law.scale
    ),
    GaussianMixture: _mixture,
    Empirical: _samples,
    QuantileTable: _table,
    Scaled: lambda law, k: Scaled(law._base, k * law._factor),
    Censored: lambda law, k: Censored(stretched(law.base, k), law.low, law.high),
}
