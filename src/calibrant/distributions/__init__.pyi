import calibrant.registry as _table

from .adapters import CdfDistribution as CdfDistribution
from .adapters import ScipyDistribution as ScipyDistribution
from .adapters import TorchDistribution as TorchDistribution
from .base import AbstractDistribution as AbstractDistribution
from .conversion import as_distribution as as_distribution
from .conversion import pool as pool
from .conversion import rescaled as rescaled
from .derived import Affine as Affine
from .derived import Censored as Censored
from .derived import DerivedDistribution as DerivedDistribution
from .derived import Rounded as Rounded
from .derived import Transformed as Transformed
from .derived import Truncated as Truncated
from .empirical import Empirical as Empirical
from .laplace import Laplace as Laplace
from .mixture import GaussianMixture as GaussianMixture
from .mixture import Mixture as Mixture
from .normal import Gaussian as Gaussian
from .quantile_table import QuantileTable as QuantileTable
from .recalibrated import Recalibrated as Recalibrated
from .student_t import StudentT as StudentT

DISTRIBUTIONS: _table.Table[type[AbstractDistribution]]
