"""Rows that come in an order which matters."""

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["SerialDependenceWarning", "warn_of_order"]

# A correlation that is both large enough to matter and far from chance.
_LEAST_CORRELATION = 0.15
_LEAST_ERRORS = 5.0
_FEWEST_PAIRS = 49


class SerialDependenceWarning(UserWarning):
    """Neighboring rows have alike errors: random folds see through them."""


def warn_of_order(
    pit: Tensor, labels: npt.NDArray[Any] | None = None, *, stacklevel: int = 4
) -> None:
    r"""Warn if PIT values in row order ``(n,)`` depend on their neighbors.

    Random folds are honest for rows that are exchangeable. In a series, or a file that
    is sorted by its design, a row's neighbors tell its error, and they were trained on.
    With :math:`c_i` the PIT value less the mean, over neighbors in different blocks,

    .. math:: r = \frac{\sum c_i c_{i+1} / m}{\sum c_i^2 / n} , \qquad
        r \sqrt m > 5 , \quad r > 0.15 .

    Parameters
    ----------
    pit
        Of laws that had not seen the rows.
    labels
        Blocks of the rows, shape ``(n,)``: neighbors that no fold parts do not count.
    stacklevel
        Of the warning.

    Examples
    --------
    >>> warn_of_order(torch.rand(1000, generator=torch.Generator().manual_seed(0)))
    """
    centered = pit.double() - pit.double().mean()
    spread = float(centered.square().mean())
    products = centered[1:] * centered[:-1]
    if labels is not None:
        products = products[torch.from_numpy(np.diff(labels) != 0)]
    if len(products) < _FEWEST_PAIRS or spread <= 0:
        return
    correlation = float(products.mean()) / spread
    far = correlation * math.sqrt(len(products)) > _LEAST_ERRORS
    if correlation > _LEAST_CORRELATION and far:
        warnings.warn(
            f"neighboring rows have alike errors (correlation {correlation:.2f} over "
            f"{len(pit)} rows in the order given). If the rows are a series, or sorted "
            "by what they have in common, random folds are too optimistic: pass "
            "time= or groups= to fit.",
            SerialDependenceWarning,
            stacklevel=stacklevel,
        )
