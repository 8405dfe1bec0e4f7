"""Verdicts on Figure 2: what happens as the strength of the regularizer grows."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from calibrant.benchmark._paired import corrected_t_test
from calibrant.benchmark._paper_claims import Judged, paper_verdict
from calibrant.benchmark.comparison import FoldTable, SetComparison, compare
from calibrant.benchmark.records import NO_REGULARIZER
from calibrant.benchmark.summary import PAPER_REGULARIZER, Arm
from calibrant.benchmark.verdict import Outcome, Ruling, Verdict
from calibrant.benchmark.view import Model, View, paper_arm

__all__ = ["rank_correlations", "sweep_verdicts"]

#: Sets of the paper's Figure 2.
SWEEP_DATA = ("concrete", "protein", "year_msd")
# Fewer strengths than these, 0 among them, are no sweep.
_FEWEST = 4
_RMSE_LIMIT = 0.05
_NLL_LIMIT = 0.1

#: Strength to the numbers of one metric.
Sweep = Mapping[float, FoldTable]
#: A set and whether the claim holds on it.
OneSet = tuple[SetComparison, Outcome]


def sweep_verdicts(view: View, model: Model) -> tuple[Verdict, ...]:
    """Judge the claims about Figure 2 on one model.

    Parameters
    ----------
    view
        The records.
    model
        Network and epochs.
    """
    ways = {"strength-error": _error, "strength-rest": _rest}
    verdicts = []
    for name, judge in ways.items():
        each = [judge(view, strengths) for strengths in _sweeps(view, model)]
        verdicts.append(paper_verdict(name, model, _all_sets(each)))
    return tuple(verdicts)


def rank_correlations(sweep: Sweep) -> list[float]:
    """Spearman's correlation of strength and number, for each test fold.

    Parameters
    ----------
    sweep
        Strength to a table; all with the same repeats and folds.
    """
    rows = np.array([sweep[strength].independent() for strength in sorted(sweep)])
    return [_spearman(rows[:, fold]) for fold in range(rows.shape[1])]


def _spearman(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    ranks = stats.rankdata(values)
    if np.ptp(ranks) == 0:
        return 0.0
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


def _sweeps(view: View, model: Model) -> list[dict[float, Arm]]:
    """Arms along the strength for each set; sets with too few of them are left out."""
    found = []
    for data in SWEEP_DATA:
        base = paper_arm(data, model.column(), epochs=model.epochs)
        arms = {
            arm.strength: arm
            for arm in view.arms
            if arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
            and _setting(arm) == _setting(base)
            and view.table(arm, "rmse") is not None
        }
        if len(arms) >= _FEWEST and 0.0 in arms:
            found.append(dict(sorted(arms.items())))
    return [arms for arms in found if _common(view, arms, "rmse")]


def _setting(arm: Arm) -> tuple[object, ...]:
    shape = (arm.data, arm.split, arm.folds)
    return (*shape, arm.network, arm.epochs, arm.recalibration)


def _common(
    view: View, arms: Mapping[float, Arm], metric: str
) -> dict[float, FoldTable]:
    """Tables of all strengths, on the repeats that all of them have."""
    found = {strength: view.table(arm, metric) for strength, arm in arms.items()}
    tables = {strength: table for strength, table in found.items() if table is not None}
    for other in list(tables.values()):
        tables = {strength: t.at(other.values) for strength, t in tables.items()}
    return tables if all(table.values for table in tables.values()) else {}


def _error(view: View, arms: Mapping[float, Arm]) -> OneSet:
    sweep = _common(view, arms, "calibration_error")
    zero, most = sweep[0.0], sweep[max(sweep)]
    correlations = rank_correlations(sweep)
    trend = corrected_t_test(correlations, overlap=zero.overlap)
    ends = most.minus(zero).test()
    if trend.direction == "higher" or ends.direction == "higher":
        outcome: Outcome = "does not hold"
    else:
        outcome = "holds" if trend.direction == "lower" else "within noise"
    note = (
        f"mean rank correlation {trend.difference:+.2f} ({trend.direction}, "
        f"p = {trend.p:.2g}) over {len(sweep)} strengths; at strength {max(sweep):g} "
        f"the error is {_words(ends.direction)}"
    )
    row = SetComparison(zero.data, most.mean, zero.mean, zero.repeats, trend, note)
    return row, outcome


def _words(direction: str) -> str:
    return {
        "lower": "clearly lower than at 0",
        "higher": "clearly higher than at 0",
        "unclear": "not clearly other than at 0",
    }[direction]


def _rest(view: View, arms: Mapping[float, Arm]) -> OneSet:
    rmse, nll = (_common(view, arms, metric) for metric in ("rmse", "nll"))
    strengths = [strength for strength in rmse if strength > 0]
    rises = {s: rmse[s].mean / rmse[0.0].mean - 1 for s in strengths}
    moves = {s: nll[s].mean - nll[0.0].mean for s in strengths}
    outside = [s for s in strengths if _outside(rmse, nll, s)]
    far_rmse = max(strengths, key=lambda s: abs(rises[s]))
    far_nll = max(strengths, key=lambda s: abs(moves[s]))
    near = abs(rises[far_rmse]) <= _RMSE_LIMIT and abs(moves[far_nll]) <= _NLL_LIMIT
    if outside:
        outcome: Outcome = "does not hold"
    else:
        outcome = "holds" if near else "within noise"
    note = (
        f"RMSE moves by up to {rises[far_rmse]:+.1%} (strength {far_rmse:g}), NLL by "
        f"up to {moves[far_nll]:+.2f} (strength {far_nll:g}); clearly outside of the "
        f"limits at {', '.join(f'{s:g}' for s in outside) or 'no strength'}"
    )
    row = compare(rmse[far_rmse], rmse[0.0])
    test = row.test if row else corrected_t_test([0.0], overlap=0.0)
    one = rmse[0.0]
    means = rmse[far_rmse].mean, one.mean
    return SetComparison(one.data, *means, one.repeats, test, note), outcome


def _outside(rmse: Sweep, nll: Sweep, strength: float) -> bool:
    """Whether RMSE or NLL is clearly beyond a limit at a strength."""
    zero = rmse[0.0]
    above = compare(rmse[strength], zero.times(1 + _RMSE_LIMIT))
    below = compare(rmse[strength], zero.times(1 - _RMSE_LIMIT))
    worse = compare(nll[strength], nll[0.0].plus(_NLL_LIMIT))
    better = compare(nll[strength], nll[0.0].plus(-_NLL_LIMIT))
    return any(
        each is not None and each.direction == side
        for each, side in (
            (above, "higher"),
            (below, "lower"),
            (worse, "higher"),
            (better, "lower"),
        )
    )


def _all_sets(each: Sequence[OneSet]) -> Judged:
    if not each:
        why = f"No sweep over at least {_FEWEST} strengths with 0 is finished."
        return (), Ruling("not run", "nothing yet", why)
    sets = tuple(row for row, _ in each)
    outcomes = [outcome for _, outcome in each]
    if "does not hold" in outcomes:
        verdict: Outcome = "does not hold"
    else:
        verdict = "within noise" if "within noise" in outcomes else "holds"
    ours = ", ".join(f"{row.data}: {outcome}" for row, outcome in each)
    why = " ".join(f"{row.data}: {row.note}." for row in sets)
    return sets, Ruling(verdict, ours, why)
