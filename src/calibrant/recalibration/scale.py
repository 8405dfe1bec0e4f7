"""One factor on the spread: the smallest correction there is."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch

from calibrant._checks import ArrayLike, InputError, check_positive
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.recalibration._held_out import held_out_rows, unfitted
from calibrant.recalibration._json import write_json
from calibrant.recalibration._scaled import scaled_law, stretched

__all__ = ["ScaleRecalibrator"]

# Logarithms of factors that are tried: from 1 / 2981 to 2981.
_TRIED = torch.linspace(-8, 8, 65, dtype=torch.float64).tolist()


class ScaleRecalibrator:
    r"""One factor on the spread of all rows, around the center of each.

    .. math:: Y' = m + k (Y - m), \qquad
        k = \arg\min_k \sum_i \mathrm{score}(F_i^{(k)}, y_i)

    over held-out rows. A Gaussian stays Gaussian, with
    :math:`k^2 = \frac1n \sum_i ((y_i - \mu_i) / \sigma_i)^2` for the NLL; so does every
    other family of ours. The center is the mean (the median for Student's t).

    Data: held-out rows, from one on. No finite-sample guarantee. It cannot move a law
    or change its shape.

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
    >>> [round(each, 6) for each in scale.transform(([5.0], [0.5])).stddev.tolist()]
    [1.0]
    """

    name: ClassVar[str] = "scale"

    def __init__(self, *, score: Literal["nll", "crps"] = "nll") -> None:
        if score not in ("nll", "crps"):
            raise InputError(f"score must be 'nll' or 'crps', got {score!r}.")
        self.score = score
        self._factor: float | None = None

    @property
    def factor(self) -> float:
        """The factor that was learned; above 1 for an over-confident model."""
        if self._factor is None:
            raise unfitted(self.name)
        return self._factor

    def fit(
        self,
        distribution: Any,  # noqa: ANN401
        y: ArrayLike,
    ) -> Self:
        """Learn from predictions for held-out rows and their targets ``(n,)``."""
        # Only who fits pays for the import.
        from scipy.optimize import minimize_scalar

        law, target = held_out_rows(distribution, y)
        wide, by_nll = target.double(), self.score == "nll"

        def mean_score(log_factor: float) -> float:
            # Not within the family, where float32 would round the factor.
            scaled = scaled_law(law, math.exp(log_factor))
            with torch.no_grad():
                score = -scaled.log_prob(wide) if by_nll else scaled.crps(wide)
            return float(score.double().mean())

        scores = [mean_score(log_factor) for log_factor in _TRIED]
        best = min(range(len(scores)), key=scores.__getitem__)
        if not math.isfinite(scores[best]):
            raise InputError(
                f"the mean {self.score} of the held-out rows must be finite, got "
                f"{scores[best]}. Look for predictions that are not (a diverged model)."
            )
        if best in (0, len(scores) - 1):
            raise InputError(
                "the best factor must lie between 1/2981 and 2981, and it does not: "
                f"the held-out targets are {'on' if best == 0 else 'far off'} the "
                "centers of their laws. Check the units, or hold more rows out."
            )
        found = minimize_scalar(
            mean_score,
            bounds=(_TRIED[best - 1], _TRIED[best + 1]),
            method="bounded",
            options={"xatol": 1e-10},
        )
        self._factor = math.exp(found.x)
        return self

    def transform(self, distribution: Any) -> AbstractDistribution:  # noqa: ANN401
        """Stretch the laws of other rows, of any batch shape."""
        return stretched(as_distribution(distribution), self.factor)

    def to_json(self) -> str:
        """Write options and factor as text, to be read by ``from_json``."""
        state = {"factor": self.factor}
        return write_json(self.name, options={"score": self.score}, state=state)

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted recalibrator from what ``to_json`` wrote."""
        restored = cls(**options)
        restored._factor = check_positive(float(state["factor"]), name="factor")
        if abs(math.log(restored._factor)) > _TRIED[-1]:
            raise InputError(f"factor must lie between 1/2981 and 2981: {state}.")
        return restored
