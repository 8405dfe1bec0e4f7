"""Far above the median, where a law must be asked for its other tail."""

import torch
from torch import Tensor

from calibrant.distributions._row_blocks import is_plain
from calibrant.distributions._upper_quantile import upper_quantile
from calibrant.distributions.base import AbstractDistribution

__all__ = ["FAR", "SMALLEST", "both_tails", "quantiles_by_tails"]

#: Upper tail from which on the level loses more digits than the probability beyond.
FAR = 1e-3
#: What a float32 law can tell from 0.
SMALLEST = torch.finfo(torch.float32).tiny


def both_tails(law: AbstractDistribution, value: Tensor) -> tuple[Tensor, Tensor]:
    """Cdf and survival of float64 values, the second precise beyond 0.999 only.

    That is enough for a level, which has the digits of its distance from 0 or 1.
    Shape: as for ``law.cdf``.
    """
    cdf = law._cdf(value)
    rows = _few(law, cdf > 1 - FAR)
    if rows is None:
        return cdf, law._survival(value)
    asked = value.expand(cdf.shape).reshape(-1)[rows]
    above = law[rows % len(law)]._survival(asked)
    return cdf, _replaced(1 - cdf, rows, above)


def quantiles_by_tails(
    law: AbstractDistribution,
    cdf: Tensor,
    survival: Tensor,
    *,
    smallest: float = SMALLEST,
) -> Tensor:
    """Quantiles at levels, each from the tail that is not rounded.

    Tails below ``smallest`` count as that. Shape: as for ``law.quantile``.
    """
    above = survival < FAR
    count = int(above.count_nonzero())
    if count == above.numel():
        return upper_quantile(law, survival.clamp_min(smallest))
    # Levels above are not used, but must not have infinite quantiles.
    lower = law._quantile(cdf.clamp(smallest, 1 - FAR / 2))
    if count == 0:
        return lower
    rows = _few(law, above)
    if rows is not None:
        asked = survival.reshape(-1)[rows].clamp_min(smallest)
        return _replaced(lower, rows, law[rows % len(law)]._upper_quantile(asked))
    asked = torch.where(above, survival, 0.5).clamp_min(smallest)
    return torch.where(above, upper_quantile(law, asked), lower)


def _few(law: AbstractDistribution, some: Tensor) -> Tensor | None:
    """Flat indices of some values ``(..., n)``, if the law is best asked for those."""
    if not is_plain(law):
        return None
    rows = some.reshape(-1).nonzero()[:, 0]
    return None if 4 * len(rows) > some.numel() else rows


def _replaced(values: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    return values.flatten().index_copy(0, rows, others).view(values.shape)
