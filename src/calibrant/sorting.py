"""Ascending sorts of the last axis that carry gradients; their table is in registry."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from calibrant.registry import SORTERS
from calibrant.validation import InputError, as_float_tensor, check_positive

__all__ = [
    "SORTERS",
    "hard_sort",
    "network_sort",
    "neural_sort",
    "soft_sort",
    "stochastic_neural_sort",
]

Function = Callable[[Tensor], Tensor]
#: Entries of a relaxed permutation matrix held at once (64 MiB of float32); above it
#: the rows of the matrix are made, used and dropped in blocks.
BLOCK_ELEMENTS = 2**24


def hard_sort(values: Tensor, *, key: Tensor | None = None) -> Tensor:
    r"""Sort the last axis in ascending order, with the exact gradient.

    The derivative of :math:`x_{(i)}` is 1 for the value that stands at place
    :math:`i` and 0 for the others. Equal values share their gradients evenly, so that
    it does not depend on the order of the rows. Cost :math:`O(n \log n)`.

    Parameters
    ----------
    values
        Shape ``(..., n)``, as the result.
    key
        Values to order by, of the same shape, without gradient; ``values`` by default.
        PIT values that tie in float32 can still be ordered by their logarithms.

    Examples
    --------
    >>> values = torch.tensor([3.0, 1.0, 2.0, 1.0], requires_grad=True)
    >>> ordered = hard_sort(values)
    >>> ordered.tolist()
    [1.0, 1.0, 2.0, 3.0]
    >>> (ordered * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    >>> values.grad.tolist()
    [4.0, 1.5, 3.0, 1.5]
    """
    values = _sortable(values)
    if key is None:
        ordered, _ = torch.sort(values, dim=-1, stable=True)
        ordered_key = ordered.detach()
    else:
        ordered_key, order = torch.sort(key.detach(), dim=-1, stable=True)
        ordered = values.gather(-1, order)
    if not ordered.requires_grad:
        return ordered
    starts_anew = ordered_key[..., 1:] != ordered_key[..., :-1]
    if starts_anew.all():
        return ordered
    # Each value gets the mean gradient of its run of equal keys.
    run = torch.zeros_like(ordered, dtype=torch.long)
    run[..., 1:] = starts_anew.long().cumsum(-1)
    total = torch.zeros_like(ordered).scatter_add(-1, run, ordered)
    count = torch.zeros_like(ordered).scatter_add(-1, run, torch.ones_like(ordered))
    mean = (total / count.clamp_min(1)).gather(-1, run)
    # The mean of equal values may round; the sum keeps them to the bit.
    return ordered.detach() + (mean - mean.detach())


def neural_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by a relaxed permutation.

    .. math::
        \hat P_{ij} = \mathrm{softmax}_j
            \frac{(2i - n - 1)\, x_j - \sum_k |x_j - x_k|}{\tau}, \qquad
        \mathrm{sort}(x)_i = \sum_j \hat P_{ij} x_j .

    As :math:`\tau \to 0` it becomes the hard sort, in value and in gradient. Time is
    :math:`O(n^2)`; memory is bounded.

    Parameters
    ----------
    values
        Shape ``(..., n)``, as the result.
    temperature
        :math:`\tau > 0`. Differences of neighbors that are well above it are sorted
        sharply; PIT values of a batch of n are about 1 / n apart.

    References
    ----------
    Grover, Wang, Zweig and Ermon (2019), *Stochastic Optimization of Sorting Networks
    via Continuous Relaxations*, arXiv:1903.08850.

    Examples
    --------
    >>> neural_sort(torch.tensor([0.9, 0.1, 0.5])).round(decimals=6).tolist()
    [0.10000000149011612, 0.5, 0.8999999761581421]
    """
    values = _sortable(values, temperature)
    return _mixed(values, *_neural_weights(values, temperature))


def stochastic_neural_sort(
    log_scores: Tensor,
    *,
    temperature: float = 1e-3,
    samples: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draw relaxed permutations from the Plackett-Luce distribution, with gradients.

    Section 4 of the paper of :func:`neural_sort`. Our sorts ascend, so the first choice
    is the LAST row: as :math:`\tau \to 0`, item :math:`j` stands there with probability
    :math:`e^{s_j} / \sum_k e^{s_k}`. The result has shape ``(samples, ..., n, n)``;
    ``result @ x.unsqueeze(-1)`` orders ``x``.

    Parameters
    ----------
    log_scores
        :math:`s`, shape ``(..., n)``.
    temperature, samples, generator
        :math:`\tau > 0`, permutations to draw for each row, and source of randomness.

    Examples
    --------
    >>> scores = torch.tensor([0.7, 0.2, 0.1]).log()
    >>> stochastic_neural_sort(scores, samples=5).shape
    torch.Size([5, 3, 3])
    """
    log_scores = _sortable(log_scores, temperature, "log_scores")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}.")
    exponential = torch.empty(
        (samples, *log_scores.shape), dtype=log_scores.dtype, device=log_scores.device
    ).exponential_(generator=generator)
    gumbel = -exponential.clamp_min(torch.finfo(log_scores.dtype).tiny).log()
    weights, slopes = _neural_weights(log_scores + gumbel, temperature)
    return weights(slopes)


def soft_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by distances to the sorted values.

    .. math::
        \hat P_{ij} = \mathrm{softmax}_j \frac{-|x_{(i)} - x_j|}{\tau}, \qquad
        \mathrm{sort}(x)_i = \sum_j \hat P_{ij} x_j .

    Shapes, time and memory are those of :func:`neural_sort`, but the softness does not
    depend on ``n``: neighbors are averaged over the width ``temperature``.

    References
    ----------
    Prillo and Eisenschlos (2020), *SoftSort: A Continuous Relaxation for the argsort
    Operator*, arXiv:2006.16038.

    Examples
    --------
    >>> soft_sort(torch.tensor([0.75, 0.25, 0.5])).tolist()
    [0.25, 0.5, 0.75]
    """
    values = _sortable(values, temperature)

    def weights(ordered: Tensor) -> Tensor:
        distances = (ordered[..., :, None] - values[..., None, :]).abs()
        return torch.softmax(-distances / temperature, dim=-1)

    return _mixed(values, weights, hard_sort(values))


def network_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by a network of soft swaps.

    Each comparator of Batcher's bitonic network replaces a pair by

    .. math::
        \min_\tau(a, b) = a\,\sigma + b\,(1 - \sigma), \quad
        \max_\tau(a, b) = a\,(1 - \sigma) + b\,\sigma, \quad
        \sigma = \mathrm{logistic}\frac{b - a}{\tau} .

    ``values`` have shape ``(..., n)`` with any ``n``; their sum is kept exactly. Time
    and memory are :math:`O(n \log^2 n)`; there is no n x n matrix.

    References
    ----------
    Petersen, Borgelt, Kuehne and Deussen (2021), *Differentiable Sorting Networks for
    Scalable Sorting and Ranking Supervision*, arXiv:2105.04019.

    Examples
    --------
    >>> network_sort(torch.tensor([0.75, 0.25, 0.5])).tolist()
    [0.25, 0.5, 0.75]
    """
    values = _sortable(values, temperature)
    n = values.shape[-1]
    width = 1 << (n - 1).bit_length()
    # Padding that lies 50 temperatures above the rest is never mixed with it:
    # logistic(50) is 1 in float64 and float32 alike.
    top = values.detach().amax(dim=-1, keepdim=True) + 50 * temperature
    padded = torch.cat([values, top.expand(*values.shape[:-1], width - n)], dim=-1)
    for stage in range(1, width.bit_length()):
        for step in reversed(range(stage)):
            padded = _swap_layer(padded, 2**step, 2**stage, temperature)
    return padded[..., :n]


def in_blocks(row_block: Function, rows: Tensor, elements_per_row: int) -> Tensor:
    """Join ``row_block(rows[a:b])`` over blocks so that memory stays bounded.

    ``rows`` of shape ``(..., n)`` are cut along the last axis; ``row_block`` keeps
    ``elements_per_row`` numbers for each entry of it.
    """
    size = max(1, BLOCK_ELEMENTS // max(1, elements_per_row))
    if size >= rows.shape[-1]:
        return row_block(rows)
    # Each block is computed again in the backward pass instead of being kept.
    blocks = [
        checkpoint(row_block, block, use_reentrant=False, preserve_rng_state=False)
        for block in rows.split(size, dim=-1)
    ]
    return torch.cat(blocks, dim=-1)


def _sortable(values: Tensor, temperature: float = 1, name: str = "values") -> Tensor:
    check_positive(temperature, name="temperature")
    values = as_float_tensor(values, name=name)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise InputError(
            f"{name} must have shape (..., n) with n >= 1, got {tuple(values.shape)}."
        )
    return values


def _mixed(values: Tensor, weights: Function, places: Tensor) -> Tensor:
    """Means of the values with the weights of each place, in full precision."""
    with torch.autocast(device_type=values.device.type, enabled=False):
        return in_blocks(
            lambda block: (weights(block) @ values.unsqueeze(-1)).squeeze(-1),
            places,
            values.numel(),
        )


def _neural_weights(values: Tensor, temperature: float) -> tuple[Function, Tensor]:
    """Rows of the relaxed permutation as a function of slopes, and all slopes.

    The sum of |x_j - x_k| over k takes O(n log n): with ranks r and prefix sums C of
    the sorted values it is ``x_(r) (2 r - n) - 2 C_r + C_n``, in any order of ties.
    """
    n = values.shape[-1]
    ordered, order = torch.sort(values, dim=-1)
    rank = torch.arange(1, n + 1, dtype=values.dtype, device=values.device)
    prefix = ordered.cumsum(-1)
    sums = ordered * (2 * rank - n) - 2 * prefix + prefix[..., -1:]
    distances = torch.zeros_like(values).scatter(-1, order, sums)

    def weights(slopes: Tensor) -> Tensor:
        logits = slopes[:, None] * values[..., None, :] - distances[..., None, :]
        return torch.softmax(logits / temperature, dim=-1)

    # The factors 2i - n - 1 of the places.
    slopes = torch.arange(1 - n, n, 2, dtype=values.dtype, device=values.device)
    return weights, slopes


def _swap_layer(values: Tensor, gap: int, run: int, temperature: float) -> Tensor:
    """Compare all pairs that are ``gap`` apart; runs of ``run`` alternate direction."""
    first, second = values.unflatten(-1, (-1, 2, gap)).unbind(-2)
    start = torch.arange(0, values.shape[-1], 2 * gap, device=values.device)
    descends = ((start & run) != 0)[:, None]
    rising = torch.sigmoid((second - first) / temperature)
    stays = torch.where(descends, 1 - rising, rising)
    moved = (second - first) * (1 - stays)
    return torch.stack([first + moved, second - moved], dim=-2).flatten(-3)
