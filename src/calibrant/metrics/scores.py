"""Metrics of ``(distribution, y)`` made of scores, PIT values and the spread.

Also the parts of the mean CRPS: miscalibration, discrimination and uncertainty.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from calibrant import scores
from calibrant.distributions.normal import Gaussian
from calibrant.metrics import accuracy, calibration
from calibrant.metrics.pit import Floats, check_count, no_nan, pit_values, rows
from calibrant.protocols import Distribution
from calibrant.scores import Prediction, Score
from calibrant.validation import ArrayLike

__all__ = ["CrpsDecomposition", "crps_decomposition"]

Metric: TypeAlias = Callable[[Prediction, ArrayLike], float]
Keys = npt.NDArray[np.signedinteger]
#: Beyond these the cdf of the standard normal distribution is 0 or 1 in float64.
_LOWEST, _HIGHEST = -38.6, 8.3


def _of_pit(function: Callable[[Tensor], float]) -> Metric:
    """Measure the PIT values of the targets, the same ones as ``evaluate``."""
    return _named_after(
        function, lambda distribution, y: function(pit_values(distribution, y))
    )


def _mean_of(score: Score) -> Metric:
    """Average a score over rows, in float64."""

    @torch.no_grad()
    def metric(distribution: Prediction, y: ArrayLike) -> float:
        return float(no_nan(score(*rows(distribution, y))).double().mean())

    return _named_after(score, metric)


def _of_distribution(function: Callable[[Prediction], float]) -> Metric:
    """Measure the distribution alone; the targets are only checked to fit."""
    return _named_after(
        function, lambda distribution, y: function(rows(distribution, y)[0])
    )


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
integrated_calibration_error = _of_pit(calibration.integrated_calibration_error)
mean_absolute_calibration_error = _of_pit(calibration.mean_absolute_calibration_error)
root_mean_squared_calibration_error = _of_pit(
    calibration.root_mean_squared_calibration_error
)
miscalibration_area = _of_pit(calibration.miscalibration_area)
mean_width = _of_distribution(calibration.mean_width)
sharpness = _of_distribution(accuracy.sharpness)
mean_stddev = _of_distribution(accuracy.mean_stddev)
dispersion = _of_distribution(accuracy.dispersion)


def crps_reliability(distribution: Prediction, y: ArrayLike) -> float:
    """Part of the mean CRPS that comes from miscalibration; 0 is best."""
    return crps_decomposition(distribution, y).reliability


def crps_resolution(distribution: Prediction, y: ArrayLike) -> float:
    """Part of the mean CRPS that is saved by telling rows apart; more is better."""
    return crps_decomposition(distribution, y).resolution


class CrpsDecomposition(NamedTuple):
    """Parts of a mean CRPS, all in the units of the target.

    ``reliability`` (miscalibration) is what recalibration could save, 0 is best;
    ``resolution`` (discrimination) is what the predictions gain over predicting the
    same for every row, more is better; ``uncertainty`` is the CRPS of the targets' own
    distribution, the same for all models.
    """

    reliability: float
    resolution: float
    uncertainty: float

    @property
    def crps(self) -> float:
        """The mean CRPS: reliability - resolution + uncertainty."""
        return self.reliability - self.resolution + self.uncertainty


@torch.no_grad()
def crps_decomposition(
    distribution: Prediction,
    y: ArrayLike,
    *,
    thresholds: int = 50,
    mean_crps: float | None = None,
) -> CrpsDecomposition:
    r"""Split the mean CRPS into reliability, resolution and uncertainty.

    .. math:: \overline{\mathrm{CRPS}} = \mathrm{REL} - \mathrm{RES} + \mathrm{UNC} .

    The CRPS is the integral over thresholds :math:`z` of the Brier score of the
    probability :math:`F_i(z)` for the event :math:`y_i \le z`. At each threshold the
    best monotone map of these probabilities is fitted by isotonic regression, with
    score :math:`S_C(z)`, and :math:`S_U(z) = \bar p (1 - \bar p)` is the score of the
    constant :math:`\bar p`, the event's frequency. With both integrated,

    .. math:: \mathrm{REL} = \overline{\mathrm{CRPS}} - S_C, \quad
              \mathrm{RES} = S_U - S_C, \quad \mathrm{UNC} = S_U .

    No part is negative, unlike in Hersbach's decomposition. UNC and the sum are exact.
    :math:`S_C` is integrated over ``thresholds`` points, each for the same share of
    UNC; this moves REL and RES by the same small amount. As the maps are fitted to
    the rows they are judged on, a calibrated model shows a REL slightly above 0, which
    vanishes as n grows. Normal distributions are sorted by their distance from the
    threshold in float32, which moves REL and RES by less than 1e-4 of UNC.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``, or anything that ``as_distribution`` takes.
    y
        Targets, shape ``(n,)``.
    thresholds
        Points of the integral.
    mean_crps
        The mean CRPS, when it has been computed already.

    References
    ----------
    Arnold, Walz, Ziegel and Gneiting (2024), *Decompositions of the Mean Continuous
    Ranked Probability Score*, arXiv:2311.14122 (the Brier score based one).
    Dimitriadis, Gneiting and Jordan (2021), *Stable Reliability Diagrams for
    Probabilistic Classifiers* (isotonic recalibration).

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> parts = crps_decomposition(Gaussian([0.0, 4.0], 0.001), [0.0, 4.0])
    >>> parts.uncertainty, round(parts.resolution, 2), round(parts.reliability, 2)
    (1.0, 1.0, 0.0)
    """
    check_count(thresholds, name="thresholds")
    predictive, target = rows(distribution, y)
    if mean_crps is None:
        mean_crps = float(no_nan(predictive.crps(target)).double().mean())
    values = target.double().cpu().numpy()
    uncertainty, points = _thresholds(values, thresholds)
    kept = 0.0
    for point in points:
        order = _ascending(predictive, torch.tensor(point).to(target))
        kept += _share_after_recalibration(order, values <= point) / len(points)
    resolution = uncertainty * (1 - kept) if len(points) else 0.0
    return CrpsDecomposition(
        mean_crps - uncertainty + resolution, resolution, uncertainty
    )


def _thresholds(values: Floats, count: int) -> tuple[float, Floats]:
    """Return UNC and the thresholds that cut it into equal shares.

    UNC is the integral of p (1 - p), which is constant between neighboring targets.
    """
    ordered = np.sort(values)
    below = np.arange(1, len(ordered)) / len(ordered)
    total = np.concatenate([[0.0], np.cumsum(np.diff(ordered) * below * (1 - below))])
    if total[-1] == 0:
        return 0.0, np.empty(0)
    middle = (np.arange(count) + 0.5) / count * total[-1]
    return float(total[-1]), np.interp(middle, total, ordered)


def _ascending(predictive: Distribution, point: Tensor) -> Keys:
    """Whole numbers in the order of the probabilities of at most ``point``.

    For normal distributions it is the order of the standardized distances.
    """
    if type(predictive) is Gaussian:
        distance = (point.double() - predictive.mean) / predictive.stddev
        values = distance.clamp(_LOWEST, _HIGHEST).float()
    else:
        values = predictive.cdf(point)
    floats = values.cpu().numpy()
    whole = np.int64 if floats.dtype == np.float64 else np.int32
    bits: Keys = floats.view(whole)
    # Floats have the order of their bits, negative ones the opposite order.
    keys: Keys = np.where(bits < 0, bits ^ np.iinfo(whole).max, bits)
    return keys


def _share_after_recalibration(order: Keys, happened: npt.NDArray[np.bool_]) -> float:
    """Brier score after isotonic recalibration, as a share of the constant's score.

    Rows in ascending order make runs: rows with the event, then rows without it. The
    best monotone map is constant on each run, so there are far fewer runs than rows to
    fit. Events come first among equal probabilities, so that no run ends between these.
    """
    # The last bit tells the event: one sort of numbers, quicker than one of places.
    keys = (order & ~1) | ~happened
    events = (np.sort(keys) & 1) == 0
    ends = np.flatnonzero(events[1:] != events[:-1]) + 1
    # Rows before the first event get 0, which is right: they are left out.
    starts = np.append(0, ends[1::2]) if events[0] else ends[0::2]
    turns = ends[0::2] if events[0] else ends[1::2]
    turns = turns if len(turns) == len(starts) else np.append(turns, len(events))
    weight = np.diff(starts, append=len(events)).astype(np.float64)
    fitted = isotonic_regression((turns - starts) / weight, weights=weight).x
    frequency = float(happened.mean())
    # Fitted values are means of blocks, whose Brier score is q (1 - q).
    score = float((weight * fitted * (1 - fitted)).sum()) / len(events)
    return min(score / (frequency * (1 - frequency)), 1.0)
