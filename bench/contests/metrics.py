"""Metrics and scale recalibration, against uncertainty-toolbox."""

from collections.abc import Callable

import numpy as np
import uncertainty_toolbox as toolbox

from bench.contest import Contest, at_least
from calibrant import Scorecard, evaluate
from calibrant.metrics import floors, mean_absolute_calibration_error, pit_values
from calibrant.recalibration import ScaleRecalibrator

__all__ = ["CONTESTS", "first_scorecard", "predictions"]

ROWS = 100_000
_FROM = "uncertainty-toolbox"


def predictions(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard deviations and targets, each ``(n,)``, of too sure a model."""
    random = np.random.default_rng(0)
    mean, spread = random.normal(size=n), random.uniform(0.5, 2, n)
    return mean, spread, mean + 1.2 * spread * random.normal(size=n)


def first_scorecard(n: int) -> Callable[[], Scorecard]:
    """A scorecard of ``n`` rows, as if it were the first.

    Noise floors are kept for the next evaluation of as many rows: they are forgotten.
    """
    mean, spread, y = predictions(n)

    def work() -> Scorecard:
        for part in vars(floors).values():
            if hasattr(part, "cache_clear"):
                part.cache_clear()
        return evaluate((mean, spread), y)

    return work


def _calibration_error(*, vectorized: bool) -> Contest:
    mean, spread, y = predictions(ROWS)

    def ours() -> float:
        pit = pit_values((mean, spread), y)
        return mean_absolute_calibration_error(pit, kind="interval")

    def other() -> float:
        error = toolbox.mean_absolute_calibration_error
        return float(error(mean, spread, y, vectorized=vectorized))

    kind = ", its vectorized form" if vectorized else ""
    return Contest(
        work=f"calibration error, n = {ROWS:,}",
        against=_FROM + kind,
        goal=at_least(None if vectorized else 100),
        ours=ours,
        other=other,
        difference=lambda: abs(ours() - other()),
        tolerance=2e-3,  # its levels are another grid of 100
        rounds=(3, 200),
    )


def _scorecard() -> Contest:
    mean, spread, y = predictions(ROWS)

    def theirs() -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = toolbox.get_all_metrics(
            mean, spread, y, verbose=False
        )
        return found

    def difference() -> float:
        card, other = evaluate((mean, spread), y), theirs()
        pairs = [
            (card["rmse"], other["accuracy"]["rmse"]),
            (card["crps"], other["scoring_rule"]["crps"]),
            (card["nll"], other["scoring_rule"]["nll"]),
        ]
        return max(abs(float(mine) - theirs) for mine, theirs in pairs)

    return Contest(
        work=f"full scorecard, n = {ROWS:,}",
        against=f"{_FROM} get_all_metrics",
        goal=at_least(100),
        ours=first_scorecard(ROWS),
        other=theirs,
        difference=difference,
        rounds=(2, 2),
        threads=(1,),
        once=True,
        repeats=4,
        note="ours also has noise floors, groups and the parts of the CRPS",
    )


def _scale() -> Contest:
    mean, spread, y = predictions(ROWS)

    def theirs() -> float:
        return float(toolbox.optimize_recalibration_ratio(mean, spread, y))

    def ours() -> float:
        return float(ScaleRecalibrator().fit((mean, spread), y).factor)

    return Contest(
        work=f"scale recalibration, n = {ROWS:,}",
        against=f"{_FROM} std recalibrator",
        goal=at_least(100),
        ours=ours,
        other=theirs,
        difference=lambda: abs(ours() - theirs()),
        tolerance=0.05,
        rounds=(2, 2),
        threads=(1,),
        once=True,
        repeats=4,
        note="ours maximizes the likelihood, theirs lowers its calibration error",
    )


CONTESTS: dict[str, Callable[[], Contest]] = {
    "calibration error": lambda: _calibration_error(vectorized=False),
    "calibration error, vectorized": lambda: _calibration_error(vectorized=True),
    "scorecard": _scorecard,
    "scale": _scale,
}
