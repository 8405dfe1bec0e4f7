"""A differentiable sorting network: Batcher's bitonic network of soft swaps."""

import math

import torch
from torch import Tensor

from calibrant._checks import InputError, check_positive
from calibrant.sorting._shared import as_sortable

__all__ = ["network_sort"]

#: The backward pass keeps about six numbers for each value and layer. A sort whose
#: estimate exceeds this many bytes is refused rather than left to the system's killer.
MEMORY_LIMIT = 4 * 2**30


def network_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by a network of soft swaps.

    Each comparator of a bitonic network replaces a pair by

    .. math::
        \min_\tau(a, b) = a\,\sigma + b\,(1 - \sigma), \quad
        \max_\tau(a, b) = a\,(1 - \sigma) + b\,\sigma, \quad
        \sigma = \mathrm{logistic}\frac{b - a}{\tau} .

    The sum of the values is kept exactly. Time and memory are
    :math:`O(n \log^2 n)`; there is no n x n matrix.

    Parameters
    ----------
    values
        Shape ``(..., n)``; any ``n``, not only powers of two.
    temperature
        :math:`\tau > 0`, in the units of ``values``.

    Returns
    -------
    Tensor
        Shape ``(..., n)``.

    References
    ----------
    Petersen, Borgelt, Kuehne and Deussen (2021), *Differentiable Sorting Networks for
    Scalable Sorting and Ranking Supervision*, arXiv:2105.04019.

    Examples
    --------
    >>> import torch
    >>> network_sort(torch.tensor([0.75, 0.25, 0.5])).tolist()
    [0.25, 0.5, 0.75]
    """
    check_positive(temperature, name="temperature")
    values = as_sortable(values)
    n = values.shape[-1]
    width = 1 << (n - 1).bit_length()
    _check_memory(values, width)

    # Padding that lies 50 temperatures above the rest is never mixed with it:
    # logistic(50) is 1 in float64 and float32 alike.
    top = values.detach().amax(dim=-1, keepdim=True) + 50 * temperature
    padded = torch.cat([values, top.expand(*values.shape[:-1], width - n)], dim=-1)

    run = 2
    while run <= width:
        gap = run // 2
        while gap >= 1:
            padded = _swap_layer(padded, gap, run, temperature)
            gap //= 2
        run *= 2
    return padded[..., :n]


def _swap_layer(values: Tensor, gap: int, run: int, temperature: float) -> Tensor:
    """Compare all pairs that are ``gap`` apart; runs of ``run`` alternate direction."""
    width = values.shape[-1]
    pairs = values.unflatten(-1, (width // (2 * gap), 2, gap))
    first, second = pairs[..., 0, :], pairs[..., 1, :]
    start = torch.arange(0, width, 2 * gap, device=values.device)
    descends = ((start & run) != 0)[:, None]
    rising = torch.sigmoid((second - first) / temperature)
    stays = torch.where(descends, 1 - rising, rising)
    moved = (second - first) * (1 - stays)
    return torch.stack([first + moved, second - moved], dim=-2).flatten(-3)


def _check_memory(values: Tensor, width: int) -> None:
    """Refuse a size whose backward pass would not fit."""
    stages = max(1, int(math.log2(width)))
    layers = stages * (stages + 1) // 2
    padded_values = values[..., 0].numel() * width
    needed = 6 * layers * padded_values * values.element_size()
    if values.requires_grad and needed > MEMORY_LIMIT:
        raise InputError(
            f"the sorting network would keep about {needed / 2**30:.0f} GiB for the "
            f"backward pass of values of shape {tuple(values.shape)}; the limit is "
            f"{MEMORY_LIMIT / 2**30:.0f} GiB. Use the hard sort (exact gradient, "
            "n log n), or a smaller batch."
        )
