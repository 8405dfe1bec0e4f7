"""Numbers that say how far predictions can be trusted, ``(distribution, y) -> float``.

To add one: one function here, one line in ``_LINES``.
"""

from typing import TYPE_CHECKING

from calibrant.registry import Table

if TYPE_CHECKING:  # the names of the metrics must not cost an import of torch
    from calibrant.metrics._entries import Metric

__all__ = ["METRICS"]

# Functions of PIT values, scores or laws alone are wrapped in ``_entries``.
_LINES = {
    # accuracy
    "rmse": "accuracy:rmse",
    "mae": "accuracy:mae",
    "r2": "accuracy:r2",
    "bias": "accuracy:bias",
    # proper scores, averaged
    "nll": "_entries:nll",
    "crps": "_entries:crps",
    "pinball": "_entries:pinball",
    "interval_score": "_entries:interval_score",
    # calibration of the whole law
    "calibration_error": "_entries:calibration_error",
    "paper_calibration_error": "_entries:paper_calibration_error",
    "integrated_calibration_error": "_entries:integrated_calibration_error",
    "mean_absolute_calibration_error": "_entries:mean_absolute_calibration_error",
    "root_mean_squared_calibration_error": (
        "_entries:root_mean_squared_calibration_error"
    ),
    "miscalibration_area": "_entries:miscalibration_area",
    "worst_group_calibration_error": "_entries:worst_group_calibration_error",
    # calibration of the spread
    "ence": "variance:ence",
    "uce": "variance:uce",
    # intervals and spread
    "coverage": "coverage:coverage",
    "mean_width": "_entries:mean_width",
    "sharpness": "_entries:sharpness",
    "mean_stddev": "_entries:mean_stddev",
    "dispersion": "_entries:dispersion",
    # parts of the CRPS
    "crps_reliability": "_entries:crps_reliability",
    "crps_resolution": "_entries:crps_resolution",
}

METRICS: "Table[Metric]" = Table(
    "metric", {name: f"{__name__}.{path}" for name, path in _LINES.items()}
)
