from .curve import plot_calibration as plot_calibration
from .groups import plot_calibration_by as plot_calibration_by
from .histogram import plot_pit_histogram as plot_pit_histogram
from .intervals import plot_intervals as plot_intervals
from .tradeoff import plot_sharpness as plot_sharpness
from .tradeoff import plot_strengths as plot_strengths
