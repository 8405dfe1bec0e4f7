"""Sorts with gradients. To add one: one file here, one line in ``SORTERS``."""

from typing import TYPE_CHECKING

from calibrant._table import Table

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from calibrant.contracts import Sorter

__all__ = ["SORTERS"]

SORTERS: "Table[Sorter]" = Table(
    "sorter",
    {
        "hard": "calibrant.sorting.hard:hard_sort",
        "neural": "calibrant.sorting.neural:neural_sort",
        "soft": "calibrant.sorting.soft:soft_sort",
        "network": "calibrant.sorting.network:network_sort",
    },
)
