"""Order statistics of PIT values, resolved in both tails where the sort allows it."""

from torch import Tensor

from calibrant.contracts import PitValues, Sorter
from calibrant.sorting import hard_sort

__all__ = ["ordered_cdf", "ordered_survival"]


def ordered_cdf(pit: PitValues, sort: Sorter) -> Tensor:
    """PIT values in ascending order, ``(..., n)``."""
    if sort is hard_sort:
        return hard_sort(pit.cdf, key=pit.key)
    return sort(pit.cdf)


def ordered_survival(pit: PitValues, sort: Sorter) -> Tensor:
    """Survival values in the order of ascending PIT values: they descend."""
    if sort is hard_sort:
        return hard_sort(pit.survival, key=pit.key)
    return sort(pit.survival).flip(-1)
