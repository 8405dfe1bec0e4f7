"""Whatever a model returns becomes a distribution of ours; ensembles and units."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch import distributions as torch_distributions

from calibrant.distributions.adapters import (
    CdfDistribution,
    RenamedScipy,
    ScipyDistribution,
    TorchDistribution,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import Affine
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture, Mixture, weights_like
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.distributions.student_t import StudentT
from calibrant.protocols import HasCdf
from calibrant.validation import ArrayLike, InputError, as_float_tensor

_SCIPY_METHODS = ("cdf", "sf", "ppf", "isf", "logpdf", "logcdf", "logsf")
_NEW_SCIPY_METHODS = ("cdf", "ccdf", "icdf", "iccdf", "logpdf", "logcdf", "logccdf")


def as_distribution(prediction: object) -> AbstractDistribution:
    """Return the distribution that a prediction stands for.

    Parameters
    ----------
    prediction
        One of

        - a distribution of ``calibrant.distributions``, which comes back as it is;
        - a tuple ``(mean, stddev)`` of arrays or tensors, each ``(n,)``;
        - one of ``torch.distributions``: Normal, Laplace, StudentT and mixtures of
          normals become ours, others with a cdf are adapted;
        - a frozen continuous one of ``scipy.stats``, or one of its new interface as
          ``stats.Normal(mu=..., sigma=...)``, adapted without gradients;
        - any object with a ``cdf`` method.

    Examples
    --------
    >>> as_distribution(([0.0, 1.0], [1.0, 2.0]))
    Gaussian(batch_shape=(2,), dtype=torch.float64)
    """
    if isinstance(prediction, AbstractDistribution):
        return prediction
    if isinstance(prediction, tuple) and len(prediction) == 2:
        return Gaussian(*prediction)
    if isinstance(prediction, torch_distributions.Distribution):
        return _TORCH.get(type(prediction), TorchDistribution)(prediction)
    _refuse_odd_scipy(prediction)
    if _has(prediction, _SCIPY_METHODS):
        return ScipyDistribution(prediction)
    if _has(prediction, _NEW_SCIPY_METHODS):
        return ScipyDistribution(RenamedScipy(prediction))
    if isinstance(prediction, HasCdf) and not isinstance(prediction, type):
        return CdfDistribution(prediction)
    raise InputError(
        "prediction must be a distribution of calibrant, of torch.distributions or "
        "frozen of scipy.stats, a tuple (mean, stddev), or an object with a cdf "
        f"method, got {_describe(prediction)}."
    )


def _has(prediction: object, methods: tuple[str, ...]) -> bool:
    return not isinstance(prediction, type) and all(
        hasattr(prediction, method) for method in methods
    )


def _refuse_odd_scipy(prediction: object) -> None:
    """Refuse scipy's families that are not frozen, and discrete distributions."""
    if _has(prediction, ("freeze", "cdf", "ppf")):
        name = getattr(prediction, "name", type(prediction).__name__)
        raise InputError(
            f"prediction must have its parameters, got the family scipy.stats.{name}. "
            f"Freeze it: stats.{name}(...), as stats.norm(mean, stddev)."
        )
    old = _has(prediction, ("logpmf", "ppf")) and not hasattr(prediction, "logpdf")
    # The new ones have every method: only their base tells.
    new = any("Discrete" in base.__name__ for base in type(prediction).__mro__)
    if old or (new and _has(prediction, ("logpmf", "icdf"))):
        raise InputError(
            f"prediction must be continuous, got a {type(prediction).__name__}, whose "
            "PIT values are never uniform. Pass draws with noise: "
            "Empirical(counts + uniform in [0, 1))."
        )


def _describe(prediction: object) -> str:
    """Name what came, with the fix if it is a common slip."""
    if isinstance(prediction, type):
        return f"the class {prediction.__name__}: pass an instance of it"
    name = type(prediction).__name__
    if isinstance(prediction, tuple):
        return f"a tuple of {len(prediction)}: give the mean and the standard deviation"
    shape = getattr(prediction, "shape", None)
    if shape is None:
        return f"a {name}"
    if len(shape) < 2:
        return f"one {name}: a point prediction is no distribution, add a stddev"
    return (
        f"one {name} of shape {tuple(shape)}. Draws on the first axis are "
        "Empirical(samples), quantiles on the last one QuantileTable(levels, values), "
        "columns of mean and standard deviation (array[:, 0], array[:, 1])"
    )


def _refuse_independent(given: Any) -> AbstractDistribution:  # noqa: ANN401
    raise InputError(
        "prediction must be of single numbers, got an Independent with event "
        f"shape {tuple(given.event_shape)}. Pass its base_dist, rows on the last axis, "
        "or use dim= where it is offered."
    )


def _from_mixture(given: Any) -> AbstractDistribution:  # noqa: ANN401
    normal = given.component_distribution
    if type(normal) is not torch_distributions.Normal:
        return TorchDistribution(given)
    # torch has the components on the last axis, we on the first.
    shape = (*given.batch_shape, given.mixture_distribution.probs.shape[-1])
    parts = (normal.loc, normal.scale, given.mixture_distribution.probs)
    return GaussianMixture(*(part.expand(shape).movedim(-1, 0) for part in parts))


#: By the exact class, because a subclass may be another one.
_TORCH: dict[type, Callable[[Any], AbstractDistribution]] = {
    torch_distributions.Normal: lambda given: Gaussian(given.loc, given.scale),
    torch_distributions.Laplace: lambda given: Laplace(given.loc, given.scale),
    torch_distributions.StudentT: lambda given: StudentT(
        given.df, given.loc, given.scale
    ),
    torch_distributions.MixtureSameFamily: _from_mixture,
    torch_distributions.Independent: _refuse_independent,
}


def pool(
    distribution: AbstractDistribution, weights: ArrayLike | None = None
) -> AbstractDistribution:
    r"""Return the mixture over the first batch axis of a distribution.

    .. math:: F(y) = \sum_i w_i F_i(y)

    Normal distributions and their mixtures become one :class:`GaussianMixture`, all
    others a :class:`Mixture`.

    Parameters
    ----------
    distribution
        Members on the first axis, batch shape ``(members, *batch)``.
    weights
        :math:`w_i \ge 0` that sum to 1 over the members, shape ``(members,)`` or
        ``(members, *batch)``; all equal if left out.

    Examples
    --------
    >>> members = Gaussian([[0.0, 1.0], [2.0, 1.0]], 1.0)
    >>> pool(members)
    GaussianMixture(batch_shape=(2,), dtype=torch.float64)
    >>> pool(members, weights=[0.75, 0.25]).mean.tolist()
    [0.5, 1.0]
    """
    shape = distribution.batch_shape
    if not shape or shape[0] == 0:
        raise InputError(
            "distribution must have batch shape (members, *batch) with a member, "
            f"got {tuple(shape)}. A list becomes one with Mixture(components)."
        )
    shares = weights_like(
        weights, distribution._like.detach().new_zeros(()).expand(shape)
    )
    if isinstance(distribution, Gaussian):
        return GaussianMixture(distribution.mean, distribution.stddev, shares)
    if isinstance(distribution, GaussianMixture):
        weights = distribution.weights * shares
        joint = (distribution.means, distribution.stddevs, weights)
        return GaussianMixture(*(part.flatten(0, 1) for part in joint))
    # A tensor of no axes selects one member and drops the axis.
    return Mixture([distribution[index] for index in torch.arange(shape[0])], shares)


def with_detached_location(distribution: AbstractDistribution) -> AbstractDistribution:
    """Return the same distribution, with a gradient to all but its location."""
    if isinstance(distribution, Gaussian | Laplace | StudentT):
        location = "_mean" if isinstance(distribution, Gaussian) else "location"
        parts = {name: getattr(distribution, name) for name in distribution._parameters}
        parts[location] = parts[location].detach()
        return type(distribution)(*parts.values())
    raise InputError(
        "a regularizer of held-out rows moves the spread alone, and a "
        f"{type(distribution).__name__} has no location to keep from it. Set "
        "regularize_whole=True, or predict a normal distribution."
    )


def rescaled(
    distribution: AbstractDistribution, center: ArrayLike, scale: ArrayLike
) -> AbstractDistribution:
    r"""Return the distribution of :math:`c + s\,Y`, as a standardized target is undone.

    The family stays. The dtype is the widest of the three, so that targets around 1e9
    keep their digits; a lone number takes the distribution's.

    Parameters
    ----------
    distribution
        The distribution of :math:`Y`, of any batch shape.
    center
        :math:`c`, a number or a tensor that broadcasts to the batch shape, as
        ``(members, 1)`` to ``(members, n)``.
    scale
        :math:`s > 0`, likewise.

    Examples
    --------
    >>> predictive = rescaled(Gaussian([0.0, 1.0], 1.0), 100.0, 20.0)
    >>> predictive.mean.tolist(), predictive.stddev.tolist()
    ([100.0, 120.0], [20.0, 20.0])
    """
    like = distribution._like.detach()
    moved = as_float_tensor(center, name="center", like=like)
    factor = as_float_tensor(scale, name="scale", like=like)
    if (factor <= 0).any():
        raise InputError(
            f"scale must be above 0, its smallest value is {factor.min().item():.4g}. "
            "For a target that does not vary use 1."
        )
    dtype = torch.promote_types(
        torch.promote_types(moved.dtype, factor.dtype), distribution.dtype
    )
    moved, factor = (
        _expanded(part.to(dtype), distribution.batch_shape, name)
        for part, name in ((moved, "center"), (factor, "scale"))
    )
    return _FAMILIES.get(type(distribution), Affine)(distribution, moved, factor)


def _expanded(values: Tensor, batch_shape: torch.Size, name: str) -> Tensor:
    try:
        return values.expand(batch_shape)
    except RuntimeError:
        raise InputError(
            f"{name} must be a number or broadcast to the batch shape "
            f"{tuple(batch_shape)}, got shape {tuple(values.shape)}. One value for "
            f"each member has shape (members, 1): use {name}[:, None]."
        ) from None


def _outside(values: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Move values, in the wider type from the start."""
    return center + scale * values.to(scale.dtype)


_FAMILIES: dict[type, Callable[[Any, Tensor, Tensor], AbstractDistribution]] = {
    Gaussian: lambda d, c, s: Gaussian(_outside(d.mean, c, s), s * d.stddev),
    Laplace: lambda d, c, s: Laplace(_outside(d.location, c, s), s * d.scale),
    StudentT: lambda d, c, s: StudentT(
        d.degrees_of_freedom, _outside(d.location, c, s), s * d.scale
    ),
    GaussianMixture: lambda d, c, s: GaussianMixture(
        _outside(d.means, c, s), s * d.stddevs, d.weights
    ),
    Mixture: lambda d, c, s: Mixture(
        [rescaled(part, c, s) for part in d.components], d.weights
    ),
    Recalibrated: lambda d, c, s: Recalibrated(rescaled(d.base, c, s), d.unit_map),
    Empirical: lambda d, c, s: Empirical(_outside(d.samples, c, s)),
    QuantileTable: lambda d, c, s: QuantileTable(
        d.levels, _outside(d.values, c.unsqueeze(-1), s.unsqueeze(-1))
    ),
    Affine: lambda d, c, s: Affine(d.base, _outside(d.center, c, s), s * d.scale),
}
