"""Ratio of two gamma functions, without the cancellation of their logarithms."""

import torch
from torch import Tensor

__all__ = ["log_gamma_ratio"]

#: From here on the series is exact to 1e-15.
_LARGE = 20.0
#: Of 1/a, 1/a^3, ...: from the Stirling series of both gamma functions.
_SERIES = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432, 691 / 180224)


def log_gamma_ratio(a: Tensor) -> Tensor:
    r"""Evaluate :math:`\log \Gamma(a + 1/2) - \log \Gamma(a) - \tfrac12 \log a`.

    It goes to 0 for large ``a``, where ``lgamma`` would leave only rounding noise.

    Shape: any, kept. ``a`` must be above 0.
    """
    small, large = a.clamp_max(_LARGE), a.clamp_min(_LARGE)
    exact = torch.lgamma(small + 0.5) - torch.lgamma(small) - 0.5 * small.log()
    inverse = 1 / large
    series = torch.zeros_like(a)
    for coefficient in reversed(_SERIES):
        series = series * inverse.square() + coefficient
    return torch.where(a < _LARGE, exact, series * inverse)
