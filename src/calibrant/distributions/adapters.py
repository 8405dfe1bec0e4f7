"""Distributions of torch, of scipy, and of any object with a cdf."""

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution

from calibrant.distributions._numerics import Bracket, Searched, integrated_crps
from calibrant.distributions.base import AbstractDistribution, joint_shape
from calibrant.protocols import HasCdf, PitValues
from calibrant.validation import (
    InputError,
    UnsupportedError,
    as_float_tensor,
    pit_from_cdf,
)


class TorchDistribution(Searched):
    r"""Adapter of a distribution of ``torch.distributions`` with a cdf.

    Values outside the support have cdf 0 or 1 and log_prob ``-inf``, where torch raises
    or extrapolates. ``quantile`` inverts the cdf if torch has no ``icdf``; ``crps`` is
    an integral over values. The tails are
    as precise as torch's cdf and :math:`1 - F` are.

    Parameters
    ----------
    distribution
        With ``event_shape == ()`` and a ``cdf``.

    Examples
    --------
    >>> given = torch.distributions.Exponential(torch.tensor([1.0, 2.0]))
    >>> predictive = TorchDistribution(given)
    >>> [round(value, 4) for value in predictive.cdf([1.0, -1.0]).tolist()]
    [0.6321, 0.0]
    >>> [round(value, 4) for value in predictive.crps([1.0, 1.0]).tolist()]
    [0.2358, 0.3853]
    """

    _parameters = ("_example",)
    _quantile_at = AbstractDistribution._quantile_at
    _upper_quantile = AbstractDistribution._upper_quantile

    def __init__(self, distribution: Distribution) -> None:
        name = type(distribution).__name__
        if tuple(distribution.event_shape):
            raise InputError(
                f"distribution must be one of single numbers, got a {name} with "
                f"event_shape {tuple(distribution.event_shape)}. Pass each by itself."
            )
        if type(distribution).cdf is Distribution.cdf:
            raise InputError(
                f"distribution must have a cdf, and torch's {name} has none. Pass the "
                "frozen one of scipy.stats, or Empirical(distribution.sample((1000,)))."
            )
        self._given = _without_validation(distribution)
        self._example = next(iter(_tensors(distribution)), torch.empty(()))

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self._given.batch_shape

    @property
    def _trained(self) -> bool:
        return any(part.requires_grad for part in _tensors(self._given))

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        with self._known("mean"):
            return self._given.mean

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        with self._known("variance"):
            return self._given.variance

    def __getitem__(self, rows: slice | Tensor) -> "TorchDistribution":
        """Select rows of the first batch axis, if made of plain tensors."""
        given, shape = self._given, self.batch_shape
        names = list(given.arg_constraints)
        parts = {name: getattr(given, name).expand(shape)[rows] for name in names}
        with self._known("selection of rows", (TypeError, ValueError)):
            return TorchDistribution(type(given)(**parts))

    @contextmanager
    def _known(
        self, what: str, errors: tuple[type[Exception], ...] = (NotImplementedError,)
    ) -> Generator[None, None, None]:
        try:
            yield
        except errors:
            raise UnsupportedError(
                f"torch's {type(self._given).__name__} cannot give its {what}. Use one "
                "of calibrant.distributions, or samples: Empirical(samples)."
            ) from None

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """Ends of the support, infinite if it has none."""
        with torch.no_grad():
            return _support_ends(self._given, self._example)

    def _inside(self, value: Tensor) -> Tensor:
        """Move values into the open support, where torch's formulas hold."""
        low, high = (bound.to(value.dtype) for bound in self._bounds())
        up, down = torch.full_like(low, torch.inf), torch.full_like(high, -torch.inf)
        return value.clamp(torch.nextafter(low, up), torch.nextafter(high, down))

    def _cdf(self, value: Tensor) -> Tensor:
        low, high = self._bounds()
        above = torch.where(value >= high, 1.0, self._cdf_inside(self._inside(value)))
        # Rounding of torch's formulas must not leave [0, 1].
        return torch.where(value <= low, 0.0, above).clamp(0, 1)

    def _pit(self, value: Tensor) -> PitValues:
        return pit_from_cdf(self._cdf(value))

    def _cdf_inside(self, value: Tensor) -> Tensor:
        """Ask torch, but not for derivatives where the cdf is 0 or 1: often NaN."""
        with self._known("cdf"):
            found = self._given.cdf(value)
        if not found.requires_grad:
            return found
        flat = (found <= 0) | (found >= 1)
        if flat.any():
            with torch.no_grad():
                median = self._quantile(torch.tensor(0.5).to(self._example))
            regular = self._given.cdf(torch.where(flat, median, value))
            found = torch.where(flat, found.detach(), regular)
        return found

    def _log_prob(self, value: Tensor) -> Tensor:
        low, high = self._bounds()
        log_density = self._given.log_prob(self._inside(value))
        return torch.where((value < low) | (value > high), -torch.inf, log_density)

    def _quantile(self, level: Tensor) -> Tensor:
        shape = joint_shape(level.shape, self.batch_shape)
        level = level.to(self.dtype).expand(shape)
        if self._searched:
            return self._roots(level, 1 - level)
        # torch mirrors some levels, which rounds those next to 0 and 1 to these.
        eps = torch.finfo(self.dtype).eps
        nearest = level.clamp(2 * eps, 1 - 2 * eps)
        inside = (level > 0) & (level < 1)
        return self._given.icdf(torch.where(inside, nearest, level))

    @property
    def _searched(self) -> bool:
        try:
            self._given.icdf(torch.full_like(self._example, 0.5).detach())
        except NotImplementedError:
            return True
        return False

    def _bracket(self, cdf: Tensor, survival: Tensor) -> Bracket:  # noqa: ARG002
        """Widen an interval until it holds the quantiles of all rows."""
        lower, upper = (bound.expand(cdf.shape) for bound in self._bounds())
        center = torch.where(lower.isfinite(), lower, upper.nan_to_num(posinf=0.0))
        low = high = center
        for doublings in range(0, 1000, 2):
            low = torch.maximum(lower, center - 2.0**doublings)
            high = torch.minimum(upper, center + 2.0**doublings)
            if ((self._cdf(low) <= cdf) & (self._cdf(high) >= cdf)).all():
                break
        return low, high, None

    def _logs(self, x: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
        cdf = self._cdf(x)  # a logarithm of 0 must not be finite here
        return torch.where(below, cdf, 1 - cdf).log(), self._log_prob(x)

    def _ends(self, below: Tensor) -> Tensor:
        return torch.where(below, *self._bounds())

    def _crps(self, value: Tensor) -> Tensor:
        mean = torch.zeros(())
        with suppress(NotImplementedError):
            mean = self._given.mean
        _refuse_endless(mean, self._given)
        return integrated_crps(self, value, known=True).to(self._answer_dtype(value))


def _refuse_endless(mean: Tensor, given: object) -> None:
    if not mean.isfinite().all():
        raise UnsupportedError(
            f"crps needs a finite mean, which this {type(given).__name__} has not. "
            "Score with log_prob."
        )


def _support_ends(given: Distribution, like: Tensor) -> tuple[Tensor, Tensor]:
    """Ends of the support; torch knows half of those of a transformed one."""
    if type(given) is TransformedDistribution:
        ends = _support_ends(given.base_dist, like)
        for transform in given.transforms:
            ends = transform(ends[0]), transform(ends[1])
        return torch.minimum(*ends), torch.maximum(*ends)
    support = given.support
    support = getattr(support, "base_constraint", support)
    low, high = (
        torch.as_tensor(getattr(support, name, end)).to(like)
        for name, end in (("lower_bound", -torch.inf), ("upper_bound", torch.inf))
    )
    return low, high


def _without_validation(distribution: Distribution) -> Distribution:
    """Copy a distribution, and those it is made of, so that far values do not raise."""
    given = copy.copy(distribution)
    given._validate_args = False
    for name, part in vars(distribution).items():
        if isinstance(part, Distribution):
            setattr(given, name, _without_validation(part))
    return given


def _tensors(given: Distribution) -> list[Tensor]:
    """Tensors that a distribution, and those it is made of, consist of."""
    found = []
    for name in [*given.arg_constraints, "base_dist", "component_distribution"]:
        part = getattr(given, name, None)
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, Distribution):
            found.extend(_tensors(part))
    return found


class ScipyDistribution(AbstractDistribution):
    """Adapter of a frozen continuous distribution of ``scipy.stats``.

    Everything is float64 on the CPU and without gradient: it is for measuring and
    recalibrating a model, not for training one. ``crps`` is an integral over
    values and needs a finite mean.

    Parameters
    ----------
    frozen
        An object with ``cdf``, ``sf``, ``ppf``, ``isf``, ``logcdf``, ``logsf``,
        ``logpdf``, ``mean`` and ``var``; its parameters broadcast to ``batch_shape``.

    Examples
    --------
    >>> from scipy import stats
    >>> predictive = ScipyDistribution(stats.expon(scale=[1.0, 2.0]))
    >>> [round(value, 4) for value in predictive.quantile(0.5).tolist()]
    [0.6931, 1.3863]
    """

    _parameters = ("_example",)

    def __init__(self, frozen: Any) -> None:  # noqa: ANN401
        self._frozen = frozen
        self._shape = torch.Size(np.shape(frozen.cdf(0.0)))
        self._example = torch.empty((), dtype=torch.float64)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self._shape

    def _moments(self) -> tuple[Tensor, Tensor]:
        mean, variance = (
            _tensor(method()).expand(self._shape)
            for method in (self._frozen.mean, self._frozen.var)
        )
        return mean, variance

    def __getitem__(self, rows: slice | Tensor) -> "ScipyDistribution":
        """Select rows of the first batch axis."""
        try:
            frozen = self._frozen
            family, args, named = frozen.dist, frozen.args, frozen.kwds
        except AttributeError:
            raise UnsupportedError(
                f"{type(self._frozen).__name__} cannot select rows: it is not frozen "
                "by scipy.stats. Freeze one for the rows you want."
            ) from None
        index = rows.cpu().numpy() if isinstance(rows, Tensor) else rows

        def select(parameter: npt.ArrayLike) -> npt.NDArray[Any]:
            return np.broadcast_to(np.asarray(parameter), tuple(self._shape))[index]

        chosen = {name: select(parameter) for name, parameter in named.items()}
        return ScipyDistribution(family(*map(select, args), **chosen))

    def _ask(self, method: Callable[[Any], npt.ArrayLike], value: Tensor) -> Tensor:
        # Logarithms of 0 are what they are; the caller reads -inf, not a warning.
        with np.errstate(divide="ignore"):
            return _tensor(method(value.detach().double().cpu().numpy()))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._ask(self._frozen.cdf, value)

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._cdf(value), self._ask(self._frozen.sf, value)

    def _pit(self, value: Tensor) -> PitValues:
        lowest = torch.finfo(torch.float64).min
        methods = (self._frozen.logcdf, self._frozen.logsf)
        logs = (self._ask(method, value).clamp_min(lowest) for method in methods)
        return PitValues(*self._tails(value), *logs)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._ask(self._frozen.logpdf, value)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._ask(self._frozen.ppf, level)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._ask(self._frozen.isf, survival)

    def _crps(self, value: Tensor) -> Tensor:
        _refuse_endless(self.mean, self._frozen)
        return integrated_crps(self, value.detach().cpu(), known=True)


class RenamedScipy:
    """A distribution of scipy's new interface (``stats.Normal``) by the older names."""

    def __init__(self, given: Any) -> None:  # noqa: ANN401
        self.cdf, self.sf, self.logpdf = given.cdf, given.ccdf, given.logpdf
        self.ppf, self.isf = given.icdf, given.iccdf
        self.logcdf, self.logsf = given.logcdf, given.logccdf
        self.mean, self.var = given.mean, given.variance


def _tensor(values: npt.ArrayLike) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))


class CdfDistribution(AbstractDistribution):
    """Adapter of any object with a ``cdf``, enough for PIT values.

    ``log_prob``, ``quantile``, ``crps``, ``mean`` and ``variance`` are the object's own
    if it has them (the last two as attributes or methods), else an
    :class:`UnsupportedError` says what is missing. If it has no ``batch_shape``, values
    of any shape are passed on.

    Parameters
    ----------
    distribution
        An object whose ``cdf`` maps a tensor to a tensor of that shape.

    Examples
    --------
    >>> class Logistic:
    ...     def cdf(self, value):
    ...         return value.sigmoid()
    >>> CdfDistribution(Logistic()).pit([0.0]).survival.tolist()
    [0.5]
    """

    _parameters = ("_example",)

    def __init__(self, distribution: HasCdf) -> None:
        self._given = distribution
        self._example = torch.empty(())

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions, ``()`` if the object does not say."""
        return torch.Size(getattr(self._given, "batch_shape", ()))

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, as the object gives it."""
        return self._moment("mean")

    @property
    def variance(self) -> Tensor:
        """Variance of each row, as the object gives it."""
        return self._moment("variance")

    def __getitem__(self, rows: slice | Tensor) -> "CdfDistribution":
        """Select rows of the first batch axis, if the object can."""
        return CdfDistribution(self._own("__getitem__")(rows))

    def _moment(self, name: str) -> Tensor:
        own = self._own(name)
        return as_float_tensor(own() if callable(own) else own, name=name)

    def _own(self, name: str) -> Any:  # noqa: ANN401
        try:
            return getattr(self._given, name)
        except AttributeError:
            raise UnsupportedError(
                f"{type(self._given).__name__} has no {name}, only its cdf is known. "
                f"Give it a {name}, or use one of calibrant.distributions."
            ) from None

    def _answer(self, name: str, value: Tensor) -> Tensor:
        answer = as_float_tensor(self._own(name)(value), name=name)
        if answer.shape[answer.ndim - value.ndim :] != value.shape:
            raise InputError(
                f"{type(self._given).__name__}.{name} must keep the shape of its "
                f"argument, {tuple(value.shape)}, got {tuple(answer.shape)}."
            )
        return answer

    def _cdf(self, value: Tensor) -> Tensor:
        return self._answer("cdf", value)

    def _pit(self, value: Tensor) -> PitValues:
        return pit_from_cdf(self._cdf(value))

    def _pit_before(self, value: Tensor) -> PitValues:
        # Whether it has atoms is not known.
        return self._pit(torch.nextafter(value, torch.full_like(value, -torch.inf)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._answer("log_prob", value)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._answer("quantile", level)

    def _crps(self, value: Tensor) -> Tensor:
        return self._answer("crps", value)
