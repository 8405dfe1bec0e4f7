"""SoftSort: the relaxed sort with one softmax over distances."""

import torch
from torch import Tensor

from calibrant._checks import check_positive
from calibrant.sorting._shared import as_sortable, in_blocks, without_autocast
from calibrant.sorting.hard import hard_sort

__all__ = ["soft_sort"]


def soft_sort(values: Tensor, *, temperature: float = 1e-3) -> Tensor:
    r"""Sort the last axis in ascending order by distances to the sorted values.

    .. math::
        \hat P_{ij} = \mathrm{softmax}_j \frac{-|x_{(i)} - x_j|}{\tau}, \qquad
        \mathrm{sort}(x)_i = \sum_j \hat P_{ij} x_j .

    Unlike NeuralSort its softness does not depend on ``n``. Time is :math:`O(n^2)`;
    memory is bounded, because the rows of :math:`\hat P` are made in blocks.

    Parameters
    ----------
    values
        Shape ``(..., n)``.
    temperature
        :math:`\tau > 0`, in the units of ``values``: the width over which neighbors
        are averaged.

    Returns
    -------
    Tensor
        Shape ``(..., n)``. Each entry is a weighted mean of the input.

    References
    ----------
    Prillo and Eisenschlos (2020), *SoftSort: A Continuous Relaxation for the argsort
    Operator*, arXiv:2006.16038.

    Examples
    --------
    >>> import torch
    >>> soft_sort(torch.tensor([0.75, 0.25, 0.5])).tolist()
    [0.25, 0.5, 0.75]
    """
    check_positive(temperature, name="temperature")
    values = as_sortable(values)
    with without_autocast(values):

        def sorted_block(ordered: Tensor) -> Tensor:
            distances = (ordered[..., :, None] - values[..., None, :]).abs()
            weights = torch.softmax(-distances / temperature, dim=-1)
            return (weights @ values.unsqueeze(-1)).squeeze(-1)

        return in_blocks(sorted_block, hard_sort(values), values.numel())
