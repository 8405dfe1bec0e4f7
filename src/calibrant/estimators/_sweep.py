"""Out-of-sample measures of trained members, and the sweep over strengths."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibrant._checks import InputError, UnsupportedError
from calibrant.estimators._fitting import UnseenPool
from calibrant.estimators._members import Members
from calibrant.estimators.strength import StrengthPath, check_rule, choose_strength
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.noise import noise_floor
from calibrant.training import DivergedError, History

__all__ = ["Measures", "Trained", "measure", "sweep"]


@dataclass(frozen=True)
class Trained:
    """Members of one strength, and their pools for rows that they had not seen."""

    members: Members
    histories: list[History]
    pool: UnseenPool

    @property
    def interrupted(self) -> bool:
        """Whether a training was ended by hand."""
        return any(history.interrupted for history in self.histories)


@dataclass(frozen=True)
class Measures:
    """Calibration error, mean CRPS and NLL of laws for rows that were not seen."""

    calibration_error: float
    crps: float
    nll: float


# Of a training that diverged.
_NOTHING = Measures(math.nan, math.nan, math.nan)


def measure(pool: UnseenPool) -> Measures:
    """Measure the pools of the calibration rows."""
    law = pool.law()
    try:
        crps = law.crps(pool.y)
    except UnsupportedError:  # a law without a mean: the rule can be "nll"
        crps = torch.full_like(pool.y, torch.nan)
    return Measures(
        calibration_error=calibration_error(pool.pit(0)),
        crps=float(crps.mean()),
        nll=float(-law.log_prob(pool.y).mean()),
    )


def sweep(
    strengths: Sequence[float],
    train: Callable[[float], Trained],
    *,
    rule: str,
) -> tuple[Trained, StrengthPath]:
    """Train with each strength and choose one by rule.

    All strengths start from the same weights and see the same batches, so that they
    differ by the strength alone. A strength whose training diverges is not chosen. A
    training that is interrupted by hand is the last.

    Parameters
    ----------
    strengths
        The grid, ascending, at least one.
    train
        Trains all members with a strength.
    rule
        ``"crps"`` or ``"nll"``, see ``choose_strength``.
    """
    check_rule(rule)
    tried: list[float] = []
    measures: list[Measures] = []
    kept: dict[float, Trained] = {}
    failure: DivergedError | None = None
    rows = 0
    for strength in strengths:
        tried.append(strength)
        try:
            trained = train(strength)
        except DivergedError as error:
            measures.append(_NOTHING)
            failure = error
            continue
        rows = len(trained.pool.y)
        measures.append(measure(trained.pool))
        kept[strength] = trained
        # A better score later can only shut strengths out: keep all that are allowed.
        path = _path(tried, measures, rule, rows)
        allowed = path.strengths[path.allowed].tolist()
        kept = {each: kept[each] for each in kept if each in allowed}
        if trained.interrupted:
            break
    if failure is not None and not kept:
        raise failure
    if not kept:
        raise InputError(
            f'strength_rule="{rule}" cannot choose: the {rule} of no strength is a '
            'number. Laws without a mean have no CRPS; for them use "nll".'
        )
    path = _path(tried, measures, rule, rows)
    return kept[path.chosen], path


def _path(
    strengths: Sequence[float], measures: Sequence[Measures], rule: str, rows: int
) -> StrengthPath:
    columns = {
        name: np.array([getattr(each, name) for each in measures])
        for name in ("calibration_error", "crps", "nll")
    }
    floor = noise_floor(n=rows).expectation
    return choose_strength(np.array(strengths), **columns, noise_floor=floor, rule=rule)
