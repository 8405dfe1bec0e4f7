import calibrant.registry as _table

from .base import AbstractDistribution as AbstractDistribution
from .cdf_law import CdfLaw as CdfLaw
from .censored import Censored as Censored
from .conversion import as_distribution as as_distribution
from .empirical import Empirical as Empirical
from .gaussian import Gaussian as Gaussian
from .gaussian_mixture import GaussianMixture as GaussianMixture
from .laplace import Laplace as Laplace
from .mixture import Mixture as Mixture
from .pooling import pool as pool
from .pooling import rescaled as rescaled
from .quantile_table import QuantileTable as QuantileTable
from .recalibrated import Recalibrated as Recalibrated
from .scipy_law import ScipyLaw as ScipyLaw
from .student_t import StudentT as StudentT
from .torch_law import TorchLaw as TorchLaw
from .transformed import Transformed as Transformed
from .truncated import Truncated as Truncated

DISTRIBUTIONS: _table.Table[type[AbstractDistribution]]
