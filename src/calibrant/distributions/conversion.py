"""The one door for predictions: whatever a model returns becomes a law of ours."""

from collections.abc import Callable
from typing import Any

from torch import distributions as torch_distributions

from calibrant._checks import InputError
from calibrant.contracts import HasCdf
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.cdf_law import CdfLaw
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.gaussian_mixture import GaussianMixture
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.scipy_law import RenamedScipyLaw, ScipyLaw
from calibrant.distributions.student_t import StudentT
from calibrant.distributions.torch_law import TorchLaw

__all__ = ["as_distribution"]

_SCIPY_METHODS = ("cdf", "sf", "ppf", "isf", "logpdf", "logcdf", "logsf")
_NEW_SCIPY_METHODS = ("cdf", "ccdf", "icdf", "iccdf", "logpdf", "logcdf", "logccdf")


def as_distribution(prediction: object) -> AbstractDistribution:
    """Return the law that a prediction stands for.

    Parameters
    ----------
    prediction
        One of

        - a law of ``calibrant.distributions``, which comes back as it is;
        - a tuple ``(mean, stddev)`` of arrays or tensors, each ``(n,)``;
        - a law of ``torch.distributions``: Normal, Laplace, StudentT and mixtures of
          normals become ours, others with a cdf are adapted;
        - a frozen continuous law of ``scipy.stats``, or one of its new interface as
          ``stats.Normal(mu=..., sigma=...)``, adapted without gradients;
        - any object with a ``cdf`` method.

    Returns
    -------
    AbstractDistribution
        A law with the batch shape of the prediction.

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
        return _TORCH.get(type(prediction), TorchLaw)(prediction)
    _refuse_odd_scipy(prediction)
    if _has(prediction, _SCIPY_METHODS):
        return ScipyLaw(prediction)
    if _has(prediction, _NEW_SCIPY_METHODS):
        return ScipyLaw(RenamedScipyLaw(prediction))
    if isinstance(prediction, HasCdf) and not isinstance(prediction, type):
        return CdfLaw(prediction)
    raise InputError(
        "prediction must be a law of calibrant.distributions, a tuple (mean, stddev), "
        "a torch.distributions law, a frozen scipy.stats law or an object with a cdf "
        f"method, got {_describe(prediction)}."
    )


def _has(prediction: object, methods: tuple[str, ...]) -> bool:
    return not isinstance(prediction, type) and all(
        hasattr(prediction, method) for method in methods
    )


def _refuse_odd_scipy(prediction: object) -> None:
    """Refuse scipy's families that are not frozen, and discrete laws."""
    if _has(prediction, ("freeze", "cdf", "ppf")):
        name = getattr(prediction, "name", type(prediction).__name__)
        raise InputError(
            f"prediction must have its parameters, got the family scipy.stats.{name}. "
            f"Freeze it: stats.{name}(...), as stats.norm(mean, stddev), with arrays "
            "of shape (n,)."
        )
    old = _has(prediction, ("logpmf", "ppf")) and not hasattr(prediction, "logpdf")
    new = _has(prediction, ("logpmf", "icdf")) and _is_discrete(prediction)
    if old or new:
        raise InputError(
            f"prediction must be a continuous law, got a {type(prediction).__name__}. "
            "The PIT values of counts are not uniform even if the law is right. Pass a "
            "continuous approximation, or draws with noise: "
            "Empirical(counts + uniform in [0, 1))."
        )


def _is_discrete(prediction: object) -> bool:
    """Tell scipy's new discrete laws, which have every method, by their base."""
    return any("Discrete" in base.__name__ for base in type(prediction).__mro__)


def _describe(prediction: object) -> str:
    """Name what came, with the fix if it is a common slip."""
    if isinstance(prediction, type):
        return f"the class {prediction.__name__}: pass an instance of it"
    name = type(prediction).__name__
    if isinstance(prediction, tuple):
        return f"a tuple of {len(prediction)}: give the mean and the standard deviation"
    if hasattr(prediction, "shape"):
        return f"one {name}: {_hint(prediction)}"
    return f"a {name}"


def _hint(array: Any) -> str:  # noqa: ANN401
    """Say which law an array without a law could stand for."""
    if len(array.shape) < 2:
        return "a point prediction has no law, add a standard deviation"
    return (
        f"of shape {tuple(array.shape)}, it could be several things. Draws on the "
        "first axis are Empirical(samples), quantiles on the last one are "
        "QuantileTable(levels, values), columns of mean and standard deviation are "
        "(array[:, 0], array[:, 1])"
    )


def _refuse_independent(law: Any) -> AbstractDistribution:  # noqa: ANN401
    raise InputError(
        "prediction must be a law of single numbers, got an Independent with event "
        f"shape {tuple(law.event_shape)}. Pass its base_dist with the rows on the last "
        "axis (squeeze(-1) the parameters), or use dim= where it is offered."
    )


def _from_mixture(law: Any) -> AbstractDistribution:  # noqa: ANN401
    normal = law.component_distribution
    if type(normal) is not torch_distributions.Normal:
        return TorchLaw(law)
    # torch has the components on the last axis, we on the first.
    shape = (*law.batch_shape, law.mixture_distribution.probs.shape[-1])
    parts = (normal.loc, normal.scale, law.mixture_distribution.probs)
    return GaussianMixture(*(part.expand(shape).movedim(-1, 0) for part in parts))


#: By the exact class, because a subclass may be another law.
_TORCH: dict[type, Callable[[Any], AbstractDistribution]] = {
    torch_distributions.Normal: lambda law: Gaussian(law.loc, law.scale),
    torch_distributions.Laplace: lambda law: Laplace(law.loc, law.scale),
    torch_distributions.StudentT: lambda law: StudentT(law.df, law.loc, law.scale),
    torch_distributions.MixtureSameFamily: _from_mixture,
    torch_distributions.Independent: _refuse_independent,
}
