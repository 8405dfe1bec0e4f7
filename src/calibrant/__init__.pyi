from ._checks import InputError as InputError
from ._version import __version__ as __version__
from .contracts import PitValues as PitValues
from .distributions import DISTRIBUTIONS as DISTRIBUTIONS
from .distributions.conversion import as_distribution as as_distribution
from .distributions.empirical import Empirical as Empirical
from .distributions.gaussian import Gaussian as Gaussian
from .distributions.gaussian_mixture import GaussianMixture as GaussianMixture
from .distributions.laplace import Laplace as Laplace
from .distributions.quantile_table import QuantileTable as QuantileTable
from .distributions.student_t import StudentT as StudentT
from .metrics.calibration import calibration_curve as calibration_curve
from .metrics.calibration import calibration_error as calibration_error
from .metrics.calibration import (
    expected_calibration_error as expected_calibration_error,
)
from .regularizers import REGULARIZERS as REGULARIZERS
from .regularizers import STRENGTHS as STRENGTHS
from .regularizers.beta_kernel_entropy import beta_kernel_entropy as beta_kernel_entropy
from .regularizers.conditional import ConditionalRegularizer as ConditionalRegularizer
from .regularizers.cramer_von_mises import cramer_von_mises as cramer_von_mises
from .regularizers.cumulative_entropy import (
    cumulative_kl_divergence as cumulative_kl_divergence,
)
from .regularizers.cumulative_entropy import (
    cumulative_residual_entropy as cumulative_residual_entropy,
)
from .regularizers.cumulative_kl import cumulative_kl as cumulative_kl
from .regularizers.cumulative_kl import expected_cumulative_kl as expected_cumulative_kl
from .regularizers.kernel_calibration import kernel_calibration as kernel_calibration
from .regularizers.quantile import QuantileRegularizer as QuantileRegularizer
from .regularizers.quantile_distance import quantile_distance as quantile_distance
from .regularizers.spacing_entropy import spacing_entropy as spacing_entropy
from .sorting import SORTERS as SORTERS
from .sorting.hard import hard_sort as hard_sort
from .sorting.network import network_sort as network_sort
from .sorting.neural import neural_sort as neural_sort
from .sorting.neural import stochastic_neural_sort as stochastic_neural_sort
from .sorting.soft import soft_sort as soft_sort
