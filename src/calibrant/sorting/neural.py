"""NeuralSort, the relaxed sort of the paper, and its stochastic form."""

import torch
from torch import Tensor

from calibrant._checks import InputError, check_positive
from calibrant.sorting._shared import as_sortable, in_blocks, without_autocast

__all__ = ["neural_sort", "neural_sort_matrix", "stochastic_neural_sort"]


def neural_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by a relaxed permutation.

    .. math::
        \hat P_{ij} = \mathrm{softmax}_j
            \frac{(2i - n - 1)\, x_j - \sum_k |x_j - x_k|}{\tau}, \qquad
        \mathrm{sort}(x)_i = \sum_j \hat P_{ij} x_j .

    As :math:`\tau \to 0` it becomes the hard sort, in value and in gradient. Time is
    :math:`O(n^2)`; memory is bounded, because the rows of :math:`\hat P` are made in
    blocks and, for large :math:`n`, made again in the backward pass.

    Parameters
    ----------
    values
        Shape ``(..., n)``.
    temperature
        :math:`\tau > 0`. Differences of neighbors that are well above it are sorted
        sharply; PIT values of a batch of n are about 1 / n apart.

    Returns
    -------
    Tensor
        Shape ``(..., n)``. Each entry is a weighted mean of the input.

    References
    ----------
    Grover, Wang, Zweig and Ermon (2019), *Stochastic Optimization of Sorting Networks
    via Continuous Relaxations*, arXiv:1903.08850.

    Examples
    --------
    >>> import torch
    >>> neural_sort(torch.tensor([0.9, 0.1, 0.5])).round(decimals=6).tolist()
    [0.10000000149011612, 0.5, 0.8999999761581421]
    """
    check_positive(temperature, name="temperature")
    values = as_sortable(values)
    with without_autocast(values):
        distances = _sum_of_distances(values)

        def sorted_block(slopes: Tensor) -> Tensor:
            weights = _weights(values, distances, slopes, temperature)
            return (weights @ values.unsqueeze(-1)).squeeze(-1)

        return in_blocks(sorted_block, _slopes(values), values.numel())


def neural_sort_matrix(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    """Relaxed permutation matrix of :func:`neural_sort`, ``(..., n) -> (..., n, n)``.

    Row ``i`` holds the weights with which the values enter place ``i``; rows sum to 1.

    Examples
    --------
    >>> import torch
    >>> neural_sort_matrix(torch.tensor([0.9, 0.1])).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    check_positive(temperature, name="temperature")
    values = as_sortable(values)
    return _weights(values, _sum_of_distances(values), _slopes(values), temperature)


def stochastic_neural_sort(
    log_scores: Tensor,
    *,
    temperature: float = 1e-3,
    samples: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draw relaxed permutations from the Plackett-Luce law, with gradients.

    Gumbel noise is added to the log scores and the sum is sorted. Items leave in
    descending order in the Plackett-Luce law; our sorts ascend, so its first choice
    is the LAST row: as :math:`\tau \to 0`, item :math:`j` stands there with
    probability :math:`e^{s_j} / \sum_k e^{s_k}`.

    Parameters
    ----------
    log_scores
        :math:`s`, shape ``(..., n)``.
    temperature
        :math:`\tau > 0` of the relaxation.
    samples
        How many permutations to draw for each row.
    generator
        Source of randomness.

    Returns
    -------
    Tensor
        Shape ``(samples, ..., n, n)``; ``result @ x.unsqueeze(-1)`` orders ``x``.

    References
    ----------
    Grover et al. (2019), arXiv:1903.08850, section 4.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([0.7, 0.2, 0.1]).log()
    >>> stochastic_neural_sort(scores, samples=5).shape
    torch.Size([5, 3, 3])
    """
    log_scores = as_sortable(log_scores, name="log_scores")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}.")
    exponential = torch.empty(
        (samples, *log_scores.shape), dtype=log_scores.dtype, device=log_scores.device
    ).exponential_(generator=generator)
    gumbel = -exponential.clamp_min(torch.finfo(log_scores.dtype).tiny).log()
    return neural_sort_matrix(log_scores + gumbel, temperature=temperature)


def _slopes(values: Tensor) -> Tensor:
    """The factors 2i - n - 1 of each place, ascending, shape ``(n,)``."""
    n = values.shape[-1]
    return torch.arange(1 - n, n, 2, dtype=values.dtype, device=values.device)


def _sum_of_distances(values: Tensor) -> Tensor:
    r"""Sum of |x_j - x_k| over k, in O(n log n) instead of an n x n table.

    With ranks r and prefix sums C of the sorted values it is
    ``x_(r) (2 r - n) - 2 C_r + C_n``. Ties may take any order among themselves.
    """
    n = values.shape[-1]
    ordered, order = torch.sort(values, dim=-1)
    rank = torch.arange(1, n + 1, dtype=values.dtype, device=values.device)
    prefix = ordered.cumsum(-1)
    sums = ordered * (2 * rank - n) - 2 * prefix + prefix[..., -1:]
    return torch.zeros_like(values).scatter(-1, order, sums)


def _weights(
    values: Tensor, distances: Tensor, slopes: Tensor, temperature: float
) -> Tensor:
    """Rows of the relaxed permutation for the places with these slopes."""
    logits = slopes[:, None] * values[..., None, :] - distances[..., None, :]
    return torch.softmax(logits / temperature, dim=-1)
