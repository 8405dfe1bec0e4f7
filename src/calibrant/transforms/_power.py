"""Powers of Box and Cox as functions of logarithms, and their maximum likelihood."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

__all__ = ["best_power", "log_from_power", "log_variance", "power_of_log"]


def power_of_log(log: Tensor, power: float) -> Tensor:
    r"""Return :math:`(e^{\lambda x} - 1) / \lambda`, which is x for a power of 0."""
    return log if power == 0 else torch.expm1(power * log) / power


def log_from_power(z: Tensor, power: float) -> Tensor:
    r"""Undo :func:`power_of_log`: :math:`\log(1 + \lambda z) / \lambda`.

    Values of z that are no image count as the end of the image.
    """
    if power == 0:
        return z
    return torch.log1p((power * z).clamp_min(-1)) / power


def log_variance(values: Tensor) -> float:
    """Logarithm of the variance of ``(n,)``, infinite if a square is."""
    variance = float(values.var(correction=0))
    if not np.isfinite(variance):
        return float(np.inf)
    return float(np.log(max(variance, np.finfo(np.float64).tiny)))


def best_power(loss: Callable[[float], float], low: float, high: float) -> float:
    """Find the power with the smallest loss in ``[low, high]``, to about 1e-8."""
    # Only who fits pays for the import.
    from scipy.optimize import minimize_scalar

    tried = np.linspace(low, high, 41)
    losses = [loss(float(power)) for power in tried]
    best = int(np.argmin(losses))
    bracket = (tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)])
    found = minimize_scalar(
        lambda power: loss(float(power)),
        bounds=bracket,
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x) if found.fun < losses[best] else float(tried[best])
