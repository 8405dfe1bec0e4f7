"""The table of metrics, ``(distribution, y) -> float``; it loads without torch.

To add a metric: one function in a module of this room, one line here.
"""

from typing import TYPE_CHECKING

from calibrant.registry import Table

if TYPE_CHECKING:  # the names of the metrics must not cost an import of torch
    from calibrant.metrics.scores import Metric

__all__ = ["METRICS"]

_MODULES = {
    "accuracy": ("rmse", "mae", "r2", "bias"),
    # Scores, and functions of PIT values or the distribution alone, take (distribution,
    # y) in their form in ``scores``.
    "scores": (
        "nll",
        "crps",
        "pinball",
        "interval_score",
        "calibration_error",
        "paper_calibration_error",
        "integrated_calibration_error",
        "mean_absolute_calibration_error",
        "root_mean_squared_calibration_error",
        "miscalibration_area",
        "mean_width",
        "sharpness",
        "mean_stddev",
        "dispersion",
        "crps_reliability",
        "crps_resolution",
    ),
    "spread": ("ence", "uce"),
    "calibration": ("coverage",),
}

METRICS: "Table[Metric]" = Table(
    "metric",
    {
        name: f"calibrant.metrics.{module}:{name}"
        for module, names in _MODULES.items()
        for name in names
    },
)
