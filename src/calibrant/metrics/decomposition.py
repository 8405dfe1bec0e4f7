"""Where the mean CRPS comes from: miscalibration, lack of skill, the data's spread."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import isotonic_regression

from calibrant._checks import ArrayLike, InputError
from calibrant.metrics._rows import no_nan, rows
from calibrant.scores import Prediction

__all__ = ["CrpsDecomposition", "crps_decomposition"]

FloatArray = npt.NDArray[np.float64]


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
    vanishes as n grows. The cost is one sort of the rows per threshold.

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
    >>> from calibrant.distributions.gaussian import Gaussian
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
        promised = law.cdf(torch.tensor(point).to(target)).cpu().numpy()
        kept += _share_after_recalibration(promised, values <= point) / len(points)
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


def _share_after_recalibration(
    promised: npt.NDArray[np.floating], happened: npt.NDArray[np.bool_]
) -> float:
    """Brier score after isotonic recalibration, as a share of the constant's score."""
    order = np.argsort(promised)
    ordered = promised[order]
    # Rows with the same promise must get the same probability: one point for each.
    place = np.cumsum(np.diff(ordered, prepend=ordered[0]) > 0)
    weight = np.bincount(place).astype(np.float64)
    events = np.bincount(place, weights=happened[order])
    fitted = isotonic_regression(events / weight, weights=weight).x
    frequency = happened.mean()
    # Fitted values are means of blocks, whose Brier score is q (1 - q).
    score = float((weight * fitted * (1 - fitted)).sum()) / len(promised)
    return min(score / float(frequency * (1 - frequency)), 1.0)
