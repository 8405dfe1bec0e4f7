"""Every claim with its verdict, by the rules of ``docs/verdicts.md``.

A claim is an entry of ``paper.toml``: its texts, what B and A of each set are, and
which rule judges them.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import stats

from calibrant.paper.ledger import NO_REGULARIZER, Arm, Record
from calibrant.paper.published import (
    ERROR,
    MC_DROPOUT,
    PAPER_DATA,
    Model,
    paper_models,
    paper_texts,
    starred,
)
from calibrant.paper.results import (
    PAPER_REGULARIZER,
    TEXT_EPOCHS,
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
#: The error that our own questions are about.
OWN_ERROR = "randomized_calibration_error"
# Sets that a test over sets needs to reach 5 % at all.
_FEWEST_SETS = 6
# Ratio of errors that counts as "much more".
_MUCH = 1.5
# Sets of Figure 2. Fewer strengths than these, 0 among them, are not a sweep.
_SWEEP_DATA = ("concrete", "protein", "year_msd")
_FEWEST_STRENGTHS = 4
_RMSE_LIMIT, _NLL_LIMIT = 0.05, 0.1
# At most one set in five may be clearly the other way in our own questions.
_OWN_OF_TEN = 8
_BY_DIRECTION: dict[str, Outcome] = {"lower": "holds", "higher": "does not hold"}

Sets = Sequence[SetComparison]


@dataclass(frozen=True)
class Ruling:
    """What a rule says: the verdict, our counts, and why."""

    verdict: Outcome
    ours: str
    why: str


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
    claim, quote
        In our words, and in the paper's; a quote is empty for our questions.
    rule
        In one line.
    paper, ours
        What the paper's own numbers say, and ours: counts.
    columns
        What B and A of each set are.
    sets
        Each set that was run.
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
    sets: tuple[SetComparison, ...]
    verdict: Outcome
    explanation: str


def clearly(sets: Sets, direction: str) -> list[str]:
    """Names of the sets on which B is clearly lower, or clearly higher, than A."""
    return [found.data for found in sets if found.direction == direction]


def _counts(sets: Sets, below: str = "lower", above: str = "higher") -> str:
    """Say on how many sets B is lower or higher than A, and on how many clearly so."""
    lower, higher = (sum(s * (f.b - f.a) > 0 for f in sets) for s in (-1, 1))
    return (
        f"{below} on {lower} of {len(sets)} {'set' if len(sets) == 1 else 'sets'} "
        f"(clearly on {len(clearly(sets, 'lower'))}), {above} on {higher} (clearly on "
        f"{len(clearly(sets, 'higher'))})"
    )


def count_rule(
    sets: Sets,
    *,
    of_ten: int,
    ratio: bool = True,
    words: Sequence[str] = ("lower", "higher"),
) -> Ruling:
    """Judge "B is lower than A on so many of ten sets"."""
    if not sets:
        return _not_run()
    over, allowed = over_sets(sets, ratio=ratio), len(sets) * (10 - of_ten) // 10
    against, why = clearly(sets, "higher"), _together(over, len(sets))
    verdict = _BY_DIRECTION.get(over.direction, "within noise")
    if len(against) > allowed:
        verdict = "does not hold"
        room = f"the claim leaves room for {allowed}" if allowed else "none is allowed"
        why = f"Clearly higher on {_named(against)}, and {room}. {why}"
    elif against:
        why += f" Clearly higher on {_named(against)}, for which the claim leaves room."
    return Ruling(verdict, _counts(sets, *words), why)


def named_rule(sets: Sets, *, claimed: Literal["lower", "higher"]) -> Ruling:
    """Judge a claim about sets that the paper names: B is lower (or higher) than A."""
    if not sets:
        return _not_run()
    opposite = "higher" if claimed == "lower" else "lower"
    support, against = clearly(sets, claimed), clearly(sets, opposite)
    ours = f"of the sets that the claim names: {_counts(sets)}"
    if against:
        why = f"Clearly {opposite} on {_named(against)}."
        return Ruling("does not hold", ours, why)
    if 2 * len(support) > len(sets):
        why = f"Clearly {claimed} on {_named(support)}; clearly otherwise on none."
        return Ruling("holds", ours, why)
    why = (
        f"Clearly {claimed} on {_named(support)}, which is not more than half of "
        f"{len(sets)}, and clearly otherwise on none."
    )
    return Ruling("within noise", ours, why)


def much_more_rule(sets: Sets) -> Ruling:
    """Judge "B is much higher than A"."""
    if not sets:
        return _not_run()
    over = over_sets(sets, ratio=True)
    ratios = [found.b / found.a if found.a else float("inf") for found in sets]
    median = statistics.median(ratios)
    lower, higher = clearly(sets, "lower"), clearly(sets, "higher")
    outcomes: dict[str, Outcome] = {"lower": "does not hold", "higher": "holds"}
    verdict = outcomes.get(over.direction, "within noise")
    why = _together(over, len(sets))
    if lower and len(lower) >= len(higher):
        verdict = "does not hold"
        why += f" Clearly lower on {_named(lower)}, clearly higher on {_named(higher)}"
        why += ": not fewer."
    elif over.direction == "higher" and median < _MUCH:
        verdict = "does not hold"
        why += f" But the median ratio {median:.2f} is below {_MUCH:g}: not much more."
    return Ruling(verdict, f"{_counts(sets)}; median ratio {median:.2f}", why)


def _not_run(why: str = "No set that it speaks of is finished.") -> Ruling:
    return Ruling("not run", "nothing yet", why)


def _together(over: SetsTest, sets: int) -> str:
    if sets < _FEWEST_SETS:
        few = "Only one set is" if sets == 1 else f"Only {sets} sets are"
        return f"{few} finished: a test over sets needs {_FEWEST_SETS}."
    if over.direction == "unclear":
        return f"The sets together show no clear direction (p = {over.p:.2g})."
    return f"Over the sets together it is {over.direction} (p = {over.p:.2g})."


def _named(names: Sequence[str]) -> str:
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
    """
    results = by_arm(records)
    paper = [
        _verdict(name, text, *model, *_judged(results, model, text))
        for name, text in paper_texts()["claims"].items()
        for model in paper_models(results)
        if "judge" in text and text.get("network", model.network) == model.network
    ]
    wanted = (v for v in paper if v.epochs == TEXT_EPOCHS or v.verdict != "not run")
    return (*wanted, *_own_verdicts(results))


def _verdict(
    name: str,
    text: Mapping[str, Any],
    network: str,
    epochs: int | None,
    sets: Sets,
    ruling: Ruling,
    **words: object,
) -> Verdict:
    paper = ""
    if "judge" in text:
        unsaid = "A figure without printed numbers."
        paper = text.get("paper", {}).get(network, unsaid)
    return Verdict(
        name=name,
        source="paper" if paper else "own",
        network=network,
        epochs=epochs,
        claim=text["claim"].format(**words),
        quote=text.get("quote", ""),
        rule=text["rule"],
        paper=paper,
        ours=ruling.ours,
        columns=tuple(text["columns"]),
        sets=tuple(sets),
        verdict=ruling.verdict,
        explanation=ruling.why,
    )


def _judged(
    results: Results, model: Model, text: Mapping[str, Any]
) -> tuple[Sets, Ruling]:
    """Compare B with A on the sets of a claim of the paper, and judge them."""
    if text["judge"] in _SWEEP_JUDGES:
        metrics, judge = _SWEEP_JUDGES[text["judge"]]
        return _all_sets([judge(*sweep) for sweep in _sweeps(results, model, metrics)])
    named = {"starred": starred(model.network)}
    data = text.get("data", PAPER_DATA)
    metric = text.get("metric", ERROR)
    other = Model(text["against"]) if "against" in text else model
    found = []
    for name in named.get(data, data) if isinstance(data, str) else data:
        a = _table(results, other, name, text["a"], metric)
        if a is not None and "times" in text:
            a = a.scaled(text["times"])
        found.append(compare(_table(results, model, name, text["b"], metric), a))
    sets = [comparison for comparison in found if comparison is not None]
    if text["judge"] == "much_more":
        return sets, much_more_rule(sets)
    if text["judge"] == "named":
        wanted = named.get(text.get("named", ""), PAPER_DATA)
        judged = [comparison for comparison in sets if comparison.data in wanted]
        return sets, named_rule(judged, claimed=text["claimed"])
    of_ten = text["of_ten"]
    if not isinstance(of_ten, int):
        of_ten = of_ten[model.network]
    options = {name: text[name] for name in ("ratio", "words") if name in text}
    return sets, count_rule(sets, of_ten=of_ten, **options)


def _table(
    results: Results, model: Model, data: str, what: str, metric: str
) -> FoldTable | None:
    """Numbers of ``"qr"``, of ``"base isotonic"``, or of a difference of two."""
    tables = []
    for arm in what.split(" - "):
        known = results.get(model.arm(data, *arm.split()))
        table = known.table(metric) if known else None
        if table is None:
            return None
        tables.append(table)
    return tables[0] if len(tables) == 1 else tables[0].minus(tables[1])


#: Strength to the numbers of one metric.
Sweep = Mapping[float, FoldTable]
Judged = tuple[SetComparison, Outcome]


def _sweeps(
    results: Results, model: Model, metrics: Sequence[str]
) -> list[list[Sweep]]:
    """For each set of Figure 2 the tables of some metrics along the strength.

    Sets with too few strengths, or without common repeats, are left out.
    """
    found: list[list[Sweep]] = []
    for data in _SWEEP_DATA:
        base = model.arm(data)
        arms = {
            arm.strength: known
            for arm, known in results.items()
            if arm.regularizer in (NO_REGULARIZER, PAPER_REGULARIZER)
            and replace(arm, regularizer=base.regularizer, strength=0.0) == base
            and known.repeats
        }
        if len(arms) < _FEWEST_STRENGTHS or 0.0 not in arms:
            continue
        sweeps: list[Sweep] = [
            {s: t for s in sorted(arms) if (t := arms[s].table(metric)) is not None}
            for metric in metrics
        ]
        # Only the repeats that all strengths have count.
        places = sweeps[0][0.0].values
        for table in sweeps[0].values():
            places = table.at(places).values
        if places:
            found.append([{s: t.at(places) for s, t in w.items()} for w in sweeps])
    return found


def _strength_error(sweep: Sweep) -> Judged:
    """The error falls along the strength, and the largest is not worse than none."""
    zero, most = sweep[0.0], sweep[max(sweep)]
    trend = corrected_t_test(rank_correlations(sweep), overlap=zero.overlap)
    ends = most.against(zero)
    outcome: Outcome = "holds" if trend.direction == "lower" else "within noise"
    if "higher" in (trend.direction, ends.direction):
        outcome = "does not hold"
    unclear = ends.direction == "unclear"
    words = "not clearly other" if unclear else f"clearly {ends.direction}"
    note = (
        f"mean rank correlation {trend.difference:+.2f} ({trend.direction}, "
        f"p = {trend.p:.2g}) over {len(sweep)} strengths; at strength "
        f"{max(sweep):g} the error is {words} than at 0"
    )
    data, repeats = zero.arm.data, zero.repeats
    return SetComparison(data, most.mean, zero.mean, repeats, trend, note), outcome


def rank_correlations(sweep: Sweep) -> list[float]:
    """Spearman's correlation of strength and number, for each test fold."""
    rows = np.array([sweep[strength].independent() for strength in sorted(sweep)])
    ranks, order = stats.rankdata(rows, axis=0), np.arange(len(rows))
    return [
        float(np.corrcoef(order, fold)[0, 1]) if np.ptp(fold) else 0.0
        for fold in ranks.T
    ]


def _strength_rest(rmse: Sweep, nll: Sweep) -> Judged:
    """RMSE and NLL stay within limits of those without a regularizer."""
    zero = rmse[0.0]
    strengths = [strength for strength in rmse if strength > 0]
    rises = {s: rmse[s].mean / zero.mean - 1 for s in strengths}
    moves = {s: nll[s].mean - nll[0.0].mean for s in strengths}
    far_rmse = max(strengths, key=lambda s: abs(rises[s]))
    far_nll = max(strengths, key=lambda s: abs(moves[s]))
    near = abs(rises[far_rmse]) <= _RMSE_LIMIT and abs(moves[far_nll]) <= _NLL_LIMIT
    outcome: Outcome = "holds" if near else "within noise"
    outside = [s for s in strengths if _is_outside(rmse, nll, s)]
    note = (
        f"RMSE moves by up to {rises[far_rmse]:+.1%} (strength {far_rmse:g}), NLL by "
        f"up to {moves[far_nll]:+.2f} (strength {far_nll:g}); clearly outside of the "
        f"limits at {', '.join(f'{s:g}' for s in outside) or 'no strength'}"
    )
    far = rmse[far_rmse]
    data, test = zero.arm.data, far.against(zero)
    row = SetComparison(data, far.mean, zero.mean, zero.repeats, test, note)
    return row, "does not hold" if outside else outcome


def _is_outside(rmse: Sweep, nll: Sweep, strength: float) -> bool:
    """Whether RMSE or NLL is clearly beyond a limit at a strength."""
    pairs = (
        (rmse, rmse[0.0].scaled(1 + _RMSE_LIMIT), "higher"),
        (rmse, rmse[0.0].scaled(1 - _RMSE_LIMIT), "lower"),
        (nll, nll[0.0].scaled(plus=_NLL_LIMIT), "higher"),
        (nll, nll[0.0].scaled(plus=-_NLL_LIMIT), "lower"),
    )
    found = ((compare(b[strength], a), side) for b, a, side in pairs)
    return any(row is not None and row.direction == side for row, side in found)


_SWEEP_JUDGES: dict[str, tuple[Sequence[str], Callable[..., Judged]]] = {
    "strength_error": ([ERROR], _strength_error),
    "strength_rest": (["rmse", "nll"], _strength_rest),
}


def _all_sets(found: Sequence[Judged]) -> tuple[Sets, Ruling]:
    """Of several sets the worst counts."""
    if not found:
        least = f"at least {_FEWEST_STRENGTHS} strengths"
        return (), _not_run(f"No sweep over {least} with 0 is finished.")
    order: tuple[Outcome, ...] = ("does not hold", "within noise", "holds")
    verdict = min((outcome for _, outcome in found), key=order.index)
    ours = ", ".join(f"{row.data}: {outcome}" for row, outcome in found)
    why = " ".join(f"{row.data}: {row.note}." for row, _ in found)
    return [row for row, _ in found], Ruling(verdict, ours, why)


def _own_verdicts(results: Results) -> list[Verdict]:
    """Judge our default against the paper's models, and each regularizer."""
    usual = Model(MC_DROPOUT).arm("", shuffled=True)
    texts = paper_texts()["claims"]
    defaults: dict[str, Arm] = {}
    groups: dict[tuple[object, ...], list[Arm]] = {}
    # Of several defaults of a set the one without a regularizer counts.
    for arm in sorted(results, key=lambda a: (a.regularizer != NO_REGULARIZER, a)):
        # On other folds a set could count twice in a test over sets.
        if (arm.split, arm.folds) != (usual.split, usual.folds):
            continue
        if arm.network == "default" and arm.recalibration == "out_of_fold":
            if arm.epochs == usual.epochs:
                defaults.setdefault(arm.data, arm)
        elif arm.recalibration == "none" and arm.regularizer != NO_REGULARIZER:
            group = (arm.network, arm.regularizer, arm.strength, arm.epochs)
            groups.setdefault(group, []).append(arm)
    found = []
    if any(arm.split == "shuffled" for arm in results):
        for name in ("default-base", "default-qr", "default-isotonic"):
            judged = _judge_default(results, texts[name]["against"], defaults)
            found.append(_verdict(name, texts[name], "default", None, *judged))
    for arms in groups.values():
        bases = [replace(a, regularizer=NO_REGULARIZER, strength=0.0) for a in arms]
        sets = _pairs(results, zip(arms, bases, strict=True), OWN_ERROR)
        ruling = count_rule(sets, of_ten=_OWN_OF_TEN)
        arm, text = arms[0], texts["regularizer"]
        words: dict[str, Any] = {
            "regularizer": arm.regularizer,
            "strength": arm.strength,
        }
        name, model = f"regularizer-{arm.regularizer}", (arm.network, arm.epochs)
        found.append(_verdict(name, text, *model, sets, ruling, **words))
    return found


def _judge_default(
    results: Results, against: str, defaults: Mapping[str, Arm]
) -> tuple[Sets, Ruling]:
    """Judge the error; where it holds, neither NLL nor CRPS may be worse."""
    other = Model(MC_DROPOUT)
    pairs = [
        (arm, other.arm(data, *against.split(), shuffled=True))
        for data, arm in sorted(defaults.items())
    ]
    sets = _pairs(results, pairs, OWN_ERROR)
    ruling = count_rule(sets, of_ten=_OWN_OF_TEN)
    if ruling.verdict != "holds":
        return sets, ruling
    for title, metric, ratio in (("NLL", "nll", False), ("CRPS", "crps", True)):
        scores = _pairs(results, pairs, metric)
        rest = count_rule(scores, of_ten=_OWN_OF_TEN, ratio=ratio)
        ruling = replace(ruling, ours=f"{ruling.ours}; {title} {rest.ours}")
        if rest.verdict == "does not hold":
            why = f"{ruling.why} But its {title} is worse. {rest.why}"
            ruling = replace(ruling, verdict="does not hold", why=why)
    return sets, ruling


def _pairs(results: Results, pairs: Iterable[tuple[Arm, Arm]], metric: str) -> Sets:
    found = (compare_arms(results, b, a, metric) for b, a in pairs)
    return [comparison for comparison in found if comparison is not None]
