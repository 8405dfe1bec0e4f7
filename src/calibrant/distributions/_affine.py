"""A law moved and stretched, for families that have no such law of their own."""

import torch
from torch import Tensor

from calibrant.contracts import PitValues
from calibrant.distributions._between import on_atoms
from calibrant.distributions._outline import Around, Bumps, Tails
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Affine"]


class Affine(AbstractDistribution):
    r"""The law of :math:`c + s\,Y` for each row.

    Parameters
    ----------
    base
        The law of :math:`Y`, of any batch shape.
    center
        :math:`c`, shape ``batch_shape``, of the dtype of the result.
    scale
        :math:`s > 0`, same shape and dtype.
    """

    _parameters = ("_center", "_scale")

    def __init__(
        self, base: AbstractDistribution, center: Tensor, scale: Tensor
    ) -> None:
        self._base, self._center, self._scale = base, center, scale

    @property
    def base(self) -> AbstractDistribution:
        """The law before."""
        return self._base

    @property
    def center(self) -> Tensor:
        """What is added, shape ``batch_shape``."""
        return self._center

    @property
    def scale(self) -> Tensor:
        """What is multiplied first, shape ``batch_shape``."""
        return self._scale

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._base.batch_shape

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._outside(self._base.mean)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return self._scale.square() * self._base.variance

    @property
    def _searched(self) -> bool:
        return self._base._searched

    @property
    def _trained(self) -> bool:
        return super()._trained or self._base._trained

    def __getitem__(self, rows: slice | Tensor) -> "Affine":
        """Select rows of the first batch axis."""
        return Affine(self._base[rows], self._center[rows], self._scale[rows])

    def _inside(self, value: Tensor) -> Tensor:
        inner = (value - self._center) / self._scale
        return on_atoms(value, inner, self._atoms(), self._base._atoms())

    def _outside(self, value: Tensor) -> Tensor:
        return self._center + self._scale * value

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

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        with torch.no_grad():
            cdf, survival, height = self._base._tails(
                self._inside(value), density=density
            )
            height = None if height is None else height / self._scale
        return Tails(cdf, survival, height)

    def _around(self, pit: PitValues) -> Around:
        with torch.no_grad():
            return Around(*(self._outside(each) for each in self._base._around(pit)))

    def _bumps(self) -> Bumps:
        centers, scales = self._base._bumps()
        with torch.no_grad():
            return Bumps(self._outside(centers), self._scale * scales)

    def _log_prob(self, value: Tensor) -> Tensor:
        inner = self._inside(value)
        log_scale, atom = self._scale.log(), self._base._at_atom(inner)
        if atom is not None:  # a probability has no unit
            log_scale = torch.where(atom, 0.0, log_scale)
        return self._base.log_prob(inner) - log_scale

    def _quantile(self, level: Tensor) -> Tensor:
        return self._outside(self._base.quantile(level))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._outside(upper_quantile(self._base, survival))

    def _crps(self, value: Tensor) -> Tensor:
        return self._scale * self._base.crps(self._inside(value))

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        front = shape[: len(shape) - len(self.batch_shape)]
        return self._outside(self._base.sample(front, generator=generator))
