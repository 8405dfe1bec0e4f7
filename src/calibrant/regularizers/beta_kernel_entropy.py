"""KL divergence of PIT values from the uniform law, with Chen's Beta kernel."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, as_pit, check_positive
from calibrant.contracts import PitValues
from calibrant.sorting import in_blocks

__all__ = ["beta_kernel_entropy"]

#: Gauss-Legendre nodes of the integral; the estimated density is smooth.
NODES = 64


def beta_kernel_entropy(
    pit: ArrayLike | PitValues, *, bandwidth: float | None = None
) -> Tensor:
    r"""KL divergence to the uniform law from a density with no boundary bias.

    The route that the paper mentions and sets aside. With the Beta kernel of width b,

    .. math::
        \hat f(t) = \frac1n \sum_{i=1}^n
            \mathrm{Beta}\Bigl(u_i;\ \frac tb + 1,\ \frac{1-t}{b} + 1\Bigr), \qquad
        R(u) = \int_0^1 \bigl(\hat f \ln \hat f - \hat f + 1\bigr) \, dt .

    :math:`\hat f` need not integrate to 1, hence the last two terms: with them the
    divergence is never negative, and 0 only for :math:`\hat f = 1`. No sort is
    needed. At perfect calibration its mean with the default bandwidth is 0.036
    for n = 32, 0.013 for n = 128 and 0.0048 for n = 512 (simulated).

    Default strength: 3, where its pull on the spread of an over-confident Gaussian
    batch (two thirds of the true spread, n = 512) is about that of the cumulative KL
    at 20.

    Parameters
    ----------
    pit
        PIT values in [0, 1], shape ``(..., n)``, or ``distribution.pit(y)``.
    bandwidth
        :math:`b > 0`; by default :math:`0.25\, n^{-2/5}`, Chen's rate.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Chen (1999), *Beta Kernel Estimators for Density Functions*.
    Utpala and Rai (2020), arXiv:2002.12860, section 3.

    Examples
    --------
    >>> import torch
    >>> evenly_spread = (torch.arange(1000) + 0.5) / 1000
    >>> round(beta_kernel_entropy(evenly_spread).item(), 3)
    0.0
    """
    values = as_pit(pit)
    n = values.cdf.shape[-1]
    width = 0.25 * n**-0.4 if bandwidth is None else bandwidth
    check_positive(width, name="bandwidth")
    rule: Tensor = torch.from_numpy(_gauss_legendre()).to(values.cdf)
    nodes, weights = rule.unbind(0)

    # At 0 and 1 the kernel's slope is infinite; there the value moves but a little.
    smallest = torch.finfo(values.cdf.dtype).eps
    log_cdf = values.cdf.clamp(smallest, 1 - smallest).log()
    log_survival = values.survival.clamp(smallest, 1 - smallest).log()

    def density(block: Tensor) -> Tensor:
        first, second = (block / width)[:, None], ((1 - block) / width)[:, None]
        log_beta = (
            torch.lgamma(first + 1)
            + torch.lgamma(second + 1)
            - torch.lgamma(torch.full_like(first, 1 / width + 2))
        )
        logs = first * log_cdf[..., None, :] + second * log_survival[..., None, :]
        return (logs - log_beta).exp().mean(-1)

    estimate = in_blocks(density, nodes, values.cdf.numel())
    # Where no value is near, the density underflows, and its logarithm has no slope.
    estimate = estimate.clamp_min(torch.finfo(estimate.dtype).tiny)
    divergence = estimate * estimate.log() - estimate + 1
    return (weights * divergence).sum(-1)


@lru_cache(maxsize=1)
def _gauss_legendre() -> npt.NDArray[np.float64]:
    """Nodes and weights on [0, 1], shape ``(2, nodes)``."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return np.stack([(nodes + 1) / 2, weights / 2])
