"""What a model predicts: a distribution for each row.

To add one: one file here, one line in ``DISTRIBUTIONS``. Public names stand in
``__init__.pyi`` and load on first use.
"""

import lazy_loader

from calibrant.registry import Table

DISTRIBUTIONS = Table(
    "distribution",
    {
        "gaussian": f"{__name__}.normal:Gaussian",
        "laplace": f"{__name__}.laplace:Laplace",
        "student_t": f"{__name__}.student_t:StudentT",
        "gaussian_mixture": f"{__name__}.mixture:GaussianMixture",
        "empirical": f"{__name__}.empirical:Empirical",
        "quantile_table": f"{__name__}.quantile_table:QuantileTable",
    },
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
