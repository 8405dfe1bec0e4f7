"""Heads: the last layer's numbers as a law, ``(..., size) -> batch_shape (...)``.

All of them give spreads of ``floor + (1 - floor) * softplus(raw)``. The paper's floor
is 0.1 of the target's standard deviation, which keeps training tame and makes a model
of clean data under-confident; a floor near 0 lets the data decide.
"""

from torch import Tensor
from torch.nn.functional import softplus

from calibrant._checks import InputError
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.student_t import StudentT

__all__ = ["GaussianHead", "GaussianMixtureHead", "LaplaceHead", "StudentTHead"]


# Softplus underflows to 0, where a law has no density; the square of a distance in
# units of this still fits into float32.
_LEAST_SPREAD = 1e-12


def _spread(raw: Tensor, floor: float) -> Tensor:
    return (floor + (1 - floor) * softplus(raw)).clamp_min(_LEAST_SPREAD)


def _check_floor(floor: float) -> float:
    if not 0 <= floor < 1:
        raise InputError(
            f"floor must lie in [0, 1), got {floor}. It is the least spread, in "
            "standard deviations of the target; the paper's is 0.1."
        )
    return float(floor)


class GaussianHead:
    """Two numbers as a normal law: its mean, and its spread.

    Parameters
    ----------
    floor
        Least spread, in standard deviations of the target.

    Examples
    --------
    >>> import torch
    >>> law = GaussianHead(floor=0.1)(torch.zeros(5, 2))
    >>> round(law.stddev[0].item(), 4)  # 0.1 + 0.9 log 2
    0.7238
    """

    size = 2

    def __init__(self, *, floor: float = 1e-3) -> None:
        self.floor = _check_floor(floor)

    def __call__(self, raw: Tensor) -> Gaussian:
        """Turn ``(..., 2)`` into laws of batch shape ``(...)``."""
        mean, spread = raw.unbind(-1)
        return Gaussian(mean, _spread(spread, self.floor))


class LaplaceHead:
    """Two numbers as a Laplace law: its location, and its scale.

    Parameters
    ----------
    floor
        Least scale, in standard deviations of the target.

    Examples
    --------
    >>> import torch
    >>> LaplaceHead()(torch.zeros(5, 2)).batch_shape
    torch.Size([5])
    """

    size = 2

    def __init__(self, *, floor: float = 1e-3) -> None:
        self.floor = _check_floor(floor)

    def __call__(self, raw: Tensor) -> Laplace:
        """Turn ``(..., 2)`` into laws of batch shape ``(...)``."""
        location, scale = raw.unbind(-1)
        return Laplace(location, _spread(scale, self.floor))


class StudentTHead:
    """Three numbers as Student's t: location, scale, degrees of freedom above 2.

    Above 2, so that the variance exists; a new network starts near 7.

    Parameters
    ----------
    floor
        Least scale, in standard deviations of the target.

    Examples
    --------
    >>> import torch
    >>> law = StudentTHead()(torch.zeros(5, 3))
    >>> round(law.degrees_of_freedom[0].item(), 4)
    7.0067
    """

    size = 3
    #: softplus(5) is 5.0067; networks start with outputs near 0.
    _START = 5.0
    #: In float32 2 + 1e-8 is 2, where the variance is infinite.
    _LEAST = 1e-3

    def __init__(self, *, floor: float = 1e-3) -> None:
        self.floor = _check_floor(floor)

    def __call__(self, raw: Tensor) -> StudentT:
        """Turn ``(..., 3)`` into laws of batch shape ``(...)``."""
        location, scale, freedom = raw.unbind(-1)
        above = softplus(freedom + self._START).clamp_min(self._LEAST)
        return StudentT(2 + above, location, _spread(scale, self.floor))


class GaussianMixtureHead:
    """Three numbers for each component: its mean, its spread, its weight.

    Parameters
    ----------
    floor
        Least spread of a component, in standard deviations of the target.
    components
        Number of normal laws.

    References
    ----------
    Bishop (1994), *Mixture Density Networks*.

    Examples
    --------
    >>> import torch
    >>> GaussianMixtureHead(components=2)(torch.zeros(5, 6)).weights[:, 0].tolist()
    [0.5, 0.5]
    """

    def __init__(self, *, floor: float = 1e-3, components: int = 3) -> None:
        if components < 1:
            raise InputError(f"components must be at least 1, got {components}.")
        self.floor = _check_floor(floor)
        self.components = components
        self.size = 3 * components

    def __call__(self, raw: Tensor) -> GaussianMixture:
        """Turn ``(..., 3 * components)`` into laws of batch shape ``(...)``."""
        first = raw.movedim(-1, 0)
        means, spreads, weights = first.reshape(3, self.components, *raw.shape[:-1])
        return GaussianMixture(means, _spread(spreads, self.floor), weights.softmax(0))
