from ._distributed import LostRankError as LostRankError
from ._version import __version__ as __version__
from .commands.compare import TableComparison as TableComparison
from .commands.compare import compare_table as compare_table
from .commands.evaluate import TableEvaluation as TableEvaluation
from .commands.evaluate import evaluate_table as evaluate_table
from .commands.fit import TableFit as TableFit
from .commands.fit import fit_table as fit_table
from .commands.predict import TablePrediction as TablePrediction
from .commands.predict import predict_table as predict_table
from .commands.recalibrate import TableRecalibration as TableRecalibration
from .commands.recalibrate import recalibrate_table as recalibrate_table
from .commands.table_model import TableModel as TableModel
from .contracts import PitValues as PitValues
from .distributions import DISTRIBUTIONS as DISTRIBUTIONS
from .distributions.conversion import as_distribution as as_distribution
from .distributions.derived import Censored as Censored
from .distributions.derived import Rounded as Rounded
from .distributions.derived import Transformed as Transformed
from .distributions.derived import Truncated as Truncated
from .distributions.empirical import Empirical as Empirical
from .distributions.laplace import Laplace as Laplace
from .distributions.mixture import GaussianMixture as GaussianMixture
from .distributions.mixture import Mixture as Mixture
from .distributions.normal import Gaussian as Gaussian
from .distributions.quantile_table import QuantileTable as QuantileTable
from .distributions.recalibrated import Recalibrated as Recalibrated
from .distributions.student_t import StudentT as StudentT
from .errors import InputError as InputError
from .errors import UnsupportedError as UnsupportedError
from .estimators.any_regressor import RecalibratedRegressor as RecalibratedRegressor
from .estimators.any_regressor import recalibrate as recalibrate
from .estimators.folds import SerialDependenceWarning as SerialDependenceWarning
from .estimators.onnx import export_onnx as export_onnx
from .estimators.persistence import load as load
from .estimators.regressor import CalibratedRegressor as CalibratedRegressor
from .estimators.strength import StrengthPath as StrengthPath
from .learners import HEADS as HEADS
from .learners import NETWORKS as NETWORKS
from .learners.ensembles import DeepEnsemble as DeepEnsemble
from .learners.ensembles import MCDropout as MCDropout
from .learners.mlp import GaussianHead as GaussianHead
from .learners.mlp import GaussianMixtureHead as GaussianMixtureHead
from .learners.mlp import LaplaceHead as LaplaceHead
from .learners.mlp import MLPStack as MLPStack
from .learners.mlp import StudentTHead as StudentTHead
from .metrics.accuracy import bias as bias
from .metrics.accuracy import dispersion as dispersion
from .metrics.accuracy import mae as mae
from .metrics.accuracy import mean_stddev as mean_stddev
from .metrics.accuracy import r2 as r2
from .metrics.accuracy import rmse as rmse
from .metrics.accuracy import sharpness as sharpness
from .metrics.calibration import calibration_curve as calibration_curve
from .metrics.calibration import calibration_error as calibration_error
from .metrics.calibration import coverage as coverage
from .metrics.calibration import (
    debiased_calibration_error as debiased_calibration_error,
)
from .metrics.calibration import (
    expected_calibration_error as expected_calibration_error,
)
from .metrics.calibration import (
    integrated_calibration_error as integrated_calibration_error,
)
from .metrics.calibration import (
    mean_absolute_calibration_error as mean_absolute_calibration_error,
)
from .metrics.calibration import mean_width as mean_width
from .metrics.calibration import miscalibration_area as miscalibration_area
from .metrics.calibration import paper_calibration_error as paper_calibration_error
from .metrics.calibration import (
    root_mean_squared_calibration_error as root_mean_squared_calibration_error,
)
from .metrics.comparison import Comparison as Comparison
from .metrics.floors import NoiseFloor as NoiseFloor
from .metrics.floors import calibration_band as calibration_band
from .metrics.floors import coverage_range as coverage_range
from .metrics.floors import floor_after_recalibration as floor_after_recalibration
from .metrics.floors import histogram_band as histogram_band
from .metrics.floors import noise_floor as noise_floor
from .metrics.floors import predictive_noise_floor as predictive_noise_floor
from .metrics.floors import rows_for_coverage as rows_for_coverage
from .metrics.groups import DistributionCalibration as DistributionCalibration
from .metrics.groups import GroupCalibration as GroupCalibration
from .metrics.groups import WorstGroup as WorstGroup
from .metrics.groups import calibration_by as calibration_by
from .metrics.groups import distribution_calibration as distribution_calibration
from .metrics.groups import worst_group as worst_group
from .metrics.pit import GriddedTargetWarning as GriddedTargetWarning
from .metrics.pit import TargetGrid as TargetGrid
from .metrics.pit import detect_grid as detect_grid
from .metrics.pit import pit_values as pit_values
from .metrics.scorecard import Scorecard as Scorecard
from .metrics.scorecard import evaluate as evaluate
from .metrics.scores import CrpsDecomposition as CrpsDecomposition
from .metrics.scores import crps_decomposition as crps_decomposition
from .metrics.spread import ence as ence
from .metrics.spread import uce as uce
from .metrics.streaming import StreamingCalibrationError as StreamingCalibrationError
from .metrics.streaming import StreamingCoverage as StreamingCoverage
from .metrics.streaming import StreamingCRPS as StreamingCRPS
from .metrics.streaming import StreamingNLL as StreamingNLL
from .metrics.table import METRICS as METRICS
from .recalibration import RECALIBRATORS as RECALIBRATORS
from .recalibration.conformal import ConformalInterval as ConformalInterval
from .recalibration.conformal import ConformalPrediction as ConformalPrediction
from .recalibration.maps import BetaRecalibrator as BetaRecalibrator
from .recalibration.maps import EmpiricalRecalibrator as EmpiricalRecalibrator
from .recalibration.maps import IsotonicRecalibrator as IsotonicRecalibrator
from .recalibration.maps import SmoothRecalibrator as SmoothRecalibrator
from .recalibration.scale import ScaleRecalibrator as ScaleRecalibrator
from .registry import SORTERS as SORTERS
from .registry import TRANSFORMS as TRANSFORMS
from .regularizers import REGULARIZERS as REGULARIZERS
from .regularizers import STRENGTHS as STRENGTHS
from .regularizers.conditional import ConditionalRegularizer as ConditionalRegularizer
from .regularizers.divergences import beta_kernel_entropy as beta_kernel_entropy
from .regularizers.divergences import cramer_von_mises as cramer_von_mises
from .regularizers.divergences import cumulative_kl as cumulative_kl
from .regularizers.divergences import (
    cumulative_kl_divergence as cumulative_kl_divergence,
)
from .regularizers.divergences import (
    cumulative_residual_entropy as cumulative_residual_entropy,
)
from .regularizers.divergences import expected_cumulative_kl as expected_cumulative_kl
from .regularizers.divergences import kernel_calibration as kernel_calibration
from .regularizers.divergences import pit_entropy as pit_entropy
from .regularizers.divergences import quantile_distance as quantile_distance
from .regularizers.divergences import spacing_entropy as spacing_entropy
from .regularizers.module import QuantileRegularizer as QuantileRegularizer
from .scores import SCORES as SCORES
from .scores import absolute_error as absolute_error
from .scores import beta_nll as beta_nll
from .scores import crps as crps
from .scores import interval_score as interval_score
from .scores import mean_pinball as mean_pinball
from .scores import nll as nll
from .scores import pinball as pinball
from .scores import squared_error as squared_error
from .sorting import hard_sort as hard_sort
from .sorting import network_sort as network_sort
from .sorting import neural_sort as neural_sort
from .sorting import soft_sort as soft_sort
from .sorting import stochastic_neural_sort as stochastic_neural_sort
from .training.data import TrainingData as TrainingData
from .training.history import DivergedError as DivergedError
from .training.history import EpochLogger as EpochLogger
from .training.history import EpochState as EpochState
from .training.history import History as History
from .training.history import InterruptedWarning as InterruptedWarning
from .training.loop import train as train
from .training.recipe import SCHEDULES as SCHEDULES
from .training.recipe import Recipe as Recipe
from .transforms import BoxCoxTransform as BoxCoxTransform
from .transforms import FunctionTransform as FunctionTransform
from .transforms import IdentityTransform as IdentityTransform
from .transforms import LogitTransform as LogitTransform
from .transforms import LogTransform as LogTransform
from .transforms import YeoJohnsonTransform as YeoJohnsonTransform
