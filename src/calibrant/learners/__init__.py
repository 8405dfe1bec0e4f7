"""Networks that predict: features ``(n, d)`` to a distribution for each row.

To add one: one class in ``ensembles.py``, one line in ``NETWORKS``. A head turns the
last layer's numbers into a distribution: one class in ``mlp.py``, one line in
``HEADS``.
"""

from typing import TYPE_CHECKING

from calibrant.registry import Table

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from collections.abc import Callable

    from calibrant.contracts import Head, Network

__all__ = ["HEADS", "NETWORKS"]

HEADS: "Table[Callable[..., Head]]" = Table(
    "head",
    {
        "gaussian": f"{__name__}.mlp:GaussianHead",
        "laplace": f"{__name__}.mlp:LaplaceHead",
        "student_t": f"{__name__}.mlp:StudentTHead",
        "gaussian_mixture": f"{__name__}.mlp:GaussianMixtureHead",
    },
)

NETWORKS: "Table[Callable[..., Network]]" = Table(
    "network",
    {
        "deep_ensemble": f"{__name__}.ensembles:DeepEnsemble",
        "mc_dropout": f"{__name__}.ensembles:MCDropout",
    },
)
