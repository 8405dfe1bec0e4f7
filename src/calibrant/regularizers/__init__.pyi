import calibrant.protocols as _protocols
import calibrant.registry as _registry

from .conditional import ConditionalRegularizer as ConditionalRegularizer
from .divergences import beta_kernel_entropy as beta_kernel_entropy
from .divergences import cramer_von_mises as cramer_von_mises
from .divergences import cumulative_kl as cumulative_kl
from .divergences import cumulative_kl_divergence as cumulative_kl_divergence
from .divergences import cumulative_residual_entropy as cumulative_residual_entropy
from .divergences import expected_cumulative_kl as expected_cumulative_kl
from .divergences import kernel_calibration as kernel_calibration
from .divergences import pit_entropy as pit_entropy
from .divergences import quantile_distance as quantile_distance
from .divergences import spacing_entropy as spacing_entropy
from .module import QuantileRegularizer as QuantileRegularizer

STRENGTHS: dict[str, float]
REGULARIZERS: _registry.Table[_protocols.Regularizer]
