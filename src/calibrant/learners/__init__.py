"""Networks that predict: features ``(n, d)`` to a distribution for each row.

To add one: one class in ``mlp.py``, one line in ``NETWORKS``. A head turns the
last layer's numbers into a distribution: one class in ``mlp.py``, one line in
``HEADS``. Public names stand in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

from calibrant.registry import Table

HEADS = Table(
    "head",
    {
        "gaussian": f"{__name__}.mlp:GaussianHead",
        "laplace": f"{__name__}.mlp:LaplaceHead",
        "student_t": f"{__name__}.mlp:StudentTHead",
        "gaussian_mixture": f"{__name__}.mlp:GaussianMixtureHead",
    },
)

NETWORKS = Table(
    "network",
    {
        "deep_ensemble": f"{__name__}.mlp:DeepEnsemble",
        "mc_dropout": f"{__name__}.mlp:MCDropout",
    },
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
