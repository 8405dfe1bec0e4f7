"""The strength of the regularizer, chosen by rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError, UnsupportedError
from calibrant.estimators.networks import Networks
from calibrant.estimators.pool import Pool
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.floors import noise_floor
from calibrant.training import DivergedError, History

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StrengthPath", "choose_strength", "measures", "sweep"]

#: Members of one strength, their curves, and their pools for rows they had not seen.
Trained = tuple[Networks, list[History], Pool]
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
        Sum over 20 levels of squared gaps, of distributions before recalibration, on
        rows that the members had not seen, shape ``(k,)``.
    noise_floor
        What a perfectly calibrated model shows on as many rows.
    crps, nll
        Mean scores of the same distributions, shape ``(k,)``.
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

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each strength."""
        import pandas as pd

        columns = ("calibration_error", "crps", "nll", "allowed")
        frame = pd.DataFrame({name: getattr(self, name) for name in columns})
        frame["chosen"] = self.strengths == self.chosen
        return frame.set_index(pd.Index(self.strengths, name="strength"))


def choose_strength(
    strengths: Values,
    calibration_error: Values,
    crps: Values,
    nll: Values,
    *,
    noise_floor: float,
    rule: str = "crps",
) -> StrengthPath:
    """Take the smallest calibration error among strengths within the budget.

    Measures have shape ``(k,)``, and NaN marks a strength that could not be trained.

    Examples
    --------
    >>> error, crps = np.array([0.3, 0.1, 0.02]), np.array([1.00, 1.04, 1.30])
    >>> grid, nll = np.array([0.0, 5.0, 50.0]), np.array([0.0, 0.0, 0.4])
    >>> float(choose_strength(grid, error, crps, nll, noise_floor=0.01).chosen)
    5.0
    """
    score = crps if rule == "crps" else nll
    # NaN, of a training that diverged, is worse than anything.
    known = ~np.isnan(score) & ~np.isnan(calibration_error)
    best = np.where(known, score, np.inf).min()
    allowed = known & (score <= (1.05 * best if rule == "crps" else best + 0.05))
    error = np.where(allowed, calibration_error, np.inf)
    chosen = float(strengths[int(error.argmin())])
    return StrengthPath(
        strengths, calibration_error, noise_floor, crps, nll, allowed, chosen
    )


def measures(pool: Pool) -> tuple[float, float, float]:
    """Calibration error, mean CRPS and mean NLL of the pools of unseen members."""
    predictive = pool.distribution()
    try:
        crps = float(predictive.crps(pool.y).mean())
    except UnsupportedError:  # a distribution without a mean: the rule can be "nll"
        crps = np.nan
    nll = float(-predictive.log_prob(pool.y).mean())
    return calibration_error(pool.pit(0)), crps, nll


def sweep(
    strengths: Sequence[float], train: Callable[[float], Trained], *, rule: str
) -> tuple[Trained, StrengthPath]:
    """Train with each strength of an ascending grid and choose one by rule.

    All strengths start from the same weights and see the same batches, so that they
    differ by the strength alone. A strength whose training diverges is not chosen. A
    training that is interrupted by hand is the last.
    """

    def chosen(rows: int) -> StrengthPath:
        floor = noise_floor(n=rows).expectation
        return choose_strength(*np.array(found).T, noise_floor=floor, rule=rule)

    found: list[tuple[float, ...]] = []
    kept: dict[float, Trained] = {}
    failure: DivergedError | None = None
    path: StrengthPath | None = None
    for strength in strengths:
        try:
            trained = train(strength)
        except DivergedError as error:
            failure = error
            found.append((strength, np.nan, np.nan, np.nan))
            continue
        _, histories, pool = kept[strength] = trained
        found.append((strength, *measures(pool)))
        path = chosen(len(pool.y))
        # A better score later can only shut strengths out: keep all that are allowed.
        allowed = path.strengths[path.allowed].tolist()
        kept = {key: value for key, value in kept.items() if key in allowed}
        if any(history.interrupted for history in histories):
            break
    if path is None or not kept:
        raise failure or InputError(
            f'the {rule} of no strength is a number. Use strength_rule="nll" for '
            "distributions without a mean."
        )
    trained = kept[path.chosen]
    return trained, chosen(len(trained[2].y))
