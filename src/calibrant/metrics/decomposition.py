"""Where the mean CRPS comes from: miscalibration, lack of skill, the data's spread."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import Distribution
from calibrant.distributions.normal import Gaussian
from calibrant.metrics._rows import no_nan, rows
from calibrant.scores import Prediction

__all__ = ["CrpsDecomposition", "crps_decomposition"]

#: Above this the order of normal laws is taken from their standardized distances.
_MANY_ROWS = 20_000
#: Beyond these the cdf of the standard normal law is 0 or 1 in float64.
_LOWEST, _HIGHEST = -38.6, 8.3
#: Of the range of distances: with one more bit they fit into 32 or 64 bits.
_STEPS, _FINE_STEPS = 2**29, 2**52
#: Some rows, whose neighbors in order should be more steps apart than this.
_SOME_ROWS, _NARROW = 256, 64

FloatArray = npt.NDArray[np.float64]
Keys = npt.NDArray[np.signedinteger]


class CrpsDecomposition(NamedTuple):
    """Parts of a mean CRPS, all in the units of the target.

    ``reliability`` (miscalibration) is what recalibration could save, 0 is best;
    ``resolution`` (discrimination) is what the predictions gain over saying the same
    of every row, more is better; ``uncertainty`` is the CRPS of the targets' own law,
    the same for all models.
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

    It takes any law, continuous or not, and neither part is negative, unlike in
    Hersbach's decomposition. UNC and the sum are exact. :math:`S_C` is integrated
    over ``thresholds`` points, spread so that each stands for the same share of UNC;
    this moves REL and RES by the same small amount. As the maps are fitted to
    the rows they are judged on, a calibrated model shows a REL slightly above 0, which
    vanishes as n grows. The cost is one sort of the rows per threshold. More than
    20,000 normal laws are sorted by their distance from the threshold instead of its
    probability, which moves REL and RES by less than 1e-4 of UNC.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    thresholds
        Points of the integral.
    mean_crps
        The mean CRPS, when it has been computed already.

    Returns
    -------
    CrpsDecomposition
        The three parts.

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
    if thresholds < 1:
        raise InputError(f"thresholds must be at least 1, got {thresholds}.")
    law, target = rows(distribution, y)
    if mean_crps is None:
        mean_crps = float(no_nan(law.crps(target)).double().mean())
    values = target.double().cpu().numpy()
    uncertainty, points = _thresholds(values, thresholds)
    kept = 0.0
    for point in points:
        order = _promised_order(law, torch.tensor(point).to(target))
        kept += _share_after_recalibration(order, values <= point) / len(points)
    resolution = uncertainty * (1 - kept) if len(points) else 0.0
    return CrpsDecomposition(
        mean_crps - uncertainty + resolution, resolution, uncertainty
    )


def _thresholds(values: FloatArray, count: int) -> tuple[float, FloatArray]:
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


def _promised_order(law: Distribution, point: Tensor) -> Keys:
    """Even whole numbers in the order of the probabilities of at most ``point``.

    The recalibrated score depends on this order alone. That of normal laws is the order
    of the standardized distances, which spares many rows the normal cdf; where
    probabilities near 1 are rounded to one number, distances are not.
    """
    if type(law) is not Gaussian or len(law) <= _MANY_ROWS:
        return _sortable(law.cdf(point).cpu().numpy())
    distance = (point.double() - law.mean.double()) / law.stddev.double()
    return _in_steps(distance.clamp(_LOWEST, _HIGHEST).cpu().numpy())


def _in_steps(distance: FloatArray) -> Keys:
    """Even whole numbers in the order of distances, in equal steps of their range.

    Numbers of 32 bits are sorted in half the time, but where a part of the rows crowds
    in few steps (laws far wider than those of other rows), it takes 64 bits.
    """
    low, high = distance.min(), distance.max()
    if low == high:
        return np.zeros(len(distance), dtype=np.int32)
    gaps = np.diff(np.sort(distance[:: len(distance) // _SOME_ROWS])) / (high - low)
    crowded = ((gaps > 0) & (gaps < _NARROW / _STEPS)).mean() > 0.01
    steps, whole = (_FINE_STEPS, np.int64) if crowded else (_STEPS, np.int32)
    keys: Keys = ((distance - low) * (steps / (high - low))).astype(whole) << 1
    return keys


def _sortable(promised: npt.NDArray[np.floating]) -> Keys:
    """Even whole numbers in the order of floats in [0, 1].

    Floats >= 0 have the order of their bits, and those below 2 leave the first two bits
    empty.
    """
    whole = np.int64 if promised.dtype == np.float64 else np.int32
    keys: Keys = np.abs(promised).view(whole) << 1  # with 0 for -0
    return keys


def _share_after_recalibration(order: Keys, happened: npt.NDArray[np.bool_]) -> float:
    """Brier score after isotonic recalibration, as a share of the constant's score.

    Rows in ascending order make runs: rows with the event, then rows without it. The
    best monotone map is constant on each run, so there are far fewer runs than rows to
    fit. Events come first among equal promises, so that no run ends between these and
    they get one probability.
    """
    # Odd without the event: one sort of numbers, quicker than one of places.
    events = (np.sort(order | ~happened) & 1) == 0
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
