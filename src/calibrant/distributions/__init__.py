"""What a model predicts: a law for each row.

To add one: one file here, one line in ``DISTRIBUTIONS`` and one in ``_PLACES``. Nothing
is imported before it is used, so that the names are known without torch.
"""

from typing import TYPE_CHECKING

from calibrant._table import Table, load

if TYPE_CHECKING:
    from calibrant.distributions.base import AbstractDistribution
    from calibrant.distributions.cdf_law import CdfLaw
    from calibrant.distributions.conversion import as_distribution
    from calibrant.distributions.empirical import Empirical
    from calibrant.distributions.gaussian import Gaussian
    from calibrant.distributions.gaussian_mixture import GaussianMixture
    from calibrant.distributions.laplace import Laplace
    from calibrant.distributions.quantile_table import QuantileTable
    from calibrant.distributions.scipy_law import ScipyLaw
    from calibrant.distributions.student_t import StudentT
    from calibrant.distributions.torch_law import TorchLaw

__all__ = [
    "DISTRIBUTIONS",
    "AbstractDistribution",
    "CdfLaw",
    "Empirical",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "QuantileTable",
    "ScipyLaw",
    "StudentT",
    "TorchLaw",
    "as_distribution",
]

DISTRIBUTIONS: "Table[type[AbstractDistribution]]" = Table(
    "distribution",
    {
        "gaussian": "calibrant.distributions.gaussian:Gaussian",
        "laplace": "calibrant.distributions.laplace:Laplace",
        "student_t": "calibrant.distributions.student_t:StudentT",
        "gaussian_mixture": "calibrant.distributions.gaussian_mixture:GaussianMixture",
        "empirical": "calibrant.distributions.empirical:Empirical",
        "quantile_table": "calibrant.distributions.quantile_table:QuantileTable",
    },
)

_PLACES = {
    "AbstractDistribution": "calibrant.distributions.base:AbstractDistribution",
    "CdfLaw": "calibrant.distributions.cdf_law:CdfLaw",
    "Empirical": "calibrant.distributions.empirical:Empirical",
    "Gaussian": "calibrant.distributions.gaussian:Gaussian",
    "GaussianMixture": "calibrant.distributions.gaussian_mixture:GaussianMixture",
    "Laplace": "calibrant.distributions.laplace:Laplace",
    "QuantileTable": "calibrant.distributions.quantile_table:QuantileTable",
    "ScipyLaw": "calibrant.distributions.scipy_law:ScipyLaw",
    "StudentT": "calibrant.distributions.student_t:StudentT",
    "TorchLaw": "calibrant.distributions.torch_law:TorchLaw",
    "as_distribution": "calibrant.distributions.conversion:as_distribution",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part = globals()[name] = load(_PLACES[name])
    return part


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
