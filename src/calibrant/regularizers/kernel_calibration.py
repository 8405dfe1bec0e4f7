"""Distance between a soft empirical law of PIT values and the uniform law."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibrant._checks import ArrayLike, InputError, as_pit, check_positive
from calibrant.contracts import PitValues
from calibrant.regularizers._rows import check_row_count
from calibrant.sorting import in_blocks

__all__ = ["expected_kernel_calibration", "kernel_calibration"]


def kernel_calibration(
    pit: ArrayLike | PitValues, *, bandwidth: float = 0.01, levels: int = 64
) -> Tensor:
    r"""Squared distance of a soft-indicator law from the uniform law ("PCE-KDE").

    With the levels :math:`t_j = (j - 1/2) / M` and the logistic function
    :math:`\sigma`,

    .. math::
        R(u) = \frac1M \sum_{j=1}^M \bigl(\hat F_h(t_j) - U_h(t_j)\bigr)^2, \qquad
        \hat F_h(t) = \frac1n \sum_{i=1}^n \sigma\Bigl(\frac{t - u_i}{h}\Bigr) .

    :math:`U_h(t) = \mathbb{E}\,\sigma((t - U)/h)` is the uniform law seen through the
    same kernel; comparing with :math:`t` itself, as the study does, would push
    values away from the ends. No sort is needed. 0 at best; at perfect calibration
    the mean is :func:`expected_kernel_calibration`, just below :math:`1 / (6n)`.

    Default strength: 40, where its pull on the spread of an over-confident Gaussian
    batch (two thirds of the true spread, n = 512) is about that of the cumulative KL
    at 20.

    Parameters
    ----------
    pit
        PIT values in [0, 1], shape ``(..., n)``, or ``distribution.pit(y)``.
    bandwidth
        :math:`h > 0`, the width of the soft indicator.
    levels
        :math:`M \ge 1`.

    Returns
    -------
    Tensor
        Shape ``(...)``.

    References
    ----------
    Dheur and Ben Taieb (2023), *A Large-Scale Study of Probabilistic Calibration in
    Neural Network Regression*, arXiv:2306.02738.

    Examples
    --------
    >>> import torch
    >>> evenly_spread = (torch.arange(1000) + 0.5) / 1000
    >>> round(kernel_calibration(evenly_spread).item(), 6)
    0.0
    """
    values = as_pit(pit).cdf
    level = _levels(levels, bandwidth).to(dtype=values.dtype, device=values.device)

    def soft_law(block: Tensor) -> Tensor:
        return torch.sigmoid((block[:, None] - values[..., None, :]) / bandwidth).mean(
            -1
        )

    observed = in_blocks(soft_law, level, values.numel())
    return (observed - _smoothed_uniform(level, bandwidth)).square().mean(-1)


def expected_kernel_calibration(
    n: int, *, bandwidth: float = 0.01, levels: int = 64
) -> float:
    r"""Mean of :func:`kernel_calibration` over ``n`` independent uniform values.

    It is the mean over levels of the variance of the soft indicator, over n; from
    :math:`\sigma^2 = \sigma - \sigma'` that variance has a closed form.

    Examples
    --------
    >>> round(600 * expected_kernel_calibration(100), 2)
    0.94
    """
    check_row_count(n)
    level = _levels(levels, bandwidth)
    first = _smoothed_uniform(level, bandwidth)
    slope = torch.sigmoid(level / bandwidth) - torch.sigmoid((level - 1) / bandwidth)
    variance = first - bandwidth * slope - first.square()
    return float(variance.mean()) / n


def _levels(levels: int, bandwidth: float) -> Tensor:
    check_positive(bandwidth, name="bandwidth")
    if levels < 1:
        raise InputError(f"levels must be at least 1, got {levels}.")
    return (torch.arange(levels, dtype=torch.float64) + 0.5) / levels


def _smoothed_uniform(level: Tensor, bandwidth: float) -> Tensor:
    inside = softplus(level / bandwidth) - softplus((level - 1) / bandwidth)
    return bandwidth * inside
