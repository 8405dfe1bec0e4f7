"""What all our laws share: checked input, intervals, samples, selection of rows."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from calibrant._checks import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_levels,
    as_target,
    check_between,
    check_shapes,
    pit_from_cdf,
)
from calibrant.contracts import PitValues
from calibrant.distributions._between import same_value
from calibrant.distributions._outline import Around, Bumps, Tails, pit_of_tail

__all__ = ["AbstractDistribution"]

# Quantiles that are asked for at once, and of a law that searches in blocks of rows:
# what it finds out about a row serves all of its levels.
_LEVELS_AT_ONCE = 20_000
_SEARCHED_AT_ONCE = 1_000_000


class AbstractDistribution(ABC):
    """A law for each row; final classes supply the formulas.

    A final class stores its parameters as tensors, names them in ``_parameters``, and
    implements the abstract methods on tensors that have been checked already.
    """

    #: Attributes that hold the parameters. The first gives the dtype and the device.
    _parameters: tuple[str, ...]

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""

    @abstractmethod
    def __getitem__(self, rows: slice | Tensor) -> "AbstractDistribution":
        """Select rows of the first batch axis."""

    @abstractmethod
    def _cdf(self, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _log_prob(self, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _quantile(self, level: Tensor) -> Tensor: ...

    @abstractmethod
    def _crps(self, value: Tensor) -> Tensor: ...

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        """Value that is exceeded with probability ``survival``, above 0.

        The level ``1 - survival`` cannot come closer to 1 than 1e-16, or 6e-8 in
        float32, and an over-confident model has targets beyond that. A law that can
        should ask its own upper tail; this is the last level that is not 1.
        """
        last = 1 - torch.finfo(self.dtype).eps / 2
        return self._quantile((1 - survival).clamp_max(last))

    def _pit_before(self, value: Tensor) -> PitValues | None:  # noqa: ARG002
        """Return the limits of :meth:`_pit` from below, None for a continuous cdf."""
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

    def _survival(self, value: Tensor) -> Tensor:
        return 1 - self._cdf(value)

    def _pit(self, value: Tensor) -> PitValues:
        return pit_from_cdf(self._cdf(value))

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        """Both tails at float64 values, and the density if asked, without gradient."""
        height = None
        with torch.no_grad():
            if density:
                try:
                    height = self._log_prob(value).double().exp()
                except UnsupportedError:
                    height = None
            cdf, survival = self._cdf(value).double(), self._survival(value).double()
        return Tails(cdf, survival, height)

    def _around(self, pit: PitValues) -> Around:
        """Bracket of the quantiles at levels inside (0, 1), without gradient.

        ``pit`` is float64 and broadcasts against ``batch_shape``.
        """
        shape = torch.broadcast_shapes(pit.cdf.shape, self.batch_shape)
        cdf, survival = (tail.expand(shape) for tail in (pit.cdf, pit.survival))
        below = cdf < survival
        with torch.no_grad():
            found = self._upper_quantile(torch.where(below, 0.5, survival)).double()
            if below.any():
                lower = self._quantile(torch.where(below, cdf, 0.5)).double()
                found = torch.where(below, lower, found)
        return Around(found, found, found)

    def _bumps(self) -> Bumps:
        """Where the cdf of each row rises, and over which distance."""
        room = [1] * len(self.batch_shape)
        tail = self._like.new_tensor([0.25, 0.5, 0.25], dtype=torch.float64)
        below = torch.tensor([True, True, False], device=tail.device)
        low, middle, high = self._around(
            pit_of_tail(tail.view(-1, *room), below.view(-1, *room))
        ).start
        return Bumps(middle[None], (high - low)[None] / 1.35)

    @property
    def _searched(self) -> bool:
        """Whether a quantile is found by a search, dearer than many values of the cdf.

        Moments and the crps are then integrals over values, not over levels.
        """
        return False

    @property
    def _like(self) -> Tensor:
        """A tensor with the law's dtype and device."""
        parameter: Tensor = getattr(self, self._parameters[0])
        return parameter

    @property
    def _trained(self) -> bool:
        """Whether a parameter asks for a gradient."""
        return any(getattr(self, name).requires_grad for name in self._parameters)

    @property
    def dtype(self) -> torch.dtype:
        """The float type of the parameters."""
        return self._like.dtype

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each row, shape ``batch_shape``."""
        return self.variance.sqrt()

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
        return self._survival(self._value(value))

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
        levels = as_levels(level, like=self._like)
        check_shapes(levels.shape, self.batch_shape, name="level")
        return self._quantile(levels)

    def quantiles(self, levels: ArrayLike) -> Tensor:
        """Ask each row for the same ``k`` levels: ``(k,) -> batch_shape + (k,)``."""
        each = as_levels(levels, like=self._like, name="levels")
        if each.ndim != 1:
            raise InputError(
                f"levels must have shape (k,), got {tuple(each.shape)}. "
                "For a level per row use quantile()."
            )
        rows = max(1, self.batch_shape.numel())
        together = _SEARCHED_AT_ONCE if self._searched else _LEVELS_AT_ONCE
        at_once = max(1, together // rows)
        room = [1] * len(self.batch_shape)
        found = [
            self._quantile(part.view(-1, *room).expand(-1, *self.batch_shape))
            for part in each.split(at_once)
        ]
        return torch.cat(found).movedim(0, -1)

    def interval(self, coverage: float) -> tuple[Tensor, Tensor]:
        """Central interval that holds the target with probability ``coverage``."""
        check_between(coverage, 0, 1, name="coverage")
        tail = torch.tensor((1 - coverage) / 2, dtype=self.dtype).to(self._like.device)
        return self._quantile(tail), self._upper_quantile(tail)

    def sample(
        self,
        sample_shape: tuple[int, ...] = (),
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw targets without gradient, shape ``sample_shape + batch_shape``."""
        with torch.no_grad():
            return self._sample((*sample_shape, *self.batch_shape), generator)

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        like = self._like
        uniform = torch.rand(
            shape, generator=generator, dtype=like.dtype, device=like.device
        )
        # torch.rand can give exactly 0, where many laws have an infinite quantile.
        return self._quantile(uniform.clamp_min(torch.finfo(like.dtype).tiny))

    def _value(self, value: ArrayLike) -> Tensor:
        values = as_target(value, like=self._like, name="value")
        check_shapes(values.shape, self.batch_shape, name="value")
        return values

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single law has no length")
        return self.batch_shape[0]

    def __repr__(self) -> str:
        shape = tuple(self.batch_shape)
        return f"{type(self).__name__}(batch_shape={shape}, dtype={self.dtype})"
