"""The strength of the regularizer, chosen by rule."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StrengthPath", "check_rule", "choose_strength"]

#: How much worse than the best a strength may score: a factor, or nats.
_BUDGETS = {"crps": 1.05, "nll": 0.05}

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StrengthPath:
    """Out-of-sample measures along a grid of strengths, and the one that was chosen.

    The chosen strength has the smallest calibration error among those that score
    hardly worse than the best: CRPS at most 1.05 times, or NLL at most 0.05 nats above.
    Its error here is optimistic, because it is the smallest of several noisy numbers:
    measure the fitted model on rows of its own.

    Attributes
    ----------
    strengths
        The grid, shape ``(k,)``.
    calibration_error
        Sum over 20 levels of squared gaps, of laws before recalibration, on rows that
        the members had not seen, shape ``(k,)``.
    noise_floor
        What a perfectly calibrated model shows on as many rows.
    crps, nll
        Mean scores of the same laws, shape ``(k,)``.
    allowed
        Which strengths are within the budget, shape ``(k,)``.
    chosen
        The strength of the model.
    """

    strengths: Values
    calibration_error: Values
    noise_floor: float
    crps: Values
    nll: Values
    allowed: npt.NDArray[np.bool_]
    chosen: float

    def to_dict(self) -> dict[str, object]:
        """Everything as plain lists and numbers, for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else float(value)
            for name, value in vars(self).items()
        }

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> "StrengthPath":
        """Read what :meth:`to_dict` gave."""
        arrays = {
            name: np.asarray(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        path = cls(**arrays)  # type: ignore[arg-type]
        curves = (path.calibration_error, path.crps, path.nll, path.allowed)
        if np.ndim(path.strengths) != 1 or any(
            np.shape(curve) != path.strengths.shape for curve in curves
        ):
            raise InputError("a path must have one number of each kind for a strength.")
        return path

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each strength."""
        import pandas as pd

        columns = ("calibration_error", "crps", "nll", "allowed")
        frame = pd.DataFrame({name: getattr(self, name) for name in columns})
        frame["chosen"] = self.strengths == self.chosen
        return frame.set_index(pd.Index(self.strengths, name="strength"))


def check_rule(rule: object) -> None:
    """Refuse a rule that there is not."""
    if rule not in _BUDGETS:
        raise InputError(f'strength_rule must be "crps" or "nll", got {rule!r}.')


def choose_strength(
    strengths: Values,
    *,
    calibration_error: Values,
    crps: Values,
    nll: Values,
    noise_floor: float,
    rule: str = "crps",
) -> StrengthPath:
    """Take the smallest calibration error among strengths within the budget.

    Parameters
    ----------
    strengths, calibration_error, crps, nll
        Measures along the grid, shape ``(k,)``.
        NaN marks a strength that could not be trained.
    noise_floor
        Kept with the path.
    rule
        ``"crps"``: at most 1.05 times the best. ``"nll"``: at most the best + 0.05.

    Examples
    --------
    >>> path = choose_strength(
    ...     np.array([0.0, 5.0, 50.0]),
    ...     calibration_error=np.array([0.3, 0.1, 0.02]),
    ...     crps=np.array([1.00, 1.04, 1.30]),
    ...     nll=np.array([0.0, 0.0, 0.4]),
    ...     noise_floor=0.01,
    ... )
    >>> float(path.chosen)
    5.0
    """
    check_rule(rule)
    score = crps if rule == "crps" else nll
    # NaN, of a training that diverged, is worse than anything.
    known = ~np.isnan(score) & ~np.isnan(calibration_error)
    best = np.where(known, score, np.inf).min()
    limit = _BUDGETS["crps"] * best if rule == "crps" else best + _BUDGETS["nll"]
    allowed = known & (score <= limit)
    error = np.where(allowed, calibration_error, np.inf)
    return StrengthPath(
        strengths=strengths,
        calibration_error=calibration_error,
        noise_floor=noise_floor,
        crps=crps,
        nll=nll,
        allowed=allowed,
        chosen=float(strengths[int(error.argmin())]),
    )
