"""Heads: the last layer's numbers as distributions, ``(..., size) -> (...)``.

All of them give spreads of ``floor + (1 - floor) * softplus(raw)``, in standard
deviations of the target. The paper's floor is 0.1, which keeps training tame and makes
a model of clean data under-confident; a floor near 0 lets the data decide.
"""

from torch import Tensor
from torch.nn.functional import softplus

from calibrant._checks import InputError
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.student_t import StudentT

__all__ = [
    "LEAST_SPREAD",
    "GaussianHead",
    "GaussianMixtureHead",
    "LaplaceHead",
    "StudentTHead",
]


#: Softplus underflows to 0, where there is no density; the square of a distance in
#: units of this still fits into float32.
LEAST_SPREAD = 1e-12


class _Head:
    """What all heads share: the floor of their spreads."""

    def __init__(self, *, floor: float = 1e-3) -> None:
        if not 0 <= floor < 1:
            raise InputError(
                f"floor must lie in [0, 1), got {floor}. It is the least spread, in "
                "standard deviations of the target; the paper's is 0.1."
            )
        self.floor = float(floor)

    def _spread(self, raw: Tensor) -> Tensor:
        return (self.floor + (1 - self.floor) * softplus(raw)).clamp_min(LEAST_SPREAD)


class GaussianHead(_Head):
    """Two numbers as a normal distribution: its mean, and its spread.

    Examples
    --------
    >>> import torch
    >>> distribution = GaussianHead(floor=0.1)(torch.zeros(5, 2))
    >>> round(distribution.stddev[0].item(), 4)  # 0.1 + 0.9 log 2
    0.7238
    """

    size = 2

    def __call__(self, raw: Tensor) -> Gaussian:
        """Turn ``(..., 2)`` into distributions of batch shape ``(...)``."""
        mean, spread = raw.unbind(-1)
        return Gaussian(mean, self._spread(spread))


class LaplaceHead(_Head):
    """Two numbers as a Laplace distribution: its location, and its scale."""

    size = 2

    def __call__(self, raw: Tensor) -> Laplace:
        """Turn ``(..., 2)`` into distributions of batch shape ``(...)``."""
        location, scale = raw.unbind(-1)
        return Laplace(location, self._spread(scale))


class StudentTHead(_Head):
    """Three numbers as Student's t: location, scale, degrees of freedom above 2.

    Above 2, so that the variance exists; a new network starts near 7.
    """

    size = 3
    #: softplus(5) is 5.0067; networks start with outputs near 0.
    _START = 5.0
    #: In float32 2 + 1e-8 is 2, where the variance is infinite.
    _LEAST = 1e-3

    def __call__(self, raw: Tensor) -> StudentT:
        """Turn ``(..., 3)`` into distributions of batch shape ``(...)``."""
        location, scale, freedom = raw.unbind(-1)
        above = softplus(freedom + self._START).clamp_min(self._LEAST)
        return StudentT(2 + above, location, self._spread(scale))


class GaussianMixtureHead(_Head):
    """Three numbers for each component: its mean, its spread, its weight.

    Bishop (1994), *Mixture Density Networks*.
    """

    def __init__(self, *, floor: float = 1e-3, components: int = 3) -> None:
        super().__init__(floor=floor)
        if components < 1:
            raise InputError(f"components must be at least 1, got {components}.")
        self.components, self.size = components, 3 * components

    def __call__(self, raw: Tensor) -> GaussianMixture:
        """Turn ``(..., 3 * components)`` into distributions ``(...)``."""
        first = raw.movedim(-1, 0)
        means, spreads, weights = first.reshape(3, self.components, *raw.shape[:-1])
        return GaussianMixture(means, self._spread(spreads), weights.softmax(0))
