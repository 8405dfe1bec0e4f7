"""Any univariate law of ``torch.distributions`` that knows its cdf."""

import copy
from contextlib import suppress

import torch
from torch import Tensor
from torch.distributions import Distribution, Gamma, TransformedDistribution

from calibrant._checks import InputError, UnsupportedError
from calibrant.distributions._cdf_quadrature import crps_by_cdf
from calibrant.distributions._quadrature import crps_by_quadrature
from calibrant.distributions._refused_gradient import refuse_gradient
from calibrant.distributions._root import solve_increasing, with_implicit_gradient
from calibrant.distributions._rows import joint_shape
from calibrant.distributions.base import AbstractDistribution

__all__ = ["TorchLaw"]

_NO_CONCENTRATION = (
    "torch has no derivative of a Gamma law's cdf by its concentration, which requires "
    "a gradient here. Detach the concentration (the rate may stay), train with "
    "log_prob, or use another law."
)


class TorchLaw(AbstractDistribution):
    r"""Adapter of a ``torch.distributions`` law with a cdf.

    Values outside the support have cdf 0 or 1 and log_prob ``-inf``, where torch raises
    or extrapolates. ``quantile`` inverts the cdf if torch has no ``icdf``; ``crps`` is
    a quadrature over the levels, or over values if there is no ``icdf``. The tails are
    as precise as torch's cdf and :math:`1 - F` are.

    Parameters
    ----------
    distribution
        A law with ``event_shape == ()`` and a ``cdf``.

    Examples
    --------
    >>> law = TorchLaw(torch.distributions.Exponential(torch.tensor([1.0, 2.0])))
    >>> [round(value, 4) for value in law.cdf([1.0, -1.0]).tolist()]
    [0.6321, 0.0]
    >>> [round(value, 4) for value in law.crps([1.0, 1.0]).tolist()]
    [0.2358, 0.3853]
    """

    _parameters = ("_example",)

    def __init__(self, distribution: Distribution) -> None:
        name = type(distribution).__name__
        if tuple(distribution.event_shape):
            raise InputError(
                "distribution must be a law of single numbers, got a "
                f"{name} with event_shape {tuple(distribution.event_shape)}. Pass the "
                "law of each output by itself."
            )
        if type(distribution).cdf is Distribution.cdf:
            raise InputError(
                f"distribution must have a cdf, and torch's {name} has none. Pass the "
                "frozen law of scipy.stats, or samples: "
                "Empirical(distribution.sample((1000,)))."
            )
        self._law = _without_validation(distribution)
        self._example = _a_parameter(distribution)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._law.batch_shape

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        try:
            return self._law.mean
        except NotImplementedError:
            raise self._lacks("mean") from None

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        try:
            return self._law.variance
        except NotImplementedError:
            raise self._lacks("variance") from None

    def __getitem__(self, rows: slice | Tensor) -> "TorchLaw":
        """Select rows of the first batch axis, if the law is made of plain tensors."""
        names = list(self._law.arg_constraints)
        parameters = {name: getattr(self._law, name) for name in names}
        selected = {
            name: parameter.expand(self.batch_shape)[rows]
            for name, parameter in parameters.items()
        }
        try:
            return TorchLaw(type(self._law)(**selected))
        except (TypeError, ValueError):
            raise self._lacks("selection of rows") from None

    def _lacks(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"torch's {type(self._law).__name__} cannot give its {what}. Use a law of "
            "calibrant.distributions, or samples: Empirical(samples)."
        )

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """Ends of the support, infinite if it has none."""
        with torch.no_grad():
            return _support_ends(self._law, self._example)

    def _center(self) -> Tensor:
        """A place inside the law of each row, without gradient."""
        with torch.no_grad():
            center = torch.zeros_like(self._example)
            with suppress(NotImplementedError):
                center = self._law.mean
            with suppress(NotImplementedError):
                center = self._law.icdf(torch.full_like(self._example, 0.5))
            return self._inside(center.nan_to_num(posinf=0.0, neginf=0.0))

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

    def _cdf_inside(self, value: Tensor) -> Tensor:
        """Ask torch, but not for derivatives where the cdf is 0 or 1.

        There they are often 0 times infinity, hence NaN.
        """
        try:
            found = self._law.cdf(value)
        except NotImplementedError:
            raise self._lacks("cdf") from None
        if not found.requires_grad:
            return found
        flat = (found <= 0) | (found >= 1)
        if flat.any():
            regular = self._law.cdf(torch.where(flat, self._center(), value))
            found = torch.where(flat, found.detach(), regular)
        return refuse_gradient(found, _concentrations(self._law), _NO_CONCENTRATION)

    def _log_prob(self, value: Tensor) -> Tensor:
        low, high = self._bounds()
        log_density = self._law.log_prob(self._inside(value))
        return torch.where((value < low) | (value > high), -torch.inf, log_density)

    def _quantile(self, level: Tensor) -> Tensor:
        shape = joint_shape(level.shape, self.batch_shape)
        level = level.to(self.dtype).expand(shape)
        try:
            with torch.no_grad():
                found = self._law.icdf(level)
        except NotImplementedError:
            return self._inverse(level)
        # torch mirrors or halves some laws, which rounds a level next to 1 to 1.
        lost = ~found.isfinite() & (level > 0) & (level < 1)
        eps = torch.finfo(self.dtype).eps
        nearest = level.clamp(2 * eps, 1 - 2 * eps)
        return self._law.icdf(torch.where(lost, nearest, level))

    def _has_icdf(self) -> bool:
        try:
            self._law.icdf(torch.full_like(self._example, 0.5).detach())
        except NotImplementedError:
            return False
        return True

    def _inverse(self, level: Tensor) -> Tensor:
        """Root of the cdf minus the level, relative to the smaller tail."""
        tail = torch.minimum(level, 1 - level)
        regular = torch.where(tail > 0, level, 0.5)
        unit = torch.where(tail > 0, tail, 0.5)

        def gap_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            return (self._cdf(x) - regular) / unit, self._log_prob(x).exp() / unit

        with torch.no_grad():
            low, high = self._bracket(regular)
        root = solve_increasing(gap_and_slope, low, high)
        result = with_implicit_gradient(root, *gap_and_slope(root))
        ends = torch.where(level > 0.5, self._bounds()[1], self._bounds()[0])
        return torch.where(tail > 0, result, ends)

    def _bracket(self, level: Tensor) -> tuple[Tensor, Tensor]:
        """Widen an interval until it holds the quantiles of all rows."""
        lower, upper = (bound.expand(level.shape) for bound in self._bounds())
        center = torch.where(lower.isfinite(), lower, upper.nan_to_num(posinf=0.0))
        low = high = center
        for doublings in range(0, 1000, 2):
            low = torch.maximum(lower, center - 2.0**doublings)
            high = torch.minimum(upper, center + 2.0**doublings)
            if ((self._cdf(low) <= level) & (self._cdf(high) >= level)).all():
                break
        return low, high

    def _crps(self, value: Tensor) -> Tensor:
        try:
            known = bool(self._law.mean.isfinite().all())
        except NotImplementedError:
            known = True
        if not known:
            raise UnsupportedError(
                "crps needs a law with a finite mean, which torch's "
                f"{type(self._law).__name__} has not. Score with log_prob."
            )
        if not self._has_icdf():
            shape = joint_shape(value.shape, self.batch_shape)
            value = value.expand(shape)
            return crps_by_cdf(value, self._cdf, self._quantile, self.dtype)
        below_one = 1 - torch.finfo(self.dtype).eps / 2
        return crps_by_quadrature(
            value,
            self._pit(value),
            lambda level: self._quantile(level.clamp_max(below_one)),
            lambda beyond: self._quantile((1 - beyond).clamp_max(below_one)),
        )


def _support_ends(law: Distribution, like: Tensor) -> tuple[Tensor, Tensor]:
    """Ends of the support; torch knows those of a transformed law by halves only."""
    if type(law) is TransformedDistribution:
        ends = _support_ends(law.base_dist, like)
        for transform in law.transforms:
            ends = transform(ends[0]), transform(ends[1])
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        return _or_infinite(low, -torch.inf), _or_infinite(high, torch.inf)
    support = law.support
    support = getattr(support, "base_constraint", support)
    low, high = (
        torch.as_tensor(getattr(support, name, end)).to(like)
        for name, end in (("lower_bound", -torch.inf), ("upper_bound", torch.inf))
    )
    return low, high


def _or_infinite(end: Tensor, infinity: float) -> Tensor:
    return torch.where(end.isnan(), infinity, end)


def _concentrations(law: Distribution) -> list[Tensor]:
    """Parameters by which torch cannot differentiate the cdf."""
    own = [law.concentration] if isinstance(law, Gamma) else []
    parts = [part for part in vars(law).values() if isinstance(part, Distribution)]
    return sum(map(_concentrations, parts), own)


def _without_validation(distribution: Distribution) -> Distribution:
    """Copy a law, and those it is made of, so that far values do not raise."""
    law = copy.copy(distribution)
    law._validate_args = False
    for name, part in vars(distribution).items():
        if isinstance(part, Distribution):
            setattr(law, name, _without_validation(part))
    return law


def _a_parameter(distribution: Distribution) -> Tensor:
    """Find a tensor of the law, for its dtype and device."""
    names = [*distribution.arg_constraints, "base_dist", "component_distribution"]
    for name in names:
        part = getattr(distribution, name, None)
        if isinstance(part, Tensor):
            return part
        if isinstance(part, Distribution):
            return _a_parameter(part)
    return torch.empty(())
