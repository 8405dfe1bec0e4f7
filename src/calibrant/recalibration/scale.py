"""One factor on the spread: the smallest correction there is."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch

from calibrant.distributions import AbstractDistribution, as_distribution
from calibrant.recalibration.base import (
    BaseRecalibrator,
    Prediction,
    center_of,
    held_out_rows,
    stretched,
)
from calibrant.validation import ArrayLike, InputError, check_positive

# Logarithms of factors that are tried: from 1 / 2981 to 2981.
_TRIED = torch.linspace(-8, 8, 65, dtype=torch.float64).tolist()


class ScaleRecalibrator(BaseRecalibrator):
    r"""One factor on the spread of all rows, around the center of each.

    .. math:: Y' = m + k (Y - m), \qquad
        k = \arg\min_k \sum_i \mathrm{score}(F_i^{(k)}, y_i)

    over held-out rows. A Gaussian stays Gaussian, with
    :math:`k^2 = \frac1n \sum_i ((y_i - \mu_i) / \sigma_i)^2` for the NLL; so does every
    other family of ours. The center is the mean (the median for Student's t).

    Data: held-out rows, from one on. No finite-sample guarantee. It cannot move a
    distribution or change its shape.

    Parameters
    ----------
    score
        ``"nll"``, or ``"crps"``, which heeds outliers less and works for samples.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2022), *Evaluating and Calibrating Uncertainty
    Prediction in Regression Tasks*, arXiv:1905.11659.

    Examples
    --------
    >>> scale = ScaleRecalibrator().fit(([0.0, 0.0], [1.0, 1.0]), [2.0, -2.0])
    >>> round(scale.factor, 6)
    2.0
    >>> scale.transform(([5.0], [0.5])).stddev.round(decimals=6).tolist()
    [1.0]
    """

    name: ClassVar[str] = "scale"

    def __init__(self, *, score: Literal["nll", "crps"] = "nll") -> None:
        if score not in ("nll", "crps"):
            raise InputError(f"score must be 'nll' or 'crps', got {score!r}.")
        self.score = score

    @property
    def factor(self) -> float:
        """The factor that was learned; above 1 for an over-confident model."""
        return float(self._fitted)

    def fit(self, distribution: Prediction, y: ArrayLike) -> Self:
        """Learn from predictions for held-out rows and their targets ``(n,)``."""
        from scipy.optimize import minimize_scalar  # only who fits pays for the import

        predicted, target = held_out_rows(distribution, y)
        # In float64: float32 would round the factor.
        wide, center = target.double(), center_of(predicted).double()

        def mean_score(log_factor: float) -> float:
            with torch.no_grad():
                given = stretched(predicted, math.exp(log_factor), center)
                by_nll = self.score == "nll"
                score = -given.log_prob(wide) if by_nll else given.crps(wide)
            return float(score.mean())

        scores = [mean_score(log_factor) for log_factor in _TRIED]
        best = min(range(len(scores)), key=scores.__getitem__)
        if not math.isfinite(scores[best]):
            raise InputError(
                f"the mean {self.score} of the held-out rows must be finite, got "
                f"{scores[best]}. Look for predictions that are not (a diverged model)."
            )
        if best in (0, len(scores) - 1):
            raise InputError(
                "the best factor must lie between 1/2981 and 2981: the held-out "
                f"targets are {'on' if best == 0 else 'far off'} the centers. "
                "Check the units."
            )
        found = minimize_scalar(
            mean_score,
            bounds=(_TRIED[best - 1], _TRIED[best + 1]),
            method="bounded",
            options={"xatol": 1e-10},
        )
        self._learned = math.exp(found.x)
        return self

    def transform(self, distribution: Prediction) -> AbstractDistribution:
        """Stretch the distributions of other rows, of any batch shape."""
        return stretched(as_distribution(distribution), self.factor)

    def _options(self) -> dict[str, object]:
        return {"score": self.score}

    def _state(self) -> dict[str, object]:
        return {"factor": self.factor}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._learned = check_positive(float(state["factor"]), name="factor")
        if abs(math.log(self.factor)) > _TRIED[-1]:
            raise InputError(f"factor must lie between 1/2981 and 2981: {state}.")
