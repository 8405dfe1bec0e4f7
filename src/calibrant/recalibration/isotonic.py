"""The paper's comparison: isotonic regression on PIT values."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._base import MapRecalibrator
from calibrant.recalibration._piecewise_linear import PiecewiseLinearMap
from calibrant.recalibration._segments import resolved

__all__ = ["IsotonicRecalibrator"]


class IsotonicRecalibrator(MapRecalibrator):
    r"""Isotonic regression of the observed on the promised frequency.

    With :math:`\hat P(p)` the share of the :math:`n` held-out PIT values that are at
    most :math:`p`, the increasing map with the least squared error is fitted to the
    points :math:`(u_i, \hat P(u_i))` and (0, 0). It is linear between them and 1
    beyond the largest. The points increase already, so the regression does not
    smooth: it goes through each of them.

    The regression's density is 0 above the largest PIT value: one outlier costs an
    infinite NLL. So the map that is used gives a weight of :math:`\varepsilon` to the
    identity,

    .. math:: R(u) = (1 - \varepsilon)\, R_\mathrm{iso}(u) + \varepsilon\, u ,

    and its density is at least :math:`\varepsilon`. The default
    :math:`\varepsilon = 1 / (n + 1)` counts one row more, of which nothing is known.

    Data: held-out rows, best 100 or more. No finite-sample guarantee; for one take
    ``empirical``. Its density jumps from segment to segment, which costs about 0.4 in
    the mean NLL of fresh rows; for the NLL take ``smooth`` or ``beta``.

    Parameters
    ----------
    floor
        :math:`\varepsilon`, at least 0 and below 1; ``1 / (n + 1)`` if left out. With
        0 the map is the paper's own, and ``log_prob`` is ``-inf`` on flat pieces.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), *Accurate Uncertainties for Deep Learning Using
    Calibrated Regression*, arXiv:1807.00263.
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.

    Examples
    --------
    >>> held_out = [0.02, 0.1, 0.5, 0.9]
    >>> isotonic = IsotonicRecalibrator(floor=0).fit_pit(held_out)
    >>> isotonic.apply(held_out).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """

    name: ClassVar[str] = "isotonic"

    def __init__(self, *, floor: float | None = None) -> None:
        if floor is not None and not 0 <= floor < 1:
            raise InputError(
                f"floor must be at least 0 and below 1, got {floor}. Leave it out for "
                "1 / (n + 1)."
            )
        self.floor = floor

    def _options(self) -> dict[str, object]:
        return {"floor": self.floor}

    def _learn(self, pit: PitValues) -> PiecewiseLinearMap:
        # scikit-learn takes a second to import, so only who fits pays for it.
        from sklearn.isotonic import IsotonicRegression

        levels = resolved(pit.cdf, pit.survival)
        n = len(levels)
        # An integer tensor divided by a number takes the default float type.
        observed = torch.searchsorted(levels, levels, right=True).double() / n
        corner = torch.zeros(1, dtype=torch.float64)
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        regression.fit(
            torch.cat([corner, levels]).numpy(), torch.cat([corner, observed]).numpy()
        )
        places = torch.from_numpy(regression.X_thresholds_).double()
        heights = torch.from_numpy(regression.y_thresholds_).double()
        floor = 1 / (n + 1) if self.floor is None else self.floor
        mixed = (1 - floor) * heights + floor * places
        return PiecewiseLinearMap.through(places, mixed, floor=floor)

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> PiecewiseLinearMap:
        return PiecewiseLinearMap.restore(state)
