"""Entries of ``METRICS`` made of functions that take PIT values, scores or a law."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from calibrant import scores
from calibrant._checks import ArrayLike
from calibrant.metrics import adversarial, calibration, miscalibration
from calibrant.metrics import coverage as coverages
from calibrant.metrics import sharpness as spreads
from calibrant.metrics._rows import no_nan, rows
from calibrant.metrics.decomposition import crps_decomposition
from calibrant.metrics.pit import pit_values
from calibrant.scores import Prediction, Score

__all__ = ["Metric"]

Metric: TypeAlias = Callable[[Prediction, ArrayLike], float]


def _of_pit(function: Callable[[Tensor], float]) -> Metric:
    """Measure the PIT values of the targets, the same ones as ``evaluate``."""

    def metric(distribution: Prediction, y: ArrayLike) -> float:
        return function(pit_values(distribution, y))

    return _named_after(function, metric)


def _mean_of(score: Score) -> Metric:
    """Average a score over rows, in float64."""

    @torch.no_grad()
    def metric(distribution: Prediction, y: ArrayLike) -> float:
        law, target = rows(distribution, y)
        return float(no_nan(score(law, target)).double().mean())

    return _named_after(score, metric)


def _of_law(function: Callable[[Prediction], float]) -> Metric:
    """Measure the law alone; the targets are only checked to fit."""

    def metric(distribution: Prediction, y: ArrayLike) -> float:
        law, _ = rows(distribution, y)
        return function(law)

    return _named_after(function, metric)


def _named_after(function: Callable[..., object], metric: Metric) -> Metric:
    # Not functools.wraps, which would also claim the function's signature.
    metric.__name__ = metric.__qualname__ = function.__name__
    summary = (function.__doc__ or "").strip().split("\n", 1)[0]
    metric.__doc__ = f"{summary}\n\nTakes a distribution and y, both of shape (n,)."
    return metric


nll = _mean_of(scores.nll)
crps = _mean_of(scores.crps)
pinball = _mean_of(scores.mean_pinball)
interval_score = _mean_of(scores.interval_score)

calibration_error = _of_pit(calibration.calibration_error)
paper_calibration_error = _of_pit(calibration.paper_calibration_error)
integrated_calibration_error = _of_pit(miscalibration.integrated_calibration_error)
mean_absolute_calibration_error = _of_pit(
    miscalibration.mean_absolute_calibration_error
)
root_mean_squared_calibration_error = _of_pit(
    miscalibration.root_mean_squared_calibration_error
)
miscalibration_area = _of_pit(miscalibration.miscalibration_area)
worst_group_calibration_error = _of_pit(adversarial.worst_group_calibration_error)

mean_width = _of_law(coverages.mean_width)
sharpness = _of_law(spreads.sharpness)
mean_stddev = _of_law(spreads.mean_stddev)
dispersion = _of_law(spreads.dispersion)


def crps_reliability(distribution: Prediction, y: ArrayLike) -> float:
    """Part of the mean CRPS that comes from miscalibration; 0 is best."""
    return crps_decomposition(distribution, y).reliability


def crps_resolution(distribution: Prediction, y: ArrayLike) -> float:
    """Part of the mean CRPS that is saved by telling rows apart; more is better."""
    return crps_decomposition(distribution, y).resolution
