"""The ordinary sort: its values have an exact gradient almost everywhere."""

import torch
from torch import Tensor

from calibrant.sorting._shared import as_sortable

__all__ = ["hard_sort"]


def hard_sort(values: Tensor, *, key: Tensor | None = None) -> Tensor:
    r"""Sort the last axis in ascending order, with the exact gradient.

    Sorted values are a permutation of the input, so the derivative of
    :math:`x_{(i)}` is 1 for the value that stands at place :math:`i` and 0 for the
    others wherever no two values are equal. Equal values share their gradients
    evenly: it then does not depend on the order of the rows. Cost
    :math:`O(n \log n)`.

    Parameters
    ----------
    values
        Shape ``(..., n)``.
    key
        Values to order by, of the same shape, without gradient; ``values`` by default.
        PIT values that tie in float32 can still be ordered by their logarithms.

    Returns
    -------
    Tensor
        Shape ``(..., n)``, ascending.

    Examples
    --------
    >>> import torch
    >>> values = torch.tensor([3.0, 1.0, 2.0, 1.0], requires_grad=True)
    >>> ordered = hard_sort(values)
    >>> ordered.tolist()
    [1.0, 1.0, 2.0, 3.0]
    >>> (ordered * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    >>> values.grad.tolist()
    [4.0, 1.5, 3.0, 1.5]
    """
    values = as_sortable(values)
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
    return _share_gradient_of_ties(ordered, starts_anew)


def _share_gradient_of_ties(ordered: Tensor, starts_anew: Tensor) -> Tensor:
    """Keep the values, and give each the mean gradient of its run of equal keys."""
    run = torch.zeros_like(ordered, dtype=torch.long)
    run[..., 1:] = starts_anew.long().cumsum(-1)
    total = torch.zeros_like(ordered).scatter_add(-1, run, ordered)
    count = torch.zeros_like(ordered).scatter_add(-1, run, torch.ones_like(ordered))
    mean = (total / count.clamp_min(1)).gather(-1, run)
    # The mean of equal values may round; the sum keeps them to the bit.
    return ordered.detach() + (mean - mean.detach())
