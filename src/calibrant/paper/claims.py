"""Every claim with its verdict, by the rules of ``docs/verdicts.md``.

To add a claim: its texts in ``paper.toml``, and what judges it in ``_JUDGES``.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

from calibrant.paper.ledger import NO_REGULARIZER, Record
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    LARGE,
    MC_DROPOUT,
    NEGLIGIBLE,
    PAPER_DATA,
    PAPER_REGULARIZER,
    TEXT_EPOCHS,
    Model,
    paper_arm,
    paper_models,
    paper_says,
    paper_texts,
    starred,
)
from calibrant.paper.statistics import (
    Arm,
    FoldTable,
    Results,
    SetComparison,
    SetsTest,
    by_arm,
    compare,
    compare_arms,
    corrected_t_test,
    over_sets,
)

Outcome = Literal["holds", "does not hold", "within noise", "not run"]
# Sets that a test over sets needs to reach 5 % at all.
_FEWEST_SETS = 6
# Ratio of errors that counts as "much more".
_MUCH = 1.5
# Sets of the paper's Figures 1 and 2.
_CURVE_DATA = ("concrete", "protein")
_SWEEP_DATA = ("concrete", "protein", "year_msd")
# Fewer strengths than these, 0 among them, are not a sweep.
_FEWEST_STRENGTHS = 4
_RMSE_LIMIT, _NLL_LIMIT = 0.05, 0.1
# At most one set in five may be clearly the other way in our own questions.
_OWN_OF_TEN = 8
_ERROR, _OWN_ERROR = "calibration_error", "randomized_calibration_error"
_DROPOUT = Model(MC_DROPOUT)
# Training and recalibration of what our default is compared with, by claim.
_OTHERS = {
    "default-base": ("base", "none"),
    "default-qr": ("qr", "none"),
    "default-isotonic": ("base", ISOTONIC),
}


@dataclass(frozen=True)
class Ruling:
    """What a rule says: the verdict, our counts, and why."""

    verdict: Outcome
    ours: str
    why: str
    over: SetsTest | None = None


Sets = tuple[SetComparison, ...]
Judged = tuple[Sets, Ruling]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what the records say about it.

    Attributes
    ----------
    name
        Of the claim, as in ``docs/verdicts.md``.
    source
        ``"paper"`` for its claims, ``"own"`` for our questions.
    network, epochs
        Which models it is about; None where that is part of the claim.
    claim
        In our words.
    quote
        In the paper's words; empty for our questions.
    rule
        In one line.
    paper
        What the paper's own numbers say.
    ours
        What our numbers say: counts.
    columns
        What B and A of each set are.
    sets
        Each set that was run.
    over
        The test over sets, where the rule has one.
    verdict
        holds, does not hold, within noise, or not run.
    explanation
        Why, in plain words.
    """

    name: str
    source: Literal["paper", "own"]
    network: str
    epochs: int | None
    claim: str
    quote: str
    rule: str
    paper: str
    ours: str
    columns: tuple[str, str]
    sets: Sets
    over: SetsTest | None
    verdict: Outcome
    explanation: str


@dataclass(frozen=True)
class Tally:
    """Names of sets by what they show."""

    lower: tuple[str, ...]
    higher: tuple[str, ...]
    clearly_lower: tuple[str, ...]
    clearly_higher: tuple[str, ...]
    sets: int

    def words(self, below: str = "lower", above: str = "higher") -> str:
        """Return the counts as part of a sentence."""
        return (
            f"{below} on {len(self.lower)} of {self.sets} "
            f"{'set' if self.sets == 1 else 'sets'} (clearly on "
            f"{len(self.clearly_lower)}), {above} on {len(self.higher)} (clearly on "
            f"{len(self.clearly_higher)})"
        )


def tally(comparisons: Sequence[SetComparison]) -> Tally:
    """Count the sets where B is lower or higher than A, and where clearly so."""

    def names(fits: Callable[[SetComparison], bool]) -> tuple[str, ...]:
        return tuple(found.data for found in comparisons if fits(found))

    return Tally(
        lower=names(lambda found: found.sign < 0),
        higher=names(lambda found: found.sign > 0),
        clearly_lower=names(lambda found: found.direction == "lower"),
        clearly_higher=names(lambda found: found.direction == "higher"),
        sets=len(comparisons),
    )


def count_rule(
    comparisons: Sequence[SetComparison], *, of_ten: int, ratio: bool = True
) -> Ruling:
    """Judge "B is lower than A on so many of ten sets"."""
    if not comparisons:
        return _not_run()
    counts, over = tally(comparisons), over_sets(comparisons, ratio=ratio)
    allowed = counts.sets * (10 - of_ten) // 10
    against = counts.clearly_higher
    if len(against) > allowed:
        room = f"the claim leaves room for {allowed}" if allowed else "none is allowed"
        why = (
            f"Clearly higher on {_named_sets(against)}, and {room}. "
            f"{_together(over, counts.sets)}"
        )
        return Ruling("does not hold", counts.words(), why, over)
    why = _together(over, counts.sets)
    if against:
        why += (
            f" Clearly higher on {_named_sets(against)}, for which the claim leaves "
            "room."
        )
    outcomes: dict[str, Outcome] = {"lower": "holds", "higher": "does not hold"}
    verdict = outcomes.get(over.direction, "within noise")
    return Ruling(verdict, counts.words(), why, over)


def named_rule(
    comparisons: Sequence[SetComparison], *, claimed: Literal["lower", "higher"]
) -> Ruling:
    """Judge a claim about sets that the paper names: B is lower (or higher) than A."""
    if not comparisons:
        return _not_run()
    counts = tally(comparisons)
    sides = (counts.clearly_lower, counts.clearly_higher)
    support, against = sides if claimed == "lower" else sides[::-1]
    ours = f"of the sets that the claim names: {counts.words()}"
    if against:
        opposite = "higher" if claimed == "lower" else "lower"
        why = f"Clearly {opposite} on {_named_sets(against)}."
        return Ruling("does not hold", ours, why)
    if 2 * len(support) > counts.sets:
        why = f"Clearly {claimed} on {_named_sets(support)}; clearly otherwise on none."
        return Ruling("holds", ours, why)
    why = (
        f"Clearly {claimed} on {_named_sets(support)}, which is not more than half of "
        f"{counts.sets}, and clearly otherwise on none."
    )
    return Ruling("within noise", ours, why)


def much_more_rule(comparisons: Sequence[SetComparison]) -> Ruling:
    """Judge "B is much higher than A"."""
    if not comparisons:
        return _not_run()
    counts, over = tally(comparisons), over_sets(comparisons, ratio=True)
    ratios = [found.b / found.a if found.a else float("inf") for found in comparisons]
    median = statistics.median(ratios)
    ours = f"{counts.words()}; median ratio {median:.2f}"
    lower, higher = counts.clearly_lower, counts.clearly_higher
    why = _together(over, counts.sets)
    if lower and len(lower) >= len(higher):
        why += (
            f" Clearly lower on {_named_sets(lower)}, clearly higher on "
            f"{_named_sets(higher)}: not fewer."
        )
        return Ruling("does not hold", ours, why, over)
    if over.direction == "higher" and median < _MUCH:
        why += f" But the median ratio {median:.2f} is below {_MUCH:g}: not much more."
        return Ruling("does not hold", ours, why, over)
    outcomes: dict[str, Outcome] = {"lower": "does not hold", "higher": "holds"}
    return Ruling(outcomes.get(over.direction, "within noise"), ours, why, over)


def _not_run() -> Ruling:
    return Ruling("not run", "nothing yet", "No set that it speaks of is finished.")


def _together(over: SetsTest, sets: int) -> str:
    if sets < _FEWEST_SETS:
        few = "Only one set is" if sets == 1 else f"Only {sets} sets are"
        return f"{few} finished: a test over sets needs {_FEWEST_SETS}."
    if over.direction == "unclear":
        return f"The sets together show no clear direction (p = {over.p:.2g})."
    return f"Over the sets together it is {over.direction} (p = {over.p:.2g})."


def _named_sets(names: Sequence[str]) -> str:
    if not names:
        return "no set"
    # The path of a file stays as it is.
    listed = ", ".join(n if "." in n else n.replace("_", " ") for n in names)
    return f"{len(names)} {'set' if len(names) == 1 else 'sets'} ({listed})"


def verdicts(records: Iterable[Record]) -> tuple[Verdict, ...]:
    """Judge each claim of the paper, and our own questions where they were run.

    The rules stand in ``docs/verdicts.md``. What was not run says so: each claim of the
    paper has a verdict for MC dropout and for ensembles at 100 epochs in any case.

    Parameters
    ----------
    records
        In any order; any may be missing.

    Returns
    -------
    tuple[Verdict, ...]
        Claims in the order of the rules, for each the models; then our questions.

    Examples
    --------
    >>> every = verdicts([])
    >>> {verdict.verdict for verdict in every}
    {'not run'}
    >>> every[0].name, every[0].network
    ('qr-error', 'mc_dropout')
    >>> every[0].paper
    'Lower on 10 of 10 sets, by more than 2.3 standard errors on 5.'
    """
    results = by_arm(records)
    paper = [
        _verdict(name, model.network, model.epochs, judge(results, model))
        for name, judge in _JUDGES.items()
        for model in paper_models(results)
        if _ONLY.get(name, model.network) == model.network
    ]
    wanted = (v for v in paper if v.epochs == TEXT_EPOCHS or v.verdict != "not run")
    return (*wanted, *_own_verdicts(results))


def _verdict(
    name: str, network: str, epochs: int | None, judged: Judged, **words: object
) -> Verdict:
    texts = paper_texts()["claims"]
    text, (sets, ruling) = texts.get(name, texts["regularizer"]), judged
    paper = name in _JUDGES
    return Verdict(
        name=name,
        source="paper" if paper else "own",
        network=network,
        epochs=epochs,
        claim=text["claim"].format(**words),
        quote=text.get("quote", ""),
        rule=text["rule"],
        paper=paper_says(name, network) if paper else "",
        ours=ruling.ours,
        columns=tuple(text["columns"]),
        sets=sets,
        over=ruling.over,
        verdict=ruling.verdict,
        explanation=ruling.why,
    )


def _found(comparisons: Iterable[SetComparison | None]) -> Sets:
    return tuple(found for found in comparisons if found is not None)


def _trainings(
    results: Results,
    model: Model,
    b: str,
    a: str,
    metric: str = _ERROR,
    data: Iterable[str] = PAPER_DATA,
) -> Sets:
    """Compare two trainings of a model, as ``"base isotonic"``, on some sets."""
    return _found(
        compare_arms(
            results, model.arm(name, *b.split()), model.arm(name, *a.split()), metric
        )
        for name in data
    )


def _table(
    results: Results, model: Model, data: str, training: str, metric: str
) -> FoldTable | None:
    found = results.get(model.arm(data, *training.split()))
    return found.table(metric) if found else None


def _qr_error(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "qr", "base")
    return sets, count_rule(sets, of_ten=9 if model.network == ENSEMBLE else 10)


def _qr_nll(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "qr", "base", "nll")
    return sets, count_rule(sets, of_ten=7, ratio=False)


def _qr_rmse(results: Results, model: Model) -> Judged:
    found = []
    for data in PAPER_DATA:
        qr, base = (_table(results, model, data, t, "rmse") for t in ("qr", "base"))
        found.append(compare(qr, base.scaled(1 + NEGLIGIBLE) if base else None))
    sets = _found(found)
    ruling = count_rule(sets, of_ten=10)
    if sets:
        words = tally(sets).words(f"below {1 + NEGLIGIBLE:g} x base", "above it")
        ruling = replace(ruling, ours=words)
    return sets, ruling


def _isotonic_worsens(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "base isotonic", "base")
    named = [found for found in sets if found.data in starred(model.network)]
    return sets, named_rule(named, claimed="higher")


def _isotonic_qr(results: Results, model: Model) -> Judged:
    def rise(data: str, training: str) -> FoldTable | None:
        before = _table(results, model, data, training, _ERROR)
        after = _table(results, model, data, f"{training} {ISOTONIC}", _ERROR)
        return after.minus(before) if after and before else None

    names = starred(model.network)
    sets = _found(compare(rise(data, "qr"), rise(data, "base")) for data in names)
    return sets, named_rule(sets, claimed="lower")


def _qr_isotonic(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "qr", "base isotonic")
    return sets, count_rule(sets, of_ten=10)


def _isotonic_large(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "base isotonic", "base", data=LARGE)
    return sets, named_rule(sets, claimed="lower")


def _curve(results: Results, model: Model) -> Judged:
    sets = _trainings(results, model, "qr", "base", "curve_gap", _CURVE_DATA)
    return sets, named_rule(sets, claimed="lower")


def _ensemble_error(
    results: Results, model: Model, recalibration: str = "none"
) -> Judged:
    what = ("base", recalibration)
    sets = _found(
        compare_arms(results, model.arm(d, *what), _DROPOUT.arm(d, *what), _ERROR)
        for d in PAPER_DATA
    )
    return sets, much_more_rule(sets)


def _ensemble_isotonic(results: Results, model: Model) -> Judged:
    return _ensemble_error(results, model, ISOTONIC)


#: Strength to the numbers of one metric.
Sweep = Mapping[float, FoldTable]


def _sweeps(
    results: Results, model: Model, metrics: Sequence[str]
) -> list[list[Sweep]]:
    """For each set of Figure 2 the tables of some metrics along the strength.

    Sets with too few strengths, or without common repeats, are left out.
    """
    found = []
    for data in _SWEEP_DATA:
        base = model.arm(data)
        arms = {
            arm.strength: arm
            for arm, known in results.items()
            if arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
            and replace(arm, regularizer=base.regularizer, strength=0.0) == base
            and known.repeats
        }
        sweeps = [_common(results, dict(sorted(arms.items())), m) for m in metrics]
        if len(arms) >= _FEWEST_STRENGTHS and 0.0 in arms and all(sweeps):
            found.append(sweeps)
    return found


def _common(results: Results, arms: Mapping[float, Arm], metric: str) -> Sweep:
    """Tables of all strengths, on the repeats that all of them have."""
    found = {strength: results[arm].table(metric) for strength, arm in arms.items()}
    tables = {strength: table for strength, table in found.items() if table is not None}
    for other in list(tables.values()):
        tables = {strength: t.at(other.values) for strength, t in tables.items()}
    return tables if all(table.values for table in tables.values()) else {}


def _strength_error(results: Results, model: Model) -> Judged:
    found = []
    for (sweep,) in _sweeps(results, model, [_ERROR]):
        zero, most = sweep[0.0], sweep[max(sweep)]
        trend = corrected_t_test(rank_correlations(sweep), overlap=zero.overlap)
        ends = most.minus(zero).test()
        if "higher" in (trend.direction, ends.direction):
            outcome: Outcome = "does not hold"
        else:
            outcome = "holds" if trend.direction == "lower" else "within noise"
        unclear = ends.direction == "unclear"
        words = "not clearly other" if unclear else f"clearly {ends.direction}"
        note = (
            f"mean rank correlation {trend.difference:+.2f} ({trend.direction}, "
            f"p = {trend.p:.2g}) over {len(sweep)} strengths; at strength "
            f"{max(sweep):g} the error is {words} than at 0"
        )
        row = SetComparison(zero.data, most.mean, zero.mean, zero.repeats, trend, note)
        found.append((row, outcome))
    return _all_sets(found)


def rank_correlations(sweep: Sweep) -> list[float]:
    """Spearman's correlation of strength and number, for each test fold."""
    rows = np.array([sweep[strength].independent() for strength in sorted(sweep)])
    found = []
    for fold in range(rows.shape[1]):
        ranks = stats.rankdata(rows[:, fold])
        flat = np.ptp(ranks) == 0
        order = np.arange(len(ranks))
        found.append(0.0 if flat else float(np.corrcoef(order, ranks)[0, 1]))
    return found


def _strength_rest(results: Results, model: Model) -> Judged:
    found = []
    for rmse, nll in _sweeps(results, model, ["rmse", "nll"]):
        zero = rmse[0.0]
        strengths = [strength for strength in rmse if strength > 0]
        rises = {s: rmse[s].mean / zero.mean - 1 for s in strengths}
        moves = {s: nll[s].mean - nll[0.0].mean for s in strengths}
        outside = [s for s in strengths if _is_outside(rmse, nll, s)]
        far_rmse = max(strengths, key=lambda s: abs(rises[s]))
        far_nll = max(strengths, key=lambda s: abs(moves[s]))
        near = abs(rises[far_rmse]) <= _RMSE_LIMIT and abs(moves[far_nll]) <= _NLL_LIMIT
        outcome: Outcome = "holds" if near else "within noise"
        note = (
            f"RMSE moves by up to {rises[far_rmse]:+.1%} (strength {far_rmse:g}), NLL "
            f"by up to {moves[far_nll]:+.2f} (strength {far_nll:g}); clearly outside "
            "of the limits at "
            f"{', '.join(f'{s:g}' for s in outside) or 'no strength'}"
        )
        far = rmse[far_rmse]
        row = compare(far, zero)
        test = row.test if row else corrected_t_test([0.0], overlap=0.0)
        row = SetComparison(zero.data, far.mean, zero.mean, zero.repeats, test, note)
        found.append((row, "does not hold" if outside else outcome))
    return _all_sets(found)


def _is_outside(rmse: Sweep, nll: Sweep, strength: float) -> bool:
    """Whether RMSE or NLL is clearly beyond a limit at a strength."""
    pairs = (
        (compare(rmse[strength], rmse[0.0].scaled(1 + _RMSE_LIMIT)), "higher"),
        (compare(rmse[strength], rmse[0.0].scaled(1 - _RMSE_LIMIT)), "lower"),
        (compare(nll[strength], nll[0.0].scaled(plus=_NLL_LIMIT)), "higher"),
        (compare(nll[strength], nll[0.0].scaled(plus=-_NLL_LIMIT)), "lower"),
    )
    return any(found is not None and found.direction == side for found, side in pairs)


def _all_sets(found: Sequence[tuple[SetComparison, Outcome]]) -> Judged:
    if not found:
        why = (
            f"No sweep over at least {_FEWEST_STRENGTHS} strengths with 0 is finished."
        )
        return (), Ruling("not run", "nothing yet", why)
    outcomes = [outcome for _, outcome in found]
    verdict: Outcome = "holds"
    if "does not hold" in outcomes:
        verdict = "does not hold"
    elif "within noise" in outcomes:
        verdict = "within noise"
    ours = ", ".join(f"{row.data}: {outcome}" for row, outcome in found)
    why = " ".join(f"{row.data}: {row.note}." for row, _ in found)
    return tuple(row for row, _ in found), Ruling(verdict, ours, why)


# The claims of the paper, in the order of docs/verdicts.md.
_JUDGES: dict[str, Callable[[Results, Model], Judged]] = {
    "qr-error": _qr_error,
    "qr-nll": _qr_nll,
    "qr-rmse": _qr_rmse,
    "isotonic-worsens": _isotonic_worsens,
    "isotonic-qr": _isotonic_qr,
    "qr-isotonic": _qr_isotonic,
    "isotonic-large": _isotonic_large,
    "ensemble-error": _ensemble_error,
    "ensemble-isotonic": _ensemble_isotonic,
    "strength-error": _strength_error,
    "strength-rest": _strength_rest,
    "curve": _curve,
}
# Claims that are about one network alone.
_ONLY = {
    "ensemble-error": ENSEMBLE,
    "ensemble-isotonic": ENSEMBLE,
    "curve": MC_DROPOUT,
}


def _own_verdicts(results: Results) -> tuple[Verdict, ...]:
    """Judge our default against the paper's models, and each regularizer."""
    shuffled = [arm for arm in results if arm.split == "shuffled"]
    if not shuffled:
        return ()
    defaults = _defaults(shuffled)
    first = (
        _verdict(name, "default", None, _judge_default(results, name, defaults))
        for name in _OTHERS
    )
    usual = paper_arm("", _DROPOUT, shuffled=True).folds
    groups: dict[tuple[str, str, float, int], list[Arm]] = {}
    for arm in shuffled:
        judged = arm.regularizer != NO_REGULARIZER and arm.recalibration == "none"
        # Otherwise a set could count twice in a test over sets.
        if judged and arm.folds == usual:
            key = (arm.network, arm.regularizer, arm.strength, arm.epochs)
            groups.setdefault(key, []).append(arm)
    return (*first, *(_regularizer(results, arms) for arms in groups.values()))


def _defaults(shuffled: Sequence[Arm]) -> dict[str, Arm]:
    """Our default of each set, run as what it is compared with: plainest if several."""

    def protocol(arm: Arm) -> tuple[str, int, int]:
        return arm.split, arm.folds, arm.epochs

    found = [
        arm
        for arm in shuffled
        if arm.network == "default"
        and arm.recalibration == "out_of_fold"
        and protocol(arm) == protocol(paper_arm(arm.data, _DROPOUT, shuffled=True))
    ]
    found.sort(key=lambda arm: (arm.data, arm.regularizer != NO_REGULARIZER, arm))
    return {arm.data: arm for arm in reversed(found)}


def _judge_default(results: Results, name: str, defaults: Mapping[str, Arm]) -> Judged:
    """Judge the error; where it holds, neither NLL nor CRPS may be worse."""

    def sets(metric: str) -> Sets:
        return _found(
            compare_arms(
                results,
                arm,
                paper_arm(data, _DROPOUT, *_OTHERS[name], shuffled=True),
                metric,
            )
            for data, arm in sorted(defaults.items())
        )

    errors = sets(_OWN_ERROR)
    ruling = count_rule(errors, of_ten=_OWN_OF_TEN)
    if ruling.verdict != "holds":
        return errors, ruling
    verdict: Outcome = ruling.verdict
    ours, why = ruling.ours, ruling.why
    for title, metric, ratio in (("NLL", "nll", False), ("CRPS", "crps", True)):
        other = count_rule(sets(metric), of_ten=_OWN_OF_TEN, ratio=ratio)
        ours += f"; {title} {other.ours}"
        if other.verdict == "does not hold":
            verdict = "does not hold"
            why += f" But its {title} is worse. {other.why}"
    return errors, Ruling(verdict, ours, why, ruling.over)


def _regularizer(results: Results, arms: Sequence[Arm]) -> Verdict:
    first = arms[0]
    sets = _found(
        compare_arms(
            results,
            arm,
            replace(arm, regularizer=NO_REGULARIZER, strength=0.0),
            _OWN_ERROR,
        )
        for arm in arms
    )
    return _verdict(
        f"regularizer-{first.regularizer}",
        first.network,
        first.epochs,
        (sets, count_rule(sets, of_ten=_OWN_OF_TEN)),
        regularizer=first.regularizer,
        strength=first.strength,
    )
