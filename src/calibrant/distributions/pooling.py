"""Members of an ensemble as one law, and laws in other units."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant.distributions._affine import Affine
from calibrant.distributions._mixture import weights_like
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.gaussian_mixture import GaussianMixture
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.distributions.student_t import StudentT

__all__ = ["pool", "rescaled"]


def pool(
    law: AbstractDistribution, weights: ArrayLike | None = None
) -> AbstractDistribution:
    r"""Return the mixture over the first batch axis of a law.

    .. math:: F(y) = \sum_i w_i F_i(y)

    Normal laws and mixtures of them become one :class:`GaussianMixture`, exactly; all
    others a :class:`Mixture`.

    Parameters
    ----------
    law
        Members on the first axis, batch shape ``(members, *batch)``.
    weights
        :math:`w_i \ge 0` that sum to 1 over the members, shape ``(members,)`` or
        ``(members, *batch)``; all equal if left out.

    Returns
    -------
    AbstractDistribution
        One law for each row, batch shape ``batch``.

    Examples
    --------
    >>> members = Gaussian([[0.0, 1.0], [2.0, 1.0]], 1.0)
    >>> pool(members)
    GaussianMixture(batch_shape=(2,), dtype=torch.float64)
    >>> pool(members, weights=[0.75, 0.25]).mean.tolist()
    [0.5, 1.0]
    """
    shape = law.batch_shape
    if not shape or shape[0] == 0:
        raise InputError(
            "law must have batch shape (members, *batch) with at least one member, "
            f"got {tuple(shape)}. A list of laws becomes one with Mixture(laws)."
        )
    each = weights_like(weights, law._like.detach().new_zeros(()).expand(shape))
    normal = _normal_parts(law)
    if normal is not None:
        means, stddevs, inner = normal
        joint = (means, stddevs, inner * each)
        return GaussianMixture(*(part.flatten(0, 1) for part in joint))
    # A tensor of no axes selects one member and drops the axis.
    return Mixture([law[index] for index in torch.arange(shape[0])], each)


def _normal_parts(law: AbstractDistribution) -> tuple[Tensor, Tensor, Tensor] | None:
    """Means, standard deviations and weights ``(j, *batch_shape)``, if all normal."""
    if isinstance(law, Gaussian):
        mean = law.mean[None]
        return mean, law.stddev[None], torch.ones_like(mean)
    if isinstance(law, GaussianMixture):
        return law.means, law.stddevs, law.weights
    if not isinstance(law, Mixture):
        return None
    parts = []
    for component, weight in zip(law.laws, law.weights, strict=True):
        inner = _normal_parts(component)
        if inner is None:
            return None
        parts.append((*inner[:2], inner[2] * weight))
    means, stddevs, weights = (torch.cat(each) for each in zip(*parts, strict=True))
    return means, stddevs, weights


def rescaled(
    law: AbstractDistribution, center: ArrayLike, scale: ArrayLike
) -> AbstractDistribution:
    r"""Return the law of :math:`c + s\,Y`, as a standardized target is undone.

    The family stays: a normal law becomes a normal law, a mixture one of moved
    components, a recalibrated law one with a moved base. Laws of other libraries are
    asked for :math:`(y - c) / s`.

    Parameters
    ----------
    law
        The law of :math:`Y`, of any batch shape.
    center
        :math:`c`, a number or a tensor that broadcasts to the batch shape, as
        ``(members, 1)`` to ``(members, n)``.
    scale
        :math:`s > 0`, likewise.

    Returns
    -------
    AbstractDistribution
        A law of the same batch shape. Its dtype is the widest of the three: with
        ``center`` and ``scale`` in float64, a law in float32 is converted before
        anything is added, so that targets around 1e9 keep their digits. A lone number
        takes the law's dtype.

    Examples
    --------
    >>> law = rescaled(Gaussian([0.0, 1.0], 1.0), 100.0, 20.0)
    >>> law.mean.tolist(), law.stddev.tolist()
    ([100.0, 120.0], [20.0, 20.0])
    """
    like = law._like.detach()
    moved = as_float_tensor(center, name="center", like=like)
    factor = as_float_tensor(scale, name="scale", like=like)
    if (factor <= 0).any():
        raise InputError(
            f"scale must be above 0, its smallest value is {factor.min().item():.4g}. "
            "A target that does not vary cannot be standardized: use 1."
        )
    dtype = torch.promote_types(
        torch.promote_types(moved.dtype, factor.dtype), law.dtype
    )
    moved, factor = (
        _for_each_row(each.to(dtype), law.batch_shape, name)
        for each, name in ((moved, "center"), (factor, "scale"))
    )
    return _FAMILIES.get(type(law), Affine)(law, moved, factor)


def _for_each_row(values: Tensor, batch_shape: torch.Size, name: str) -> Tensor:
    try:
        return values.expand(batch_shape)
    except RuntimeError:
        raise InputError(
            f"{name} must be a number or broadcast to the law's batch shape "
            f"{tuple(batch_shape)}, got shape {tuple(values.shape)}. One value for "
            f"each member has shape (members, 1): use {name}[:, None]."
        ) from None


def _outside(values: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Move values, in the wider type from the start."""
    return center + scale * values.to(scale.dtype)


def _table(law: QuantileTable, center: Tensor, scale: Tensor) -> QuantileTable:
    values = _outside(law.values, center.unsqueeze(-1), scale.unsqueeze(-1))
    return QuantileTable(law.levels, values)


def _affine(law: Affine, center: Tensor, scale: Tensor) -> Affine:
    factor = scale * law.scale.to(scale.dtype)
    return Affine(law.base, _outside(law.center, center, scale), factor)


_FAMILIES: dict[type, Callable[[Any, Tensor, Tensor], AbstractDistribution]] = {
    Gaussian: lambda law, c, s: Gaussian(_outside(law.mean, c, s), s * law.stddev),
    Laplace: lambda law, c, s: Laplace(_outside(law.location, c, s), s * law.scale),
    StudentT: lambda law, c, s: StudentT(
        law.degrees_of_freedom, _outside(law.location, c, s), s * law.scale
    ),
    GaussianMixture: lambda law, c, s: GaussianMixture(
        _outside(law.means, c, s), s * law.stddevs, law.weights
    ),
    Mixture: lambda law, c, s: Mixture(
        [rescaled(part, c, s) for part in law.laws], law.weights
    ),
    Recalibrated: lambda law, c, s: Recalibrated(
        rescaled(law.base, c, s), law.unit_map
    ),
    Empirical: lambda law, c, s: Empirical(_outside(law.samples, c, s)),
    QuantileTable: _table,
    Affine: _affine,
}
