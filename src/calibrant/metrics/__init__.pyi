from .accuracy import bias as bias
from .accuracy import dispersion as dispersion
from .accuracy import mae as mae
from .accuracy import mean_stddev as mean_stddev
from .accuracy import r2 as r2
from .accuracy import rmse as rmse
from .accuracy import sharpness as sharpness
from .calibration import calibration_curve as calibration_curve
from .calibration import calibration_error as calibration_error
from .calibration import coverage as coverage
from .calibration import debiased_calibration_error as debiased_calibration_error
from .calibration import expected_calibration_error as expected_calibration_error
from .calibration import integrated_calibration_error as integrated_calibration_error
from .calibration import (
    mean_absolute_calibration_error as mean_absolute_calibration_error,
)
from .calibration import mean_width as mean_width
from .calibration import miscalibration_area as miscalibration_area
from .calibration import paper_calibration_error as paper_calibration_error
from .calibration import (
    root_mean_squared_calibration_error as root_mean_squared_calibration_error,
)
from .comparison import Comparison as Comparison
from .comparison import Difference as Difference
from .floors import NoiseFloor as NoiseFloor
from .floors import calibration_band as calibration_band
from .floors import coverage_range as coverage_range
from .floors import floor_after_recalibration as floor_after_recalibration
from .floors import histogram_band as histogram_band
from .floors import noise_floor as noise_floor
from .floors import predictive_noise_floor as predictive_noise_floor
from .floors import rows_for_coverage as rows_for_coverage
from .groups import DistributionCalibration as DistributionCalibration
from .groups import GroupCalibration as GroupCalibration
from .groups import WorstGroup as WorstGroup
from .groups import calibration_by as calibration_by
from .groups import distribution_calibration as distribution_calibration
from .groups import worst_group as worst_group
from .pit import GriddedTargetWarning as GriddedTargetWarning
from .pit import TargetGrid as TargetGrid
from .pit import detect_grid as detect_grid
from .pit import pit_values as pit_values
from .scorecard import Measure as Measure
from .scorecard import Scorecard as Scorecard
from .scorecard import evaluate as evaluate
from .scores import CrpsDecomposition as CrpsDecomposition
from .scores import crps_decomposition as crps_decomposition
from .spread import ence as ence
from .spread import uce as uce
from .streaming import StreamingCalibrationError as StreamingCalibrationError
from .streaming import StreamingCoverage as StreamingCoverage
from .streaming import StreamingCRPS as StreamingCRPS
from .streaming import StreamingNLL as StreamingNLL
from .table import METRICS as METRICS
from .verdict import Diagnosis as Diagnosis
from .verdict import diagnose as diagnose
