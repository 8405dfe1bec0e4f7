"""Quantiles far above: by the probability beyond, which floats resolve."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.gaussian_mixture import GaussianMixture
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.scipy_law import ScipyLaw
from calibrant.distributions.student_t import StudentT

__all__ = ["upper_quantile"]


def upper_quantile(law: AbstractDistribution, survival: Tensor) -> Tensor:
    """Value that is exceeded with probability ``survival``, above 0.

    The level ``1 - survival`` cannot come closer to 1 than 1e-16, or 6e-8 in float32,
    and an over-confident model has targets beyond that. So the lower quantile of the
    mirrored law is asked. A law that has none and no method
    ``_upper_quantile`` gives the quantile at the last level that it can tell from 1.

    Shape: as for ``law.quantile``.
    """
    own: Callable[[Tensor], Tensor] | None = getattr(law, "_upper_quantile", None)
    if own is not None:
        return own(survival)
    mirror = _MIRRORED.get(type(law))
    if mirror is not None:
        return mirror(law, survival)
    last = 1 - torch.finfo(law.dtype).eps / 2
    return law.quantile((1 - survival).clamp_max(last))


def _symmetric(law: Gaussian | Laplace | StudentT, survival: Tensor) -> Tensor:
    center = law.mean if isinstance(law, Gaussian) else law.location
    return 2 * center - law.quantile(survival)


def _mixture(law: GaussianMixture, survival: Tensor) -> Tensor:
    mirrored = GaussianMixture(-law.means, law.stddevs, law.weights)
    return -mirrored.quantile(survival)


def _table(law: QuantileTable, survival: Tensor) -> Tensor:
    mirrored = QuantileTable(1 - law.levels.flip(0), -law.values.flip(-1))
    return -mirrored.quantile(survival)


def _scipy(law: ScipyLaw, survival: Tensor) -> Tensor:
    return law._ask(law._frozen.isf, survival)


_MIRRORED: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Gaussian: _symmetric,
    Laplace: _symmetric,
    StudentT: _symmetric,
    GaussianMixture: _mixture,
    QuantileTable: _table,
    ScipyLaw: _scipy,
}
