"""What all predictive distributions share: checked input, intervals, samples, rows."""

from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor

from calibrant.protocols import PitValues
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_levels,
    as_target,
    check_between,
    check_shapes,
)

Shape = tuple[int, ...]
Source = torch.Generator | None
#: Quantiles that are asked for at once.
_AT_ONCE = 1_000_000


class AbstractDistribution(ABC):
    """A distribution for each row; final classes supply the formulas.

    A final class names its parameters in ``_parameters`` and implements the abstract
    methods, and ``_moments``, on tensors that have been checked already.
    """

    #: Attributes that hold the parameters, in the order of the constructor. The first
    #: gives the shape, the dtype and the device.
    _parameters: tuple[str, ...]
    #: Those that are the same for all rows.
    _shared: tuple[str, ...] = ()
    #: Whether the first axis of the parameters, before the batch, is one of members.
    _members_first = False

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self._like.shape[self._members_first :]

    @property
    def dtype(self) -> torch.dtype:
        """The float type of the parameters."""
        return self._like.dtype

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``; infinite or NaN if so."""
        return self._moments()[0].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``; infinite or NaN if so."""
        return self._moments()[1].to(self.dtype)

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each row, shape ``batch_shape``."""
        return self.variance.sqrt()

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """Select rows of the first batch axis."""
        index = (slice(None), rows) if self._members_first else rows
        parts = {name: getattr(self, name) for name in self._parameters}
        return type(self)(
            *(p if name in self._shared else p[index] for name, p in parts.items())
        )

    # Formulas.

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance, unless a class overrides both properties."""
        raise NotImplementedError

    @abstractmethod
    def _pit(self, value: Tensor) -> PitValues: ...

    @abstractmethod
    def _log_prob(self, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _quantile(self, level: Tensor) -> Tensor: ...

    @abstractmethod
    def _crps(self, value: Tensor) -> Tensor: ...

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        last = 1 - torch.finfo(self.dtype).eps / 2  # the last level that is not 1
        return self._quantile((1 - survival).clamp_max(last))

    def _quantile_at(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Quantiles inside (0, 1), each from the tail that is not rounded.

        Shape: both ``(..., *batch_shape)``. Float64 levels give float64 quantiles.
        """
        above = survival < cdf
        if not above.any():
            return self._quantile(cdf)
        if above.all():
            return self._upper_quantile(survival)
        lower = self._quantile(torch.where(above, 0.5, cdf))
        upper = self._upper_quantile(torch.where(above, survival, 0.5))
        return torch.where(above, upper, lower)

    def _cdf(self, value: Tensor) -> Tensor:
        return self._pit(value).cdf

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Cdf and survival, without their logarithms where these cost extra."""
        return self._pit(value)[:2]

    def _pit_before(self, value: Tensor) -> PitValues | None:  # noqa: ARG002
        """Limits of :meth:`_pit` from below, None for a continuous cdf."""
        return None

    def _atoms(self) -> Tensor | None:
        """Values whose ``log_prob`` is that of a probability, ``(k, *batch_shape)``."""
        return None

    def _at_atom(self, value: Tensor) -> Tensor | None:
        """Tell which values are atoms, None if there are no atoms."""
        atoms = self._atoms()
        if atoms is None:
            return None
        return torch.stack([same_value(value, atom) for atom in atoms]).any(0)

    # What the integrator asks, see ``_numerics``.

    @property
    def _searched(self) -> bool:
        """Whether a quantile costs far more than a value of the cdf."""
        return False

    @property
    def _least_tail(self) -> float:
        """Smallest tail probability that has a quantile of its own."""
        return torch.finfo(self.dtype).tiny

    def _outline(self, tail: float) -> Tensor:
        """Rough quantiles at a tail, 1/4, 1/2, 3/4, 1 - tail: ``(5, *batch_shape)``."""
        level = self._like.new_tensor([tail, 0.25, 0.5, 0.75, 1], dtype=torch.float64)
        cdf = self._for_each_row(level)
        return self._quantile_at(cdf, cdf.flip(0)).double()

    def _for_each_row(self, levels: Tensor) -> Tensor:
        """Repeat levels ``(k,)`` for all rows, ``(k, *batch_shape)``."""
        shape = self.batch_shape
        return levels.view(-1, *[1] * len(shape)).expand(-1, *shape)

    def _kinks(self) -> Tensor | None:
        """Values where the cdf jumps or bends, ``(k, *batch_shape)``, if few."""
        return None

    def _level_kinks(self) -> Tensor | None:
        """Levels ``(k,)`` where all quantiles bend, if they are not among the kinks."""
        return None

    @property
    def _behind(self) -> "AbstractDistribution":
        """A distribution with a finite mean just where this has one, maybe simpler."""
        return self

    @property
    def _like(self) -> Tensor:
        """A tensor with the distribution's dtype and device."""
        parameter: Tensor = getattr(self, self._parameters[0])
        return parameter

    @property
    def _trained(self) -> bool:
        """Whether a parameter asks for a gradient."""
        parts: list[Any] = [getattr(self, name) for name in self._parameters]
        return any(
            part._trained
            if isinstance(part, AbstractDistribution)
            else getattr(part, "requires_grad", False)
            for part in parts
        )

    # What users ask.

    def cdf(self, value: ArrayLike) -> Tensor:
        """Probability of a target at most ``value``."""
        return self._cdf(self._value(value))

    def cdf_before(self, value: ArrayLike) -> Tensor:
        """Probability of a target below ``value``: the cdf without an atom there."""
        values = self._value(value)
        cdf, before = self._cdf(values), self._pit_before(values)
        if before is None:
            return cdf
        jumps = cdf - before.cdf > torch.finfo(cdf.dtype).eps ** 0.5  # not rounding
        return torch.where(jumps, before.cdf, cdf)

    def survival(self, value: ArrayLike) -> Tensor:
        """Probability of a target above ``value``, precise in the upper tail."""
        return self._pit(self._value(value)).survival

    def pit(self, value: ArrayLike) -> PitValues:
        """Both tails of ``value`` and their logarithms, each precise."""
        return self._pit(self._value(value))

    def log_prob(self, value: ArrayLike) -> Tensor:
        """Logarithm of the density at ``value``."""
        return self._log_prob(self._value(value))

    def crps(self, value: ArrayLike) -> Tensor:
        r"""Continuous ranked probability score; 0 is perfect.

        .. math:: \mathrm{CRPS}(F, y) = \int (F(t) - 1[t \ge y])^2 \, dt .

        It is in the units of the target, and the absolute error of a point forecast.
        """
        return self._crps(self._value(value))

    def quantile(self, level: ArrayLike) -> Tensor:
        """Smallest value whose cdf reaches ``level``, which lies in [0, 1].

        Shape: a scalar level gives ``batch_shape``, otherwise the rule for values.
        """
        return self._quantile(self._level(level, "level"))

    def upper_quantile(self, survival: ArrayLike) -> Tensor:
        """Value that is exceeded with probability ``survival``, above 0.

        The level ``1 - survival`` cannot come closer to 1 than 1e-16, or 6e-8 in
        float32; a small ``survival`` can say more. Shape: as for :meth:`quantile`.
        """
        return self._upper_quantile(self._level(survival, "survival"))

    def quantiles(self, levels: ArrayLike) -> Tensor:
        """Ask each row for the same ``k`` levels: ``(k,) -> batch_shape + (k,)``."""
        given = as_levels(levels, like=self._like, name="levels")
        if given.ndim != 1:
            raise InputError(
                f"levels must have shape (k,), got {tuple(given.shape)}. "
                "For a level per row use quantile()."
            )
        at_once = max(1, _AT_ONCE // max(1, self.batch_shape.numel()))
        parts = given.split(at_once)
        found = [self._quantile(self._for_each_row(part)) for part in parts]
        return torch.cat(found).movedim(0, -1)

    def interval(self, coverage: float) -> tuple[Tensor, Tensor]:
        """Central interval that covers the target with probability ``coverage``."""
        check_between(coverage, 0, 1, name="coverage")
        tail = torch.tensor((1 - coverage) / 2, dtype=self.dtype).to(self._like.device)
        return self._quantile(tail), self._upper_quantile(tail)

    def sample(self, sample_shape: Shape = (), *, generator: Source = None) -> Tensor:
        """Draw targets without gradient, shape ``sample_shape + batch_shape``."""
        with torch.no_grad():
            return self._sample((*sample_shape, *self.batch_shape), generator)

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        like = self._like
        uniform = torch.rand(
            shape, generator=generator, dtype=like.dtype, device=like.device
        )
        # torch.rand can give exactly 0, where the quantile may be infinite.
        return self._quantile(uniform.clamp_min(torch.finfo(like.dtype).tiny))

    def _value(self, value: ArrayLike) -> Tensor:
        values = as_target(value, like=self._like, name="value")
        check_shapes(values.shape, self.batch_shape, name="value")
        return values

    def _level(self, level: ArrayLike, name: str) -> Tensor:
        levels = as_levels(level, like=self._like, name=name)
        check_shapes(levels.shape, self.batch_shape, name=name)
        return levels

    def _answer_dtype(self, value: Tensor) -> torch.dtype:
        return torch.promote_types(value.dtype, self.dtype)

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single distribution has no length")
        return self.batch_shape[0]

    def __repr__(self) -> str:
        shape = tuple(self.batch_shape)
        return f"{type(self).__name__}(batch_shape={shape}, dtype={self.dtype})"


class FromBothTails(AbstractDistribution, ABC):
    """A distribution that finds quantiles in float64 by :meth:`_quantile_at`."""

    def _quantile(self, level: Tensor) -> Tensor:
        return self._quantile_at(*_with_rest(level)).to(self.dtype)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._quantile_at(*_with_rest(survival)[::-1]).to(self.dtype)


def _with_rest(level: Tensor) -> tuple[Tensor, Tensor]:
    wide = level.double()
    return wide, (1 - compact(wide)).expand(wide.shape)


def joint_shape(shape: torch.Size, batch_shape: torch.Size) -> torch.Size:
    """Return the longer of two shapes of which one is the end of the other."""
    return shape if len(shape) > len(batch_shape) else batch_shape


def same_value(value: Tensor, place: Tensor) -> Tensor:
    """Tell which values are ``place`` up to the rounding of the coarser type."""
    eps = max(torch.finfo(part.dtype).eps for part in (value, place))
    return place.isfinite() & ((value - place).abs() <= 4 * eps * place.abs())


def compact(values: Tensor) -> Tensor:
    """Shrink the axes along which an expanded tensor only repeats itself to 1.

    What is computed from the levels of all rows need not be computed for each.
    """
    for axis, stride in enumerate(values.stride()):
        if stride == 0 and values.shape[axis] > 1:
            values = values.narrow(axis, 0, 1)
    return values
